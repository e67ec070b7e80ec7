// What a service tells whoever is paged: each number is the one that was made to happen, and none has a label that came with a request.
import { once } from 'node:events';
import { existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import net from 'node:net';
import path from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { loadConfig } from '../../../src/config/load-config.ts';
import { ServerConfigSchema } from '../../../src/config/server-config.ts';
import { generatePortfolio } from '../../../src/demo/portfolio.ts';
import { createKey } from '../../../src/doors/commands/keys.ts';
import { serve } from '../../../src/doors/http/service.ts';
import { devCertificate } from '../../../src/doors/http/wire/listener.ts';
import { expiryOf, measureCertificates, watchDisks } from '../../../src/monitor/host-limits.ts';
import { Metrics } from '../../../src/monitor/metrics.ts';
import { scratch } from '../../support/cli.ts';
import { type Sample, sampleOf, samplesOf } from '../../support/exposition.ts';
import { call, predictUrl, REGISTRY, startProcess, startService } from '../../support/service.ts';
import { ROWS, thousand } from '../../support/thousand.ts';
import { checkTest } from '../../support/tiers.ts';

checkTest('rows, waits, workers and models of a service', async () => {
  const began = Date.now() / 1000;
  const s = await startService(['preload=["credit-default"]']);
  const { csv } = await thousand();
  const answer = await s.call('POST', predictUrl('csv', '&delimiter=comma'), { body: csv });
  expect(answer.status).toBe(200);
  const job = await s.call('POST', predictUrl('csv', '&delimiter=comma'), {
    body: csv,
    headers: { prefer: 'respond-async' },
  });
  const state = async () => (await s.call('GET', String(job.headers.location))).json.state;
  await expect.poll(state).toBe('done');
  const text = (await s.call('GET', '/metrics')).text;
  const of = (name: string, labels = {}) => sampleOf(text, name, labels);
  expect(of('sluice_rows_total')).toBe(2 * ROWS);
  expect(of('sluice_ready')).toBe(1);
  expect(of('sluice_workers')).toBe(1);
  expect(of('sluice_worker_busy_seconds_total')).toBeGreaterThan(0);
  expect(of('sluice_models_loaded')).toBe(1);
  expect(of('sluice_model_load_seconds_count')).toBe(1);
  expect(of('sluice_disk_free_bytes', { use: 'jobs' })).toBeGreaterThan(0);
  expect(of('sluice_disk_free_bytes', { use: 'spill' })).toBeGreaterThan(0);
  expect(of('sluice_certificate_expiry_timestamp_seconds', { use: 'server' })).toBeGreaterThan(began);
  expect(samplesOf(text).find((m) => m.name === 'sluice_build_info')?.labels.node).toBe(process.version);
  for (const pipeline of ['http', 'jobs']) {
    expect(of('sluice_pipeline_last_answer_timestamp_seconds', { pipeline })).toBeGreaterThanOrEqual(began);
    expect(of('sluice_wait_seconds_total', { pipeline, for: 'workers' })).toBeGreaterThan(0);
    expect(of('sluice_wait_seconds_total', { pipeline, for: 'sink' })).toBeGreaterThan(0);
    expect([of('sluice_in_flight_bytes', { pipeline }), of('sluice_in_flight_budget_bytes', { pipeline })]).toEqual([
      0, 0,
    ]);
  }
  expect(of('sluice_wait_seconds_total', { pipeline: 'jobs', for: 'source' })).toBeGreaterThan(0);
  for (const name of ['process_cpu_seconds_total', 'nodejs_eventloop_lag_p99_seconds', 'nodejs_heap_size_used_bytes']) {
    expect(of(name)).toBeGreaterThan(0);
  }

  const columns = (await s.call('GET', '/metrics/columns')).text;
  expect(sampleOf(columns, 'sluice_column_rejected_total', { column: 'amount', code: 'bad_number' })).toBe(120);
  expect(sampleOf(columns, 'sluice_column_rejected_total', { code: 'bad_boolean' })).toBe(80);
  expect(text).not.toContain('sluice_column_rejected_total');

  expect((await s.call('GET', '/readyz')).status).toBe(200);

  // Rows are answered, and then one ends it: the answer is cut.
  const rows = Buffer.concat([
    ...generatePortfolio({ rows: 30_000, seed: 8, delimiter: '\t', oddness: 'none' }),
  ]).toString();
  const asked = s.call('POST', predictUrl('csv', '&on_invalid=fail'), { body: `${rows}broken\n` });
  await expect(asked).rejects.toThrow();
  const count = async (name: string, labels = {}) => sampleOf((await s.call('GET', '/metrics')).text, name, labels);
  await expect.poll(() => count('sluice_http_cut_answers_total')).toBe(1);
  expect(await count('sluice_http_errors_total', { code: 'invalid_row' })).toBe(1);
  expect((await s.call('GET', '/livez')).status).toBe(200);
});

async function withKeys() {
  const folder = scratch();
  const [certificate, key, file] = ['tls.crt', 'tls.key', 'keys.yaml'].map((f) => path.join(folder, f)) as [string, string, string]; // biome-ignore format: one line
  const made = await devCertificate();
  writeFileSync(certificate, made.cert);
  writeFileSync(key, made.key);
  const flags = { file, scopes: 'predict,metrics' };
  const tokens = {
    ops: await createKey('ops', { ...flags, days: 30 }),
    narrow: await createKey('narrow', { ...flags, models: 'credit-columns' }),
    reader: await createKey('reader', { file, scopes: 'models:read' }),
    expired: await createKey('expired', { ...flags, days: 0.000_000_1 }),
  };
  const settings = [
    'listen.port=0',
    'listen.host=127.0.0.1',
    'workers=1',
    `keys_file=${file}`,
    `tls.certificate=${certificate}`,
    `tls.key=${key}`,
    `jobs.folder=${folder}/jobs`,
  ];
  const running = await serve({ config: await loadConfig(ServerConfigSchema, { settings }), registry: REGISTRY });
  onTestFinished(() => running.stop());
  return { port: Number(new URL(running.url).port), tokens, certificate, key, made };
}

checkTest('refused keys by name and reason, errors by code, what expires; never what a request said', async () => {
  const { port, tokens, certificate, key, made } = await withKeys();
  const url = predictUrl('json');
  const CANARY = 'canary_4711';
  const ask = (token: string | null, target = url, body = '[]') =>
    call(port, tokens.ops, 'POST', target, { token, body });
  const began = Date.now() / 1000;
  expect((await ask(null)).status).toBe(401);
  for (let i = 0; i < 3; i++) expect((await ask(CANARY)).status).toBe(401);
  expect((await ask(tokens.expired)).status).toBe(401);
  expect((await ask(tokens.reader)).status).toBe(403);
  expect((await ask(tokens.narrow)).status).toBe(403);
  expect((await call(port, tokens.ops, 'POST', url, { body: '[]', headers: { prefer: 'respond-async' } })).status).toBe(
    403,
  );
  expect((await ask(tokens.ops, `/api/v1/${CANARY}`)).status).toBe(404);
  expect((await ask(tokens.ops, predictUrl('csv'), `${CANARY}\tx\n1\t2\n`)).status).toBe(400);
  expect((await ask(tokens.ops, `/api/v1/${'x'.repeat(300)}/%zz`)).status).toBe(400);
  await ask(tokens.ops, url, `[{"${CANARY}":"${CANARY}","amount":"${CANARY}"}]`);
  const raw = net.connect(port, '127.0.0.1', () => raw.end('GET / HTTP/1.1\r\n\r\n'));
  await new Promise((resolve) => raw.on('close', resolve).resume());

  const read = async () => (await call(port, tokens.ops, 'GET', '/metrics')).text;
  const text = await read();
  const failed = samplesOf(text).filter((m) => m.name === 'sluice_logins_failed_total');
  expect(failed.map((m) => [m.labels.key, m.labels.reason, m.value]).sort()).toEqual([
    ['expired', 'expired', 1],
    ['narrow', 'model', 1],
    ['ops', 'scope', 1],
    ['reader', 'scope', 1],
    ['unknown', 'none', 1],
    ['unknown', 'unknown', 3],
  ]);
  const errors = Object.fromEntries(
    samplesOf(text).filter((m) => m.name === 'sluice_http_errors_total').map((m) => [m.labels.code!, m.value]),
  ); // biome-ignore format: one call
  expect(errors).toMatchObject({ unauthorized: 5, forbidden: 3, not_found: 1, header_mismatch: 1, bad_request: 1 });
  const expiry = samplesOf(text).filter((m) => m.name === 'sluice_key_expiry_timestamp_seconds');
  expect(expiry.map((m) => m.labels.key).sort()).toEqual(['expired', 'ops']);
  expect(expiry.find((m) => m.labels.key === 'ops')!.value).toBeGreaterThan(began + 29 * 86_400);
  const until = () => read().then((t) => sampleOf(t, 'sluice_certificate_expiry_timestamp_seconds', { use: 'server' }));
  expect(await until()).toBe(expiryOf(made.cert) / 1000);
  const columns = (await call(port, tokens.ops, 'GET', '/metrics/columns')).text;
  expect(`${text}${columns}`).not.toContain(CANARY);

  // A chain counts with the one of its certificates that expires first; what is no certificate leaves the one in use.
  writeFileSync(certificate, 'none');
  const next = await devCertificate();
  writeFileSync(certificate, next.cert);
  writeFileSync(key, next.key);
  await expect.poll(until).toBe(expiryOf(next.cert) / 1000);
  expect((await call(port, tokens.reader, 'GET', '/metrics/columns')).status).toBe(403);
});

test('space left is told while the folder is there, and again when it comes back', async () => {
  const metrics = new Metrics('serve');
  const folder = path.join(scratch(), 'volume');
  const stop = watchDisks(metrics, { spill: folder, jobs: scratch() }, 20);
  onTestFinished(stop);
  const free = async (use: string): Promise<Sample | undefined> =>
    samplesOf(await metrics.text()).find((m) => m.name === 'sluice_disk_free_bytes' && m.labels.use === use);
  await expect.poll(() => free('jobs')).toBeDefined();
  expect(await free('spill')).toBeUndefined();
  mkdirSync(folder);
  await expect.poll(async () => (await free('spill'))?.value).toBeGreaterThan(0);
  rmSync(folder, { recursive: true });
  await expect.poll(() => free('spill')).toBeUndefined();
});

test('a certificate that is replaced is read again; one that cannot be read leaves the last answer', async () => {
  const metrics = new Metrics('serve');
  const file = path.join(scratch(), 'client.pem');
  const { cert } = await devCertificate();
  measureCertificates(metrics, 'kafka', [file]);
  const until = async () =>
    sampleOf(await metrics.text(), 'sluice_certificate_expiry_timestamp_seconds', { use: 'kafka' });
  expect(await until()).toBeUndefined();
  writeFileSync(file, cert);
  expect(await until()).toBe(expiryOf(cert) / 1000);
  writeFileSync(file, 'no certificate any more, and longer');
  expect(await until()).toBe(expiryOf(cert) / 1000);
});

checkTest('who is alive answers /livez, and who stands still does not, until it goes on', async () => {
  const s = await startProcess('src/bundled');
  expect((await s.call('GET', '/livez')).status).toBe(200);
  process.kill(s.pid, 'SIGSTOP');
  const stateOf = () => /\) (\S)/.exec(readFileSync(`/proc/${s.pid}/stat`, 'latin1'))![1];
  if (existsSync('/proc/self/stat')) await expect.poll(stateOf).toBe('T');
  const order: string[] = [];
  const asked = s.call('GET', '/livez').finally(() => order.push('answered'));
  // Takes the connection in the kernel, and stays unanswered.
  const knocking = net.connect(s.port, '127.0.0.1');
  await once(knocking, 'connect');
  knocking.destroy();
  order.push('continued');
  process.kill(s.pid, 'SIGCONT');
  expect((await asked).status).toBe(200);
  expect(order).toEqual(['continued', 'answered']);
});
