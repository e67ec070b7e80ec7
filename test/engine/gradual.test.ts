// A run begins with one worker; the others come when so much waits that they are worth their start. No byte depends on it.
import { expect, onTestFinished, test, vi } from 'vitest';
import { generatePortfolio } from '../../src/demo/portfolio.ts';
import { WaitSum } from '../../src/engine/helping-thread.ts';
import { scoreChunks } from '../../src/engine/score-chunks.ts';
import { SpareWorkers } from '../../src/engine/spare-workers.ts';
import { WorkerPool } from '../../src/engine/worker-pool.ts';
import { loadPackage } from '../../src/model/package/load-package.ts';
import type { ModelPackage } from '../../src/model/package/model-package.ts';
import { RunAccount } from '../../src/runs/account.ts';
import { inChunks } from '../support/blocks.ts';
import { controlClock } from '../support/controlled-clock.ts';
import { CREDIT_DEFAULT } from '../support/score.ts';
import fc from '../support/seeded-fast-check.ts';

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

const SERVED = Buffer.concat([...generatePortfolio({ rows: 2000, seed: 5 })]);

/** Scores the same rows as one block, as a request does. Returns the text of the predictions. */
async function request(model: ModelPackage, pool: WorkerPool): Promise<string> {
  const out: Buffer[] = [];
  await scoreChunks({
    account: new RunAccount().unit(),
    model,
    pool,
    chunks: inChunks(SERVED, SERVED.length),
    input: { format: 'delimited', delimiter: ',' },
    output: { format: 'ndjson', delimiter: ',' },
    passthrough: [],
    blockBytes: SERVED.length + 1,
    alone: true,
    write: async (bytes) => void out.push(Buffer.from(bytes)),
    writeRejects: async () => {},
  });
  return Buffer.concat(out).toString();
}

/** Two clients, each of which sends one request at a time until `enough`. */
async function twoClients(send: () => Promise<void>, enough: () => boolean): Promise<void> {
  let ended = false;
  const client = async (): Promise<void> => {
    while (!ended) await send();
  };
  const clients = [client(), client()];
  await expect.poll(enough).toBe(true);
  ended = true;
  await Promise.all(clients);
}

test('a service starts more workers when jobs wait behind others, and not for requests one after another', async () => {
  const model = await loadPackage(CREDIT_DEFAULT);
  const pool = await WorkerPool.start({ model, workers: 3, spare: new SpareWorkers(6) });
  onTestFinished(() => pool.close());
  expect(pool.ready).toBe(1);
  const want = await request(model, pool);
  const send = async () => expect((await request(model, pool)) === want).toBe(true);
  for (let i = 0; i < 60; i++) await send();
  expect(pool.ready).toBe(1);
  await twoClients(send, () => pool.ready === 3);
});

test('pools share the workers beyond their first: one that has had no work for ten seconds gives them up', async () => {
  const clock = controlClock({ runs: true });
  const model = await loadPackage(CREDIT_DEFAULT);
  const spare = new SpareWorkers(1);
  const [a, b] = await Promise.all([0, 1].map(() => WorkerPool.start({ model, workers: 3, spare })));
  onTestFinished(async () => void (await Promise.all([a!.close(), b!.close()])));
  const want = await request(model, a!);
  const sends = (pool: WorkerPool) => async () => {
    expect((await request(model, pool)) === want).toBe(true);
    expect([spare.held <= 1, a!.ready <= 2, b!.ready <= 2]).toEqual([true, true, true]);
  };
  await twoClients(sends(a!), () => a!.ready === 2);
  // The first pool keeps its worker as long as it has work, however often the other asks.
  const asked = vi.spyOn(spare, 'take');
  const both = async () => {
    await sends(b!)();
    await sends(a!)();
  };
  await twoClients(both, () => asked.mock.calls.filter(([pool]) => pool === b).length >= 3);
  expect([a!.ready, b!.ready]).toEqual([2, 1]);
  for (const [idle, busy] of [
    [a!, b!],
    [b!, a!],
    [a!, b!],
  ]) {
    await clock.advance(10_000);
    await twoClients(sends(busy!), () => busy!.ready === 2);
    expect([idle!.ready, spare.held]).toEqual([1, 1]);
  }
  await b!.close();
  expect(spare.held).toBe(0);
  await twoClients(sends(a!), () => a!.ready === 2);
});

test('no more workers than there are, whatever pools take, give up and release', () => {
  const step = fc.record({
    pool: fc.nat(3),
    wanted: fc.nat(4),
    idle: fc.array(fc.nat(3)),
    closes: fc.boolean(),
  });
  fc.assert(
    fc.property(fc.nat(5), fc.array(step, { maxLength: 30 }), (most, steps) => {
      const spare = new SpareWorkers(most);
      let idle: number[] = [];
      const held = [0, 0, 0, 0];
      const holders = held.map((_, i) => ({
        endSpare: () => {
          if (!idle.includes(i) || held[i] === 0) return false;
          held[i]!--;
          return true;
        },
      }));
      for (const { pool, wanted, idle: now, closes } of steps) {
        idle = now;
        const [before, free] = [[...held], most - held.reduce((a, b) => a + b)];
        if (closes) {
          spare.release(holders[pool]!);
          held[pool] = 0;
        } else {
          const given = spare.take(holders[pool]!, wanted);
          const others = before.filter((_, i) => i !== pool && now.includes(i)).reduce((a, b) => a + b, 0);
          expect(given).toBe(Math.min(wanted, free + others));
          held[pool]! += given;
        }
        const sum = held.reduce((a, b) => a + b);
        expect([spare.held, sum <= most]).toEqual([sum, true]);
      }
    }),
  );
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
