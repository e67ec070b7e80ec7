// A columnar batch of rows. All decoders produce it and all models read it, without an object per row.
import type { ErrorCode } from './errors.ts';

export type ColumnKind = 'number' | 'boolean' | 'category' | 'text';

/** Code of a missing category or boolean in a batch. */
export const MISSING = -1;
/** Code of a category that the model package does not list. */
export const UNSEEN = -2;

/**
 * The cells of one column. number: NaN is missing. boolean: 1, 0 or MISSING. category: an index into the values of the
 * column, MISSING or UNSEEN.
 */
export interface ColumnData {
  readonly kind: ColumnKind;
  /** Used by number columns; length = capacity of the batch. */
  readonly numbers: Float64Array;
  /** Used by boolean and category columns; length = capacity of the batch. */
  readonly codes: Int32Array;
  /**
   * Used by text columns and by categories without a list: the value; null: missing. For categories with codes, only
   * the texts of UNSEEN rows are valid.
   */
  readonly texts: (string | null)[];
  /**
   * Rows with a category that the package does not list, even if the model gets it as a missing value. May include
   * rejected rows.
   */
  readonly unseenRows: number[];
}

export interface Rejection {
  /** Row of the batch, from 0. */
  index: number;
  code: ErrorCode;
  /** The column that caused the rejection; null: no single column did. */
  column: string | null;
  /** The message, which never contains a value of the input. */
  message: string;
}

/**
 * A batch, which is reused for all micro-batches. Rows 0 to rows - 1 are valid. A rejected row keeps its position (its
 * cells are undefined), so that row i of the batch is always record i of the block's slice.
 */
export interface ColumnBatch {
  readonly capacity: number;
  rows: number;
  /** In the order of the model package's columns. */
  readonly columns: readonly ColumnData[];
  /** 1 for each rejected row. */
  readonly rejected: Uint8Array;
  /** One entry per rejected row, in row order. */
  rejections: Rejection[];
  /**
   * 1 for each row that a decoder has encoded directly for the model. The cells of such a row in `columns` are stale.
   */
  readonly encoded: Uint8Array;
  /** For each passthrough column: the raw text of each row. */
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

/** An empty batch; `passthrough`: number of passthrough columns. */
export const newBatch = (columns: readonly ColumnData[], capacity: number, passthrough = 0): ColumnBatch => ({
  capacity,
  rows: 0,
  columns,
  rejected: new Uint8Array(capacity),
  rejections: [],
  encoded: new Uint8Array(capacity),
  passthrough: Array.from({ length: passthrough }, () => new Array<string | null>(capacity).fill(null)),
});
