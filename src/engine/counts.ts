// Counts of a stream: the engine reports every block result to an account, once and in order, and stores no counts itself.
import type { Block } from '../core/block.ts';
import type { ErrorCode, ErrorDetail } from '../core/errors.ts';
import type { Flow } from '../core/flow.ts';
import type { MeasuredPart } from '../drift/drift-monitor.ts';

/** Counts of a run, a unit or a block result. rows = scored + rejected holds after every successful end. */
export interface RunCounts {
  rows: number;
  scored: number;
  rejected: number;
  rejectedByCode: Partial<Record<ErrorCode, number>>;
  /** Rows with an interpretation, and rows without one because their effects did not add up. */
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
  /** Rejected rows by model column; rows rejected for other reasons are not included. Absent: none. */
  rejectedByColumn?: readonly ColumnRejects[];
  /** Model evaluations for computing effects. Absent: none. */
  evaluations?: number;
  /** Work in the worker in ms, excluding waits. */
  workMs: number;
  /** Distribution of the scored rows over the bins of the model's baseline; null: no drift is measured. */
  drift: MeasuredPart | null;
}

/** A block whose predictions and rejected rows have all been written. */
export interface WrittenBlock {
  /** The bytes of the block are valid until `onBlock` resolves. */
  readonly block: Block;
  readonly rows: number;
  readonly scored: number;
  readonly rejected: number;
}

/** State for resuming a stream: its first blocks are cut as before, but neither scored nor written. */
export interface GoesOn {
  readonly blocks: number;
  /** Rows of these blocks; the account includes them already. */
  readonly rows: number;
  /** End of the last of these blocks in the input. */
  readonly inputEnd: number;
  /** Uncompressed bytes written to the output. */
  readonly written: number;
  /** Called for each of these blocks; its bytes are valid until the promise resolves. */
  onBlock?(block: Block): void | Promise<void>;
}

export interface Account {
  /** Counts so far. */
  readonly counts: Readonly<RunCounts>;
  /** Flow of the pipeline that the account belongs to. */
  readonly flow: Flow;
  /** `model`: reference `id:version` of the model that scored the rows. */
  add(tally: Tally, model: string): void;
  /** A block result was written to its sink. */
  written(): void;
}
