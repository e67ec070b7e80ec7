// A record that could not be answered, as it goes to the dead letter topic: its original bytes and why.
import type { ErrorCode } from '../core/errors.ts';
import type { IncomingRecord, LetterReason, OutgoingRecord, RecordHeaders } from './client/records.ts';

export const DEAD_LETTER_HEADERS = {
  code: 'sluice-error-code',
  column: 'sluice-error-column',
  message: 'sluice-error-message',
  topic: 'sluice-error-topic',
  partition: 'sluice-error-partition',
  offset: 'sluice-error-offset',
  /** Length of the original value in bytes, where only its beginning fitted. */
  truncated: 'sluice-error-truncated-from',
  /** The time of the record, ms since 1970; the letter's own is when it became one. */
  timestamp: 'sluice-error-timestamp',
  /** Name of the pipeline that wrote it. */
  pipeline: 'sluice-error-pipeline',
} as const;

/** How often the record has become a dead letter; of a record that was put back: which attempt it is. */
export const ATTEMPT_HEADER = 'sluice-attempt';

const OURS: ReadonlySet<string> = new Set([...Object.values(DEAD_LETTER_HEADERS), ATTEMPT_HEADER]);

/**
 * Original value, key and headers of `record`, plus what was wrong with it. Its time is now, because retention goes by time: a letter of
 * an old record would be removed before anybody has seen it.
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

/** Why a record that `deadLetter` made became one. */
export function letterReasonOf({ headers = {} }: OutgoingRecord): { code: ErrorCode; column: string | null } {
  const { code, column } = DEAD_LETTER_HEADERS;
  return { code: headerText(headers, code) as ErrorCode, column: headerText(headers, column) ?? null };
}

/** Headers without what `deadLetter` added. */
export function originalHeaders(headers: RecordHeaders): RecordHeaders {
  return Object.fromEntries(Object.entries(headers).filter(([name]) => !OURS.has(name)));
}

/** 1 for whatever was never put back. */
export function attemptOf(headers: RecordHeaders): number {
  const text = headerText(headers, ATTEMPT_HEADER) ?? '';
  return /^[1-9]\d{0,8}$/.test(text) ? Number(text) : 1;
}

/** The text of a header, of its last value where there are several; undefined where it is not there. */
export function headerText(headers: RecordHeaders, name: string): string | undefined {
  const value = headers[name];
  if (value === undefined) return undefined;
  return Buffer.isBuffer(value) ? value.toString() : (value as readonly Buffer[]).at(-1)?.toString();
}

/** The same dead letter with only the beginning of its value, at most `bytes`, and a header that says so. */
export function truncateDeadLetter(record: OutgoingRecord, bytes: number): OutgoingRecord {
  const value = record.value ?? Buffer.alloc(0);
  return {
    ...record,
    value: value.subarray(0, Math.max(0, bytes)),
    headers: { ...record.headers, [DEAD_LETTER_HEADERS.truncated]: Buffer.from(String(value.length)) },
  };
}
