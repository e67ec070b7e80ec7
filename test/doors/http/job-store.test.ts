// What every table of jobs has to do: the same cases for the embedded one and for the one that servers share.
import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest';
import type { JobEnd, JobStore, NewJob } from '../../../src/doors/http/jobs/job-store.ts';
import { PostgresJobs } from '../../../src/doors/http/jobs/postgres-jobs.ts';
import { SqliteJobs } from '../../../src/doors/http/jobs/sqlite-jobs.ts';
import { scratch } from '../../support/cli.ts';
import { controlClock } from '../../support/controlled-clock.ts';
import { passTime } from '../../support/postgres/pass-time.ts';
import { requirePostgres } from '../../support/postgres/require.ts';
import { type PostgresServer, startPostgres } from '../../support/postgres/server.ts';
import { openTimed, type Timed } from '../../support/timed-store.ts';

const DONE: JobEnd = {
  state: 'done',
  rows: 3,
  scored: 2,
  rejected: 1,
  bytesRead: 9,
  resultBytes: 70,
  packageSha256: 'ab',
};

const newJob = (change: Partial<NewJob> = {}): NewJob => ({
  id: randomUUID(),
  owner: 'night',
  idempotencyKey: null,
  format: 'csv',
  query: { modelId: 'm:1', passthrough: 'id,"x"' },
  fingerprint: '["csv"]',
  bodySha256: 'cd',
  requestId: 'r',
  trace: null,
  pipeline: null,
  target: null,
  uploadBytes: 9,
  ...change,
});

async function queue(store: JobStore, change: Partial<NewJob> = {}): Promise<string> {
  const job = newJob(change);
  await store.reserve(job.id, job.owner);
  expect(await store.enqueue(job)).toBe('queued');
  return job.id;
}

const claimed = async (store: JobStore, pipelines: string[] = []) => (await store.claim(pipelines, true))?.job ?? null;

