// The smallest parts of JSON, found in bytes that end with a NUL: white space, numbers and strings.

import { QUOTE } from '../../core/ascii.ts';

const MINUS = 45;
const POINT = 46;
const ZERO = 48;
const BACKSLASH = 92;

/** 1 for the bytes that a string does not hold as they are: quote, backslash, control characters. */
const ENDS_PLAIN = Uint8Array.from({ length: 256 }, (_, c) => Number(c === QUOTE || c === BACKSLASH || c < 32));

/** The first byte at or behind `p` that is no white space. */
export function skipSpace(bytes: Uint8Array, p: number): number {
  let c = bytes[p]!;
  while (c === 32 || c === 10 || c === 13 || c === 9) c = bytes[++p]!;
  return p;
}

/** One past the number that begins at `p`, or -1 if none does. */
export function endOfNumber(bytes: Uint8Array, p: number): number {
  if (bytes[p] === MINUS) p++;
  if (bytes[p] === ZERO) p++;
  else {
    const first = p;
    p = skipDigits(bytes, p);
    if (p === first) return -1;
  }
  if (bytes[p] === POINT) {
    const first = ++p;
    p = skipDigits(bytes, p);
    if (p === first) return -1;
  }
  if ((bytes[p]! | 32) === 101) {
    p++;
    if (bytes[p] === MINUS || bytes[p] === 43) p++;
    const first = p;
    p = skipDigits(bytes, p);
    if (p === first) return -1;
  }
  return p;
}

function skipDigits(bytes: Uint8Array, p: number): number {
  while ((bytes[p]! ^ ZERO) <= 9) p++;
  return p;
}

/** The closing quote of a string without escapes whose contents begin at `p`; otherwise the byte that ends them early. */
export function endOfPlainString(bytes: Uint8Array, p: number): number {
  while (ENDS_PLAIN[bytes[p]!] === 0) p++;
  return p;
}

/** One past the closing quote of the string whose contents begin at `p`, or -1 if it does not close. */
export function endOfString(bytes: Uint8Array, p: number): number {
  for (;;) {
    p = endOfPlainString(bytes, p);
    if (bytes[p] === QUOTE) return p + 1;
    if (bytes[p] !== BACKSLASH || bytes[p + 1]! < 32) return -1;
    p += 2;
  }
}

/**
 * Writes the string whose token is `bytes[start..end)`, quotes included, over itself without its escapes, from `start` on.
 * One past its last byte, or -1 if it is no string of JSON, or holds half a surrogate pair.
 */
export function unescapeString(bytes: Buffer, start: number, end: number): number {
  let text: unknown;
  try {
    text = JSON.parse(bytes.toString('utf8', start, end));
  } catch {
    return -1;
  }
  if (typeof text !== 'string' || !text.isWellFormed()) return -1;
  return start + bytes.write(text, start, end - start, 'utf8');
}
