// Rows of a batch of columns as lines of JSON, byte for byte as JSON.stringify gives an object a row.
import type { FragmentLayout } from './fragments.ts';
import type { BatchColumn, LineBatch } from './line-batch.ts';
import { NUMBER_BYTES, writeNumber } from './number-text.ts';

const OPEN = 123;
const CLOSE = 125;
const NEWLINE = 10;
const SPACE = 32;
/** Bytes that copying words of eight may write behind a line. */
const SLACK = 8;
/** Bytes of a line beside its cells: two braces and a line break. */
const AROUND = 3;

/** What the loop over cells looks at instead of an object a column. */
const BY_CODE = 0;
const BY_CELL = 1;

const textOf = ({ fragments }: BatchColumn): number => (fragments ? BY_CODE : BY_CELL);

/** Most bytes a line of the batch can have. */
function longestLine({ columns, rows }: LineBatch): number {
  let bytes = AROUND;
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

const scratch = new Uint8Array(NUMBER_BYTES);

/** Bytes of the line of a row, its line break included. */
function lineBytes({ columns }: LineBatch, row: number): number {
  let bytes = AROUND - (columns.length > 0 ? 1 : 0);
  for (const { kind, fragments, key, ends, codes, values } of columns) {
    bytes += key.length;
    if (fragments) bytes += fragments.tokenBytes(codes[row]!);
    else if (kind === 'tokens') bytes += ends[row]! - (row === 0 ? 0 : ends[row - 1]!);
    else bytes += writeNumber(scratch, 0, values[row]!);
  }
  return bytes;
}

/**
 * Writes the lines of a batch. A row whose text is longer than `recordBytes`, or was too long to be copied, is written as more spaces than
 * that, so that every reader finds it too long.
 */
export class LineWriter {
  /** Most bytes a line has, with what may be written behind it. */
  readonly longest: number;
  /** Rows whose line is longer than `recordBytes`; null: none is. */
  readonly #tooLong: ReadonlySet<number> | null;
  #row = 0;
  /** Spaces of a row that is too long. */
  readonly #omitted: number;
  readonly #batch: LineBatch;
  readonly #texts: Uint8Array;
  readonly #codes: readonly Int32Array[];
  readonly #fragments: readonly (FragmentLayout | null)[];
  /** Of columns without words: their keys, as those have them. */
  readonly #keys: readonly Float64Array[];

  /** `recordBytes`: longest text of a row. */
  constructor(batch: LineBatch, recordBytes: number) {
    const { columns, rows } = batch;
    this.#batch = batch;
    this.#omitted = recordBytes + 1;
    const longest = longestLine(batch);
    const tooLong = longest - 1 > recordBytes || batch.marks.any ? longRows(batch, recordBytes, 0, rows) : null;
    this.#tooLong = tooLong;
    const most = recordBytes + 2;
    this.longest = SLACK + (tooLong ? (tooLong.size > 0 ? most : Math.min(longest, most)) : longest);
    this.#texts = Uint8Array.from(columns, textOf);
    this.#codes = columns.map((column) => column.codes);
    this.#fragments = columns.map((column) => column.fragments?.layout ?? null);
    this.#keys = columns.map((column) => column.keyWords);
  }

  /** Rows that are not written yet. */
  get left(): number {
    return this.#batch.rows - this.#row;
  }

  /** Writes lines as long as the longest one fits; gives their bytes. */
  write(to: Buffer): number {
    const view = new DataView(to.buffer, to.byteOffset, to.byteLength);
    const most = to.length - this.longest;
    let at = 0;
    while (this.left > 0 && at <= most) {
      const row = this.#row++;
      at = this.#tooLong?.has(row) ? this.#omit(to, at) : this.#line(row, to, view, at);
    }
    return at;
  }

  #omit(to: Buffer, start: number): number {
    const end = start + this.#omitted;
    to.fill(SPACE, start, end);
    to[end] = NEWLINE;
    return end + 1;
  }

  #line(row: number, to: Buffer, view: DataView, start: number): number {
    const { columns } = this.#batch;
    const [texts, codes, fragments, keys] = [this.#texts, this.#codes, this.#fragments, this.#keys];
    let at = start;
    if (texts.length === 0) to[at++] = OPEN;
    for (let c = 0; c < texts.length; c++) {
      if (texts[c] === BY_CODE) {
        const { words, starts, lengths } = fragments[c]!;
        const code = codes[c]![row]!;
        const length = lengths[code]!;
        let word = starts[code]!;
        for (let k = 0; k < length; k += 8) view.setFloat64(at + k, words[word++]!, true);
        at += length;
      } else {
        const key = keys[c]!;
        const end = at + columns[c]!.key.length;
        for (let k = 0; k < key.length; k++, at += 8) view.setFloat64(at, key[k]!, true);
        at = writeCell(columns[c]!, row, to, end);
      }
    }
    to[at++] = CLOSE;
    to[at++] = NEWLINE;
    return at;
  }
}

/** Rows of a batch whose text, without its line break, is longer than `bytes`, or was too long to be copied. */
export function longRows(batch: LineBatch, bytes: number, from: number, to: number): Set<number> {
  const isLong = (row: number) => batch.marks.has(row) || lineBytes(batch, row) - 1 > bytes;
  const rows = new Set<number>();
  for (let row = from; row < to; row++) if (isLong(row)) rows.add(row);
  return rows;
}

/** Whether a row of a batch may be longer than `bytes`. */
export const mayBeLong = (batch: LineBatch, bytes: number): boolean =>
  batch.marks.any || longestLine(batch) - 1 > bytes;

function writeCell(column: BatchColumn, row: number, to: Buffer, at: number): number {
  const { kind, values } = column;
  return kind === 'numbers' ? writeNumber(to, at, values[row]!) : copyToken(column, row, to, at);
}

function copyToken({ tokens, ends }: BatchColumn, row: number, to: Buffer, at: number): number {
  const { bytes } = tokens;
  const end = ends[row]!;
  for (let p = row === 0 ? 0 : ends[row - 1]!; p < end; p++) to[at++] = bytes[p]!;
  return at;
}
