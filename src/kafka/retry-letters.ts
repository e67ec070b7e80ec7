// Records that are tried again after a while: dead letters that wait in a topic of the pipeline's own, and what they were before.
import type { IncomingRecord, LetterReason, OutgoingRecord } from './client/records.ts';
import { ATTEMPT_HEADER, attemptOf, deadLetter, originalHeaders } from './dead-letters.ts';
import { letterOf } from './desk/letter.ts';

export interface RetryPolicy {
  readonly topic: string;
  readonly codes: ReadonlySet<string>;
  readonly delayMs: number;
  /** Attempts in all, the first one included. */
  readonly attempts: number;
}

/** What becomes of a record that was rejected: another attempt, or a dead letter. */
export function rejectedRecord(
  record: IncomingRecord,
  reason: LetterReason,
  pipeline: string,
  retry: RetryPolicy | null,
): OutgoingRecord {
  const letter = deadLetter(record, reason, pipeline);
  if (!retry?.codes.has(reason.code) || attemptOf(record.headers) >= retry.attempts) return letter;
  return { ...letter, topic: retry.topic, instead: letter };
}

/** The record as it was in its own topic, with its place there and the number of this attempt. */
export function originalOf(record: IncomingRecord): IncomingRecord {
  const { from, recordTime, attempt } = letterOf(record);
  if (from === null) return record;
  const { key, value, headers } = record;
  return {
    topic: from.topic,
    partition: from.partition ?? record.partition,
    offset: /^\d{1,18}$/.test(from.offset ?? '') ? BigInt(from.offset!) : record.offset,
    timestamp: recordTime,
    key,
    value,
    headers: { ...originalHeaders(headers), [ATTEMPT_HEADER]: Buffer.from(String(attempt + 1)) },
  };
}
