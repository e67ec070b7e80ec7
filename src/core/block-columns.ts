// The columns of a block beside the bytes of its records: values and dictionary codes that need not be read from text again.

/** Tokens of JSON that codes stand for, one behind the other; the last one is `null`. In shared memory. */
export interface WordList {
  /** No other list of the process has it. */
  readonly id: number;
  readonly bytes: Uint8Array;
  /** One past the last byte of each token. */
  readonly ends: Int32Array;
}

/**
 * The cells of one column in a run of rows, in shared memory. numbers: NaN is null. coded: the code of a word. tokens: first byte and
 * one past the last byte of a token of JSON, counted from the first byte of its record.
 */
export type CellRun =
  | { readonly kind: 'numbers'; readonly values: Float64Array }
  | { readonly kind: 'coded'; readonly codes: Int32Array; readonly words: WordList }
  | { readonly kind: 'tokens'; readonly places: Int32Array };

/** Rows whose cells are held in the same way. */
export interface ColumnRun {
  readonly rows: number;
  /** In the order of the names. */
  readonly cells: readonly CellRun[];
}

/** What the records of a block say, a second time: whoever has no use for it reads the records. */
export interface BlockColumns {
  readonly names: readonly string[];
  /** Together they have the rows of the block, in order. */
  readonly runs: readonly ColumnRun[];
}

/** Gives the columns of lines that were read, once it has been asked to keep them. */
export interface ColumnFeed {
  /** From now on the columns of all lines are kept until they are taken. */
  keep(): void;
  /** The columns of the next `rows` lines. They lie in memory that belongs to the lease: they are valid as long as it is held. */
  take(rows: number, lease: object): BlockColumns;
}
