// What every table of resumable uploads has to do: the same cases for the embedded one and for the one that servers share.
import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { epochMs } from '../../../src/core/clock.ts';
import type { JobStore, NewJob } from '../../../src/doors/http/jobs/job-store.ts';
import { PostgresJobs } from '../../../src/doors/http/jobs/postgres-jobs.ts';
import { SqliteJobs } from '../../../src/doors/http/jobs/sqlite-jobs.ts';
import type { Upload, UploadStore } from '../../../src/doors/http/jobs/upload-store.ts';
import { scratch } from '../../support/cli.ts';
import { controlClock } from '../../support/controlled-clock.ts';
import { passTime } from '../../support/postgres/pass-time.ts';
import { requirePostgres } from '../../support/postgres/require.ts';
import { type PostgresServer, startPostgres } from '../../support/postgres/server.ts';
import { openTimed, type Timed } from '../../support/timed-store.ts';

type Store = JobStore & { uploads: UploadStore };

const LEASE_MS = 600_000;

function contract(open: () => Timed<Store>): void {
  const timed = () => openTimed(open);
  const opened = async () => timed().store;

  /** Reserved and begun; 100 bytes long. */
  async function begin(store: Store, change: Partial<NewJob> = {}): Promise<[Upload, 'begun' | 'key_taken']> {
    const job: NewJob = {
      id: randomUUID(),
      owner: 'night',
      idempotencyKey: null,
      format: 'csv',
      query: { modelId: 'm:1', passthrough: 'id,"x"' },
      fingerprint: '["upload"]',
      bodySha256: null,
      requestId: 'r',
      trace: null,
      pipeline: null,
      target: null,
      uploadBytes: 100,
      ...change,
    };
    const upload = { job, metadata: 'name YQ==', offset: 0, tail: null, touched: epochMs(), queued: false };
    await store.reserve(job.id, job.owner);
    await store.grow({ id: job.id, epoch: 0 }, job.uploadBytes);
    return [upload, await store.uploads.begin(upload)];
  }
  const to = async ({ uploads }: Store, id: string, from: number, offset: number): Promise<boolean> => {
    const held = await uploads.take(id, from, 0);
    return held !== null && uploads.advance(held, { offset, tail: `${offset}`, done: true });
  };

  test('what was begun comes back as it was, counts with all it will be, and outlives its lease', async () => {
    const { store, pass } = timed();
    const [upload, how] = await begin(store);
    const { id } = upload.job;
    expect(how).toBe('begun');
    const there = await store.uploads.get(id);
    expect({ ...there, touched: 0 }).toEqual({ ...upload, touched: 0 });
    expect(Math.abs(there!.touched - epochMs())).toBeLessThan(60_000);
    expect(await store.get(id)).toBeNull();
    await store.renew([{ id, epoch: 0 }]);
    await pass(2 * LEASE_MS);
    expect(await store.expire(0)).toEqual([]);
    expect(await store.kept('night')).toEqual({ jobs: 1, bytes: 100 });
    expect((await store.known([id])).get(id)).toEqual({ epoch: 0, state: null });
    expect(await store.uploads.open()).toBe(1);
    expect(await store.uploads.get(randomUUID())).toBeNull();
  });

  test('whoever takes it last is the only one that counts, and hears what those before may have used', async () => {
    const store = await opened();
    const { uploads } = store;
    const [{ job: { id } }] = await begin(store); // biome-ignore format: one line
    expect(await uploads.take(id, 7, 0)).toBeNull();
    const first = (await uploads.take(id, 0, 12))!;
    expect([first.epoch, first.left]).toEqual([1, 0]);
    expect(await uploads.advance(first, { offset: 10, tail: 'ten', done: false })).toBe(true);
    expect(await uploads.get(id)).toMatchObject({ offset: 10, tail: 'ten' });
    const second = (await uploads.take(id, 10, 3))!;
    expect(second.left).toBe(12);
    expect(await uploads.advance(first, { offset: 20, tail: 'old', done: true })).toBe(false);
    expect(await uploads.advance(second, { offset: 15, tail: 'x', done: true })).toBe(true);
    expect(await uploads.get(id)).toMatchObject({ offset: 15, tail: 'x' });
    // It said that it was done.
    expect((await uploads.take(id, 15, 0))!.left).toBe(0);
  });

  test('a key belongs to one open upload', async () => {
    const store = await opened();
    const [{ job }] = await begin(store, { idempotencyKey: 'k' });
    const [other, how] = await begin(store, { idempotencyKey: 'k' });
    expect(how).toBe('key_taken');
    await store.drop(other.job.id);
    expect((await begin(store, { idempotencyKey: 'k', owner: 'day' }))[1]).toBe('begun');
    expect((await store.uploads.byIdempotencyKey('night', 'k'))?.job.id).toBe(job.id);
    expect(await store.uploads.byIdempotencyKey('night', 'other')).toBeNull();
    expect(await store.uploads.remove(job.id)).toBe(true);
    expect(await store.uploads.remove(job.id)).toBe(false);
    expect((await begin(store, { idempotencyKey: 'k' }))[1]).toBe('begun');
    expect(await store.kept('night')).toEqual({ jobs: 1, bytes: 100 });
  });

  test('what is whole becomes a job, once, and stays known as long as that', async () => {
    const store = await opened();
    const [{ job }] = await begin(store, { idempotencyKey: 'k' });
    expect(await store.uploads.whole()).toEqual([]);
    expect(await to(store, job.id, 0, 100)).toBe(true);
    expect((await store.uploads.whole()).map((u) => [u.job.id, u.tail])).toEqual([[job.id, '100']]);
    expect(await store.enqueue({ ...job, bodySha256: 'ab' })).toBe('queued');
    expect(await store.enqueue({ ...job, bodySha256: 'ab' })).not.toBe('queued');
    expect(await store.get(job.id)).toMatchObject({ state: 'queued', bodySha256: 'ab', uploadBytes: 100 });
    expect(await store.uploads.get(job.id)).toMatchObject({ offset: 100, queued: true });
    expect(await store.kept('night')).toEqual({ jobs: 1, bytes: 100 });
    expect([await store.uploads.whole(), await store.uploads.open()]).toEqual([[], 0]);
    expect(await store.uploads.byIdempotencyKey('night', 'k')).toBeNull();
    // Over for whoever writes, and for whoever removes uploads.
    expect(await store.uploads.take(job.id, 100, 0)).toBeNull();
    expect(await store.uploads.remove(job.id)).toBe(false);
    expect(await store.uploads.expire(-60_000, new Set())).toEqual([]);
    expect(await store.uploads.get(job.id)).not.toBeNull();
    await store.cancel(job.id);
    await store.remove(job.id);
    await store.uploads.expire(60_000, new Set());
    expect(await store.uploads.get(job.id)).toBeNull();
  });

  test('abandoned ones go, with what they took of the quota', async () => {
    const { store, pass } = timed();
    const [[old], [busy]] = [await begin(store), await begin(store)];
    await pass(60_000);
    const [young] = await begin(store);
    expect(await to(store, young.job.id, 0, 5)).toBe(true);
    const expired = await store.uploads.expire(50_000, new Set([busy.job.id]));
    expect(expired.map((u) => u.job.id)).toEqual([old.job.id]);
    expect(await store.uploads.get(old.job.id)).toBeNull();
    expect(await store.kept('night')).toEqual({ jobs: 2, bytes: 200 });
  });
}

describe('SQLite', () =>
  contract(() => {
    const clock = controlClock();
    return { store: new SqliteJobs(scratch()), pass: (ms) => clock.advance(ms) };
  }));

requirePostgres('PostgreSQL', () => {
  let server: PostgresServer;
  let tables = 0;
  beforeAll(async () => {
    server = await startPostgres();
  });
  afterAll(() => server?.stop());
  contract(() => {
    const table = `uploads_${tables++}`;
    const database = { url: server.url, connect_timeout_ms: 60_000, statement_timeout_ms: 60_000 };
    const store = new PostgresJobs({ database, table, leaseMs: LEASE_MS, onReach: () => {} });
    return { store, pass: (ms) => passTime(server, table, ms) };
  });
});
