// Letters and markers as records: what is read of them, what is put back, and what is mistaken for neither.

import { expect, test } from 'vitest';
import { type IncomingRecord, type OutgoingRecord, weightOf } from '../../../../src/connectors/kafka/client/records.ts';
import {
  deadLetter,
  deadLetterOf,
  restored,
  type SettledAs,
  truncateDeadLetter,
  whyUnusable,
} from '../../../../src/connectors/kafka/dlq/dead-letter.ts';
import { markerIn, markersOf } from '../../../../src/connectors/kafka/dlq/markers.ts';
import { OffsetRanges } from '../../../../src/connectors/kafka/dlq/offset-ranges.ts';
import fc from '../../../support/seeded-fast-check.ts';

const incoming = (record: OutgoingRecord, partition = 0, offset = 7n): IncomingRecord => ({
  topic: record.topic ?? 'letters',
  partition: record.partition ?? partition,
  offset,
  timestamp: record.timestamp ?? 0,
  key: record.key,
  value: record.value,
  headers: record.headers ?? {},
});
const original: IncomingRecord = {
  topic: 'applications',
  partition: 3,
  offset: 12n,
  timestamp: 1_700_000_000_000,
  key: Buffer.from('k'),
  value: Buffer.from('{"income":1}'),
  headers: { traceparent: Buffer.from('00-1') },
};
const REASON = { code: 'bad_number', column: 'income', message: 'not a number' } as const;

test('the attempt grows each time a record is put back and becomes a dead letter again', () => {
  let record = original;
  for (let attempt = 1; attempt <= 4; attempt++) {
    const letter = incoming(deadLetter(record, REASON, 'scoring'));
    const read = deadLetterOf(letter);
    expect(read).toMatchObject({ attempt, pipeline: 'scoring', code: 'bad_number', column: 'income', otherHeaders: 1 });
    expect(read.from).toEqual({ topic: 'applications', partition: 3, offset: '12' });
    const back = restored(letter, read, { topic: 'applications', partitions: 4 }, 'original');
    expect(back.headers).toEqual({ ...original.headers, 'sluice-attempt': Buffer.from(String(attempt + 1)) });
    expect([back.key, back.value, back.timestamp, back.partition]).toEqual([
      original.key,
      original.value,
      original.timestamp,
      3,
    ]);
    record = { ...incoming(back), topic: 'applications', partition: 3, offset: 12n };
  }
});

test('where the partition is gone, or the topic another, the key decides', () => {
  const letter = incoming(deadLetter(original, REASON));
  const read = deadLetterOf(letter);
  expect(restored(letter, read, { topic: 'applications', partitions: 3 }, 'now')).not.toHaveProperty('partition');
  expect(restored(letter, read, { topic: 'elsewhere', partitions: 9 }, 'now')).not.toHaveProperty('partition');
});

test.each([
  ['a whole letter', incoming(deadLetter(original, REASON)), null, null],
  ['one cut off', incoming(truncateDeadLetter(deadLetter(original, REASON), 3)), 'truncated', 'truncated'],
  ['a record of somebody else', { ...original, topic: 'letters' }, 'no_origin', null],
])('%s: cannot be replayed %s', (_, record, why, whyElsewhere) => {
  const letter = deadLetterOf(record);
  expect(whyUnusable(letter, undefined)).toBe(why);
  expect(whyUnusable(letter, 'elsewhere')).toBe(whyElsewhere);
});

test.each(['0', '-1', 'x', '', '1e9', '99999999999'])('an attempt of %j counts as the first', (text) => {
  const headers = { ...original.headers, 'sluice-attempt': Buffer.from(text) };
  expect(deadLetterOf(incoming(deadLetter({ ...original, headers }, REASON))).attempt).toBe(1);
});

const ranges = fc.array(fc.tuple(fc.nat(1e9), fc.nat(50)), { minLength: 1, maxLength: 200 }).map((pairs) => {
  const all = new OffsetRanges();
  for (const [first, more] of pairs) all.add(first, first + more);
  return all;
});

test('markers say together what they were made of, each within the limit', () => {
  const place = { topic: 'letters', partition: 5 };
  fc.assert(
    fc.property(
      ranges,
      fc.constantFrom<SettledAs>('replayed', 'dropped', 'adopted'),
      fc.integer({ min: 600, max: 4000 }),
      (offsets, action, maxBytes) => {
        const read = new OffsetRanges();
        for (const marker of markersOf(action, place, offsets, maxBytes)) {
          expect(weightOf(marker)).toBeLessThanOrEqual(maxBytes);
          const found = markerIn(incoming(marker))!;
          expect(found.action).toBe(action);
          read.addAll(found.offsets);
        }
        expect(read.toString()).toBe(offsets.toString());
      },
    ),
  );
});

test('a record that only looks like a marker is a dead letter, and a marker that cannot be parsed is an error', () => {
  const offsets = OffsetRanges.parse('0-9');
  const [marker] = markersOf('dropped', { topic: 'letters', partition: 0 }, offsets, 10_000);
  const record = incoming(marker!);
  expect(markerIn(record)).not.toBeNull();
  // Of another topic or partition: mirrored, or read by a pipeline that made a dead letter of it.
  expect(markerIn({ ...record, topic: 'copy' })).toBeNull();
  expect(markerIn({ ...record, partition: 1 })).toBeNull();
  expect(markerIn(incoming(deadLetter(record, REASON)))).toBeNull();
  const value = (change: object) => Buffer.from(JSON.stringify({ ...JSON.parse(String(marker!.value)), ...change }));
  for (const broken of [
    Buffer.from('{'),
    null,
    value({ version: 2 }),
    value({ action: 'retried' }),
    value({ offsets: 'all' }),
  ]) {
    expect(() => markerIn({ ...record, value: broken })).toThrow(
      /^partition 0, offset 7 of letters: an? (?:unreadable )?marker/,
    );
  }
});
