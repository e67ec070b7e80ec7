// Records read from and written to a topic, and upper bounds of their encoded size.
import type { ErrorDetail } from '../../../core/errors.ts';

/** Headers by name. The value of a name that occurs more than once is a list. A value can be null. */
export type RecordHeaders = Readonly<Record<string, Buffer | null | readonly (Buffer | null)[]>>;

/** Whether a header has several values. Unlike `Array.isArray`, it also narrows lists that are read-only. */
export const isList = <T>(values: T | readonly T[]): values is readonly T[] => Array.isArray(values);

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
  /** Default: the partition of `origin` if both topics have the same number of partitions, else chosen by key. */
  readonly partition?: number;
  /**
   * The record that this record answers. If the answer is too large, a dead letter with the bytes of `origin` is
   * written.
   */
  readonly origin?: IncomingRecord;
  /**
   * The dead letter to write instead if this record exceeds the size limit of its topic. Present if this record must
   * not be truncated.
   */
  readonly instead?: OutgoingRecord;
}

/** Records of one partition, in order: the unit that `process` handles, and that a transaction never splits. */
export interface MicroBatch {
  readonly topic: string;
  readonly partition: number;
  readonly records: readonly IncomingRecord[];
  /** The offset to commit for this batch: after its last record and the control records that follow it. */
  readonly next: bigint;
  readonly bytes: number;
}

export interface BatchResult {
  outputs: readonly OutgoingRecord[];
  rejected: readonly OutgoingRecord[];
  /**
   * Called once, after outputs, dead letters and offset were committed. `oversized`: number of outputs that were too
   * large for their topic. `replaced`: records that were too large for their topic, so that `instead` was written.
   */
  committed?: (oversized: number, replaced: ReadonlySet<OutgoingRecord>) => void;
}

/** Why a record became a dead letter: an error code and its message. Never contains a value of the record. */
export type LetterReason = Pick<ErrorDetail, 'code' | 'message' | 'column'>;

/** Size of the header of a v2 record batch, bytes. */
export const BATCH_OVERHEAD = 61;
/** Maximum bytes that a v2 record adds to its key, value and headers: length, attributes, deltas and counts. */
const RECORD_OVERHEAD = 36;
/** Maximum bytes that the encoding adds to the name and value of one header. */
const HEADER_OVERHEAD = 10;

/** Upper bound of the encoded size of a record, bytes. */
export function weightOf(record: Pick<OutgoingRecord, 'key' | 'value' | 'headers'>): number {
  let bytes = RECORD_OVERHEAD + (record.key?.length ?? 0) + (record.value?.length ?? 0);
  for (const name in record.headers) {
    const values = record.headers[name] ?? null;
    const name4 = name.length * 4;
    if (isList(values)) for (const one of values) bytes += HEADER_OVERHEAD + name4 + (one?.length ?? 0);
    else bytes += HEADER_OVERHEAD + name4 + (values?.length ?? 0);
  }
  return bytes;
}

/**
 * Creates an answer to `origin` with the same key, the same headers (including the trace context), and the given value.
 */
export function answerTo(
  origin: IncomingRecord,
  value: Buffer | null,
  options: { timestamp?: 'input' | 'now' } = {},
): OutgoingRecord {
  const { key, headers } = origin;
  const base = { key, value, headers, origin };
  return options.timestamp === 'now' ? base : { ...base, timestamp: origin.timestamp };
}
