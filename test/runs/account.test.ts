// The account keeps its sums whatever is taken out of it before it is settled: rows are scored and rejected ones, and metrics say the same.

import { expect, test } from 'vitest';
import type { ErrorCode } from '../../src/core/errors.ts';
import type { Tally } from '../../src/engine/counts.ts';
import { Metrics } from '../../src/monitor/metrics.ts';
import { RunAccount } from '../../src/runs/account.ts';
import { newCounts } from '../../src/runs/accumulator.ts';
import fc from '../support/seeded-fast-check.ts';

const CODES: readonly ErrorCode[] = ['unseen_category', 'bad_number', 'missing_value'];
const small = fc.integer({ min: 0, max: 9 });
const tallies = fc.array(fc.tuple(small, small, small, small), { minLength: 1, maxLength: 4 });

const tallyOf = ([scored, ...rejects]: readonly [number, number, number, number]): Tally => {
  const rejectedByCode = Object.fromEntries(CODES.flatMap((code, i) => (rejects[i]! > 0 ? [[code, rejects[i]!]] : [])));
  const rejected = rejects.reduce((a, b) => a + b, 0);
  return { ...newCounts(), rows: scored + rejected, scored, rejected, rejectedByCode, workMs: 1, drift: null };
};

test('records that are tried again count for nothing until they are settled', async () => {
  await fc.assert(
    fc.asyncProperty(tallies, fc.constantFrom(...CODES), fc.nat(40), async (parts, code, wanted) => {
      const metrics = new Metrics('topic_run');
      const account = new RunAccount(metrics);
      const unit = account.unit();
      for (const part of parts) unit.add(tallyOf(part), 'm:1');
      const there = parts.reduce((sum, part) => sum + part[1 + CODES.indexOf(code)]!, 0);
      const n = Math.min(wanted, there);
      unit.postpone(n, code);
      unit.settle();
      const { rows, scored, rejected, rejectedByCode } = account.totals;
      const all = parts.flat().reduce((a, b) => a + b, 0);
      expect([rows, rows - scored]).toEqual([all - n, rejected]);
      expect(rejectedByCode[code] ?? 0).toBe(there - n);
      expect(Object.values(rejectedByCode).reduce((a, b) => a + b, 0)).toBe(rejected);
      const { values } = await metrics.rejected.get();
      expect(Object.fromEntries(values.map((v) => [v.labels.code, v.value]))).toEqual(rejectedByCode);
    }),
    { numRuns: 100 },
  );
});

test('the last answer is that of the last rows that were sent: at once where they are, else when they are settled', async () => {
  const metrics = new Metrics('topic_run');
  const account = new RunAccount(metrics, 'p');
  const lastAnswer = async (): Promise<number | null> => {
    await metrics.text();
    return (await metrics.lastAnswer.get()).values.find(({ labels }) => labels.pipeline === 'p')?.value ?? null;
  };
  const began = Date.now() / 1000;
  const held = account.unit();
  held.add(tallyOf([1, 0, 0, 0]), 'm:1');
  held.written();
  const none = account.unit({ live: true });
  none.settle();
  expect(await lastAnswer()).toBe(null);
  const live = account.unit({ live: true });
  live.written();
  const first = (await lastAnswer())!;
  expect([first >= began, first <= Date.now() / 1000]).toEqual([true, true]);
  while (Date.now() / 1000 <= first) await new Promise((resolve) => setTimeout(resolve, 1));
  held.settle();
  expect(await lastAnswer()).toBeGreaterThan(first);
});
