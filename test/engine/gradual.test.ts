// A run begins with one worker; the others come when so much waits that they are worth their start. No byte depends on it.
import { expect, onTestFinished, test, vi } from 'vitest';
import { generatePortfolio } from '../../src/demo/portfolio.ts';
import { WaitSum } from '../../src/engine/helping-thread.ts';
import { scoreChunks } from '../../src/engine/score-chunks.ts';
import { WorkerPool } from '../../src/engine/worker-pool.ts';
import { loadPackage } from '../../src/model/package/load-package.ts';
import { RunAccount } from '../../src/runs/account.ts';
import { inChunks } from '../support/blocks.ts';
import { CREDIT_DEFAULT } from '../support/score.ts';

const NEVER_READY = new URL('data:text/javascript,setInterval(()=>{},1000)');

async function scored(gradual: (() => number) | null, rows: number) {
  const model = await loadPackage(CREDIT_DEFAULT);
  const pool = await WorkerPool.start({ model, workers: 3, gradual });
  onTestFinished(() => pool.close());
  const first = pool.ready;
  const out: Buffer[] = [];
  await scoreChunks({
    account: new RunAccount().unit(),
    model,
    pool,
    chunks: inChunks(Buffer.concat([...generatePortfolio({ rows, seed: 5 })]), 65_536),
    input: { format: 'delimited', delimiter: ',' },
    output: { format: 'ndjson', delimiter: ',' },
    passthrough: [],
    blockBytes: 16_384,
    alone: true,
    write: async (bytes) => void out.push(Buffer.from(bytes)),
    writeRejects: async () => {},
  });
  return { pool, first, text: Buffer.concat(out).toString() };
}

test('a run of which little is left keeps its one worker, and writes what three write', async () => {
  const alone = await scored(() => 0, 20_000);
  const all = await scored(null, 20_000);
  expect([alone.first, alone.pool.ready, all.first]).toEqual([1, 1, 3]);
  expect(alone.text === all.text).toBe(true);
});

test('while jobs wait it is asked again and again whether much is left, and then the others start', async () => {
  let asked = 0;
  const model = await loadPackage(CREDIT_DEFAULT);
  const pool = await WorkerPool.start({ model, workers: 3, gradual: () => (++asked === 2 ? Infinity : 0) });
  onTestFinished(() => pool.close());
  const text = Buffer.concat([...generatePortfolio({ rows: 2000, seed: 5 })]);
  // Without an end: jobs always wait.
  const stop = new AbortController();
  const endless = async function* () {
    for await (const chunk of inChunks(text, 65_536)) yield chunk;
    const rows = text.subarray(text.indexOf(10) + 1);
    while (!stop.signal.aborted) yield* inChunks(rows, 65_536);
  };
  const run = scoreChunks({
    account: new RunAccount().unit(),
    model,
    pool,
    chunks: endless(),
    input: { format: 'delimited', delimiter: ',' },
    output: { format: 'ndjson', delimiter: ',' },
    passthrough: [],
    blockBytes: 16_384,
    alone: true,
    write: async () => {},
    writeRejects: async () => {},
  });
  await expect.poll(() => pool.ready).toBe(3);
  stop.abort();
  await run;
  expect([asked, pool.ready]).toEqual([2, 3]);
});

test('a service starts more workers when jobs wait behind others, and not for requests one after another', async () => {
  const model = await loadPackage(CREDIT_DEFAULT);
  const pool = await WorkerPool.start({ model, workers: 3, onDemand: true });
  onTestFinished(() => pool.close());
  const text = Buffer.concat([...generatePortfolio({ rows: 2000, seed: 5 })]);
  const request = async (): Promise<string> => {
    const out: Buffer[] = [];
    await scoreChunks({
      account: new RunAccount().unit(),
      model,
      pool,
      chunks: inChunks(text, text.length),
      input: { format: 'delimited', delimiter: ',' },
      output: { format: 'ndjson', delimiter: ',' },
      passthrough: [],
      blockBytes: text.length + 1,
      alone: true,
      write: async (bytes) => void out.push(Buffer.from(bytes)),
      writeRejects: async () => {},
    });
    return Buffer.concat(out).toString();
  };
  expect(pool.ready).toBe(1);
  const want = await request();
  for (let i = 0; i < 60; i++) expect((await request()) === want).toBe(true);
  expect(pool.ready).toBe(1);
  // Two clients, each of which sends one request at a time.
  let ended = false;
  const client = async (): Promise<void> => {
    while (!ended) expect((await request()) === want).toBe(true);
  };
  const clients = [client(), client()];
  await expect.poll(() => pool.ready).toBe(3);
  ended = true;
  await Promise.all(clients);
});

test('a pool that is closed before its worker is ready starts no others', async () => {
  const model = await loadPackage(CREDIT_DEFAULT);
  const asked: number[] = [];
  const ended = new AbortController();
  const options = { model, workers: 2, entry: NEVER_READY, gradual: () => asked.push(1) * 10_000 };
  const starting = WorkerPool.start(options, {}, ended.signal);
  ended.abort();
  await expect(starting).rejects.toMatchObject({ code: 'cancelled' });
  expect(asked).toEqual([]);
});

test('waiting is summed up over its interruptions, and asked about each time it was long again', () => {
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'performance'] });
  onTestFinished(() => void vi.useRealTimers());
  const asked: number[] = [];
  const sum = new WaitSum(() => asked.push(performance.now()) === 3, 30);
  const began = performance.now();
  const steps: [ms: number, waits: boolean][] = [
    [10, true],
    [50, false],
    [19, true],
    [7, false],
    // 29 ms: the next has 1 ms to go, and is asked about while it goes on.
    [100, true],
    [5, false],
    [200, true],
  ];
  for (const [ms, waits] of steps) {
    sum.waits(waits);
    vi.advanceTimersByTime(ms);
  }
  // 10 + 19 + 1, then 30 ms later, then 30 ms later; the third time was the last.
  expect(asked.map((at) => at - began)).toEqual([87, 117, 147]);
});
