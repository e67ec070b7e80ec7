// Converts text in a declared encoding to UTF-8 before it is divided into records. Undefined bytes stay invalid.
import { isAscii } from 'node:buffer';
import { SluiceError } from '../../core/errors.ts';
import { refuseForeignContent } from '../../core/file-format.ts';
import type { EncodingName } from '../../core/input-declaration.ts';
import type { Chunks } from './byte-source.ts';

type Foreign = Exclude<EncodingName, 'utf-8'>;

/** Replaces an undefined byte. It never occurs in UTF-8, so only the record that contains it is rejected. */
const NO_TEXT = 0xff;
/** Number of leading bytes used to identify the input. */
const HEAD_BYTES = 64;

/**
 * Characters of windows-1252 from 0x80 to 0x9f; 0: undefined. Source: Microsoft's table, without the additions of
 * browsers.
 */
const WINDOWS_1252 = [
  ...[0x20ac, 0, 0x201a, 0x0192, 0x201e, 0x2026, 0x2020, 0x2021, 0x02c6, 0x2030, 0x0160, 0x2039, 0x0152, 0, 0x017d, 0],
  ...[0, 0x2018, 0x2019, 0x201c, 0x201d, 0x2022, 0x2013, 0x2014, 0x02dc, 0x2122, 0x0161, 0x203a, 0x0153, 0, 0x017e, 0x0178], // biome-ignore format: a row of the table
];

/**
 * Characters of windows-1251 from 0x80 to 0xbf; 0: undefined. The bytes from 0xc0 are the alphabet. Source: Microsoft's
 * table.
 */
const WINDOWS_1251 = [
  ...[0x0402, 0x0403, 0x201a, 0x0453, 0x201e, 0x2026, 0x2020, 0x2021, 0x20ac, 0x2030, 0x0409, 0x2039, 0x040a, 0x040c, 0x040b, 0x040f],
  ...[0x0452, 0x2018, 0x2019, 0x201c, 0x201d, 0x2022, 0x2013, 0x2014, 0, 0x2122, 0x0459, 0x203a, 0x045a, 0x045c, 0x045b, 0x045f],
  ...[0x00a0, 0x040e, 0x045e, 0x0408, 0x00a4, 0x0490, 0x00a6, 0x00a7, 0x0401, 0x00a9, 0x0404, 0x00ab, 0x00ac, 0x00ad, 0x00ae, 0x0407],
  ...[0x00b0, 0x00b1, 0x0406, 0x0456, 0x0491, 0x00b5, 0x00b6, 0x00b7, 0x0451, 0x2116, 0x0454, 0x00bb, 0x0458, 0x0405, 0x0455, 0x0457],
]; // biome-ignore format: rows of the table
/** The character of byte 0xc0, U+0410. The characters of the following bytes have the order of Unicode. */
const CYRILLIC_A = 0x410;

type SingleByteEncoding = 'latin1' | 'windows-1251' | 'windows-1252';
const SINGLE_BYTE: ReadonlySet<string> = new Set<SingleByteEncoding>(['latin1', 'windows-1251', 'windows-1252']);
const isSingleByte = (encoding: Foreign): encoding is SingleByteEncoding => SINGLE_BYTE.has(encoding);

/** The character of byte 0x80 + `i`; 0: undefined. ISO/IEC 8859-1 defines no characters from 0x80 to 0x9f. */
function characterOf(encoding: SingleByteEncoding, i: number): number {
  if (encoding === 'windows-1251') return i < 64 ? WINDOWS_1251[i]! : CYRILLIC_A + i - 64;
  if (i >= 32) return 0x80 + i;
  return encoding === 'latin1' ? 0 : WINDOWS_1252[i]!;
}

/**
 * The UTF-8 encodings of the bytes from 0x80. `bytes` has three bytes per character, and `lengths` the number of bytes
 * used.
 */
function tableOf(encoding: SingleByteEncoding): { bytes: Uint8Array; lengths: Uint8Array } {
  const bytes = new Uint8Array(128 * 3);
  const lengths = new Uint8Array(128);
  for (let i = 0; i < 128; i++) {
    const code = characterOf(encoding, i);
    const text = code === 0 ? [NO_TEXT] : [...Buffer.from(String.fromCharCode(code))];
    bytes.set(text, i * 3);
    lengths[i] = text.length;
  }
  return { bytes, lengths };
}

/** Converts chunks of one encoding to UTF-8. A chunk may end inside a character. */
interface Transcoder {
  /** The characters that are complete after this chunk, as UTF-8; valid until the next call. */
  next(chunk: Uint8Array): Uint8Array;
  /** The remaining characters at the end of the input. @throws SluiceError truncated_input */
  end(): Uint8Array;
}

class SingleBytes implements Transcoder {
  readonly #table: ReturnType<typeof tableOf>;
  #out = Buffer.alloc(0);

  constructor(encoding: SingleByteEncoding) {
    this.#table = tableOf(encoding);
  }

  next(chunk: Uint8Array): Uint8Array {
    if (isAscii(chunk)) return chunk;
    if (this.#out.length < chunk.length * 3) this.#out = Buffer.allocUnsafe(chunk.length * 3);
    const out = this.#out;
    const { bytes, lengths } = this.#table;
    let n = 0;
    for (let i = 0; i < chunk.length; i++) {
      const byte = chunk[i]!;
      if (byte < 0x80) {
        out[n++] = byte;
        continue;
      }
      const at = (byte - 0x80) * 3;
      const length = lengths[byte - 0x80]!;
      out[n++] = bytes[at]!;
      if (length > 1) out[n++] = bytes[at + 1]!;
      if (length > 2) out[n++] = bytes[at + 2]!;
    }
    return out.subarray(0, n);
  }

  end(): Uint8Array {
    return new Uint8Array(0);
  }
}

/** Converts UTF-16, which has two bytes per unit. An unpaired surrogate is invalid. */
class DoubleBytes implements Transcoder {
  readonly #low: 0 | 1;
  #out = Buffer.alloc(0);
  /** First byte of an incomplete unit; -1: none. */
  #byte = -1;
  /** The high surrogate of an incomplete pair; 0: none. */
  #half = 0;

