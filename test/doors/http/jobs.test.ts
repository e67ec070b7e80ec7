// Asynchronous jobs: asked for, watched, fetched in ranges, cancelled, repeated, kept over a restart, and nobody else's business.
import { readdirSync, rmSync } from 'node:fs';
import path from 'node:path';
import { expect, test } from 'vitest';
import { generatePortfolio } from '../../../src/demo/portfolio.ts';
import { parseRange } from '../../../src/doors/http/jobs/job-routes.ts';
import { scratch } from '../../support/cli.ts';
import { controlClock } from '../../support/controlled-clock.ts';
import { call, predictUrl, type Reply, type Service, startService } from '../../support/service.ts';
import { sharedService } from '../../support/shared-service.ts';

const portfolio = (rows: number, faults = 0): string =>
  Buffer.concat([...generatePortfolio({ rows, seed: 19, faults, delimiter: '\t' })]).toString();

const submit = (s: Service, body: string, headers: Record<string, string> = {}, query = ''): Promise<Reply> =>
  s.call('POST', predictUrl('csv', query), { body, headers: { prefer: 'respond-async', ...headers } });

async function settled(s: Service, location: string): Promise<Reply> {
  const look = () => s.call('GET', location);
  await expect.poll(async () => (await look()).json.state, { interval: 20 }).not.toMatch(/queued|running/);
  return look();
}

/** Of all jobs, or of these. */
const filesOf = (s: Service, ...made: Reply[]): string[] =>
  readdirSync(path.join(s.folder, 'jobs'))
    .filter((f) => !f.startsWith('jobs.sqlite'))
    .filter((f) => made.length === 0 || made.some(({ json }) => f.includes(json.id)));

test('201 with a place to look, then counts, then the very bytes a direct answer has', async () => {
  const s = await sharedService();
  const body = portfolio(5000, 3);
  const made = await submit(s, body);
  expect(made.status).toBe(201);
  const location = made.headers.location as string;
  expect(location).toMatch(/^\/api\/v1\/scoring\/jobs\/[0-9a-f-]{36}$/);
  const done = await settled(s, location);
  expect(done.json).toMatchObject({
    state: 'done',
    progress: 1,
    modelId: 'credit-default',
    modelVersion: '1',
    packageSha256: expect.stringMatching(/^[0-9a-f]{64}$/),
    summary: { rows: 5000, scored: 4997, rejected: 3 },
    result: `${location}/result`,
  });
  const direct = await s.call('POST', predictUrl('csv'), { body });
  const whole = await s.call('GET', `${location}/result`);
  expect(whole.text).toBe(direct.text);
  for (const { headers } of [direct, whole]) expect(headers['sluice-package-sha256']).toBe(done.json.packageSha256);
  const part = await s.call('GET', `${location}/result`, { headers: { range: 'bytes=100-199' } });
  expect([part.status, part.headers['content-range']]).toEqual([206, `bytes 100-199/${direct.text.length}`]);
  expect(part.text).toBe(direct.text.slice(100, 200));
  const tail = await s.call('GET', `${location}/result`, { headers: { range: 'bytes=-10' } });
  expect(tail.text).toBe(direct.text.slice(-10));
  expect((await s.call('GET', `${location}/result`, { headers: { range: 'bytes=99999999-' } })).status).toBe(416);
  expect((await s.call('DELETE', location)).status).toBe(204);
  expect((await s.call('GET', location)).json.code).toBe('job_not_found');
  expect(filesOf(s, made)).toEqual([]);
});

test('a result that is removed while it is requested is not found', async () => {
  const s = await sharedService();
  const made = await submit(s, portfolio(10));
  const location = made.headers.location as string;
  await settled(s, location);
  for (const file of filesOf(s, made)) rmSync(path.join(s.folder, 'jobs', file));
  for (const headers of [{}, { range: 'bytes=0-9' }]) {
    const reply = await s.call('GET', `${location}/result`, { headers });
    expect([reply.status, reply.json.code]).toEqual([404, 'job_not_found']);
  }
});

test('a job that fails says why', async () => {
  const s = await sharedService();
  const bad = await submit(s, 'a\tb\n1\t2\n');
  const failed = await settled(s, bad.headers.location as string);
  expect(failed.json).toMatchObject({ state: 'failed', error: { code: 'header_mismatch' } });
  const result = await s.call('GET', `${bad.headers.location}/result`);
  expect([result.status, result.json.code]).toEqual([409, 'job_not_finished']);
  expect(filesOf(s, bad)).toEqual([]);
});

