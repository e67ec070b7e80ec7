// A record that could not be answered, as it goes to the dead letter topic: its original bytes and why.
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
} as const;

const OURS: ReadonlySet<string> = new Set(Object.values(DEAD_LETTER_HEADERS));

/** Original value, key and headers of `record`, plus what was wrong with it. */
export function deadLetter(record: IncomingRecord, { code, column, message }: LetterReason): OutgoingRecord {
  const names = DEAD_LETTER_HEADERS;
  return {
    key: record.key,
    value: record.value,
    timestamp: record.timestamp,
    origin: record,
    headers: {
      ...originalHeaders(record.headers),
      [names.code]: Buffer.from(code),
      ...(column === undefined ? {} : { [names.column]: Buffer.from(column) }),
      [names.message]: Buffer.from(message),
      [names.topic]: Buffer.from(record.topic),
      [names.partition]: Buffer.from(String(record.partition)),
      [names.offset]: Buffer.from(String(record.offset)),
    },
  };
}

/** Headers without what `deadLetter` added. */
export function originalHeaders(headers: RecordHeaders): RecordHeaders {
  return Object.fromEntries(Object.entries(headers).filter(([name]) => !OURS.has(name)));
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
