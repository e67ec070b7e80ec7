// A few thousand rows as columns, on their way to lines of JSON and to the workers.
import type { TypedTable } from '../../core/block.ts';
import { type Fragments, TokenArena } from './json-text.ts';

/** Most rows of a batch, and most cells: tables may have thousands of columns. */
const MOST_ROWS = 2048;
const MOST_CELLS = 128 * 1024;

/** Rows that a batch of this many columns can have. */
export const batchRows = (columns: number): number =>
  Math.max(16, Math.min(MOST_ROWS, Math.floor(MOST_CELLS / Math.max(1, columns))));

/**
 * The cells of a column. How they are read: `numbers`, or words by their `codes`, or tokens of JSON of their own. Numbers of a
 * dictionary have codes as well, because their text is known.
 */
export class BatchColumn {
  /** `,"name":`, in the first column with the brace before it. */
  readonly key: Uint8Array;
  /** The same, eight bytes each, to be copied. */
  readonly keyWords: Float64Array;
  kind: 'numbers' | 'coded' | 'tokens' = 'numbers';
  readonly values: Float64Array;
  readonly codes: Int32Array;
  /** The texts of codes; null: there are none. */
  fragments: Fragments | null = null;
  readonly tokens = new TokenArena();
  /** One past each token. */
  readonly ends: Int32Array;
  /** Rows share texts, so that the tokens are longer together than the bytes that were read. */
  repeats = false;

  constructor(key: Uint8Array, rows: number) {
    this.key = key;
    this.keyWords = new Float64Array((key.length + 7) >> 3);
    new Uint8Array(this.keyWords.buffer).set(key);
    this.values = new Float64Array(rows);
    this.codes = new Int32Array(rows);
    this.ends = new Int32Array(rows);
  }
}

/** Which rows of a batch have texts that are too long to be copied. */
export class RowMarks {
  readonly #flags: Uint8Array;
  #count = 0;
  #recordBytes = Infinity;
  /** Of a batch of one row: bytes that its texts may still have. */
  #left = Infinity;

  constructor(rows: number) {
    this.#flags = new Uint8Array(rows);
  }

  get any(): boolean {
    return this.#count > 0;
  }

  /** The next rows are taken; `recordBytes`: longest text of a row. */
  begin(rows: number, recordBytes: number): void {
    if (this.#count > 0) this.#flags.fill(0);
    this.#count = 0;
    this.#recordBytes = recordBytes;
    this.#left = rows === 1 ? recordBytes : Infinity;
  }

  /** Whether a text of this length may be copied; marks the row if not. */
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

/** A column that limits how much its next rows copy at most. */
export interface SizedColumn {
  textBytes(rows: number): number;
}

/** Bytes of texts that a batch copies; one row may have more. */
const MOST_TEXT_BYTES = 8 * 1024 * 1024;

/** How many of the next rows a batch takes. */
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
  /** Most rows it can have. */
  readonly capacity: number;
  readonly columns: readonly BatchColumn[];

  constructor(names: readonly string[]) {
    this.capacity = batchRows(names.length);
    this.marks = new RowMarks(this.capacity);
    this.columns = keysOf(names).map((key) => new BatchColumn(key, this.capacity));
  }
}

/** The text before the value of each column in a line. */
export const keysOf = (names: readonly string[]): Uint8Array[] =>
  names.map((name, i) => new Uint8Array(Buffer.from(`${i === 0 ? '{' : ','}${JSON.stringify(name)}:`)));

/** A table that comes batch by batch. */
export interface ColumnSource extends TypedTable {
  /** Most bytes of the text of a row; a row with a longer text is marked in its batch, and its text is not copied. */
  readonly recordBytes: number;
  /** Fills a batch with the next rows; false: there are none. @throws SluiceError */
  next(batch: LineBatch): Promise<boolean>;
}
