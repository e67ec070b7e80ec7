// Records that wait until they are due: nobody gets them earlier, each as soon as it is, and waiting costs nothing.
import fc from 'fast-check';
import { expect, test } from 'vitest';
import type { IncomingRecord } from '../../src/kafka/client/records.ts';
import { PartitionBuffer } from '../../src/kafka/partition-buffer.ts';

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
  const ages = fc.array(fc.integer({ min: -1e9, max: 60 }), { minLength: 1, maxLength: 12 });
  await fc.assert(
    fc.asyncProperty(ages, fc.integer({ min: 1, max: 60 }), async (all, delayMs) => {
      const waiting = buffer(delayMs);
      const came = Date.now();
      const records = all.map((age, i) => record(i, came - age));
      waiting.push(records, BigInt(records.length + 1));
      const taken: bigint[] = [];
      while (taken.length < records.length) {
        const batch = (await waiting.take())!;
        const now = Date.now();
        for (const r of batch.records) {
          expect(now - Math.min(r.timestamp, came)).toBeGreaterThanOrEqual(delayMs);
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
  const waiting = buffer(7 * 24 * 3600 * 1000);
  waiting.push([record(0, Date.now())], 1n);
  const taken = waiting.take();
  const before = process.cpuUsage();
  await new Promise((resolve) => setTimeout(resolve, 300));
  const { user, system } = process.cpuUsage(before);
  expect(user + system).toBeLessThan(150_000);
  waiting.close();
  expect(await taken).toBeNull();
});
