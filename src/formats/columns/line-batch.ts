// A batch of up to 2,048 rows as columns, which are converted into JSON lines or into the input of workers.
import type { TypedTable } from '../../core/block.ts';
import { type Fragments, TokenArena } from './json-text.ts';

/** Maximum rows and maximum cells of a batch. Cells are limited because tables may have thousands of columns. */
const MOST_ROWS = 2048;
const MOST_CELLS = 128 * 1024;

/** Maximum rows of a batch with this many columns. */
export const batchRows = (columns: number): number =>
  Math.max(16, Math.min(MOST_ROWS, Math.floor(MOST_CELLS / Math.max(1, columns))));

/**
 * The cells of a column. `kind` selects their representation: `numbers`, `coded` (codes of words), or individual JSON
 * `tokens`. Numbers from a dictionary have codes too, so that their text is written only once.
 */
export class BatchColumn {
  /** The text `,"name":`. The key of the first column starts with `{` instead of a comma. */
  readonly key: Uint8Array;
  /** The key in units of 8 bytes, for copying. */
  readonly keyWords: Float64Array;
  kind: 'numbers' | 'coded' | 'tokens' = 'numbers';
  readonly values: Float64Array;
  readonly codes: Int32Array;
  /** The texts of the codes; null: the column has no codes. */
  fragments: Fragments | null = null;
  readonly tokens = new TokenArena();
  /** One past the last byte of each token. */
  readonly ends: Int32Array;
  /** Whether several rows can refer to the same text. The tokens can then have more bytes than were read. */
  repeats = false;

  constructor(key: Uint8Array, rows: number) {
    this.key = key;
    this.keyWords = new Float64Array((key.length + 7) >> 3);
    new Uint8Array(this.keyWords.buffer).set(key);
    this.values = new Float64Array(rows);
    this.codes = new Int32Array(rows);
    this.ends = new Int32Array(rows);
  }

  /** Makes the first `rows` values null. */
  clear(rows: number): void {
    this.kind = 'numbers';
    this.values.fill(Number.NaN, 0, rows);
    this.fragments = null;
    this.repeats = false;
  }
}

/** Marks rows of a batch whose texts are too long to copy. */
export class RowMarks {
  readonly #flags: Uint8Array;
  #count = 0;
  #recordBytes = Infinity;
  /** In a batch of one row: how many more bytes of text may be copied. */
  #left = Infinity;

  constructor(rows: number) {
    this.#flags = new Uint8Array(rows);
  }

  get any(): boolean {
    return this.#count > 0;
  }

  /** Resets the marks for the next rows. `recordBytes`: maximum text length of a row. */
  begin(rows: number, recordBytes: number): void {
    if (this.#count > 0) this.#flags.fill(0);
    this.#count = 0;
    this.#recordBytes = recordBytes;
    this.#left = rows === 1 ? recordBytes : Infinity;
  }

  /** Whether a text of this length may be copied. If it may not, marks the row. */
  admits(row: number, bytes: number): boolean {
    if (bytes <= this.#recordBytes && bytes <= this.#left) {
      this.#left -= bytes;
      return true;
    }
    this.mark(row);
    return false;
  }

  mark(row: number): void {
    this.#flags[row] = 1;
    this.#count++;
  }

  has(row: number): boolean {
    return this.#count > 0 && this.#flags[row] === 1;
  }
}

/** A column that reports an upper bound of the bytes that its next rows copy. */
export interface SizedColumn {
  textBytes(rows: number): number;
}

/** Maximum bytes of text that a batch copies, unless a single row has more text. */
const MOST_TEXT_BYTES = 8 * 1024 * 1024;

/** Returns how many of the next rows fit into a batch, at most `most`. */
export function fitRows(columns: readonly SizedColumn[], most: number): number {
  for (let rows = most; ; rows = rows >> 1) {
    if (rows <= 1) return rows;
    let bytes = 0;
    for (const column of columns) bytes += column.textBytes(rows);
    if (bytes <= MOST_TEXT_BYTES) return rows;
  }
}

export class LineBatch {
  rows = 0;
  readonly marks: RowMarks;
  /** Maximum number of rows. */
  readonly capacity: number;
  readonly columns: readonly BatchColumn[];

  constructor(names: readonly string[]) {
    this.capacity = batchRows(names.length);
    this.marks = new RowMarks(this.capacity);
    this.columns = keysOf(names).map((key) => new BatchColumn(key, this.capacity));
  }
}

interface TakenColumn {
  /** Writes the next rows to `out`. */
  take(out: BatchColumn, rows: number, marks: RowMarks): void;
}

/** Fills a batch with the next rows of all columns. `unused`: indexes of the columns whose values become null. */
export function fillBatch(
  batch: LineBatch,
  columns: readonly TakenColumn[],
  { rows, recordBytes, unused }: { rows: number; recordBytes: number; unused: readonly number[] },
): void {
  batch.marks.begin(rows, recordBytes);
  for (let c = 0; c < columns.length; c++) columns[c]!.take(batch.columns[c]!, rows, batch.marks);
  for (const c of unused) batch.columns[c]!.clear(rows);
  batch.rows = rows;
}

/** For each column: the text that precedes its value in a line. */
export const keysOf = (names: readonly string[]): Uint8Array[] =>
  names.map((name, i) => new Uint8Array(Buffer.from(`${i === 0 ? '{' : ','}${JSON.stringify(name)}:`)));

/** A table that is read batch by batch. */
export interface ColumnSource extends TypedTable {
  /** Maximum text length of a row, bytes. A longer row is marked in its batch, and its text is not copied. */
  readonly recordBytes: number;
  /** Fills a batch with the next rows; false: there are no more rows. @throws SluiceError */
  next(batch: LineBatch): Promise<boolean>;
}
