// What goes in and out of a topic: records as bytes with their place, and what they weigh.
import type { ErrorDetail } from '../../../core/errors.ts';

/** Header values are bytes; a name that occurs more than once has a list. Null header values arrive as empty ones. */
export type RecordHeaders = Readonly<Record<string, Buffer | readonly Buffer[]>>;

export interface IncomingRecord {
  readonly topic: string;
  readonly partition: number;
  readonly offset: bigint;
  /** ms since 1970. */
  readonly timestamp: number;
  readonly key: Buffer | null;
  readonly value: Buffer | null;
  readonly headers: RecordHeaders;
}

export interface OutgoingRecord {
  /** Default: the output topic, or the dead letter topic for rejected records. */
  readonly topic?: string;
  readonly key: Buffer | null;
  readonly value: Buffer | null;
  readonly headers?: RecordHeaders;
  /** ms since 1970; default: now. */
  readonly timestamp?: number;
  /** Default: the partition of `origin` where the topics have as many partitions, else by key. */
  readonly partition?: number;
  /** The record this one answers: its bytes become the dead letter when the answer is too large. */
  readonly origin?: IncomingRecord;
  /** A dead letter in place of this one, where it is larger than its topic takes: it is never cut off. */
  readonly instead?: OutgoingRecord;
}

/** Many records of one partition, in order: the unit of `process` and the least that a transaction holds. */
export interface MicroBatch {
  readonly topic: string;
  readonly partition: number;
  readonly records: readonly IncomingRecord[];
  /** Next offset once the batch is processed: after the last record and the control records that follow it. */
  readonly next: bigint;
  readonly bytes: number;
}

export interface BatchResult {
  outputs: readonly OutgoingRecord[];
  rejected: readonly OutgoingRecord[];
  /** Called once, when outputs, dead letters and the offset are committed. `oversized`: outputs too large for their topic. */
  committed?: (oversized: number) => void;
}

/** Why a record became a dead letter: the code of the catalogue, never a value of the record. */
export type LetterReason = Pick<ErrorDetail, 'code' | 'message' | 'column'>;

/** Bytes of a record batch of the v2 format before its records. */
export const BATCH_OVERHEAD = 61;
/** Most a record of the v2 format adds to its key, value and headers: length, attributes, deltas and counts, bytes. */
const RECORD_OVERHEAD = 36;
/** Same for one header. */
const HEADER_OVERHEAD = 10;

/** Upper bound of the encoded size, bytes. */
export function weightOf(record: Pick<OutgoingRecord, 'key' | 'value' | 'headers'>): number {
  let bytes = RECORD_OVERHEAD + (record.key?.length ?? 0) + (record.value?.length ?? 0);
  for (const name in record.headers) {
    const value = record.headers[name]!;
    const name4 = name.length * 4;
    if (Array.isArray(value)) for (const one of value as Buffer[]) bytes += HEADER_OVERHEAD + name4 + one.length;
    else bytes += HEADER_OVERHEAD + name4 + (value as Buffer).length;
  }
  return bytes;
}

/** An answer to `origin`: same key, headers (and with them the trace context) and place; `value` is new. */
export function answerTo(
  origin: IncomingRecord,
  value: Buffer | null,
  options: { timestamp?: 'input' | 'now' } = {},
): OutgoingRecord {
  const { key, headers } = origin;
  const base = { key, value, headers, origin };
  return options.timestamp === 'now' ? base : { ...base, timestamp: origin.timestamp };
}
