// The thread that has a pool is one of its workers where that is worth it. No byte depends on who scores a block.
import { afterEach, expect, onTestFinished, test, vi } from 'vitest';
import { InlineScorer } from '../../src/engine/inline-scorer.ts';
import { type PoolOptions, WorkerPool } from '../../src/engine/worker-pool.ts';
import { loadPackage } from '../../src/model/package/load-package.ts';
import { scoredBy } from '../support/pooled.ts';
import { CREDIT_DEFAULT } from '../support/score.ts';

afterEach(() => void vi.restoreAllMocks());

const HELPED = { workers: 2, gradual: () => Infinity, helps: true };

async function start(options: Omit<PoolOptions, 'model'>) {
  const model = await loadPackage(CREDIT_DEFAULT);
  const pool = await WorkerPool.start({ model, ...options });
  onTestFinished(() => pool.close());
  const score = (rows: number, interpreted = false) => scoredBy({ model, pool, rows, blockBytes: 16_384, interpreted });
  return { pool, score };
}

test('it takes blocks that wait, instead of a second worker; the answers are those of workers', async () => {
  const helped = await start(HELPED);
  const workers = await start({ workers: 2 });
  const here = vi.spyOn(InlineScorer.prototype, 'scoreAll');
  const taken = () => here.mock.results.filter(({ value }) => value !== null).length;
  // Who is how fast is the machine's affair: it goes on until the thread has helped.
  while (taken() < 20) expect(await helped.score(20_000)).toEqual(await workers.score(20_000));
  expect(helped.pool.ready).toBe(2);
});

test('what it cannot score is for a worker, once', async () => {
  const helped = await start(HELPED);
  const workers = await start({ workers: 2 });
  const here = vi.spyOn(InlineScorer.prototype, 'scoreAll').mockReturnValue(null);
  while (here.mock.calls.length < 5) expect(await helped.score(20_000)).toEqual(await workers.score(20_000));
  const blocks = here.mock.calls.map(([, { firstRow, firstByte }]) => `${firstRow} ${firstByte}`);
  expect(new Set(blocks.slice(0, 5)).size).toBe(5);
});

test('two blocks in a row that take long are its last, and the second worker starts', async () => {
  const helped = await start(HELPED);
  const workers = await start({ workers: 2 });
  const { scoreAll } = InlineScorer.prototype;
  const here = vi.spyOn(InlineScorer.prototype, 'scoreAll').mockImplementation(function (this: InlineScorer, ...args) {
    const part = scoreAll.apply(this, args);
    // The first and the third, which counts for nothing, and all after the fourth.
    return part && { ...part, workMs: [2, 4].includes(here.mock.calls.length) ? 1 : 1000 };
  });
  while (here.mock.calls.length < 6) expect(await helped.score(20_000)).toEqual(await workers.score(20_000));
  expect(await helped.score(20_000)).toEqual(await workers.score(20_000));
  expect(here).toHaveBeenCalledTimes(6);
  while (helped.pool.ready < 2) await helped.score(20_000);
});

test('effects are for workers', async () => {
  const helped = await start(HELPED);
  const workers = await start({ workers: 2 });
  const here = vi.spyOn(InlineScorer.prototype, 'scoreAll');
  expect(await helped.score(300, true)).toEqual(await workers.score(300, true));
  expect(here).not.toHaveBeenCalled();
});

test('where little is left it does not get ready', async () => {
  const helped = await start({ ...HELPED, gradual: () => 100 });
  const open = vi.spyOn(InlineScorer, 'open');
  await helped.score(20_000);
  expect(open).not.toHaveBeenCalled();
  expect(helped.pool.ready).toBe(1);
});
