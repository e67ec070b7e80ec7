// A block: many whole records as bytes with their position; the unit of work, of backpressure and of ordering.
import type { BlockColumns } from './block-columns.ts';

/** Why the cutter already knows that a record is bad (0: it does not). */
export const RECORD_OK = 0;
/** Quoting that violates RFC 4180: only the first physical line is consumed, and scanning resumes behind it. */
export const RECORD_MALFORMED = 1;
/** Longer than the row limit: the span covers only its beginning. */
export const RECORD_TOO_LONG = 2;

/** Scoring this record alone brought its worker down twice. */
export const RECORD_CRASHED = 3;
/** The model threw on this record alone. */
export const RECORD_MODEL_FAILED = 4;

/** JSON nested deeper than allowed. */
export const RECORD_TOO_DEEP = 5;

/** Sluice itself failed on this record alone: neither the record nor the model is at fault. */
export const RECORD_INTERNAL_ERROR = 6;

export interface Block {
  /** Position of the block in its stream, from 0. */
  readonly seq: number;
  /** The bytes. Workers get shared memory, so that the bytes survive the death of a worker. */
  readonly slab: ArrayBufferLike;
  /** Two entries a record: first byte and one past the last byte in the slab, line end not included. Empty where `columns` are instead. */
  readonly spans: Int32Array;
  /** One RECORD_* a record. */
  readonly faults: Uint8Array;
  /** 1-based row number of the first record in its stream. */
  readonly firstRow: number;
  /** Physical line of the input on which each record begins, from 1. */
  readonly lines: Int32Array;
  /** Offset of slab byte 0 from the beginning of the input; NaN: the input is a table, which has no text. */
  readonly firstByte: number;
  /** Bytes of the slab in use, or of the columns. */
  readonly length: number;
  /** Offset in the input at which the next block begins: all before it has been consumed. Of a table: rows. */
  readonly inputEnd: number;
  /** The records, where they came as columns: they have no bytes then. */
  readonly columns?: BlockColumns;
}

/** Number of records in a block. */
export const recordsOf = (block: Pick<Block, 'faults'>): number => block.faults.length;
