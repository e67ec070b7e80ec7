// Rows of a batch of columns as lines of JSON, byte for byte as JSON.stringify gives an object a row.
import type { BatchColumn, LineBatch } from './line-batch.ts';
import { NUMBER_BYTES, writeNumber } from './number-text.ts';

const CLOSE = 125;
const NEWLINE = 10;
/** Bytes that copying words of four may write behind a line. */
const SLACK = 4;

/** What the loop over cells looks at instead of an object a column. */
const BY_CODE = 0;
const NUMBER = 1;
const TOKEN = 2;

const textOf = ({ kind, fragments }: BatchColumn): number =>
  fragments ? BY_CODE : kind === 'numbers' ? NUMBER : TOKEN;

/** Most bytes a line of the batch can have. */
export function longestLine({ columns, rows }: LineBatch): number {
  let bytes = 3 + SLACK;
  for (const { kind, fragments, key, ends } of columns) {
    let longest = NUMBER_BYTES;
    if (!fragments && kind === 'tokens') {
      longest = 0;
      for (let i = 0, from = 0; i < rows; from = ends[i++]!) longest = Math.max(longest, ends[i]! - from);
    }
    bytes += fragments ? fragments.longest : key.length + longest;
  }
  return bytes;
}

/**
 * Writes rows `from`.. of the batch into `to` as long as the longest one fits; one past the last byte of each goes into `ends`.
 * Gives the row behind the last one.
 */
export function writeLines(
  batch: LineBatch,
  from: number,
  to: Buffer,
  longest: number,
): { row: number; length: number } {
  const { columns, rows } = batch;
  const texts = Uint8Array.from(columns, textOf);
  const view = new DataView(to.buffer, to.byteOffset, to.byteLength);
  const most = to.length - longest;
  let at = 0;
  let row = from;
  for (; row < rows && at <= most; row++) {
    const start = at;
    if (columns.length === 0) to[at++] = 123;
    for (let c = 0; c < columns.length; c++) {
      const column = columns[c]!;
      if (texts[c] === BY_CODE) {
        const { words, starts, lengths } = column.fragments!;
        const code = column.codes[row]!;
        const length = lengths[code]!;
        let word = starts[code]!;
        for (let k = 0; k < length; k += 4) view.setInt32(at + k, words[word++]!, true);
        at += length;
        continue;
      }
      const { key } = column;
      for (let k = 0; k < key.length; k++) to[at++] = key[k]!;
      if (texts[c] === NUMBER) at = writeNumber(to, at, column.values[row]!);
      else at = copyToken(column, row, to, at, start);
    }
    to[at++] = CLOSE;
    to[at++] = NEWLINE;
  }
  return { row, length: at };
}

function copyToken({ tokens, ends, places }: BatchColumn, row: number, to: Buffer, at: number, start: number): number {
  const { bytes } = tokens;
  const end = ends[row]!;
  places[row * 2] = at - start;
  for (let p = row === 0 ? 0 : ends[row - 1]!; p < end; p++) to[at++] = bytes[p]!;
  places[row * 2 + 1] = at - start;
  return at;
}
