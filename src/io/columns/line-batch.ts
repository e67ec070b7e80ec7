// A few thousand rows as columns, on their way to lines of JSON and to the workers.
import type { TypedTable } from '../../core/block-columns.ts';
import { type Fragments, TokenArena } from './fragments.ts';

/** Most rows of a batch, and most cells: tables may have thousands of columns. */
const MOST_ROWS = 2048;
const MOST_CELLS = 128 * 1024;

/** Rows a batch of so many columns can have. */
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
  /** What codes stand for; null: there are none. */
  fragments: Fragments | null = null;
  readonly tokens = new TokenArena();
  /** One past each token. */
  readonly ends: Int32Array;

  constructor(key: Uint8Array, rows: number) {
    this.key = key;
    this.keyWords = new Float64Array((key.length + 7) >> 3);
    new Uint8Array(this.keyWords.buffer).set(key);
    this.values = new Float64Array(rows);
    this.codes = new Int32Array(rows);
    this.ends = new Int32Array(rows);
  }
}

export class LineBatch {
  rows = 0;
  /** Most rows it can have. */
  readonly capacity: number;
  readonly columns: readonly BatchColumn[];

  constructor(names: readonly string[]) {
    this.capacity = batchRows(names.length);
    this.columns = keysOf(names).map((key) => new BatchColumn(key, this.capacity));
  }
}

/** What stands in front of the value of each column in a line. */
export const keysOf = (names: readonly string[]): Uint8Array[] =>
  names.map((name, i) => new Uint8Array(Buffer.from(`${i === 0 ? '{' : ','}${JSON.stringify(name)}:`)));

/** A table that comes batch by batch. */
export interface ColumnSource extends TypedTable {
  /** Fills a batch with the next rows; false: there are none. @throws SluiceError */
  next(batch: LineBatch): Promise<boolean>;
}
