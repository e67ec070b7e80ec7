// All explainers of a process share one memory for their tables: it is never exceeded, shared fairly, and returned by whoever ends.
import { once } from 'node:events';
import { availableParallelism, totalmem } from 'node:os';
import { Worker } from 'node:worker_threads';
import { beforeEach, expect, onTestFinished, test } from 'vitest';
import {
  clearLargeBudgets,
  limitMemoPool,
  MemoBudget,
  memoPool,
  memoPoolUse,
  releaseMemoThread,
} from '../../../src/inference/explain/memo-pool.ts';
import { sampleOf } from '../../support/exposition.ts';
import fc from '../../support/seeded-fast-check.ts';
import { startService } from '../../support/service.ts';
import { ROWS, thousand } from '../../support/thousand.ts';
import { checkTest, times } from '../../support/tiers.ts';

const KIB = 1024;
const STEP = 64 * KIB;
const { limit: LIMIT } = memoPoolUse();

beforeEach(() => () => limitMemoPool(LIMIT));

/** Budgets of 1 MiB that count how often they were cleared. */
function budgets(count: number, most = 1024 * KIB) {
  const cleared = new Array<number>(count).fill(0);
  const made = cleared.map((_, i) => new MemoBudget(most, () => cleared[i]!++));
  onTestFinished(() => {
    for (const budget of made) budget.clear();
  });
  return { made, cleared };
}

test('whatever is taken and cleared: the pool has what its budgets have, and at most its limit', () => {
  const step = fc.record({
    budget: fc.integer({ min: 0, max: 5 }),
    bytes: fc.integer({ min: 1, max: 400 * KIB }),
    what: fc.constantFrom('take', 'take', 'take', 'clear', 'check'),
  });
  fc.assert(
    fc.property(fc.array(step, { maxLength: 80 }), fc.integer({ min: 0, max: 40 }), (steps, limit) => {
      limitMemoPool(limit * STEP);
      const before = memoPoolUse().used;
      const taken = new Array<number>(6).fill(0);
      const made = taken.map(
        (_, i) =>
          new MemoBudget(1024 * KIB, () => {
            taken[i] = 0;
          }),
      );
      for (const { budget, bytes, what } of steps) {
        if (what === 'take' && made[budget]!.take(bytes)) taken[budget]! += bytes;
        if (what === 'clear') made[budget]!.clear();
        if (what === 'check') clearLargeBudgets();
        for (const [i, one] of made.entries()) {
          expect(taken[i]).toBeLessThanOrEqual(one.steps * STEP);
          expect(taken[i]).toBeLessThanOrEqual(1024 * KIB);
          expect(one.steps * STEP - taken[i]!).toBeLessThan(STEP);
        }
        const used = made.reduce((sum, { steps }) => sum + steps * STEP, before);
        expect(memoPoolUse().used).toBe(used);
        if (before === 0) expect(used).toBeLessThanOrEqual(limit * STEP);
      }
      for (const budget of made) budget.clear();
      expect(memoPoolUse().used).toBe(before);
    }),
    { numRuns: times('memory of effects', { quick: 100, check: 120, campaigns: 5000 }) },
  );
});

test('by default the pool has 192 MiB per core, at most a quarter of the memory', () => {
  const memory = Math.min(process.constrainedMemory() || Infinity, totalmem());
  const expected = Math.min(192 * 1024 * KIB * availableParallelism(), memory / 4);
  expect(LIMIT).toBe(Math.floor(Math.max(32 * 1024 * KIB, expected) / STEP) * STEP);
});

test('a budget that took nearly everything alone gives it back when others come', () => {
  limitMemoPool(16 * STEP);
  const { made, cleared } = budgets(4, 100 * STEP);
  const [large, ...others] = made as [MemoBudget, ...MemoBudget[]];
  const full = (budget: MemoBudget): number => {
    while (budget.take(STEP));
    return budget.steps;
  };
  expect(full(large)).toBe(16);
  expect(others.map(full)).toEqual([0, 0, 0]);
  clearLargeBudgets();
  expect([cleared, large.steps]).toEqual([[1, 0, 0, 0], 0]);
  // A third for each of the three that ask; up to three quarters of the pool for the first one.
  expect(others.map(full)).toEqual([12, 4, 0]);
  clearLargeBudgets();
  expect(cleared).toEqual([1, 1, 0, 0]);
  expect(full(others[2]!)).toBe(8);
});

test('of a full pool, each budget gets its share in the end', () => {
  limitMemoPool(100 * STEP);
  const { made } = budgets(5, 100 * STEP);
  for (let round = 0; round < 20; round++) {
    for (const budget of made) for (let n = 0; n < 7 && budget.take(STEP); n++);
    clearLargeBudgets();
  }
  const steps = made.map((budget) => budget.steps);
  for (const own of steps) expect(own).toBeGreaterThanOrEqual(14);
  expect(steps.reduce((a, b) => a + b, 0)).toBeLessThanOrEqual(100);
});

test('a thread that ends returns its memory, however it ends', async () => {
  memoPool();
  const before = memoPoolUse().used;
  const url = new URL('../../../src/inference/explain/memo-pool.ts', import.meta.url).href;
  const code = `
    const { parentPort } = require('node:worker_threads');
    import(${JSON.stringify(url)}).then(({ MemoBudget }) => {
      globalThis.budget = new MemoBudget(1e9, () => {});
      parentPort.postMessage(globalThis.budget.take(${10 * STEP}));
      parentPort.on('message', () => {});
    });`;
  const workers = [1, 2].map(() => new Worker(code, { eval: true }));
  const ids = workers.map(({ threadId }) => threadId);
  await Promise.all(workers.map(async (worker) => expect(await once(worker, 'message')).toEqual([true])));
  expect(memoPoolUse().used).toBe(before + 20 * STEP);
  for (const [i, worker] of workers.entries()) {
    await worker.terminate();
    releaseMemoThread(ids[i]!);
    releaseMemoThread(ids[i]!);
    expect(memoPoolUse().used).toBe(before + (1 - i) * 10 * STEP);
  }
});

checkTest('a service keeps to its limit over all models, and its effects do not depend on it', async () => {
  const { csv } = await thousand();
  const path = (model: string) => `/api/v1/scoring/predict/interpretation.csv?modelId=${model}&delimiter=comma`;
  const answers: string[][] = [];
  for (const bytes of [64 * KIB * KIB, KIB * KIB]) {
    const s = await startService([`explain_memory_bytes=${bytes}`, 'models_max=2']);
    const effects: string[] = [];
    for (const model of ['credit-default', 'credit-columns', 'credit-default']) {
      const answer = await s.call('POST', path(model), { body: csv });
      expect(answer.status, answer.text.slice(0, 300)).toBe(200);
      effects.push(answer.text);
      const text = (await s.call('GET', '/metrics')).text;
      expect(sampleOf(text, 'sluice_explain_memory_limit_bytes')).toBe(bytes);
      expect(sampleOf(text, 'sluice_explain_memory_bytes')).toBeGreaterThan(0);
      expect(sampleOf(text, 'sluice_explain_memory_bytes')).toBeLessThanOrEqual(bytes);
    }
    expect(effects[0]!.split('\n').length).toBeGreaterThan(ROWS / 2);
    answers.push(effects);
    await s.running.stop();
    await expect.poll(() => memoPoolUse().used).toBeLessThan(bytes / 2);
  }
  expect(answers[1]).toEqual(answers[0]);
});
