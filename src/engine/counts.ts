// Counts of a stream. The engine stores no counts itself: it reports every block result to an account, once and in
// order.
import type { Block } from '../core/block.ts';
import type { ErrorCode, ErrorDetail } from '../core/errors.ts';
import type { Flow } from '../core/flow.ts';
import type { MeasuredPart } from '../drift/drift-monitor.ts';

/** Counts of a run, a unit or a block result. After every successful end, rows = scored + rejected + skipped. */
export interface RunCounts {
  rows: number;
  scored: number;
  rejected: number;
  /** Tombstones of a topic that were skipped or forwarded. Absent if there were none. */
  skipped?: number;
  rejectedByCode: Partial<Record<ErrorCode, number>>;
  /**
   * `interpreted`: rows with an interpretation. `inexact`: rows whose interpretation was omitted because their effects
   * did not add up to the score.
   */
  interpreted: number;
  inexact: number;
  /** The first rejected rows. */
  details: ErrorDetail[];
}

/** Rows rejected because of one column of the model. */
export interface ColumnRejects {
  column: string;
  code: ErrorCode;
  rows: number;
}

/** The counts of a block result, as reported to an account. */
export interface Tally extends RunCounts {
  /**
   * Rejected rows by model column. Rows rejected for reasons other than a column are not included. Absent if there are
   * none.
   */
  rejectedByColumn?: readonly ColumnRejects[];
  /** Number of model evaluations for computing effects. Absent if there were none. */
  evaluations?: number;
  /** Time that the worker spent on the block in ms, excluding waits. */
  workMs: number;
  /** Distribution of the scored rows over the bins of the model's baseline; null if no drift is measured. */
  drift: MeasuredPart | null;
}

/** A block whose predictions and rejected rows have all been written. */
export interface WrittenBlock {
  /** The block; its bytes are valid until `onBlock` resolves. */
  readonly block: Block;
  readonly rows: number;
  readonly scored: number;
  readonly rejected: number;
}

/**
 * State for resuming a stream. The blocks that the interrupted run wrote are cut again, but neither scored nor written.
 */
export interface GoesOn {
  readonly blocks: number;
  /** Rows of these blocks; the account already includes them. */
  readonly rows: number;
  /** End of the last of these blocks, as an offset in the input. */
  readonly inputEnd: number;
  /** Number of uncompressed bytes in the existing output. */
  readonly written: number;
  /** Called for each of these blocks. The bytes of the block are valid until the promise resolves. */
  onBlock?(block: Block): void | Promise<void>;
}

export interface Account {
  /** The current counts. */
  readonly counts: Readonly<RunCounts>;
  /** Flow of the pipeline that the account belongs to. */
  readonly flow: Flow;
  /** `model`: reference `id:version` of the model that scored the rows. */
  add(tally: Tally, model: string): void;
  /** Called when a block result was written to its sink. */
  written(): void;
}
