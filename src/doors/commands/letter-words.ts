// Formats dead letters as lines, blocks and JSON. Control characters are escaped, because headers may come from
// untrusted producers.

import { type DeadLetterTally, whyUnusable } from '../../connectors/kafka/dlq/dead-letter.ts';
import type { FoundDeadLetter } from '../../connectors/kafka/dlq/dead-letter-topic.ts';
import type { SettleReport } from '../../connectors/kafka/dlq/settle-dead-letters.ts';

const CONTROL = /[\p{Cc}\p{Cf}\u2028\u2029]/gu;
const harmless = (text: string): string => text.replace(CONTROL, (c) => `\\u{${c.codePointAt(0)!.toString(16)}}`);

export function letterJson({ letter, state }: FoundDeadLetter) {
  return {
    partition: letter.partition,
    offset: Number(letter.offset),
    state,
    time: new Date(letter.time).toISOString(),
    record_time: new Date(letter.recordTime).toISOString(),
    code: letter.code,
    column: letter.column,
    message: letter.message,
    pipeline: letter.pipeline,
    from: letter.from,
    attempt: letter.attempt,
    key_bytes: letter.keyBytes,
    value_bytes: letter.valueBytes,
    truncated_from: letter.truncatedFrom,
    other_headers: letter.otherHeaders,
    unusable: whyUnusable(letter, undefined),
  };
}

export const LIST_HEAD = ['PLACE', 'TIME', 'CODE', 'COLUMN', 'FROM', 'ATTEMPT', 'PIPELINE', 'BYTES', 'STATE'];
const WIDTHS = [10, 24, 22, 16, 28, 7, 16, 8, 0];

export function listLine(cells: readonly string[]): string {
  return cells
    .map((cell, i) => harmless(cell).padEnd(WIDTHS[i] ?? 0))
    .join('  ')
    .trimEnd();
}

export function listCells({ letter, state }: FoundDeadLetter): string[] {
  const why = whyUnusable(letter, undefined);
  return [
    `${letter.partition}:${letter.offset}`,
    new Date(letter.time).toISOString(),
    letter.code ?? '-',
    letter.column ?? '-',
    placeOf(letter.from),
    String(letter.attempt),
    letter.pipeline ?? '-',
    String(letter.valueBytes ?? '-'),
    why && state === 'open' ? `open, ${WHY[why]}` : state,
  ];
}

const WHY = { truncated: 'cut off', no_origin: 'without origin' } as const;

function placeOf(from: FoundDeadLetter['letter']['from']): string {
  return from === null ? '-' : `${from.topic} ${from.partition ?? '?'}:${from.offset ?? '?'}`;
}

/** The output of `sluice dlq show` for one letter. */
export function letterBlock(found: FoundDeadLetter): string {
  const { letter, state } = found;
  const why = whyUnusable(letter, undefined);
  const bytes = (n: number | null) => (n === null ? 'none' : `${n} bytes`);
  const rows: [string, string][] = [
    ['place', `${letter.partition}:${letter.offset}`],
    ['state', why && state === 'open' ? `open, cannot be replayed: ${WHY[why]}` : state],
    ['time', new Date(letter.time).toISOString()],
    ['of record', new Date(letter.recordTime).toISOString()],
    ['code', letter.code ?? '-'],
    ['column', letter.column ?? '-'],
    ['message', letter.message ?? '-'],
    ['pipeline', letter.pipeline ?? '-'],
    ['from', placeOf(letter.from)],
    ['attempt', String(letter.attempt)],
    ['key', bytes(letter.keyBytes)],
    [
      'value',
      letter.truncatedFrom === null
        ? bytes(letter.valueBytes)
        : `the first ${letter.valueBytes ?? 0} of ${letter.truncatedFrom} bytes`,
    ],
    ['headers', `${letter.otherHeaders} of the original`],
  ];
  return rows.map(([name, text]) => `${name.padEnd(9)} ${harmless(text)}`).join('\n');
}

/** The bytes as text if they are valid UTF-8, otherwise as Base64. */
export function bytesJson(name: string, bytes: Buffer | null): Record<string, string | null> {
  if (bytes === null) return { [name]: null };
  const text = bytes.toString();
  return Buffer.from(text).equals(bytes) ? { [name]: text } : { [`${name}_base64`]: bytes.toString('base64') };
}

export function tallyWords({ open, unusable, replayed, dropped, adopted, by }: DeadLetterTally): string {
  const passed = adopted > 0 ? `, ${adopted} replayed by an earlier release` : '';
  const head = `${open} open (${unusable} of them cannot be replayed), ${replayed} replayed, ${dropped} dropped${passed}`;
  return [head, ...by.map(([name, letters]) => `${String(letters).padStart(10)}  ${harmless(name)}`)].join('\n');
}

export function settleWords({ settled, left, unusable, failed }: SettleReport, done: string, dryRun: boolean): string {
  const rest = left === null ? 'the limit is reached' : `${left} left`;
  const lost = unusable > 0 || done === 'replayed' ? `, ${unusable} cannot be replayed` : '';
  const head = `${settled} ${dryRun ? 'would be ' : ''}${done}, ${rest}${lost}`;
  return [head, ...failed.map(failureWords)].join('\n');
}

function failureWords({ topic, code, letters }: SettleReport['failed'][number]): string {
  const permission = code === 'kafka_not_authorized' ? ', WRITE on it or on the dead-letter topic is missing' : '';
  return `${letters} not replayed into ${harmless(topic)}${permission} [${code}]`;
}
