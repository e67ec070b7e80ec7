// Dead letters: records that could not be scored, with their original bytes, and with the reason in headers.
// Creates, reads, selects and counts dead letters, and restores the original record for a replay or a retry.
import type { ErrorCode } from '../../../core/errors.ts';
import {
  type IncomingRecord,
  isList,
  type LetterReason,
  type OutgoingRecord,
  type RecordHeaders,
} from '../client/records.ts';
import type { OffsetRanges } from './offset-ranges.ts';

const DEAD_LETTER_HEADERS = {
  code: 'sluice-error-code',
  column: 'sluice-error-column',
  message: 'sluice-error-message',
  topic: 'sluice-error-topic',
  partition: 'sluice-error-partition',
  offset: 'sluice-error-offset',
  /** Original length of a truncated value, bytes. */
  truncated: 'sluice-error-truncated-from',
  /** Timestamp of the original record, ms since 1970. The dead letter's own timestamp is the time of the failure. */
  timestamp: 'sluice-error-timestamp',
  /** Name of the pipeline that wrote the dead letter. */
  pipeline: 'sluice-error-pipeline',
} as const;

/**
 * Header of a dead letter: how many times the record has become a dead letter. Header of a replayed record: the number
 * of this attempt.
 */
const ATTEMPT_HEADER = 'sluice-attempt';

const OURS: ReadonlySet<string> = new Set([...Object.values(DEAD_LETTER_HEADERS), ATTEMPT_HEADER]);

/**
 * Creates a dead letter with the original key, value and headers of `record`, plus headers that describe the error. Its
 * timestamp is the current time: retention depends on timestamps, and could otherwise delete the dead letter of an old
 * record before an operator reads it.
 */
export function deadLetter(
  record: IncomingRecord,
  { code, column, message }: LetterReason,
  pipeline?: string,
): OutgoingRecord {
  const names = DEAD_LETTER_HEADERS;
  return {
    key: record.key,
    value: record.value,
    origin: record,
    headers: {
      ...originalHeaders(record.headers),
      [names.code]: Buffer.from(code),
      ...(column === undefined ? {} : { [names.column]: Buffer.from(column) }),
      [names.message]: Buffer.from(message),
      [names.topic]: Buffer.from(record.topic),
      [names.partition]: Buffer.from(String(record.partition)),
      [names.offset]: Buffer.from(String(record.offset)),
      [names.timestamp]: Buffer.from(String(record.timestamp)),
      ...(pipeline === undefined ? {} : { [names.pipeline]: Buffer.from(pipeline) }),
      [ATTEMPT_HEADER]: Buffer.from(String(attemptOf(record.headers))),
    },
  };
}

/** The error in the headers of a dead letter. */
export function letterReasonOf({ headers = {} }: OutgoingRecord): { code: ErrorCode; column: string | null } {
  const { code, column } = DEAD_LETTER_HEADERS;
  return { code: headerText(headers, code) as ErrorCode, column: headerText(headers, column) ?? null };
}

/** The headers of the original record, without the headers that `deadLetter` added. */
function originalHeaders(headers: RecordHeaders): RecordHeaders {
  return Object.fromEntries(Object.entries(headers).filter(([name]) => !OURS.has(name)));
}

/** The number of the attempt; 1 for a record that was never replayed. */
function attemptOf(headers: RecordHeaders): number {
  const text = headerText(headers, ATTEMPT_HEADER) ?? '';
  return /^[1-9]\d{0,8}$/.test(text) ? Number(text) : 1;
}

/**
 * The text of a header. If the header has several values, the text of the last value. undefined: the header is missing,
 * or its value is null.
 */
export function headerText(headers: RecordHeaders, name: string): string | undefined {
  const values = headers[name] ?? null;
  return (isList(values) ? values.at(-1) : values)?.toString();
}

/**
 * The same dead letter with its value truncated to `bytes` bytes, and with a header that contains the original length.
 */
export function truncateDeadLetter(record: OutgoingRecord, bytes: number): OutgoingRecord {
  const value = record.value ?? Buffer.alloc(0);
  return {
    ...record,
    value: value.subarray(0, Math.max(0, bytes)),
    headers: { ...record.headers, [DEAD_LETTER_HEADERS.truncated]: Buffer.from(String(value.length)) },
  };
}

/**
 * How a dead letter was settled. `adopted`: it was passed by a replay of an earlier release without markers, which
 * either replayed or skipped it.
 */
export type SettledAs = 'replayed' | 'dropped' | 'adopted';
export const SETTLED_AS: readonly SettledAs[] = ['replayed', 'dropped', 'adopted'];

export type DeadLetterState = 'open' | SettledAs;

