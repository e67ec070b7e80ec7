// A busy worker can be ended at any moment: the program goes on.
import { spawn } from 'node:child_process';
import path from 'node:path';
import { setImmediate as turn } from 'node:timers/promises';
import { describe, expect, test } from 'vitest';
import { generatePortfolio } from '../../src/demo/portfolio.ts';
import { scoreChunks } from '../../src/engine/score-chunks.ts';
import { workerProcessUsage } from '../../src/engine/worker-link.ts';
import { WorkerPool } from '../../src/engine/worker-pool.ts';
import { loadPackage } from '../../src/model/package/load-package.ts';
import { RunAccount } from '../../src/runs/account.ts';
import { inChunks } from '../support/blocks.ts';
import { CREDIT_DEFAULT } from '../support/score.ts';
import { campaignTest, checkTest, SEED, times } from '../support/tiers.ts';

const ENDS = times('ends', { quick: 3, check: 3, campaigns: 1000 });

describe.each(['auto', 'onnxruntime'])('evaluator %s', (engine) => {
  checkTest(`${ENDS} ends of a busy worker abort nothing`, async () => {
    const child = spawn(process.execPath, [path.resolve('test/support/end-busy.ts'), CREDIT_DEFAULT, engine, String(ENDS), String(SEED)]); // biome-ignore format: one line
    const said: string[] = [];
    for (const stream of [child.stdout, child.stderr]) stream.setEncoding('utf8').on('data', (text) => said.push(text));
    const [code, signal] = await new Promise<[number | null, string | null]>((resolve) =>
      child.on('close', (c, s) => resolve([c, s])),
    );
    expect([code, signal, said.join('')]).toEqual([
      0,
      null,
      expect.stringContaining(' ends, ONNX Runtime loaded: false'),
    ]);
  });
});

/** A model asked some 20,000 times a row: seconds of work for every fifty rows. */
const SAMPLED = { explain: { method: 'sampling' as const, space: 'probability' as const } };

async function sampledPool(engine: 'auto' | 'onnxruntime', jobTimeoutMs: number) {
  const loaded = await loadPackage(CREDIT_DEFAULT);
  const model = {
    ...loaded,
    manifest: { ...loaded.manifest, explain: { ...loaded.manifest.explain, ...SAMPLED.explain } },
  };
  const deaths: string[] = [];
  const pool = await WorkerPool.start(
    { model, engine, workers: 1, jobTimeoutMs },
    { onWorkerDeath: (r) => deaths.push(r) },
  );
  const score = (rows: number, signal?: AbortSignal) =>
    scoreChunks({
      account: new RunAccount().unit(),
      model,
      pool,
      chunks: inChunks(Buffer.concat([...generatePortfolio({ rows, seed: 3 })]), 65_536),
      input: { format: 'delimited', delimiter: ',' },
      output: { format: 'csv', delimiter: ',' },
      passthrough: [],
      interpretation: { effects: true, reasons: true, top: null, below: null },
      write: async () => {},
      ...(signal ? { signal } : {}),
    });
  return { pool, score, deaths };
}

describe.each(['auto', 'onnxruntime'] as const)('sampled interpretation, evaluator %s', (engine) => {
  checkTest('a client that leaves frees its worker, which goes on living', async () => {
    const { pool, score, deaths } = await sampledPool(engine, 120_000);
    await score(2);
    const before = process.cpuUsage();
    const stop = new AbortController();
    // Minutes of work, of which the next request would have to wait for all.
    const left = score(20_000, stop.signal);
    await turn();
    // The worker computes for as long as this takes.
    await expect.poll(() => process.cpuUsage(before).user).toBeGreaterThan(100_000);
    stop.abort();
    await expect(left).rejects.toMatchObject({ code: 'cancelled' });
    expect((await score(2)).scored).toBe(2);
    expect(deaths).toEqual([]);
    const { user, system } = process.cpuUsage(before);
    expect((user + system) / 1e6).toBeLessThan(60);
    await pool.close();
  });

  const once = engine === 'auto' ? checkTest : campaignTest;
  once('a block that takes longer than the time limit of a job is no stuck one while it comes on', async () => {
    const few = 20;
    const first = await sampledPool(engine, 120_000);
    await first.score(few);
    const began = performance.now();
    await first.score(few);
    const took = performance.now() - began;
    await first.pool.close();
    // The limit is that of 60 rows, but no less than some messages of progress are apart; the block goes beyond it.
    const { pool, score, deaths } = await sampledPool(engine, Math.max(5000, 3 * took));
    const rows = few * Math.ceil(Math.max(8, 7500 / took));
    expect((await score(rows)).scored).toBeGreaterThan(0.9 * rows);
    expect(deaths).toEqual([]);
    await pool.close();
  });
});

test('a pool whose start is given up ends at once', async () => {
  const model = await loadPackage(CREDIT_DEFAULT);
  const stop = new AbortController();
  const pool = WorkerPool.start({ model, workers: 2, engine: 'onnxruntime' }, {}, stop.signal);
  stop.abort();
  await expect(pool).rejects.toMatchObject({ code: 'cancelled' });
});

checkTest('what a worker process took is known when it has ended', async () => {
  const before = { ...workerProcessUsage() };
  const pool = await WorkerPool.start({ model: await loadPackage(CREDIT_DEFAULT), workers: 2, engine: 'onnxruntime' });
  await pool.close();
  const { cpuSeconds, peakBytes } = workerProcessUsage();
  expect(cpuSeconds - before.cpuSeconds).toBeGreaterThan(0.1);
  expect(peakBytes - before.peakBytes).toBeGreaterThan(80e6);
});
