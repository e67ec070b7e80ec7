// Flags and words of `sluice dlq`, without a broker.
import { expect, test } from 'vitest';
import type { IncomingRecord } from '../../../src/connectors/kafka/client/records.ts';
import { DeadLetterCounter, deadLetterOf, OTHERS, selects } from '../../../src/connectors/kafka/dlq/dead-letter.ts';
import { selectionOf } from '../../../src/doors/commands/letter-selection.ts';
import {
  bytesJson,
  letterBlock,
  letterJson,
  listCells,
  listLine,
  settleWords,
  tallyWords,
} from '../../../src/doors/commands/letter-words.ts';

const NOW = Date.parse('2026-11-22T12:00:00Z');
const record = (headers: Record<string, string>): IncomingRecord => ({
  topic: 'letters',
  partition: 0,
  offset: 17n,
  timestamp: NOW,
  key: Buffer.from('SECRET-KEY'),
  value: Buffer.from('SECRET-VALUE'),
  headers: Object.fromEntries(Object.entries(headers).map(([name, text]) => [name, Buffer.from(text)])),
});
const found = (headers: Record<string, string>) => ({
  letter: deadLetterOf(record(headers)),
  record: record(headers),
  state: 'open' as const,
  first: 17,
});

test.each([
  [{ since: '2026-11-22' }, { since: Date.parse('2026-11-22T00:00:00Z') }],
  [{ until: '2026-11-22T02:00+01:00' }, { until: Date.parse('2026-11-22T01:00:00Z') }],
  [{ minAgeMs: 60_000 }, { until: NOW - 60_000 }],
  [{ minAgeMs: 60_000, until: '2026-11-22T13:00Z' }, { until: NOW - 60_000 }],
  [{ minAgeMs: 60_000, until: '2026-11-22T11:00Z' }, { until: Date.parse('2026-11-22T11:00:00Z') }],
  [
    { code: 'a, b', pipeline: 'p' },
    { codes: ['a', 'b'], pipelines: ['p'] },
  ],
])('%j', (flags, selection) => {
  expect(selectionOf(flags, NOW)).toEqual(selection);
});

test.each([
  [{ since: '02:00' }, '--since takes a time'],
  [{ since: '2026-11-22T02:00' }, '--since takes a time'],
  [{ until: '2026-13-01' }, '--until takes a time'],
  [{ offsets: '1-2' }, '--offsets needs --partition'],
  [{ offsets: '9-2', partition: 0 }, '--offsets takes ranges'],
])('%j is refused', (flags, words) => {
  expect(() => selectionOf(flags, NOW)).toThrow(words);
});

test('the age of a letter is that of the letter, not of its record', () => {
  const { letter } = found({ 'sluice-error-timestamp': String(NOW - 3_600_000) });
  expect(letter.recordTime).toBe(NOW - 3_600_000);
  expect(selects(selectionOf({ minAgeMs: 60_000 }, NOW + 59_999), letter, null)).toBe(false);
  expect(selects(selectionOf({ minAgeMs: 60_000 }, NOW + 60_001), letter, null)).toBe(true);
});

test('headers of foreign writers steer no terminal, and neither key nor value is told', () => {
  const one = found({
    'sluice-error-code': '\u001b[2Jx',
    'sluice-error-topic': 'a\nb\u202e',
    'x-name': 'SECRET-HEADER',
  });
  for (const text of [listLine(listCells(one)), letterBlock(one)]) {
    expect(text).toContain('\\u{1b}[2Jx');
    expect(text.replaceAll('\n', '')).not.toMatch(/[\p{Cc}\p{Cf}]/u);
    expect(text).not.toContain('SECRET');
  }
});

test('names beyond a thousand are counted together', () => {
  const counter = new DeadLetterCounter('column');
  for (let i = 0; i < 1500; i++) counter.add(found({ 'sluice-error-column': `c${i}` }).letter, 'open');
  expect(counter.tally.by).toHaveLength(1001);
  expect(counter.tally.by[0]).toEqual([OTHERS, 500]);
});