function contract(open: () => Timed<JobStore>): void {
  const timed = () => openTimed(open);
  const opened = async () => timed().store;

  test('jobs of busy owners are left alone, those of others are claimed', async () => {
    const store = await opened();
    const first = await queue(store);
    const second = await queue(store, { owner: 'day' });
    expect((await store.claim([], true, ['night']))?.job.id).toBe(second);
    expect(await store.claim([], true, ['night', 'day'])).toBeNull();
    expect((await store.claim([], true, ['day']))?.job.id).toBe(first);
  });

  test('what was queued comes back as it was, and is claimed once', async () => {
    const store = await opened();
    const before = Date.now();
    const made = newJob({ idempotencyKey: 'k', trace: '00-aa-bb-01', pipeline: 'p', target: 'topic t' });
    await store.reserve(made.id, made.owner);
    expect(await store.get(made.id)).toBeNull();
    expect(await store.enqueue(made)).toBe('queued');
    const job = (await store.get(made.id))!;
    expect(job).toMatchObject({
      ...made,
      state: 'queued',
      epoch: 0,
      crashes: 0,
      rows: 0,
      resultBytes: 0,
      finished: null,
    });
    expect(Math.abs(job.created - before)).toBeLessThan(60_000);
    expect(await store.byIdempotencyKey('night', 'k')).toEqual(job);
    expect(await store.byIdempotencyKey('day', 'k')).toBeNull();
    expect(await store.claim([], true)).toBeNull();
    expect(await store.claim(['p'], true)).toEqual({
      job: { ...job, state: 'running', epoch: 1 },
      takenOver: false,
      cancelled: false,
    });
    expect(await store.claim(['p'], true)).toBeNull();
    expect(await store.counts()).toEqual({ queued: 0, running: 1, done: 0, failed: 0, cancelled: 0 });
  });

  test('an Idempotency-Key is of one job of its owner', async () => {
    const store = await opened();
    const id = await queue(store, { idempotencyKey: 'k' });
    const again = newJob({ idempotencyKey: 'k' });
    await store.reserve(again.id, again.owner);
    expect(await store.enqueue(again)).toBe('key_taken');
    await store.drop(again.id);
    expect(await store.enqueue(again)).toBe('lost');
    expect((await store.byIdempotencyKey('night', 'k'))?.id).toBe(id);
    await queue(store, { idempotencyKey: 'k', owner: 'day' });
  });

  test('it counts from its reservation on, and what is written for it', async () => {
    const store = await opened();
    expect(await store.kept('night')).toEqual({ jobs: 0, bytes: 0 });
    const job = newJob();
    await store.reserve(job.id, job.owner);
    expect(await store.grow({ id: job.id, epoch: 0 }, 500)).toBe(true);
    expect(await store.kept('night')).toEqual({ jobs: 1, bytes: 500 });
    expect(await store.kept('day')).toEqual({ jobs: 0, bytes: 0 });
    await store.enqueue(job);
    expect(await store.grow({ id: job.id, epoch: 0 }, 500)).toBe(false);
    expect(await store.kept('night')).toEqual({ jobs: 1, bytes: 9 });
    const held = (await claimed(store))!;
    expect(await store.grow(held, 40)).toBe(true);
    expect((await store.kept('night')).bytes).toBe(49);
    expect(await store.finish(held, DONE)).toBe(true);
    expect((await store.kept('night')).bytes).toBe(70);
    expect(await store.grow(held, 4000)).toBe(false);
    await store.remove(job.id);
    expect(await store.kept('night')).toEqual({ jobs: 0, bytes: 0 });
  });

  test('how it ended, and nothing after that', async () => {
    const store = await opened();
    const ends: JobEnd[] = [
      DONE,
      { state: 'failed', errorCode: 'header_mismatch', errorMessage: 'no' },
      { state: 'cancelled' },
    ];
    for (const end of ends) {
      const id = await queue(store);
      const held = (await claimed(store))!;
      expect(await store.progress(held, { rows: 1, scored: 1, rejected: 0, bytesRead: 4 })).toBe(true);
      expect(await store.get(id)).toMatchObject({ state: 'running', rows: 1, bytesRead: 4 });
      expect(await store.finish(held, end)).toBe(true);
      expect(await store.get(id)).toMatchObject({ ...end, uploadBytes: 0, finished: expect.any(Number) });
      for (const late of ends) expect(await store.finish(held, late)).toBe(false);
      expect(await store.progress(held, { rows: 9, scored: 9, rejected: 0, bytesRead: 9 })).toBe(false);
      expect(await store.putBack(held, 0, null)).toBe(false);
      expect(await store.cancel(id)).toBeNull();
      expect(await store.get(id)).toMatchObject(end);
    }
  });

  test('whoever has an earlier epoch changes nothing', async () => {
    const store = await opened();
    const id = await queue(store);
    const first = (await claimed(store))!;
    expect(await store.putBack(first, 0, { errorCode: 'kafka_unreachable', errorMessage: 'away' })).toBe(true);
    expect(await store.get(id)).toMatchObject({
      state: 'queued',
      errorCode: 'kafka_unreachable',
      errorMessage: 'away',
    });
    const second = (await claimed(store))!;
    expect(second).toMatchObject({ id, epoch: first.epoch + 1, errorCode: null, rows: 0 });
    expect(await store.progress(first, { rows: 9, scored: 9, rejected: 0, bytesRead: 9 })).toBe(false);
    expect(await store.grow(first, 1)).toBe(false);
    expect(await store.putBack(first, 0, null)).toBe(false);
    expect(await store.finish(first, { state: 'failed', errorCode: 'x', errorMessage: null })).toBe(false);
    expect((await store.renew([first])).size).toBe(0);
    expect((await store.renew([second])).get(id)).toBe('held');
    expect(await store.get(id)).toMatchObject({ state: 'running', epoch: second.epoch, rows: 0 });
    expect(await store.finish(second, DONE)).toBe(true);
  });

  test('what is put back with a pause waits for it', async () => {
    const { store, pass } = timed();
    const id = await queue(store);
    const held = (await claimed(store))!;
    await store.putBack(held, 3_600_000, null);
    expect(await store.claim([], true)).toBeNull();
    await pass(3_000_000);
    expect(await store.claim([], true)).toBeNull();
    await pass(600_001);
    expect((await claimed(store))?.id).toBe(id);
  });

  test('keys take turns, each in the order of arrival', async () => {
    const { store, pass } = timed();
    const ids: Record<string, string> = {};
    for (const name of ['a1', 'a2', 'a3', 'b1', 'c1', 'b2']) {
      ids[await queue(store, { owner: name[0]! })] = name;
      await pass(1);
    }
    const order: string[] = [];
    for (let job = await claimed(store); job; job = await claimed(store)) {
      order.push(ids[job.id]!);
      await store.finish(job, DONE);
      await pass(1);
    }
    expect(order).toEqual(['a1', 'b1', 'c1', 'a2', 'b2', 'a3']);
  });

  test('a queued job is cancelled at once, a running one is asked', async () => {
    const store = await opened();
    const [first, second] = [await queue(store), await queue(store)];
    const held = (await claimed(store))!;
    const waiting = held.id === first ? second : first;
    expect(await store.cancel(waiting)).toBe('cancelled');
    expect(await store.get(waiting)).toMatchObject({ state: 'cancelled', uploadBytes: 0 });
    expect(await store.cancel(held.id)).toBe('asked');
    expect((await store.renew([held])).get(held.id)).toBe('cancel');
    await store.remove(held.id);
    expect(await store.get(held.id)).toMatchObject({ state: 'running' });
    expect(await store.cancel(randomUUID())).toBeNull();
  });

  test('a running job that is cancelled never gets a result, also if it has just ended or is queued again', async () => {
    const store = await opened();
    const id = await queue(store);
    const held = (await claimed(store))!;
    expect(await store.cancel(id)).toBe('asked');
    expect(await store.finish(held, DONE)).toBe('cancelled');
    expect(await store.get(id)).toMatchObject({ state: 'running' });
    expect(await store.putBack(held, 0, null)).toBe(true);
    const again = (await store.claim([], true))!;
    expect(again).toMatchObject({ job: { id }, cancelled: true });
    expect(await store.finish(held, DONE)).toBe(false);
    expect(await store.finish(again.job, { state: 'cancelled' })).toBe(true);
    expect(await store.get(id)).toMatchObject({ state: 'cancelled' });
  });

  test('predictions that a pipeline has written stay done after a late cancellation', async () => {
    const store = await opened();
    const id = await queue(store, { pipeline: 'p', target: 'topic t' });
    const held = (await claimed(store, ['p']))!;
    expect(await store.cancel(id)).toBe('asked');
    expect(await store.finish(held, DONE)).toBe(true);
    expect(await store.get(id)).toMatchObject({ state: 'done' });
  });

  test('the list of a key: the newest first, in pages, of one state', async () => {
    const { store, pass } = timed();
    const ids: string[] = [];
    for (let i = 0; i < 5; i++) {
      ids.unshift(await queue(store));
      await pass(1);
    }
    await queue(store, { owner: 'day' });
    const page = (after: { id: string; created: number } | null) =>
      store.list('night', { state: null, limit: 2, after });
    const seen: string[] = [];
    for (let some = await page(null); some.length > 0; some = await page(some.at(-1)!))
      seen.push(...some.map((j) => j.id));
    expect(seen).toEqual(ids);
    const held = (await claimed(store))!;
    expect((await store.list(held.owner, { state: 'running', limit: 9, after: null })).map((j) => j.id)).toEqual([
      held.id,
    ]);
    expect(await store.list('nobody', { state: null, limit: 9, after: null })).toEqual([]);
  });

  test('what finished long ago goes, and what is known is told', async () => {
    const { store, pass } = timed();
    const [old, queued] = [await queue(store), await queue(store)];
    const held = (await claimed(store))!;
    await store.finish(held, DONE);
    const reserved = randomUUID();
    await store.reserve(reserved, 'night');
    expect(await store.expire(3_600_000)).toEqual([]);
    const other = held.id === old ? queued : old;
    expect(Object.fromEntries(await store.known([held.id, other, reserved, randomUUID()]))).toEqual({
      [held.id]: { epoch: 1, state: 'done' },
      [other]: { epoch: 0, state: 'queued' },
      [reserved]: { epoch: 0, state: null },
    });
    await pass(30_001);
    expect(await store.expire(30_000)).toEqual([{ id: held.id, epoch: 1 }]);
    expect(await store.get(held.id)).toBeNull();
    expect(await store.get(other)).not.toBeNull();
  });
}

