// A set of offsets against a plain one.

import { expect, test } from 'vitest';
import { OffsetRanges } from '../../../../src/connectors/kafka/dlq/offset-ranges.ts';
import fc from '../../../support/seeded-fast-check.ts';

const range = fc.tuple(fc.nat(300), fc.nat(20)).map(([first, more]) => [first, first + more] as const);
const numbers = (ranges: Iterable<readonly [number, number]>): number[] =>
  [...ranges].flatMap(([first, last]) => Array.from({ length: last - first + 1 }, (_, i) => first + i));

test('holds what was added, in as few ranges as there are, and reads what it writes', () => {
  fc.assert(
    fc.property(fc.array(range, { minLength: 1, maxLength: 60 }), fc.integer({ min: 0, max: 59 }), (added, asked) => {
      const ranges = new OffsetRanges();
      const plain = new Set<number>();
      for (const [i, [first, last]] of added.entries()) {
        ranges.add(first, last);
        for (const n of numbers([[first, last]])) plain.add(n);
        if (i === asked) for (let n = 0; n < 330; n++) expect(ranges.has(n)).toBe(plain.has(n));
      }
      expect(numbers(ranges)).toEqual([...plain].sort((a, b) => a - b));
      const all = [...ranges];
      for (let i = 1; i < all.length; i++) expect(all[i]![0]).toBeGreaterThan(all[i - 1]![1] + 1);
      for (const [first, last] of all) {
        expect(ranges.covers(first, last)).toBe(true);
        expect(ranges.covers(first, last + 1)).toBe(false);
      }
      expect([...OffsetRanges.parse(ranges.toString())]).toEqual(all);
    }),
  );
});

test('200,000 letters of which every second is settled by two who take turns, then the rest', () => {
  const ranges = new OffsetRanges();
  for (let n = 0; n < 200_000; n += 4) ranges.add(n, n);
  for (let n = 2; n < 200_000; n += 4) ranges.add(n, n);
  expect([...ranges]).toHaveLength(100_000);
  for (let n = 1; n < 200_000; n += 2) ranges.add(n, n);
  expect([...ranges]).toEqual([[0, 199_999]]);
});

test.each(['', '1-', '-3', '5-2', 'a', '1,,2', '1234567890123456', '0x10'])('%j is no list of ranges', (text) => {
  expect(() => OffsetRanges.parse(text)).toThrow('not a list of ranges');
});
