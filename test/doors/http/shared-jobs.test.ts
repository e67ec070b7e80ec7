// Jobs that two services share: either answers for any, limits are those of both, and what they need may be away for a while.
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { afterAll, beforeAll, expect, onTestFinished, vi } from 'vitest';
import { generatePortfolio } from '../../../src/demo/portfolio.ts';
import { reachShared } from '../../../src/doors/http/jobs/open-jobs.ts';
import { scratch } from '../../support/cli.ts';
import { collectedLog } from '../../support/collected-log.ts';
import { fileFolder } from '../../support/file-folder.ts';
import { requirePostgres } from '../../support/postgres/require.ts';
import type { Gate } from '../../support/registries/gate.ts';
import { openShared, type SharedPlace } from '../../support/replicas.ts';
import { predictUrl, type Reply, type Service, startService } from '../../support/service.ts';
import { startTenants } from '../../support/tenants.ts';
import { times } from '../../support/tiers.ts';
import { checkTestNeeding } from '../../support/tools.ts';

/** Some 9 MB: a part in object storage has 8 MiB. */
const ROWS = 65_000;
const FAILING_CALLS = times('failing calls', { quick: 0, check: 4, campaigns: 20 });
const LIST = '/api/v1/scoring/jobs';
const portfolio = (rows: number): string =>
  Buffer.concat([...generatePortfolio({ rows, seed: 19, faults: 0, delimiter: '\t' })]).toString();

const submit = (s: Service, body: string, headers: Record<string, string> = {}): Promise<Reply> =>
  s.call('POST', predictUrl('csv'), { body, headers: { prefer: 'respond-async', ...headers } });

const stateOf = async (s: Service, made: Reply): Promise<string> =>
  (await s.call('GET', made.headers.location as string)).json.state;

const untilState = (s: Service, made: Reply, state: string) =>
  expect.poll(() => stateOf(s, made), { interval: 30 }).toBe(state);

