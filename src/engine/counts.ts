// How a stream is counted: the engine reports every part to an account, once and in order, and keeps no counts of its own.
import type { Block } from '../core/block.ts';
import type { ErrorCode, ErrorDetail } from '../core/errors.ts';
import type { Flow } from '../core/flow.ts';
import type { MeasuredPart } from '../drift/drift-monitor.ts';

/** Counts of a run, of a unit of it or of a part; rows = scored + rejected always holds when it ends well. */
export interface RunCounts {
  rows: number;
  scored: number;
  rejected: number;
  rejectedByCode: Partial<Record<ErrorCode, number>>;
  /** Rows with an interpretation, and rows left without because their effects did not add up. */
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

/** The totals of the rows of a part: everything that an account receives of them. */
export interface Tally extends RunCounts {
  /** Of the rejected rows, those that are so because of a column of the model. Absent: none. */
  rejectedByColumn?: readonly ColumnRejects[];
  /** Rows the model was asked to score for effects. Absent: none. */
  evaluations?: number;
  /** Milliseconds of work in the worker; waiting for it is not part of them. */
  workMs: number;
  /** How its scored rows fall into the bins of the model's baseline; null where nothing is measured. */
  drift: MeasuredPart | null;
}

/** A block of a stream all of whose answers and rejected rows have been written. */
export interface WrittenBlock {
  /** Its bytes are valid until `onBlock` resolves. */
  readonly block: Block;
  readonly rows: number;
  readonly scored: number;
  readonly rejected: number;
}

/** A stream continues where an earlier one ended: its first blocks are cut as before, and neither scored nor written. */
export interface GoesOn {
  readonly blocks: number;
  /** Rows of these blocks; the account has them already. */
  readonly rows: number;
  /** Where the last of them ended in the input. */
  readonly inputEnd: number;
  /** Bytes that were written to the output, before anything packed them. */
  readonly written: number;
  /** Called for each of these blocks; its bytes are valid until it resolves. */
  onBlock?(block: Block): void | Promise<void>;
}

export interface Account {
  /** Totals so far. */
  readonly counts: Readonly<RunCounts>;
  /** Of the pipeline it belongs to. */
  readonly flow: Flow;
  /** `model`: reference `id:version` of the model that scored the part. */
  add(tally: Tally, model: string): void;
  /** A part was written to its sink. */
  written(): void;
}
