// Little input is scored without workers: the same bytes come out, and workers start with the first block that needs one.
import { expect, onTestFinished, test } from 'vitest';
import { WorkerPool } from '../../src/engine/worker-pool.ts';
import { loadPackage } from '../../src/model/package/load-package.ts';
import { scoredBy } from '../support/pooled.ts';
import { CREDIT_DEFAULT } from '../support/score.ts';

const NOWHERE = new URL('file:///nowhere/worker.js');

async function start(few: boolean, entry?: URL) {
  const model = await loadPackage(CREDIT_DEFAULT);
  const pool = await WorkerPool.start({ model, workers: 2, few, ...(entry ? { entry } : {}) });
  onTestFinished(() => pool.close());
  const score = (rows: number, blockBytes: number) => scoredBy({ model, pool, rows, blockBytes });
  return { pool, score };
}

test('a small input needs no worker, and its answers are those of workers', async () => {
  const few = await start(true, NOWHERE);
  const workers = await start(false);
  expect([few.pool.ready, few.pool.evaluator]).toEqual([2, workers.pool.evaluator]);
  const answer = await few.score(1500, 256 * 1024);
  expect(answer).toEqual(await workers.score(1500, 256 * 1024));
  expect([answer.rows, Object.keys(answer.rejected).length]).toEqual([1500, expect.any(Number)]);
  expect(answer.rejects.join('')).not.toBe('');
});

test('more blocks than a few are for workers, which start then', async () => {
  const few = await start(true);
  const workers = await start(false);
  expect(await few.score(1500, 8 * 1024)).toEqual(await workers.score(1500, 8 * 1024));
  expect(await few.score(6000, 512 * 1024)).toEqual(await workers.score(6000, 512 * 1024));
});

test('workers that do not start then end the run with the reason', async () => {
  const few = await start(true, NOWHERE);
  await expect(few.score(1500, 8 * 1024)).rejects.toMatchObject({ code: 'worker_failed' });
});
