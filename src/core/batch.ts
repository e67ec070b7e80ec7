// A columnar batch: what every decoder makes of records and every model reads, without an object a row.
import type { ErrorCode } from './errors.ts';

export type ColumnKind = 'number' | 'boolean' | 'category' | 'text';

/** Code of a missing category or boolean in a batch. */
export const MISSING = -1;
/** Code of a category that the model package does not list. */
export const UNSEEN = -2;

/** number: Float64Array, NaN is missing. boolean: 1, 0 or MISSING. category: index into the column's values, MISSING or UNSEEN. */
export interface ColumnData {
  readonly kind: ColumnKind;
  /** Used by number columns; length = capacity of the batch. */
  readonly numbers: Float64Array;
  /** Used by boolean and category columns; length = capacity of the batch. */
  readonly codes: Int32Array;
  /**
   * Used by text columns (and categories without a list): the value, or null for missing. Of a category with codes: the
   * text where the code is UNSEEN; stale elsewhere.
   */
  readonly texts: (string | null)[];
  /**
   * Rows with a category that the package does not list, including one that represents a missing value. Rejected rows
   * may be among them.
   */
  readonly unseenRows: number[];
}

export interface Rejection {
  /** Row of the batch, from 0. */
  index: number;
  code: ErrorCode;
  /** Column at fault, if one is. */
  column: string | null;
  /** Message; never contains a value of the input. */
  message: string;
}

/**
 * Reused from micro-batch to micro-batch. Rows 0..rows-1 are valid; a rejected row keeps its place
 * (its cells are undefined) so that row i of the batch is always record i of the block's slice.
 */
export interface ColumnBatch {
  readonly capacity: number;
  rows: number;
  /** In the order of the model package's columns. */
  readonly columns: readonly ColumnData[];
  /** 1 where the row is rejected. */
  readonly rejected: Uint8Array;
  /** One entry a rejected row, in row order. */
  rejections: Rejection[];
  /** 1 where a decoder has encoded the row for the model directly; its cells in `columns` are stale then. */
  readonly encoded: Uint8Array;
  /** Columns echoed to the output: per passthrough column, the raw text of each row. */
  readonly passthrough: readonly (string | null)[][];
}

/** Allocates columns of these kinds. */
export const newColumns = (kinds: readonly ColumnKind[], capacity: number): ColumnData[] =>
  kinds.map((kind) => ({
    kind,
    numbers: new Float64Array(kind === 'number' ? capacity : 0),
    codes: new Int32Array(kind === 'boolean' || kind === 'category' ? capacity : 0),
    texts: kind === 'text' ? new Array<string | null>(capacity).fill(null) : [],
    unseenRows: [],
  }));

/** An empty batch; `passthrough`: columns that are echoed. */
export const newBatch = (columns: readonly ColumnData[], capacity: number, passthrough = 0): ColumnBatch => ({
  capacity,
  rows: 0,
  columns,
  rejected: new Uint8Array(capacity),
  rejections: [],
  encoded: new Uint8Array(capacity),
  passthrough: Array.from({ length: passthrough }, () => new Array<string | null>(capacity).fill(null)),
});