requirePostgres('jobs that services share', () => {
  let place: SharedPlace;
  let gate: Gate;
  let tables = 0;
  beforeAll(async () => {
    place = await openShared({ gated: true });
    gate = place.gate!;
  });
  afterAll(() => place?.close());

  /** Two services on a table of their own. */
  async function two(settings: string[] = [], leaseMs = 60_000, keep = false) {
    for (const [name, value] of Object.entries(place.env)) vi.stubEnv(name, value);
    onTestFinished(() => {
      gate.rule = () => 'pass';
      vi.unstubAllEnvs();
    });
    const table = `shared_${tables++}`;
    const shared = [
      'jobs.shared.database.url_env=JOBS_DATABASE',
      'jobs.shared.database.connect_timeout_ms=60000',
      'jobs.shared.database.statement_timeout_ms=60000',
      `jobs.shared.table=${table}`,
      `jobs.shared.files=s3://jobs/${table}`,
      `jobs.shared.lease_ms=${leaseMs}`,
    ];
    const logs = [collectedLog(), collectedLog()];
    const [a, b] = await Promise.all(
      logs.map(({ log }) => startService([...shared, ...settings], keep ? fileFolder() : scratch(), { log, keep })),
    );
    const events = (from = [0, 0]) =>
      logs.flatMap(({ lines }, i) => lines.slice(from[i]).map((line) => line.event as string));
    return { a: a!, b: b!, table, logs, events };
  }

  let pair: ReturnType<typeof two> | undefined;
  /** The same two for all tests that need no settings: without jobs and uploads, and with the events of this test. */
  async function sameTwo() {
    const before = pair;
    pair ??= two([], 10_000, true);
    const { a, b, table, logs, events } = await pair;
    if (before) {
      for (const [name, value] of Object.entries(place.env)) vi.stubEnv(name, value);
      onTestFinished(() => {
        gate.rule = () => 'pass';
        vi.unstubAllEnvs();
      });
      // The first DELETE cancels what has not ended, the second removes it.
      const listed = async () => {
        const { jobs } = (await a.call('GET', LIST)).json as { jobs: { id: string }[] };
        for (const { id } of jobs) await a.call('DELETE', `${LIST}/${id}`);
        return jobs;
      };
      await expect.poll(listed, { interval: 30 }).toEqual([]);
    }
    const earlier = logs.map(({ lines }) => lines.length);
    return { a, b, table, events: () => events(earlier) };
  }
  afterAll(async () => {
    if (!pair) return;
    const { a, b } = await pair;
    for (const { running } of [a, b]) await running.stop();
  });

  checkTestNeeding(['versitygw'], 'either answers for any: state, result, ranges, list, end', async () => {
    const { a, b, table } = await sameTwo();
    const body = portfolio(3000);
    const made = await submit(a, body);
    expect(made.status).toBe(201);
    const location = made.headers.location as string;
    await untilState(b, made, 'done');
    const direct = await b.call('POST', predictUrl('csv'), { body });
    for (const s of [a, b]) {
      const whole = await s.call('GET', `${location}/result`);
      expect([whole.status, whole.text === direct.text]).toEqual([200, true]);
      expect(whole.headers['sluice-package-sha256']).toBe(direct.headers['sluice-package-sha256']);
      const part = await s.call('GET', `${location}/result`, { headers: { range: 'bytes=-10' } });
      expect([part.status, part.text]).toEqual([206, direct.text.slice(-10)]);
      expect((await s.call('GET', LIST)).json.jobs).toEqual([(await s.call('GET', location)).json]);
      expect((await s.call('GET', `${LIST}?state=failed`)).json).toEqual({ jobs: [] });
      expect((await s.call('GET', `${LIST}?after=x`)).status).toBe(400);
      expect((await s.call('GET', `${LIST}?state=none`)).status).toBe(400);
    }
    expect((await b.call('DELETE', location)).status).toBe(204);
    expect((await a.call('GET', location)).json.code).toBe('job_not_found');
    expect((await place.bucket.list(`${table}/`)).objects).toEqual([]);
    // The folder is nobody's.
    expect(existsSync(path.join(a.folder, 'jobs'))).toBe(false);
  });

  checkTestNeeding(['versitygw'], 'a key that lost its model sees its jobs and uploads nowhere', async () => {
    for (const [name, value] of Object.entries(place.env)) vi.stubEnv(name, value);
    onTestFinished(() => void vi.unstubAllEnvs());
    const table = `shared_${tables++}`;
    const t = await startTenants(() => [
      'jobs.shared.database.url_env=JOBS_DATABASE',
      `jobs.shared.table=${table}`,
      `jobs.shared.files=s3://jobs/${table}`,
    ]);
    onTestFinished(() => t.close());
    const tus = { 'tus-resumable': '1.0.0' };
    const url = '/api/v1/scoring/predict.json?modelId=model-alpha';
    const made = await t.ask('alpha', 'POST', url, { body: '[]', headers: { prefer: 'respond-async' } });
    const upload = await t.ask('alpha', 'POST', url, { headers: { ...tus, 'upload-length': '2' } });
    const [job, open] = [made, upload].map(({ headers }) => headers.location!) as [string, string];
    const statuses = async () => [
      (await t.ask('alpha', 'GET', `${job}/result`)).status,
      (await t.ask('alpha', 'HEAD', open, { headers: tus })).status,
      JSON.parse((await t.ask('alpha', 'GET', LIST)).text).jobs.length,
    ];
    await expect.poll(statuses).toEqual([200, 200, 1]);
    await t.restrict('alpha', ['model-beta']);
    await expect.poll(statuses).toEqual([404, 404, 0]);
    for (const [method, at] of [
      ['DELETE', job],
      ['DELETE', open],
      ['GET', job],
    ] as const) {
      expect((await t.ask('alpha', method, at, { headers: tus })).status).toBe(404);
      expect((await t.ask('beta', method, at, { headers: tus })).status).toBe(404);
    }
    await t.restrict('alpha', ['model-alpha']);
    await expect.poll(statuses).toEqual([200, 200, 1]);
  });

  checkTestNeeding(['versitygw'], 'one Idempotency-Key is one job, whoever is asked, also at once', async () => {
    const { a, b } = await sameTwo();
    const key = { 'idempotency-key': 'night' };
    const body = portfolio(50);
    const made = await Promise.all(Array.from({ length: 8 }, (_, i) => submit(i % 2 ? a : b, body, key)));
    expect(new Set(made.map((m) => `${m.status} ${m.headers.location}`)).size).toBe(1);
    expect((await submit(b, portfolio(51), key)).json.code).toBe('idempotency_key_reused');
    expect((await a.call('GET', LIST)).json.jobs).toHaveLength(1);
  });

  checkTestNeeding(['versitygw'], 'quotas of a key are those of all services together', async () => {
    const { a, b } = await two(['jobs.max_jobs=3', 'jobs.max_bytes=200000']);
    const made = await Promise.all(Array.from({ length: 10 }, (_, i) => submit(i % 2 ? a : b, portfolio(5))));
    const taken = made.filter((m) => m.status === 201).length;
    expect(taken).toBeLessThanOrEqual(3);
    expect(made.filter((m) => m.status !== 201).map((m) => m.json.limit)).toEqual(
      Array(10 - taken).fill('jobs.max_jobs'),
    );
    for (let i = taken; i < 3; i++) expect((await submit(i % 2 ? a : b, portfolio(5))).status).toBe(201);
    for (const s of [a, b]) expect((await submit(s, portfolio(5))).json.limit).toBe('jobs.max_jobs');
    const jobs = (await a.call('GET', LIST)).json.jobs as { id: string }[];
    expect(jobs).toHaveLength(3);
    /** The first time cancels what has not ended, the second removes it. */
    const gone = async (url: string): Promise<number> => {
      await a.call('DELETE', url);
      return (await b.call('GET', url)).status;
    };
    for (const { id } of jobs) await expect.poll(() => gone(`${LIST}/${id}`), { interval: 30 }).toBe(404);
    for (const s of [a, b]) expect((await submit(s, portfolio(6000))).json.limit).toBe('jobs.max_bytes');
    await Promise.all([a, b, a].map((s) => submit(s, portfolio(700))));
    const { rows } = await place.postgres.query(
      `SELECT coalesce(sum(upload_bytes + result_bytes), 0)::int AS n FROM shared_${tables - 1}`,
    );
    expect(rows[0].n).toBeLessThanOrEqual(200_000);
  });

  checkTestNeeding(
    ['versitygw'],
    'object storage fails at any call of an upload in parts: what was told stands, and the rest comes',
    async () => {
      const { a, b, table } = await sameTwo();
      const body = portfolio(ROWS);
      const direct = await a.call('POST', predictUrl('csv'), { body });
      const tus = { 'tus-resumable': '1.0.0' };
      const bytes = Buffer.from(body);
      const first = 300_000;
      const codes = new Set<string>();
      for (let call = 1; call <= FAILING_CALLS; call++) {
        // Refused, and carried out with its answer lost, which is tried again.
        const how = call % 2 === 0 ? 'lost' : 403;
        const headers = { ...tus, 'upload-length': String(bytes.length) };
        const made = await a.call('POST', predictUrl('csv'), { headers });
        const at = made.headers.location as string;
        const part = (s: Service, offset: number, to: number) => {
          const headers = {
            ...tus,
            'content-type': 'application/offset+octet-stream',
            'upload-offset': String(offset),
          };
          return s.call('PATCH', at, { body: bytes.subarray(offset, to), headers });
        };
        expect((await part(a, 0, first)).status).toBe(204);
        let calls = 0;
        const failing = Math.ceil(call / 2);
        gate.rule = ({ path: of }) => (of.includes(at.split('/').at(-1)!) && ++calls === failing ? how : 'pass');
        const reply = await part(b, first, bytes.length);
        gate.rule = () => 'pass';
        if (reply.status !== 204) expect([reply.status, codes.add(reply.json.code) && reply.json.code]).toEqual([503, 'jobs_unavailable']); // biome-ignore format: one line
        const told = await a.call('HEAD', at, { headers: tus });
        expect(told.status).toBe(200);
        const offset = Number(told.headers['upload-offset']);
        expect(offset).toBeGreaterThanOrEqual(first);
        if (reply.status === 204) expect(offset).toBe(bytes.length);
        if (offset < bytes.length) expect((await part(a, offset, bytes.length)).status).toBe(204);
        const job = at.replace('uploads', 'jobs');
        await expect.poll(async () => (await b.call('GET', job)).json.state, { interval: 30 }).toBe('done');
        expect((await a.call('GET', `${job}/result`)).text === direct.text).toBe(true);
        expect((await b.call('DELETE', at, { headers: tus })).status).toBe(204);
      }
      expect([...codes]).toEqual(['jobs_unavailable']);
      // One that is removed leaves nothing; what a failing call left of others, a sweep removes.
      const made = await a.call('POST', predictUrl('csv'), {
        headers: { ...tus, 'content-type': 'application/offset+octet-stream', 'upload-length': '100' },
        body: 'some',
      });
      expect((await b.call('DELETE', made.headers.location as string, { headers: tus })).status).toBe(204);
      expect(
        (await place.bucket.list(`${table}/${(made.headers.location as string).split('/').at(-1)}`)).objects,
      ).toEqual([]);
    },
  );

  checkTestNeeding(['versitygw'], 'a job is cancelled wherever it runs', async () => {
    const { a, b, events } = await sameTwo();
    // What has ended is removed by another DELETE: each job is asked for once, and reads its upload until it is.
    for (const asked of [a, b]) {
      const pass = gate.hold(({ method, path: of }) => method === 'GET' && of.endsWith('/body'));
      const made = await submit(a, portfolio(3000));
      expect(made.status).toBe(201);
      await untilState(b, made, 'running');
      expect((await asked.call('DELETE', made.headers.location as string)).status).toBe(204);
      await untilState(b, made, 'cancelled');
      pass();
    }
    expect(events()).toContain('job_cancelled');
  });

  checkTestNeeding(
    ['versitygw'],
    'the database is away: jobs are 503, predictions go on, and all comes back by itself',
    async () => {
      const { a, b, events } = await two([], 5000);
      const small = await submit(a, portfolio(10));
      await untilState(b, small, 'done');
      // It reads its upload until the database is away.
      const pass = gate.hold(({ method, path: of }) => method === 'GET' && of.endsWith('/body'));
      const made = await submit(a, portfolio(3000));
      await untilState(b, made, 'running');
      const stopped = await place.postgres.pause();
      pass();
      const location = small.headers.location as string;
      const asked = [
        () => submit(b, portfolio(5)),
        () => a.call('GET', location),
        () => a.call('GET', `${location}/result`),
        () => b.call('GET', LIST),
        () => b.call('DELETE', location),
      ];
      for (const ask of asked) {
        const reply = await ask();
        expect([reply.status, reply.json.code, reply.headers['retry-after']]).toEqual([503, 'jobs_unavailable', '2']);
      }
      const ready = await a.call('GET', '/readyz');
      expect([ready.status, ready.json]).toEqual([200, { status: 'ready', jobs: 'unreachable' }]);
      expect((await a.call('GET', '/metrics')).text).toContain('sluice_job_table_up 0');
      expect((await a.call('POST', predictUrl('csv'), { body: portfolio(5) })).status).toBe(200);
      await expect.poll(() => events(), { interval: 50 }).toContain('job_lease_lost');
      await stopped.resume();
      await untilState(b, made, 'done');
      expect((await a.call('GET', made.headers.location as string)).json.summary.scored).toBe(3000);
      await expect
        .poll(async () => (await a.call('GET', '/readyz')).json, { interval: 50 })
        .toEqual({ status: 'ready' });
      const told = () => events().filter((e) => e === 'job_table_down' || e === 'job_table_up');
      await expect.poll(() => told().length, { interval: 50 }).toBe(4);
      expect(told().sort()).toEqual(['job_table_down', 'job_table_down', 'job_table_up', 'job_table_up']);
      expect((await submit(b, portfolio(5))).status).toBe(201);
    },
  );

  checkTestNeeding(
    ['versitygw'],
    'object storage is away: uploads are 503, and what is queued is put off',
    async () => {
      const { a, b, events } = await sameTwo();
      const small = await submit(a, portfolio(10));
      await untilState(b, small, 'done');
      // Uploads are taken, and cannot be read again.
      gate.rule = ({ method }) => (method === 'GET' || method === 'HEAD' ? 403 : 'pass');
      const made = await submit(a, portfolio(300));
      expect(made.status).toBe(201);
      await expect.poll(() => events(), { interval: 50 }).toContain('job_put_off');
      const result = await b.call('GET', `${small.headers.location}/result`);
      expect([result.status, result.json.code]).toEqual([503, 'jobs_unavailable']);
      expect(JSON.stringify(result.json)).not.toContain('s3://');
      gate.rule = () => 403;
      const refused = await submit(b, portfolio(5));
      expect([refused.status, refused.json.code, refused.headers['retry-after']]).toEqual([
        503,
        'jobs_unavailable',
        '2',
      ]);
      gate.rule = () => 'pass';
      await untilState(b, made, 'done');
      expect((await b.call('GET', `${made.headers.location}/result`)).text.split('\n')).toHaveLength(302);
      expect((await a.call('GET', LIST)).json.jobs).toHaveLength(2);
    },
  );

  checkTestNeeding(
    ['versitygw'],
    'an upload that storage does not find for a moment, as while it is completed twice, is scored later',
    async () => {
      const { a, b, events } = await sameTwo();
      const body = portfolio(300);
      const want = await a.call('POST', predictUrl('csv'), { body });
      let unfound = 2;
      gate.rule = ({ method, path: of }) => {
        if (!of.endsWith('/body') || method !== 'HEAD' || unfound === 0) return 'pass';
        unfound--;
        return 404;
      };
      const made = await submit(a, body);
      await untilState(b, made, 'done');
      expect([unfound, events().filter((event) => event === 'job_put_off')]).toEqual([
        0,
        ['job_put_off', 'job_put_off'],
      ]);
      expect((await b.call('GET', `${made.headers.location}/result`)).text === want.text).toBe(true);
    },
  );

  checkTestNeeding(['versitygw'], 'doctor says whether table and bucket are reached, and why not', async () => {
    const { table } = await sameTwo();
    const database = { url_env: 'JOBS_DATABASE', connect_timeout_ms: 60_000, statement_timeout_ms: 60_000 };
    const shared = { database, table, files: `s3://jobs/${table}`, lease_ms: 60_000 };
    expect(await reachShared(shared)).toContain('0 jobs are queued, 0 are running');
    const times = { connect_timeout_ms: 60_000, statement_timeout_ms: 60_000 };
    const nowhere = { ...times, url: 'postgresql://sluice@127.0.0.1:1/none' };
    await expect(reachShared({ ...shared, database: nowhere })).rejects.toMatchObject({ code: 'database_failed' });
    const open = { ...nowhere, url: 'postgresql://sluice:secret@db/none' };
    await expect(reachShared({ ...shared, database: open })).rejects.toMatchObject({ code: 'usage' });
    gate.rule = () => 403;
    await expect(reachShared(shared)).rejects.toMatchObject({ code: 'storage_unavailable' });
  });

  checkTestNeeding(['versitygw'], 'an upload of a pipeline is scored out of the bucket', async () => {
    const out = scratch();
    const file = path.join(out, 'nightly.yaml');
    const ends = `source: { type: upload, format: tsv }\nsink: { type: file, path: "${out}/{name}.csv" }`;
    writeFileSync(file, `model: credit-default\n${ends}\n`);
    const { a, b } = await two([`pipelines=["${file}"]`]);
    const made = await b.call('POST', '/api/v1/pipelines/nightly', { body: portfolio(200) });
    expect([made.status, made.json.target]).toEqual([201, path.join(out, `${made.json.id}.csv`)]);
    await untilState(a, made, 'done');
    expect(readFileSync(made.json.target, 'utf8').trimEnd().split('\n')).toHaveLength(201);
  });
});