  constructor(bigEndian: boolean) {
    this.#low = bigEndian ? 1 : 0;
  }

  next(chunk: Uint8Array): Uint8Array {
    // Each unit needs at most three bytes, and a high surrogate of an earlier chunk needs one more byte.
    const room = (chunk.length + 2) * 2;
    if (this.#out.length < room) this.#out = Buffer.allocUnsafe(room);
    let n = 0;
    let i = 0;
    if (this.#byte >= 0 && chunk.length > 0) {
      n = this.#unit(this.#byte, chunk[0]!, n);
      this.#byte = -1;
      i = 1;
    }
    for (; i + 1 < chunk.length; i += 2) n = this.#unit(chunk[i]!, chunk[i + 1]!, n);
    if (i < chunk.length) this.#byte = chunk[i]!;
    return this.#out.subarray(0, n);
  }

  end(): Uint8Array {
    if (this.#byte >= 0) throw new SluiceError('truncated_input', 'the input ends in the middle of a character');
    return this.#half === 0 ? new Uint8Array(0) : Uint8Array.of(NO_TEXT);
  }

  /** Writes the UTF-8 bytes of a unit at position `n`. Returns the position after the last byte. */
  #unit(first: number, second: number, n: number): number {
    const out = this.#out;
    const unit = this.#low === 0 ? first | (second << 8) : second | (first << 8);
    if (this.#half !== 0) {
      const half = this.#half;
      this.#half = 0;
      if (unit >= 0xdc00 && unit < 0xe000) {
        const code = 0x10000 + ((half - 0xd800) << 10) + (unit - 0xdc00);
        out[n++] = 0xf0 | (code >> 18);
        out[n++] = 0x80 | ((code >> 12) & 63);
        out[n++] = 0x80 | ((code >> 6) & 63);
        out[n++] = 0x80 | (code & 63);
        return n;
      }
      out[n++] = NO_TEXT;
    }
    if (unit < 0x80) out[n++] = unit;
    else if (unit < 0x800) {
      out[n++] = 0xc0 | (unit >> 6);
      out[n++] = 0x80 | (unit & 63);
    } else if (unit >= 0xd800 && unit < 0xdc00) this.#half = unit;
    else if (unit >= 0xdc00 && unit < 0xe000) out[n++] = NO_TEXT;
    else {
      out[n++] = 0xe0 | (unit >> 12);
      out[n++] = 0x80 | ((unit >> 6) & 63);
      out[n++] = 0x80 | (unit & 63);
    }
    return n;
  }
}

const LITTLE = 'utf-16le';
const BIG = 'utf-16be';

/** The byte order according to the byte order mark; null: the input has no byte order mark. */
function orderOf([a, b]: Uint8Array): typeof LITTLE | typeof BIG | null {
  if (a === 0xff && b === 0xfe) return LITTLE;
  return a === 0xfe && b === 0xff ? BIG : null;
}

/** The transcoder for an input that begins with `head`. @throws SluiceError invalid_encoding | foreign_content */
function transcoderFor(encoding: Foreign, head: Uint8Array): { transcoder: Transcoder; skip: number } {
  if (isSingleByte(encoding)) {
    if (head[0] === 0xef && head[1] === 0xbb && head[2] === 0xbf) {
      throw new SluiceError(
        'invalid_encoding',
        `the input starts with a UTF-8 byte order mark, not as ${encoding}: do not declare an encoding`,
      );
    }
    refuseForeignContent(head);
    return { transcoder: new SingleBytes(encoding), skip: 0 };
  }
  const order = orderOf(head);
  if (encoding === 'utf-16' && order === null) {
    throw new SluiceError(
      'invalid_encoding',
      'the input has no byte order mark: declare encoding: utf-16le or utf-16be',
    );
  }
  if (encoding !== 'utf-16' && order !== null && order !== encoding) {
    throw new SluiceError('invalid_encoding', `the byte order mark of the input is that of ${order}, not ${encoding}`);
  }
  return { transcoder: new DoubleBytes((order ?? encoding) === BIG), skip: order === null ? 0 : 2 };
}

/**
 * Yields the chunks as UTF-8, without a byte order mark. A chunk is valid until the next chunk is requested.
 * @throws SluiceError invalid_encoding | foreign_content if the beginning of the input does not match the encoding;
 * truncated_input; errors of `chunks`
 */
export async function* transcoded(chunks: Chunks, encoding: Foreign): AsyncGenerator<Uint8Array> {
  let head: Buffer | null = Buffer.alloc(0);
  let transcoder: Transcoder | null = null;
  const begin = (bytes: Uint8Array): Uint8Array => {
    const begun = transcoderFor(encoding, bytes.subarray(0, HEAD_BYTES));
    transcoder = begun.transcoder;
    head = null;
    return begun.transcoder.next(bytes.subarray(begun.skip));
  };
  for await (const chunk of chunks) {
    if (head === null) {
      yield transcoder!.next(chunk);
      continue;
    }
    head = Buffer.concat([head, chunk]);
    if (head.length >= HEAD_BYTES) yield begin(head);
  }
  if (head !== null && head.length > 0) yield begin(head);
  if (transcoder !== null) yield (transcoder as Transcoder).end();
}
