// A job that ends whatever server runs it: it fails after so many, and what ran beside it does not fail with it.
import path from 'node:path';
import { afterAll, beforeAll, expect, onTestFinished } from 'vitest';
import { generatePortfolio } from '../../../src/demo/portfolio.ts';
import { createKey } from '../../../src/doors/commands/keys.ts';
import { scratch } from '../../support/cli.ts';
import { freePort } from '../../support/ports.ts';
import { requirePostgres } from '../../support/postgres/require.ts';
import { ask, openShared, Replica, type SharedPlace, startReplicas } from '../../support/replicas.ts';
import { checkTest, times } from '../../support/tiers.ts';
import { checkTestNeeding } from '../../support/tools.ts';

const CRASHES = times('crashes of a job', { quick: 2, check: 2, campaigns: 3 });
/** Of replicas, which take a job over without a restart. */
const SHARED_CRASHES = times('crashes of a shared job', { quick: 1, check: 1, campaigns: 3 });
/** Interpretation takes long enough to be killed in the middle of it. */
const URL = '/api/v1/scoring/predict/interpretation.csv?modelId=credit-default';
const portfolio = (rows: number): Buffer =>
  Buffer.concat([...generatePortfolio({ rows, seed: 19, faults: 0, delimiter: '\t' })]);

async function submit(port: number, token: string, rows: number): Promise<string> {
  const made = await ask(port, 'POST', URL, { token, body: portfolio(rows), headers: { prefer: 'respond-async' } });
  expect(made.status).toBe(201);
  return made.headers.location as string;
}

checkTest('a job that kills its server fails after so many restarts; its neighbour does not', async () => {
  const folder = scratch();
  const keys = path.join(folder, 'keys.yaml');
  const token = await createKey('night', { file: keys, scopes: 'predict,interpret,jobs,metrics' });
  const settings = [
    'listen.host=127.0.0.1',
    'behind_tls_proxy=["127.0.0.0/8"]',
    `keys_file=${keys}`,
    'workers=2',
    'preload=["credit-default"]',
    `jobs.folder=${path.join(folder, 'jobs')}`,
    'jobs.concurrent=2',
    `jobs.max_crashes=${CRASHES}`,
  ];
  const server = new Replica(await freePort(), ['--registry', path.resolve('src/bundled'), '--set', ...settings], {});
  onTestFinished(() => server.close());
  await server.start();
  const job = async (url: string) => (await ask(server.port, 'GET', url, { token })).json;
  const [killer, beside] = [await submit(server.port, token, 12_000), await submit(server.port, token, 5000)];
  await expect.poll(async () => (await job(beside)).state, { interval: 20 }).toBe('running');
  const states: string[] = [];
  for (let i = 0; i < CRASHES; i++) {
    await expect.poll(async () => (await job(killer)).state, { interval: 20 }).toBe('running');
    states.push((await job(beside)).state);
    await server.end('SIGKILL');
    await server.start();
  }
  await expect.poll(async () => (await job(killer)).state, { interval: 50 }).toBe('failed');
  // It ran beside the other once; after that each runs alone.
  expect(states).toEqual(['running', ...Array(CRASHES - 1).fill('queued')]);
  expect((await job(killer)).error).toEqual({
    code: 'job_crashed',
    message: `${CRASHES} servers crashed while running the job`,
  });
  await expect.poll(async () => (await job(beside)).state, { interval: 50 }).toBe('done');
  const { bytes } = await ask(server.port, 'GET', '/metrics', { token });
  expect(bytes.toString()).toMatch(/^sluice_jobs_crashed_total 1$/m);
});

requirePostgres('a job that kills its servers', () => {
  let place: SharedPlace;
  beforeAll(async () => {
    place = await openShared();
  });
  afterAll(() => place?.close());

  checkTestNeeding(['versitygw'], 'fails after so many of any replicas, which are there for the next', async () => {
    const table = 'killer';
    const { replicas, token } = await startReplicas(2, place, {
      table,
      leaseMs: 1500,
      settings: [`jobs.max_crashes=${SHARED_CRASHES}`],
    });
    const rowOf = async (id: string) =>
      (await place.postgres.query(`SELECT state, crashes, holder FROM ${table} WHERE id = $1`, [id])).rows[0];
    const url = await submit(replicas[0]!.port, token, 12_000);
    const id = url.split('/').at(-1)!;
    let alive = replicas;
    for (let i = 0; i < SHARED_CRASHES; i++) {
      await expect
        .poll(
          async () => {
            const { state, crashes } = await rowOf(id);
            return [state, crashes];
          },
          { interval: 20 },
        )
        .toEqual(['running', i]);
      const { holder } = await rowOf(id);
      const dead = replicas.find((r) => holder.includes(` ${r.pid} `))!;
      await dead.end('SIGKILL');
      if (i < SHARED_CRASHES - 1) await dead.start();
      else alive = replicas.filter((r) => r !== dead);
    }
    const { port } = alive[0]!;
    const failed = async () => (await ask(port, 'GET', url, { token })).json;
    await expect.poll(async () => (await failed()).state, { interval: 50 }).toBe('failed');
    expect((await failed()).error.code).toBe('job_crashed');
    // It was counted once, and the files are gone.
    const counted = await Promise.all(
      alive.map(async (r) => (await ask(r.port, 'GET', '/metrics', { token })).bytes.toString()),
    );
    const sum = counted.map((text) => Number(/^sluice_jobs_crashed_total (\d+)$/m.exec(text)![1]));
    expect(sum.reduce((a, b) => a + b)).toBe(1);
    await expect.poll(async () => (await place.bucket.list(`${table}/`)).objects, { interval: 50 }).toEqual([]);
    const next = await submit(port, token, 100);
    await expect.poll(async () => (await ask(port, 'GET', next, { token })).json.state, { interval: 50 }).toBe('done');
  });
});