describe('SQLite in a folder', () => {
  contract(() => {
    const clock = controlClock();
    return { store: new SqliteJobs(scratch()), pass: (ms) => clock.advance(ms) };
  });

  test('a cancellation survives the end of the server that runs the job', async () => {
    const folder = scratch();
    const before = new SqliteJobs(folder);
    const id = await queue(before);
    await claimed(before);
    expect(await before.cancel(id)).toBe('asked');
    await before.close();
    const after = new SqliteJobs(folder);
    onTestFinished(() => after.close());
    after.requeueRunning();
    expect(await after.claim([], true)).toMatchObject({ job: { id }, cancelled: true });
  });

  test('what was running when the server ended has crashed once, and then runs alone', async () => {
    const clock = controlClock();
    const folder = scratch();
    const before = new SqliteJobs(folder);
    const id = await queue(before);
    await claimed(before);
    await clock.advance(1);
    await queue(before);
    await before.close();
    const after = new SqliteJobs(folder);
    onTestFinished(() => after.close());
    expect(after.requeueRunning()).toMatchObject([{ id }]);
    expect(await after.claim([], false)).toBeNull();
    expect((await after.claim([], true))!.job).toMatchObject({ id, epoch: 2, crashes: 1 });
  });
});

requirePostgres('PostgreSQL', () => {
  let server: PostgresServer;
  let made = 0;
  const open = (table: string, leaseMs: number, heard: boolean[] = []) =>
    new PostgresJobs({
      database: { url: server.url, connect_timeout_ms: 60_000, statement_timeout_ms: 60_000 },
      table,
      leaseMs,
      onReach: (reached) => heard.push(reached),
    });
  const opened = (table: string) => {
    const store = open(table, 60_000);
    onTestFinished(() => store.close());
    return store;
  };

  /** Time passes in which nobody renews. */
  const end = (table: string) => server.query(`UPDATE ${table} SET lease_until = now() - interval '1 ms'`);

  beforeAll(async () => {
    server = await startPostgres();
    await server.query('CREATE SCHEMA "of others"');
  });
  afterAll(() => server.stop());

  contract(() => {
    const table = `jobs_${made++}`;
    return { store: open(table, 60_000), pass: (ms) => passTime(server, table, ms) };
  });

  test('a lease that is not renewed ends: the job begins again elsewhere, and who had it changes nothing', async () => {
    const [a, b] = [opened('leases'), opened('leases')];
    const id = await queue(a);
    const first = (await claimed(a))!;
    expect(await b.claim([], true)).toBeNull();
    await server.query("UPDATE leases SET lease_until = now() + interval '1 s'");
    expect((await a.renew([first])).get(id)).toBe('held');
    const left = await server.query('SELECT extract(epoch FROM lease_until - now())::float8 AS s FROM leases');
    expect(left.rows[0].s).toBeGreaterThan(30);
    expect(await b.claim([], true)).toBeNull();
    await end('leases');
    const second = (await b.claim([], true))!;
    expect(second).toMatchObject({ takenOver: true, job: { id, epoch: first.epoch + 1 } });
    expect((await a.renew([first])).size).toBe(0);
    expect(await a.finish(first, DONE)).toBe(false);
    expect(await b.finish(second.job, DONE)).toBe(true);
    expect(await a.get(id)).toMatchObject({ state: 'done', epoch: second.job.epoch });
  });

  test('a job whose server ended is claimed by a server that runs nothing else, and nobody claims around it', async () => {
    const [a, b] = [opened('suspects'), opened('suspects')];
    const id = await queue(a);
    expect((await a.claim([], true))?.job).toMatchObject({ id, crashes: 0 });
    await passTime(server, 'suspects', 1);
    await queue(a);
    await end('suspects');
    expect(await b.claim([], false)).toBeNull();
    const again = (await b.claim([], true))!;
    expect(again).toMatchObject({ takenOver: true, job: { id, epoch: 2, crashes: 1 } });
    // To be stopped is no crash, and takes none back.
    await b.putBack(again.job, 0, null);
    expect(await a.claim([], false)).toBeNull();
    expect((await a.claim([], true))!.job).toMatchObject({ id, epoch: 3, crashes: 1 });
    expect((await b.claim([], false))!.job).toMatchObject({ crashes: 0 });
  });

  test('a server that gave up and lives is no crash, whether somebody has begun the job since or not', async () => {
    const [a, b] = [opened('living'), opened('living')];
    const id = await queue(a);
    const first = (await claimed(a))!;
    await a.giveUp(first);
    await a.giveUp(first);
    expect(await a.get(id)).toMatchObject({ state: 'queued', epoch: 1, crashes: 0 });
    const second = (await claimed(a))!;
    await end('living');
    const third = (await claimed(b))!;
    expect(third).toMatchObject({ epoch: 3, crashes: 1 });
    await a.giveUp(second);
    expect(await b.get(id)).toMatchObject({ state: 'running', epoch: 3, crashes: 0 });
    expect(await b.finish(third, DONE)).toBe(true);
    await a.giveUp(second);
    expect(await b.get(id)).toMatchObject({ state: 'done', epoch: 3 });
  });

  test('a job that is cancelled while its server is gone is claimed to be cancelled', async () => {
    const [a, b] = [opened('gone'), opened('gone')];
    const id = await queue(a);
    await claimed(a);
    expect(await b.cancel(id)).toBe('asked');
    await end('gone');
    expect(await b.claim([], true)).toMatchObject({ takenOver: true, cancelled: true });
  });

  test('a reservation whose server is gone counts no more and is removed', async () => {
    const [a, b] = [opened('reserved'), opened('reserved')];
    const job = newJob();
    await a.reserve(job.id, job.owner);
    expect((await b.kept('night')).jobs).toBe(1);
    expect((await a.renew([{ id: job.id, epoch: 0 }])).get(job.id)).toBe('held');
    await end('reserved');
    expect((await b.kept('night')).jobs).toBe(0);
    expect(await b.expire(3_600_000)).toEqual([{ id: job.id, epoch: 0 }]);
    expect(await a.enqueue(job)).toBe('lost');
  });

  test('many servers that claim at once get each job once', async () => {
    const stores = Array.from({ length: 5 }, () => opened('many'));
    const ids = await Promise.all(Array.from({ length: 60 }, (_, i) => queue(stores[i % 5]!, { owner: `k${i % 3}` })));
    const got: string[] = [];
    await Promise.all(
      stores.map(async (store) => {
        for (let misses = 0; misses < 3; ) {
          const job = await claimed(store);
          if (job) got.push(job.id);
          else misses++;
        }
      }),
    );
    expect(got.sort()).toEqual(ids.sort());
  });

  test('one server sweeps at a time, and the next one when it is gone', async () => {
    const [a, b] = [open('sweeps', 60_000), opened('sweeps')];
    expect([await a.takeSweep(60_000), await b.takeSweep(60_000), await a.takeSweep(60_000)]).toEqual([
      true,
      false,
      true,
    ]);
    await a.close();
    expect(await b.takeSweep(60_000)).toBe(true);
  });

  test('tables are made once by many, in any schema, and a later version is refused', async () => {
    const table = 'of others.My Jobs';
    const stores = Array.from({ length: 4 }, () => opened(table));
    await Promise.all(stores.map((s) => s.prepare()));
    await queue(stores[0]!);
    await server.query(`UPDATE "of others"."My Jobs_meta" SET value = '99' WHERE name = 'version'`);
    await expect(opened(table).prepare()).rejects.toMatchObject({ code: 'database_refused' });
  });

  test('a user who may not make them is given them, or told', async () => {
    await server.query(`CREATE ROLE scorer LOGIN PASSWORD 'correct horse'`);
    const database = { url: server.urlOf('scorer'), connect_timeout_ms: 60_000, statement_timeout_ms: 60_000 };
    const store = new PostgresJobs({ database, table: 'given', leaseMs: 60_000, onReach: () => {} });
    onTestFinished(() => store.close());
    await expect(store.prepare()).rejects.toMatchObject({ code: 'database_refused' });
    await opened('given').prepare();
    await server.query('GRANT SELECT, INSERT, UPDATE, DELETE ON given, given_meta, given_uploads TO scorer');
    await store.prepare();
    await queue(store);
  });

  test('a database that is away is told once, and back by itself', async () => {
    const heard: boolean[] = [];
    const store = open('away', 60_000, heard);
    onTestFinished(() => store.close());
    const id = await queue(store);
    // What lasts a moment is sent again.
    await server.crash();
    expect((await store.get(id))?.id).toBe(id);
    const stopped = await server.pause();
    for (let i = 0; i < 2; i++) await expect(store.get(id)).rejects.toMatchObject({ code: 'jobs_unavailable' });
    expect([store.reachable, heard]).toEqual([false, [false]]);
    await stopped.resume();
    await expect.poll(() => store.get(id).catch(() => null)).toMatchObject({ id });
    expect([store.reachable, heard]).toEqual([true, [false, true]]);
  });
});