test('bytes that are no text are told in Base64', () => {
  expect(bytesJson('value', Buffer.from([0xff, 0]))).toEqual({ value_base64: '/wA=' });
  expect(bytesJson('value', Buffer.from('é'))).toEqual({ value: 'é' });
  expect(bytesJson('key', null)).toEqual({ key: null });
});

const EMPTY: IncomingRecord = { ...record({}), key: null, value: null };

test('a letter as a block, as JSON and as cells', () => {
  const whole = found({
    'sluice-error-code': 'bad_number',
    'sluice-error-column': 'income',
    'sluice-error-message': 'no number',
    'sluice-error-pipeline': 'nightly',
    'sluice-error-topic': 'loans',
    'sluice-error-partition': '2',
    'sluice-error-offset': '41',
    'sluice-attempt': '3',
    other: 'x',
  });
  expect(letterBlock(whole)).toBe(
    `place     0:17
state     open
time      2026-11-22T12:00:00.000Z
of record 2026-11-22T12:00:00.000Z
code      bad_number
column    income
message   no number
pipeline  nightly
from      loans 2:41
attempt   3
key       10 bytes
value     12 bytes
headers   1 of the original`,
  );
  expect(letterJson(whole)).toMatchObject({ offset: 17, attempt: 3, key_bytes: 10, value_bytes: 12, unusable: null });
  expect(listCells(whole)).toEqual(['0:17', '2026-11-22T12:00:00.000Z', 'bad_number', 'income', 'loans 2:41', '3', 'nightly', '12', 'open']); // biome-ignore format: one line
  const bare = { ...whole, letter: deadLetterOf(EMPTY), record: EMPTY };
  expect(letterBlock(bare)).toContain('state     open, cannot be replayed: without origin\n');
  for (const line of ['from      -', 'key       none', 'value     none'])
    expect(letterBlock(bare).split('\n')).toContain(line);
  expect(letterBlock({ ...bare, state: 'dropped' })).toContain('state     dropped\n');
  expect(listCells(bare).at(-1)).toBe('open, without origin');
  expect(listCells({ ...bare, state: 'dropped' }).at(-1)).toBe('dropped');
});

test('the counts of dead letters', () => {
  const tally = { open: 7, unusable: 2, replayed: 3, dropped: 1, adopted: 0, by: [['bad_number', 5], ['a\n', 2]] as [string, number][] }; // biome-ignore format: one line
  expect(tallyWords(tally)).toBe(
    '7 open (2 of them cannot be replayed), 3 replayed, 1 dropped\n         5  bad_number\n         2  a\\u{a}',
  );
  expect(tallyWords({ ...tally, adopted: 4, by: [] })).toMatch(/, 1 dropped, 4 replayed by an earlier release$/);
});

test.each([
  [{ settled: 4, left: 1, unusable: 0, failed: [] }, 'replayed', false, '4 replayed, 1 left, 0 cannot be replayed'],
  [{ settled: 4, left: null, unusable: 2, failed: [] }, 'dropped', true, '4 would be dropped, the limit is reached, 2 cannot be replayed'],
  [{ settled: 4, left: 0, unusable: 0, failed: [] }, 'dropped', false, '4 dropped, 0 left'],
  [
    { settled: 0, left: 0, unusable: 0, failed: [{ topic: 'in', code: 'kafka_not_authorized' as const, letters: 2 }, { topic: 'b', code: 'kafka_failed' as const, letters: 1 }] },
    'replayed',
    false,
    '0 replayed, 0 left, 0 cannot be replayed\n2 not replayed into in, WRITE on it or on the dead-letter topic is missing [kafka_not_authorized]\n1 not replayed into b [kafka_failed]',
  ],
])('%j', (report, done, dryRun, text) => {
  expect(settleWords(report, done, dryRun)).toBe(text);
}); // biome-ignore format: a table
