// Guesses the encoding of text from its bytes.
import { isAscii, isUtf8 } from 'node:buffer';
import type { EncodingName } from '../core/input-declaration.ts';
import type { Guess } from './inspection.ts';

const LF = 10;
const HIGH = 0x80;
/**
 * Minimum fraction of zero bytes at even or at odd offsets for text to be UTF-16, in which Latin letters and digits
 * have one zero byte.
 */
const ZEROS = 0.3;
/** Number of bytes in which zero bytes are counted. */
const EXAMINED = 64 * 1024;
/**
 * Minimum fraction of non-ASCII letters next to another non-ASCII letter for text to be Cyrillic, whose words consist
 * of such letters.
 */
const NEIGHBOURED = 0.6;
const FIRST_LETTER = 0xc0;
/**
 * Minimum fraction of runs of non-ASCII letters inside ASCII words from which these bytes are treated as damage instead
 * of an encoding.
 */
const DAMAGED = 0.5;
/** The letters Ё and ё of windows-1251. */
const YO = new Set([0xa8, 0xb8]);
const UNDEFINED_1252 = [0x81, 0x8d, 0x8f, 0x90, 0x9d];
const UNDEFINED_1251 = [0x98];

/** `complete`: the bytes are the whole text, so an incomplete character at the end is an error. */
export function guessEncoding(bytes: Buffer, complete: boolean): Guess<EncodingName> {
  if (bytes[0] === 0xef && bytes[1] === 0xbb && bytes[2] === 0xbf) {
    return { value: 'utf-8', confidence: 'high', reason: 'it starts with the byte order mark of UTF-8' };
  }
  if ((bytes[0] === 0xff && bytes[1] === 0xfe) || (bytes[0] === 0xfe && bytes[1] === 0xff)) {
    return { value: 'utf-16', confidence: 'high', reason: 'it starts with a byte order mark of UTF-16' };
  }
  const wide = wideOrder(bytes);
  if (wide)
    return { value: wide, confidence: 'high', reason: 'every second byte is zero, and there is no byte order mark' };
  if (isAscii(bytes)) return { value: 'utf-8', confidence: 'high', reason: 'all characters are ASCII' };
  if (isUtf8(complete ? bytes : wholeLines(bytes))) {
    return { value: 'utf-8', confidence: 'high', reason: 'characters beyond ASCII are valid UTF-8' };
  }
  const valid = shareOfValidLines(bytes);
  if (valid >= 0.5) {
    const reason = `${Math.round(100 * valid)} % of the lines with characters beyond ASCII are valid UTF-8`;
    return { value: 'utf-8', confidence: 'medium', reason };
  }
  return singleByte(bytes);
}

function wideOrder(bytes: Buffer): 'utf-16le' | 'utf-16be' | null {
  const examined = bytes.subarray(0, EXAMINED);
  const zeros: [even: number, odd: number] = [0, 0];
  for (let i = 0; i < examined.length; i++) if (examined[i] === 0) zeros[(i & 1) as 0 | 1]++;
  const half = examined.length / 2;
  if (half < 2) return null;
  if (zeros[1] > ZEROS * half && zeros[0] === 0) return 'utf-16le';
  return zeros[0] > ZEROS * half && zeros[1] === 0 ? 'utf-16be' : null;
}

const wholeLines = (bytes: Buffer): Buffer => bytes.subarray(0, bytes.lastIndexOf(LF) + 1);

function shareOfValidLines(bytes: Buffer): number {
  let [lines, valid] = [0, 0];
  for (let start = 0; start < bytes.length; ) {
    const at = bytes.indexOf(LF, start);
    const end = at < 0 ? bytes.length : at;
    const line = bytes.subarray(start, end);
    if (!isAscii(line)) {
      lines++;
      if (isUtf8(line)) valid++;
    }
    start = end + 1;
  }
  return lines === 0 ? 1 : valid / lines;
}

function singleByte(bytes: Buffer): Guess<EncodingName> {
  const isLetter = (byte: number | undefined) => byte !== undefined && (byte >= FIRST_LETTER || YO.has(byte));
  let [letters, neighboured] = [0, 0];
  const seen = new Uint8Array(256);
  for (let i = 0; i < bytes.length; i++) {
    const byte = bytes[i]!;
    if (byte < HIGH) continue;
    seen[byte] = 1;
    if (!isLetter(byte)) continue;
    letters++;
    if (isLetter(bytes[i - 1]) || isLetter(bytes[i + 1])) neighboured++;
  }
  const is = (codes: readonly number[]) => codes.some((byte) => seen[byte] === 1);
  const share = letters === 0 ? 0 : neighboured / letters;
  const isCyrillic = is(UNDEFINED_1251) ? false : is(UNDEFINED_1252) || share >= NEIGHBOURED;
  const share100 = `${Math.round(100 * share)} %`;
  if (isCyrillic && shareWithinAscii(bytes, isLetter) >= DAMAGED) {
    const reason = 'bytes that are not UTF-8 are in the middle of ASCII words, so single values are damaged';
    return { value: 'utf-8', confidence: 'medium', reason };
  }
  if (isCyrillic) {
    const reason = `it is not UTF-8, and ${share100} of the letters beyond ASCII are next to another one, as in Cyrillic words`;
    return { value: 'windows-1251', confidence: share > 0.8 && letters >= 20 ? 'high' : 'medium', reason };
  }
  const reason = 'it is not UTF-8, and single letters beyond ASCII occur within words, as in Western European text';
  return { value: 'windows-1252', confidence: 'medium', reason };
}

const isAsciiLetter = (byte: number | undefined): boolean =>
  byte !== undefined && /[A-Za-z]/.test(String.fromCharCode(byte));

/**
 * Fraction of the runs of at least two non-ASCII letters that have an ASCII letter on both sides, as in
 * `ONLI\xff\xfeNE`.
 */
function shareWithinAscii(bytes: Buffer, isLetter: (byte: number | undefined) => boolean): number {
  let [runs, within] = [0, 0];
  for (let i = 0; i < bytes.length; i++) {
    if (!isLetter(bytes[i])) continue;
    const start = i;
    while (isLetter(bytes[i + 1])) i++;
    if (i === start) continue;
    runs++;
    if (isAsciiLetter(bytes[start - 1]) && isAsciiLetter(bytes[i + 1])) within++;
  }
  return runs === 0 ? 0 : within / runs;
}
