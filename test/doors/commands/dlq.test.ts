// Flags and words of `sluice dlq`, without a broker.
import { expect, test } from 'vitest';
import type { IncomingRecord } from '../../../src/connectors/kafka/client/records.ts';
import { DeadLetterCounter, deadLetterOf, OTHERS, selects } from '../../../src/connectors/kafka/dlq/dead-letter.ts';
import { selectionOf } from '../../../src/doors/commands/letter-selection.ts';
import { bytesJson, letterBlock, listCells, listLine } from '../../../src/doors/commands/letter-words.ts';

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
