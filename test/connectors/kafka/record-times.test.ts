// How old the first uncommitted record is: as if every record's time had been kept, whatever was fetched and committed.

import { expect, test } from 'vitest';
import type { IncomingRecord } from '../../../src/connectors/kafka/client/records.ts';
import { RecordTimes } from '../../../src/connectors/kafka/lag.ts';
import fc from '../../support/seeded-fast-check.ts';

const SAME_MS = 1000;
const record = (offset: number, timestamp: number): IncomingRecord => ({
  topic: 't',
  partition: 0,
  offset: BigInt(offset),
  timestamp,
  key: null,
  value: null,
  headers: {},
});

/** Fetches of records: for each the step in offsets (compaction, control records) and in time. */
const fetches = fc.array(
  fc.array(fc.tuple(fc.integer({ min: 1, max: 3 }), fc.integer({ min: 0, max: 5000 })), {
    minLength: 1,
    maxLength: 80,
  }),
  { minLength: 1, maxLength: 12 },
);

test('the time of the first record from an offset on is never younger than it is, and older by no more than a sample', () => {
  fc.assert(
    fc.property(fetches, fc.array(fc.nat(30), { maxLength: 40 }), (all, steps) => {
      const times = new RecordTimes();
      const kept: { offset: number; time: number; oldestOfFetch: number }[] = [];
      let offset = 0;
      let time = 1_000_000;
      for (const fetch of all) {
        const first = time;
        const records = fetch.map(([gap, later]) => {
          offset += gap;
          time += later;
          return record(offset, time);
        });
        kept.push(...records.map((r) => ({ offset: Number(r.offset), time: r.timestamp, oldestOfFetch: first })));
        times.add(records, BigInt(offset + 1));
      }
      let at = 0;
      for (const step of steps) {
        at += step;
        const want = kept.find((r) => r.offset >= at);
        const found = times.from(BigInt(at));
        if (!want) {
          expect(found).toBeNull();
          continue;
        }
        expect(found).not.toBeNull();
        expect(found!).toBeLessThanOrEqual(want.time);
        // Samples lie at most three records apart here, of at most 5 s each.
        expect(want.time - found!).toBeLessThan(3 * 5000 + SAME_MS);
      }
    }),
    { numRuns: 500 },
  );
});

test('a drained partition knows nothing, and a record without a time is as old as its arrival', () => {
  const times = new RecordTimes();
  const before = Date.now();
  times.add([record(0, -1)], 1n);
  expect(times.from(0n)).toBeGreaterThanOrEqual(before);
  expect(times.from(1n)).toBeNull();
  for (let i = 0; i < 10_000; i++) times.add([record(i + 1, 1 + i * 2000)], BigInt(i + 2));
  expect(times.from(9_999n)).toBe(1 + 9_998 * 2000);
  times.clear();
  expect(times.from(9_999n)).toBeNull();
});
