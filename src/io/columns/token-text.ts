// Texts as tokens of JSON: from bytes that are UTF-8 or meant to be, to the bytes JSON.stringify would give.

const decoder = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });

const QUOTE = 34;
const BACKSLASH = 92;
const SPACE = 32;
const ASCII = 127;

/** Most bytes of a token for each byte of its text, and those around it. */
export const ESCAPED_BYTES = 6;
export const QUOTE_BYTES = 2;

/**
 * Token of a text that is not UTF-8: one byte that no UTF-8 has, between quotes. A row that has it is rejected as `invalid_utf8`, as
 * such a row of a text format is; a replacement character would be another value.
 */
const NOT_UTF8 = 0xff;

/** Whether the token in `bytes[start..end)` marks a text that is not UTF-8. */
export const isBrokenText = (bytes: Uint8Array, start: number, end: number): boolean =>
  end - start === 3 && bytes[start + 1] === NOT_UTF8;

/** Writes `from[start..end)` as a token; one past its last byte. There has to be room for every byte to be escaped. */
export function writeTextToken(to: Buffer, at: number, from: Uint8Array, start: number, end: number): number {
  let o = at;
  to[o++] = QUOTE;
  for (let p = start; p < end; p++) {
    const c = from[p]!;
    if (c < SPACE || c > ASCII || c === QUOTE || c === BACKSLASH)
      return writeEscaped(to, at, from.subarray(start, end));
    to[o++] = c;
  }
  to[o++] = QUOTE;
  return o;
}

function writeEscaped(to: Buffer, at: number, bytes: Uint8Array): number {
  let text: string;
  try {
    text = decoder.decode(bytes);
  } catch {
    to[at] = QUOTE;
    to[at + 1] = NOT_UTF8;
    to[at + 2] = QUOTE;
    return at + 3;
  }
  return at + to.write(JSON.stringify(text), at);
}