/** A dead letter without its contents, for display: location, reason and sizes. */
export interface DeadLetterSummary {
  readonly partition: number;
  readonly offset: bigint;
  /**
   * When the record became a dead letter, ms since 1970. In dead letters of releases without the header
   * `sluice-error-timestamp`, this is the time of the record.
   */
  readonly time: number;
  /** Timestamp of the original record, ms since 1970. */
  readonly recordTime: number;
  readonly code: string | null;
  readonly column: string | null;
  readonly message: string | null;
  readonly pipeline: string | null;
  /** Topic, partition and offset of the original record. */
  readonly from: { readonly topic: string; readonly partition: number | null; readonly offset: string | null } | null;
  /** How many times the record has become a dead letter, including this time. */
  readonly attempt: number;
  /** null: the record has no key. */
  readonly keyBytes: number | null;
  readonly valueBytes: number | null;
  /** Original length of a truncated value, bytes; null: the value is complete. */
  readonly truncatedFrom: number | null;
  /** Number of headers of the original record. */
  readonly otherHeaders: number;
}

export function deadLetterOf({ partition, offset, timestamp, key, value, headers }: IncomingRecord): DeadLetterSummary {
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

/** Why a dead letter cannot be replayed to `topic` (undefined: its original topic); null: it can be replayed. */
export function whyUnusable(letter: DeadLetterSummary, topic: string | undefined): 'truncated' | 'no_origin' | null {
  if (letter.truncatedFrom !== null) return 'truncated';
  return letter.from === null && topic === undefined ? 'no_origin' : null;
}

/**
 * The original record with the number of its next attempt. To preserve the order, the record returns to its original
 * partition, if this is known.
 */
export function restored(
  { key, value, headers: all }: IncomingRecord,
  letter: DeadLetterSummary,
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

export interface DeadLetterSelection {
  readonly codes?: readonly string[];
  readonly columns?: readonly string[];
  readonly pipelines?: readonly string[];
  /** The bytes of the key. */
  readonly key?: Buffer;
  /** Selects dead letters written at or after this time, ms since 1970. */
  readonly since?: number;
  /** Selects dead letters written before this time, ms since 1970. */
  readonly until?: number;
  /** Partition of the dead letter topic. */
  readonly partition?: number;
  readonly offsets?: OffsetRanges;
  /** Selects records that have become dead letters at most this many times. */
  readonly maxAttempt?: number;
}

export function selects(selection: DeadLetterSelection, letter: DeadLetterSummary, key: Buffer | null): boolean {
  const { codes, columns, pipelines, since, until, partition, offsets, maxAttempt } = selection;
  const among = (names: readonly string[] | undefined, name: string | null) =>
    names === undefined || (name !== null && names.includes(name));
  return (
    among(codes, letter.code) &&
    among(columns, letter.column) &&
    among(pipelines, letter.pipeline) &&
    (since === undefined || letter.time >= since) &&
    (until === undefined || letter.time < until) &&
    (partition === undefined || letter.partition === partition) &&
    (offsets === undefined || offsets.has(Number(letter.offset))) &&
    (maxAttempt === undefined || letter.attempt <= maxAttempt) &&
    (selection.key === undefined || (key !== null && selection.key.equals(key)))
  );
}

const TALLIED_BY = ['code', 'column', 'pipeline', 'topic', 'attempt'] as const;
type TalliedBy = (typeof TALLIED_BY)[number];

/**
 * Maximum number of distinct names, because other writers can use any number of names. All further names are counted
 * together.
 */
const MAX_NAMES = 1000;
export const OTHERS = '(others)';

export interface DeadLetterTally {
  open: number;
  /** Open dead letters that cannot be replayed. */
  unusable: number;
  replayed: number;
  dropped: number;
  adopted: number;
  /** Number of open dead letters by name, most frequent first. `(none)` counts dead letters without a name. */
  by: [name: string, letters: number][];
}

export class DeadLetterCounter {
  readonly #by: TalliedBy;
  readonly #states: Record<DeadLetterState, number> = { open: 0, replayed: 0, dropped: 0, adopted: 0 };
  readonly #names = new Map<string, number>();
  #unusable = 0;

  constructor(by: TalliedBy) {
    this.#by = by;
  }

  add(letter: DeadLetterSummary, state: DeadLetterState): void {
    this.#states[state]++;
    if (state !== 'open') return;
    if (whyUnusable(letter, undefined)) this.#unusable++;
    const name = nameOf(letter, this.#by);
    const counted = this.#names.has(name) || this.#names.size < MAX_NAMES ? name : OTHERS;
    this.#names.set(counted, (this.#names.get(counted) ?? 0) + 1);
  }

  get tally(): DeadLetterTally {
    const by = [...this.#names].sort(([a, m], [b, n]) => n - m || (a < b ? -1 : 1));
    return { ...this.#states, unusable: this.#unusable, by };
  }
}

function nameOf(letter: DeadLetterSummary, by: TalliedBy): string {
  if (by === 'attempt') return String(letter.attempt);
  return (by === 'topic' ? letter.from?.topic : letter[by]) ?? '(none)';
}

export interface RetryPolicy {
  readonly topic: string;
  readonly codes: ReadonlySet<string>;
  readonly delayMs: number;
  /** Maximum number of attempts, including the first. */
  readonly attempts: number;
}

/** Creates a record for the retry topic if the error code is retried and attempts remain, otherwise a dead letter. */
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

/**
 * Restores the original of a record in the retry topic, with its original topic, partition and offset, and with the
 * number of this attempt.
 */
export function originalOf(record: IncomingRecord): IncomingRecord {
  const { from, recordTime, attempt } = deadLetterOf(record);
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
