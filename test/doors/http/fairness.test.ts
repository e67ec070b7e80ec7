// No client stops the others: slots, turns, quotas, folders and the process itself.
import { readdirSync, renameSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { expect, onTestFinished, test, vi } from 'vitest';
import { loadConfig } from '../../../src/config/load-config.ts';
import { ServerConfigSchema } from '../../../src/config/server-config.ts';
import { generatePortfolio } from '../../../src/demo/portfolio.ts';
import { createKey } from '../../../src/doors/commands/keys.ts';
import type { Job } from '../../../src/doors/http/jobs/job-store.ts';
import { lockFolder } from '../../../src/doors/http/jobs/open-jobs.ts';
import { nextOf } from '../../../src/doors/http/jobs/sqlite-jobs.ts';
import { serve } from '../../../src/doors/http/service.ts';
import { Admission, type Admitted } from '../../../src/doors/http/wire/admission.ts';
import { devCertificate } from '../../../src/doors/http/wire/listener.ts';
import { type JobBlock, JobQueue, type JobStream } from '../../../src/engine/job-queue.ts';
import type { StreamSpec } from '../../../src/engine/protocol.ts';
import { scratch, sluiceHere } from '../../support/cli.ts';
import fc from '../../support/seeded-fast-check.ts';
import { call, openUpload, predictUrl, REGISTRY, startService } from '../../support/service.ts';
import { checkTest, TIER } from '../../support/tiers.ts';
import { until } from '../../support/until.ts';

const portfolio = (rows: number): string =>
  Buffer.concat([...generatePortfolio({ rows, seed: 37, delimiter: '\t', oddness: 'none' })]).toString();
const PLENTY = { requests_per_second_per_key: 1e9, concurrent_requests_per_key: 1e9, queued_requests: 1e9 };

/** A service with keys of three owners. */
async function withKeys(settings: string[] = []) {
  const folder = scratch();
  const file = path.join(folder, 'keys.yaml');
  const { cert, key } = await devCertificate();
  writeFileSync(path.join(folder, 'tls.crt'), cert);
  writeFileSync(path.join(folder, 'tls.key'), key);
  const tokens: string[] = [];
  for (const name of ['one', 'two', 'three'])
    tokens.push(await createKey(name, { file, scopes: 'predict,interpret,jobs,metrics' }));
  const config = await loadConfig(ServerConfigSchema, {
    settings: [
      'listen.port=0',
      'listen.host=127.0.0.1',
      'workers=1',
      'preload=["credit-default"]',
      `keys_file=${file}`,
      `tls.certificate=${folder}/tls.crt`,
      `tls.key=${folder}/tls.key`,
      `jobs.folder=${folder}/jobs`,
      `spill.folder=${folder}`,
      ...settings,
    ],
  });
  const running = await serve({ config, registry: REGISTRY });
  onTestFinished(() => running.stop());
  return { port: Number(new URL(running.url).port), tokens, folder };
}

/** Sends a head and some bytes of a body, and then nothing. */
function idleUpload(port: number, token: string, bytes: string, headers: Record<string, string> = {}): void {
  const request = openUpload(port, { authorization: token, 'content-length': '1000000', ...headers });
  request.on('error', () => {});
  onTestFinished(() => {
    request.destroy();
  });
  request.flushHeaders();
  if (bytes !== '') request.write(bytes);
}

const IDLE: [string, string, Record<string, string>][] = [
  ['that sent nothing', '', {}],
  ['that stopped in the middle', portfolio(20), {}],
  ['of jobs that sent nothing', '', { prefer: 'respond-async' }],
  ['of jobs that stopped in the middle', portfolio(20), { prefer: 'respond-async' }],
];
/** Both ways of stopping, and both kinds of uploads. */
const IDLE_TRIED = { quick: IDLE.slice(1, 2), check: [IDLE[0]!, IDLE[3]!], campaigns: IDLE }[TIER];
test.each(IDLE_TRIED)('64 uploads of two keys %s keep nobody waiting', async (_, bytes, headers) => {
  const { port, tokens } = await withKeys();
  for (let i = 0; i < 32; i++) for (const token of tokens.slice(0, 2)) idleUpload(port, token, bytes, headers);
  const body = portfolio(3);
  const ask = (token: string) => call(port, token, 'POST', predictUrl('csv'), { body });
  // All of them are there when their keys may have no more.
  for (const token of tokens.slice(0, 2)) {
    await expect.poll(async () => (await ask(token)).json?.limit).toBe('concurrent_requests_per_key');
  }
  const since = performance.now();
  // Answered, though none of the others will ever be.
  for (let i = 0; i < 5; i++) expect((await ask(tokens[2]!)).status).toBe(200);
  console.log(`five requests of a third key: ${(performance.now() - since).toFixed(0)} ms`);
});

test('slots go to keys in turn, each in its order; an idle holder gives way and comes first again', async () => {
  const admission = new Admission({ ...PLENTY, concurrent_requests: 1 });
  const order: string[] = [];
  const signal = new AbortController().signal;
  const done = new Map<string, Admitted>();
  const enter = async (key: string, name: string) => {
    const place = admission.enter(key);
    await place.begin(signal);
    order.push(name);
    done.set(name, place);
  };
  await enter('a', 'a1');
  const rest = ['a2', 'a3', 'b1', 'c1', 'a4', 'b2'].map((name) => enter(name[0]!, name));
  for (const name of ['a1', 'a2', 'b1', 'c1', 'a3', 'b2']) {
    await until(() => done.has(name));
    done.get(name)!.leave();
  }
  await Promise.all(rest);
  expect(order).toEqual(['a1', 'a2', 'b1', 'c1', 'a3', 'b2', 'a4']);
  const holder = done.get('a4')!;
  const client = Promise.withResolvers<void>();
  const idle = holder.idle(() => client.promise).then(() => order.push('a4 again'));
  await enter('b', 'b3');
  const late = enter('a', 'a5');
  client.resolve();
  await new Promise((resolve) => setImmediate(resolve));
  expect(order.at(-1)).toBe('b3');
  done.get('b3')!.leave();
  await idle;
  holder.leave();
  await late;
  expect(order.slice(-3)).toEqual(['b3', 'a4 again', 'a5']);
  done.get('a5')!.leave();
  expect([admission.inside, admission.waiting]).toEqual([0, 0]);
});

test('whatever comes, waits, goes idle and leaves: never more at work than may, and nobody is forgotten', async () => {
  const step = fc.record({ key: fc.constantFrom('a', 'b', 'c'), idle: fc.nat(3), abort: fc.boolean(), work: fc.nat(3) });
  await fc.assert(
    fc.asyncProperty(fc.array(step, { maxLength: 40 }), fc.integer({ min: 1, max: 4 }), async (steps, slots) => {
      const admission = new Admission({ ...PLENTY, concurrent_requests: slots });
      let working = 0;
      const turn = () => new Promise((resolve) => setImmediate(resolve));
      const work = async (n: number) => {
        working++;
        expect(working).toBeLessThanOrEqual(slots);
        for (let i = 0; i < n; i++) await turn();
        working--;
      };
      await Promise.all(
        steps.map(async ({ key, idle, abort, work: n }) => {
          const gone = new AbortController();
          const place = admission.enter(key);
          if (abort) setImmediate(() => gone.abort(new Error('gone')));
          try {
            await place.begin(gone.signal);
            await work(n);
            for (let i = 0; i < idle; i++) {
              // Body and answer may wait for the client at the same time.
              const waits = Array.from({ length: 1 + (i % 2) }, (_, w) => place.idle(async () => {
                for (let t = 0; t <= w; t++) await turn();
              }));
              await Promise.all(waits);
              await work(n);
            }
          } catch (error) {
            if (!gone.signal.aborted) throw error;
          } finally {
            place.leave();
          }
        }),
      );
      expect([admission.inside, admission.waiting]).toEqual([0, 0]);
    }),
    { numRuns: 60 },
  );
}); // biome-ignore format: one property

checkTest('a quota is that of one key, and a result counts while it grows', async () => {
  const { port, tokens, folder } = await withKeys(['jobs.max_jobs=2', 'jobs.max_bytes=300000']);
  const submit = (token: string, rows: number) =>
    call(port, token, 'POST', predictUrl('csv'), { body: portfolio(rows), headers: { prefer: 'respond-async' } });
  expect((await submit(tokens[0]!, 3000)).json).toMatchObject({ code: 'limit_exceeded', limit: 'jobs.max_bytes' });
  // Some 190 kB, and a result of some 60 kB: a second one does not fit beside it.
  const first = await submit(tokens[0]!, 2000);
  const location = first.headers.location as string;
  const state = async () => (await call(port, tokens[0]!, 'GET', location)).json;
  await until(async () => !['queued', 'running'].includes((await state()).state));
  expect(first.status).toBe(201);
  for (let i = 0; i < 2; i++) expect((await submit(tokens[1]!, 5)).status).toBe(201);
  expect((await submit(tokens[1]!, 5)).json).toMatchObject({ code: 'limit_exceeded', limit: 'jobs.max_jobs' });
  expect((await submit(tokens[2]!, 5)).status).toBe(201);
  // Effects make a result that is many times as large as its upload.
  const wide = await call(port, tokens[2]!, 'POST', predictUrl('csv').replace('.csv', '/interpretation.csv'), {
    body: portfolio(2000),
    headers: { prefer: 'respond-async' },
  });
  expect(wide.status).toBe(201);
  const failed = await until(async () => {
    const { json } = await call(port, tokens[2]!, 'GET', wide.headers.location as string);
    return ['queued', 'running'].includes(json.state) ? null : json;
  });
  expect(failed).toMatchObject({ state: 'failed', error: { code: 'limit_exceeded' } });
  expect(readdirSync(path.join(folder, 'jobs')).filter((f) => f.includes(failed.id))).toEqual([]);
});

test('a short job of one key is done while most rows of a long job of another are left', async () => {
  const { port, tokens } = await withKeys();
  const [one, two] = tokens as [string, string];
  const ROWS = 2000;
  const submit = async (token: string, rows: number) => {
    const url = `/api/v1/scoring/predict/interpretation.csv?modelId=credit-default&interactions=20`;
    const job = await call(port, token, 'POST', url, { body: portfolio(rows), headers: { prefer: 'respond-async' } });
    expect(job.status).toBe(201);
    return async () => (await call(port, token, 'GET', String(job.headers.location))).json;
  };
  const long = await submit(one, ROWS);
  await expect.poll(async () => (await long()).state).toBe('running');
  // Of the same key: it waits until the long one is done.
  const behind = await submit(one, 3);
  const short = await submit(two, 3);
  await expect.poll(async () => (await short()).state).toBe('done');
  const meanwhile = await long();
  expect(meanwhile.state).toBe('running');
  expect(meanwhile.summary.rows).toBeLessThan(ROWS / 2);
  expect((await behind()).state).toBe('queued');
});

test('at the workers owners take turns, however many streams each has', () => {
  const queue = new JobQueue();
  const stream = (owner?: string): JobStream => ({
    kind: { id: 1, spec: { output: { interpretation: null } } as StreamSpec, users: 1, rowMs: null },
    ...{ queue: [], poisonRows: 0, closed: false, owner },
  });
  const named = (firstRow: number): JobBlock => ({
    ...{
      slab: new SharedArrayBuffer(0),
      spans: new Int32Array(0),
      faults: new Uint8Array(1),
      lines: new Int32Array(1),
    },
    ...{ firstRow, firstByte: 0 },
  });
  const streams = [stream('a'), stream('a'), stream('a'), stream('b'), stream()];
  for (const [i, s] of streams.entries()) for (const k of [0, 1]) void queue.add(s, named(10 * i + k));
  const order: number[] = [];
  while (!queue.empty) {
    const job = queue.take();
    order.push(job.block.firstRow);
  }
  expect(order).toEqual([0, 30, 40, 10, 31, 41, 20, 1, 11, 21]);
});

test('jobs of several keys take turns', () => {
  const job = (owner: string, id: string) => ({ owner, id }) as Job;
  const queue = ['a1', 'a2', 'a3', 'b1', 'c1', 'b2'].map((id) => job(id[0]!, id));
  const started = new Map<string, number>();
  const order: string[] = [];
  for (let left = queue; left.length > 0; ) {
    const next = nextOf(left, [], started)!;
    order.push(next.id);
    started.set(next.owner, order.length);
    left = left.filter((j) => j !== next);
  }
  expect(order).toEqual(['a1', 'b1', 'c1', 'a2', 'b2', 'a3']);
  expect(nextOf(queue, ['a', 'b'], new Map())?.id).toBe('c1');
  expect(nextOf([], [], started)).toBeNull();
});

test('two servers on one jobs folder: the second waits, takes over when the first is gone, or says so', async () => {
  const folder = scratch();
  const first = await startService([], folder);
  const refused = await startService(['jobs.lock_wait_ms=0'], folder).catch((error) => error);
  expect(refused).toMatchObject({ code: 'folder_in_use' });
  expect((await first.call('GET', '/livez')).status).toBe(200);
  const waiting = Promise.withResolvers<void>();
  const second = lockFolder(path.join(folder, 'jobs'), 600_000, waiting.resolve);
  await waiting.promise;
  await first.running.stop();
  (await second)();
  expect((await (await startService(['jobs.lock_wait_ms=0'], folder)).call('GET', '/readyz')).status).toBe(200);
});

test('folders of the settings are made and tried at the start', async () => {
  const folder = scratch();
  writeFileSync(path.join(folder, 'file'), '');
  for (const setting of ['spill.folder', 'jobs.folder']) {
    for (const place of [`${folder}/file/below`, '/proc/below', '/proc/below/it', '/dev/null/x']) {
      const error = await startService([`${setting}=${place}`]).catch((e) => e);
      expect(error).toMatchObject({ code: 'folder_unusable', message: expect.stringContaining(setting) });
    }
  }
  const started = await sluiceHere(['serve', '--dev', '--port', '0', '--set', `jobs.folder=${folder}/file/below`]);
  expect([started.code, started.stderr]).toEqual([2, expect.stringMatching(/jobs\.folder: .* \[folder_unusable\]/)]);
  const s = await startService([`spill.folder=${folder}/new/spill`, `jobs.folder=${folder}/new/jobs`]);
  const body = portfolio(12_000);
  const reply = await s.call('POST', predictUrl('csv'), { body, headers: { via: '1.0 x' } });
  expect([reply.status, reply.text.trimEnd().split('\n').length]).toEqual([200, 12_001]);
  expect(readdirSync(path.join(folder, 'new', 'spill'))).toEqual([]);
});

test('a jobs folder that cannot be listed is told and counted, and the service goes on', async () => {
  vi.useFakeTimers({ toFake: ['setInterval'] });
  onTestFinished(() => {
    vi.useRealTimers();
  });
  const s = await startService();
  renameSync(path.join(s.folder, 'jobs'), path.join(s.folder, 'away'));
  vi.advanceTimersByTime(61_000);
  await expect
    .poll(async () => (await s.call('GET', '/metrics')).text)
    .toMatch(/sluice_background_failures_total\{task="sweeping the jobs"\} 1/);
  renameSync(path.join(s.folder, 'away'), path.join(s.folder, 'jobs'));
  expect((await s.call('POST', predictUrl('csv'), { body: portfolio(3) })).status).toBe(200);
});
