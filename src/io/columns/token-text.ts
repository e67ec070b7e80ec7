// Texts as tokens of JSON: from bytes that are UTF-8 or meant to be, to the bytes JSON.stringify would give.

const decoder = new TextDecoder();

const QUOTE = 34;
const BACKSLASH = 92;
const SPACE = 32;
const ASCII = 127;

/** Most bytes of a token for each byte of its text, and those around it. */
export const ESCAPED_BYTES = 6;
export const QUOTE_BYTES = 2;

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

const writeEscaped = (to: Buffer, at: number, text: Uint8Array): number =>
  at + to.write(JSON.stringify(decoder.decode(text)), at);
