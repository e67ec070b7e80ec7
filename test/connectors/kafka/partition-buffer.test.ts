// Records that wait until they are due: nobody gets them earlier, each as soon as it is, and waiting costs nothing.

import { expect, test } from 'vitest';
import type { IncomingRecord } from '../../../src/connectors/kafka/client/records.ts';
import { PartitionBuffer } from '../../../src/connectors/kafka/partition-buffer.ts';
import { epochMs } from '../../../src/core/clock.ts';
import { controlClock } from '../../support/controlled-clock.ts';
import fc from '../../support/seeded-fast-check.ts';

const record = (offset: number, timestamp: number): IncomingRecord => ({
  topic: 't',
  partition: 0,
  offset: BigInt(offset),
  timestamp,
  key: null,
  value: Buffer.from(String(offset)),
  headers: {},
});
const buffer = (delayMs: number) =>
  new PartitionBuffer('t', 0, { batchRows: 4, batchBytes: 1e6, batchWaitMs: 0, delayMs });

test('whatever the timestamps, order is kept, nothing comes early, and nothing waits longer than the delay', async () => {
  const clock = controlClock();
  const ages = fc.array(fc.integer({ min: -1e9, max: 60 }), { minLength: 1, maxLength: 12 });
  await fc.assert(
    fc.asyncProperty(ages, fc.integer({ min: 1, max: 60 }), async (all, delayMs) => {
      const waiting = buffer(delayMs);
      const came = epochMs();
      const records = all.map((age, i) => record(i, came - age));
      waiting.push(records, BigInt(records.length + 1));
      const taken: bigint[] = [];
      while (taken.length < records.length) {
        let ready = false;
        const taking = waiting.take().finally(() => {
          ready = true;
        });
        for (let ms = 0; !ready && ms <= delayMs + 60; ms++) await clock.advance(1);
        const batch = (await taking)!;
        const due = (r: IncomingRecord) => Math.min(r.timestamp, came) + delayMs;
        for (const r of batch.records) {
          expect(epochMs()).toBeGreaterThanOrEqual(due(r));
          taken.push(r.offset);
        }
        const all = taken.length === records.length;
        expect(batch.next).toBe(all ? BigInt(records.length + 1) : taken.at(-1)! + 1n);
        waiting.release(batch.bytes);
      }
      expect(taken).toEqual(records.map((r) => r.offset));
      expect(waiting.bytes).toBe(0);
    }),
    { numRuns: 15 },
  );
});

test('a wait of weeks is no busy one, and ends with the buffer', async () => {
  const clock = controlClock();
  const DAY_MS = 24 * 3600 * 1000;
  const waiting = buffer(7 * DAY_MS);
  waiting.push([record(0, epochMs())], 1n);
  const taken = waiting.take();
  await clock.advance(DAY_MS);
  // It looks at the clock once a minute, as that may be set.
  expect(clock.started).toBeLessThanOrEqual(24 * 60 + 1);
  expect(clock.timers).toBe(1);
  waiting.close();
  expect(await taken).toBeNull();
  expect(clock.timers).toBe(0);
});