test('the same Idempotency-Key gives the same job, another request with it is refused', async () => {
  const s = await sharedService();
  const body = portfolio(10);
  const key = { 'idempotency-key': 'night-2026-11-20' };
  const [a, b] = [await submit(s, body, key), await submit(s, body, key)];
  expect(b.headers.location).toBe(a.headers.location);
  const other = await submit(s, body, key, '&on_invalid=fail');
  expect([other.status, other.json.code]).toEqual([400, 'idempotency_conflict']);
});

test('a running job is cancelled, a queued one too, and their files go', async () => {
  const s = await sharedService();
  const [first, second] = [await submit(s, portfolio(20_000)), await submit(s, portfolio(100))];
  expect((await s.call('DELETE', second.headers.location as string)).status).toBe(204);
  expect((await s.call('DELETE', first.headers.location as string)).status).toBe(204);
  for (const reply of [first, second]) {
    expect((await settled(s, reply.headers.location as string)).json.state).toBe('cancelled');
  }
  await expect.poll(() => filesOf(s, first, second)).toEqual([]);
});

test('jobs survive a restart: what was running is run again, results are still there', async () => {
  const folder = scratch();
  const before = await startService([], folder);
  const small = await submit(before, portfolio(50));
  const done = await settled(before, small.headers.location as string);
  const large = await submit(before, portfolio(20_000));
  const { location } = large.headers;
  await expect
    .poll(async () => (await before.call('GET', location as string)).json.state, { interval: 1 })
    .not.toBe('queued');
  await before.running.stop();
  const after = await startService([], folder);
  expect((await after.call('GET', small.headers.location as string)).json).toEqual(done.json);
  const again = await settled(after, large.headers.location as string);
  expect(again.json).toMatchObject({ state: 'done', summary: { rows: 20_000 } });
});

test('bounded in number and bytes', async () => {
  const s = await startService(['jobs.max_jobs=2', 'jobs.max_bytes=100000']);
  const big = await submit(s, portfolio(2000));
  expect([big.status, big.json.code, big.json.limit]).toEqual([400, 'limit_exceeded', 'jobs.max_bytes']);
  expect(filesOf(s)).toEqual([]);
  for (let i = 0; i < 2; i++) expect((await submit(s, portfolio(5))).status).toBe(201);
  const third = await submit(s, portfolio(5));
  expect([third.status, third.json.limit]).toEqual([400, 'jobs.max_jobs']);
});

test('finished jobs go when their time is up', async () => {
  const clock = controlClock({ runs: true });
  const folder = scratch();
  const before = await startService(['jobs.keep_ms=3600000'], folder);
  const made = await submit(before, portfolio(5));
  await settled(before, made.headers.location as string);
  await before.running.stop();
  const between = await startService(['jobs.keep_ms=3600000'], folder);
  expect((await between.call('GET', made.headers.location as string)).status).toBe(200);
  await between.running.stop();
  await clock.advance(3_600_001);
  const after = await startService(['jobs.keep_ms=3600000'], folder);
  expect((await after.call('GET', made.headers.location as string)).status).toBe(404);
  expect(filesOf(after)).toEqual([]);
});

test('an id that is none, and no key', async () => {
  const s = await sharedService();
  for (const id of ['x', '..%2f..%2fetc', '00000000-0000-0000-0000-000000000000']) {
    expect((await s.call('GET', `/api/v1/scoring/jobs/${id}`)).json.code).toBe('job_not_found');
  }
  expect((await call(s.port, '', 'GET', '/api/v1/scoring/jobs/x', { token: null })).status).toBe(401);
});

test.each([
  ['bytes=0-9', { start: 0, end: 9 }],
  ['bytes=5-', { start: 5, end: 99 }],
  ['bytes=-5', { start: 95, end: 99 }],
  ['bytes=-500', { start: 0, end: 99 }],
  ['bytes=90-500', { start: 90, end: 99 }],
  ['bytes=100-', 'unsatisfiable'],
  ['bytes=-0', 'unsatisfiable'],
  ['bytes=9-5', null],
  ['bytes=1-2,4-5', null],
  ['lines=1-2', null],
  ['bytes=-', null],
])('range %s of 100 bytes', (header, want) => {
  expect(parseRange(header, 100)).toEqual(want);
});
