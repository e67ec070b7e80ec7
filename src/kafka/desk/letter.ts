// A record of a dead letter topic as the desk tells of it: place, reason and sizes, nothing of what it holds.

import type { IncomingRecord, OutgoingRecord } from '../client/records.ts';
import { ATTEMPT_HEADER, attemptOf, DEAD_LETTER_HEADERS, headerText, originalHeaders } from '../dead-letters.ts';
import type { SettledAs } from './markers.ts';

export type LetterState = 'open' | SettledAs;

export interface Letter {
  readonly partition: number;
  readonly offset: bigint;
  /** When it became a dead letter, ms since 1970; letters of releases without `sluice-error-timestamp`: the time of their record. */
  readonly time: number;
  /** Of the record, ms since 1970. */
  readonly recordTime: number;
  readonly code: string | null;
  readonly column: string | null;
  readonly message: string | null;
  readonly pipeline: string | null;
  /** Where the record was. */
  readonly from: { readonly topic: string; readonly partition: number | null; readonly offset: string | null } | null;
  /** How often the record has become a dead letter, this time included. */
  readonly attempt: number;
  /** null: there is none. */
  readonly keyBytes: number | null;
  readonly valueBytes: number | null;
  /** Length of the value of which only the beginning is here. */
  readonly truncatedFrom: number | null;
  /** Headers of the original. */
  readonly otherHeaders: number;
}

export function letterOf({ partition, offset, timestamp, key, value, headers }: IncomingRecord): Letter {
  const text = (name: string) => headerText(headers, name) ?? null;
  const names = DEAD_LETTER_HEADERS;
  const topic = text(names.topic);
  const truncated = text(names.truncated);
  const from = topic === null ? null : { topic, partition: wholeOf(text(names.partition)), offset: text(names.offset) };
  return {
    partition,
    offset,
    time: timestamp,
    recordTime: wholeOf(text(names.timestamp)) ?? timestamp,
    code: text(names.code),
    column: text(names.column),
    message: text(names.message),
    pipeline: text(names.pipeline),
    from,
    attempt: attemptOf(headers),
    keyBytes: key?.length ?? null,
    valueBytes: value?.length ?? null,
    truncatedFrom: truncated === null ? null : wholeOf(truncated),
    otherHeaders: Object.keys(originalHeaders(headers)).length,
  };
}

/** Why a letter cannot be put back, whatever is asked for; null: it can. */
export function whyUnusable(letter: Letter, topic: string | undefined): 'truncated' | 'no_origin' | null {
  if (letter.truncatedFrom !== null) return 'truncated';
  return letter.from === null && topic === undefined ? 'no_origin' : null;
}

/** The record as it was, with the number of its next attempt. Back to its very partition where that is known, for the sake of order. */
export function restored(
  { key, value, headers: all }: IncomingRecord,
  letter: Letter,
  { topic, partitions }: { topic: string; partitions: number },
  time: 'now' | 'original',
): OutgoingRecord {
  const attempt = Buffer.from(String(letter.attempt + 1));
  const headers = { ...originalHeaders(all), [ATTEMPT_HEADER]: attempt };
  const home = letter.from?.topic === topic ? letter.from.partition : null;
  const place = home !== null && home < partitions ? { partition: home } : {};
  return { topic, key, value, headers, ...place, ...(time === 'now' ? {} : { timestamp: letter.recordTime }) };
}

const wholeOf = (text: string | null): number | null =>
  text !== null && /^\d{1,15}$/.test(text) ? Number(text) : null;
