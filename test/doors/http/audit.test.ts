// What the audit log has of a service: every request that touched a model or a job, with its caller, and none of its values.
import { execFileSync } from 'node:child_process';
import { readFileSync, truncateSync } from 'node:fs';
import https from 'node:https';
import path from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { readRecord } from '../../../src/audit/audit-record.ts';
import { verifyChain } from '../../../src/audit/verify-chain.ts';
import { loadConfig } from '../../../src/config/load-config.ts';
import { ServerConfigSchema } from '../../../src/config/server-config.ts';
import { createKey, rotateKey } from '../../../src/doors/commands/keys.ts';
import { serve } from '../../../src/doors/http/service.ts';
import { FolderRegistry } from '../../../src/model/registry/folder.ts';
import { copyBundled } from '../../support/bundled-models.ts';
import { CANARY, delimitedInputs, jsonInputs, SUNG } from '../../support/canaries.ts';
import { scratch, start } from '../../support/cli.ts';
import { collectedLog } from '../../support/collected-log.ts';
import { call, PREDICT, predictUrl, REGISTRY, type Service, startService } from '../../support/service.ts';
import { startTenants } from '../../support/tenants.ts';
import { checkTest, times } from '../../support/tiers.ts';
import { newSigningKey, oidcSettings, tokenProvider } from '../../support/token-provider.ts';
import { testNeeding } from '../../support/tools.ts';

type Fields = Readonly<Record<string, unknown>>;

const recordsIn = (file: string): Fields[] =>
  readFileSync(file, 'utf8').split('\n').slice(0, -1).map((line) => readRecord(Buffer.from(line))!.fields); // biome-ignore format: one line

async function audited(settings: string[] = [], options: Parameters<typeof startService>[2] = {}) {
  const folder = scratch();
  const file = path.join(folder, 'audit.ndjson');
  const s = await startService([`audit.file=${file}`, ...settings], folder, options);
  /** The record of a request, when it is there. */
  const recordOf = async (id: unknown): Promise<Fields> => {
    const find = () => recordsIn(file).find((r) => r.kind === 'request' && r.request_id === id);
    await expect.poll(find).toBeDefined();
    return find()!;
  };
  return { ...s, file, recordOf };
}

/** The result of a job of 3,000 rows. */
async function scoredJob({ call }: Pick<Service, 'call'>): Promise<{ url: string; size: number }> {
  const { sample } = (await call('GET', '/api/v1/models/credit-default')).json;
  const body = JSON.stringify(Array(3000).fill(sample));
  const { id } = (await call('POST', predictUrl('json'), { body, headers: asJob })).json;
  const find = async () => (await call('GET', `/api/v1/scoring/jobs/${id}`)).json;
  await expect.poll(find).toMatchObject({ state: 'done' });
  const { result, resultBytes } = await find();
  return { url: result, size: resultBytes };
}

const asJob = { prefer: 'respond-async' };

test('a request leaves one record: who, what, which package, how many rows, and how it ended', async () => {
  const s = await audited();
  const header = Object.keys((await s.call('GET', '/api/v1/models/credit-default')).json.sample);
  const answer = await s.call('POST', predictUrl('json'), { body: JSON.stringify([{}, {}].map(() => ({ x: 1 }))) });
  expect(header.length).toBeGreaterThan(5);
  const refused = await s.recordOf(answer.headers['x-request-id']);
  expect(refused).toMatchObject({
    identity_kind: 'key',
    identity: 'dev',
    address: '127.0.0.1',
    method: 'POST',
    route: `${PREDICT}.json`,
    model: expect.stringMatching(/^credit-default:\d+$/),
    package_sha256: expect.stringMatching(/^[0-9a-f]{64}$/),
    rows: 2,
    scored: 0,
    rejected: 2,
    status: 400,
    code: 'nothing_scored',
    cut: false,
    bytes_in: 17,
  });
  const empty = await s.call('POST', predictUrl('json'), { body: '[]' });
  const fine = await s.recordOf(empty.headers['x-request-id']);
  expect(fine).toMatchObject({ status: 200, bytes_out: empty.bytes.length, package_sha256: empty.headers['sluice-package-sha256'] }); // biome-ignore format: one line
  expect(fine).not.toHaveProperty('code');
  const v2 = await s.call('GET', '/v2/models/credit-default');
  expect(await s.recordOf(v2.headers['x-request-id'])).toMatchObject({ route: '/v2/models/:name', model: fine.model });
  // What touches no model, and whoever shows nothing, leaves none.
  for (const url of ['/livez', '/metrics', '/openapi.json', '/nothing']) await s.call('GET', url);
  await s.call('GET', '/api/v1/models', { token: null });
  const last = await s.call('GET', '/api/v1/models');
  await s.recordOf(last.headers['x-request-id']);
  expect(recordsIn(s.file).map((r) => r.route ?? r.kind)).toEqual(['head', '/api/v1/models/:ref', `${PREDICT}.json`, `${PREDICT}.json`, '/v2/models/:name', '/api/v1/models']); // biome-ignore format: one line
  await s.running.stop();
  expect(await verifyChain([s.file])).toMatchObject({ whole: true, closed: true });
});

test('jobs: the upload, what became of it, and who fetched the result', async () => {
  const s = await audited();
  const made = await s.call('POST', predictUrl('json'), { body: '[]', headers: asJob });
  const { id } = made.json;
  const url = `/api/v1/scoring/jobs/${id}`;
  expect(await s.recordOf(made.headers['x-request-id'])).toMatchObject({ status: 201, job_id: id });
  await expect.poll(() => recordsIn(s.file).find((r) => r.kind === 'job')).toMatchObject({ job_id: id, state: 'done', key: 'dev', rows: 0, request_id: made.headers['x-request-id'] }); // biome-ignore format: one line
  const result = await s.call('GET', `${url}/result`);
  expect(recordsIn(s.file).find((r) => r.kind === 'job')).toMatchObject({ package_sha256: result.headers['sluice-package-sha256'] }); // biome-ignore format: one line
  expect(await s.recordOf(result.headers['x-request-id'])).toMatchObject({ job_id: id, route: '/api/v1/scoring/jobs/:id/result', status: 200, model: expect.stringMatching(/^credit-default:/) }); // biome-ignore format: one line
  const failing = await s.call('POST', predictUrl('json'), { body: '[{"x":1}]', headers: asJob });
  await expect.poll(() => recordsIn(s.file).find((r) => r.kind === 'job' && r.job_id === failing.json.id)).toMatchObject({ state: 'failed', code: 'nothing_scored' }); // biome-ignore format: one line
});

test('the download of a result: a client that leaves after the last byte was not cut off', async () => {
  const s = await audited();
  const { url, size } = await scoredJob(s);
  for (const range of [null, [0, 9_999], [5, size - 1]] as const) {
    const length = range === null ? size : range[1] - range[0] + 1;
    for (let i = 0; i < 10; i++) {
      const headers = { authorization: `API-Key ${s.token}`, ...(range ? { range: `bytes=${range.join('-')}` } : {}) };
      const left = Promise.withResolvers<string>();
      const request = https.get({ port: s.port, path: url, headers, agent: false, rejectUnauthorized: false });
      request.on('error', left.reject).on('response', (response) => {
        let read = 0;
        response.on('data', (chunk: Buffer) => {
          read += chunk.length;
          if (read < length) return;
          response.destroy();
          left.resolve(response.headers['x-request-id'] as string);
        });
      });
      expect(await s.recordOf(await left.promise)).toMatchObject({ cut: false, bytes_out: length });
    }
  }
});

test('aliases that are moved, subjects of tokens, wrong keys up to their limit, and none of the tokens', async () => {
  const provider = await tokenProvider(await newSigningKey('k'));
  const models = path.join(scratch(), 'models');
  copyBundled(models);
  const registry = new FolderRegistry([models]);
  const [entry] = await registry.list();
  const { id, versions } = entry!;
  const version = versions[0]!;
  const limit = 'limits.failed_logins_per_minute_per_address=3';
  const s = await audited([oidcSettings(provider), limit, 'audit.address=network'], { registry });
  const moved = await s.call('PUT', `/api/v1/models/${id}/aliases/blue`, { body: JSON.stringify({ version }) });
  expect([moved.status, await s.recordOf(moved.headers['x-request-id'])]).toMatchObject([200, { alias: 'blue', model: `${id}:${version}`, status: 200 }]); // biome-ignore format: one line
  const removed = await s.call('DELETE', `/api/v1/models/${id}/aliases/blue`);
  expect(await s.recordOf(removed.headers['x-request-id'])).toMatchObject({
    alias: 'blue',
    model: id,
    method: 'DELETE',
  });

  const token = await provider.sign({ sub: 'batch-7', scope: 'models:read' });
  const asked = await s.call('GET', '/api/v1/models', { token: null, headers: { authorization: `Bearer ${token}` } });
  expect(await s.recordOf(asked.headers['x-request-id'])).toMatchObject({ identity_kind: 'oidc', identity: 'oidc:corporate:batch-7', address: '127.0.0.0/24' }); // biome-ignore format: one line
  const narrow = await s.call('POST', predictUrl('json'), {
    token: null,
    headers: { authorization: `Bearer ${token}` },
  });
  expect(await s.recordOf(narrow.headers['x-request-id'])).toMatchObject({ status: 403, login: 'scope', identity: 'oidc:corporate:batch-7' }); // biome-ignore format: one line

  for (let i = 0; i < 9; i++) await s.call('GET', '/api/v1/models', { token: `guess-${i}` });
  const last = await s.call('GET', '/api/v1/models');
  await s.recordOf(last.headers['x-request-id']);
  const failed = recordsIn(s.file).filter((r) => r.login === 'unknown');
  expect(failed.map((r) => [r.status, r.identity])).toEqual(Array(3).fill([401, null]));
  expect(recordsIn(s.file).filter((r) => r.kind === 'logins_limited')).toHaveLength(1);
  const text = readFileSync(s.file, 'utf8');
  for (const secret of [token, s.token, 'guess-']) expect(text).not.toContain(secret);
});

test('a file of keys that changes leaves the names of what changed', async () => {
  const folder = scratch();
  const [file, keys] = [path.join(folder, 'audit.ndjson'), path.join(folder, 'keys.yaml')];
  const flags = { file: keys, scopes: 'predict' };
  const first = await createKey('first', flags);
  await createKey('second', flags);
  const config = await loadConfig(ServerConfigSchema, {
    settings: ['listen.port=0', 'behind_tls_proxy=["127.0.0.1"]', `keys_file=${keys}`, `jobs.folder=${folder}/jobs`, `audit.file=${file}`], // biome-ignore format: one line
  });
  const running = await serve({ config, registry: REGISTRY });
  onTestFinished(() => running.stop());
  const changes = () => recordsIn(file).filter((r) => r.kind === 'keys');
  const { token } = await rotateKey('first', { file: keys, grace: '1h' });
  await expect.poll(changes).toMatchObject([{ added: [], removed: [], changed: ['first'] }]);
  await createKey('third', flags);
  await expect.poll(changes).toMatchObject([{}, { added: ['third'], removed: [], changed: [] }]);
  const text = readFileSync(file, 'utf8');
  for (const secret of [first, token, 'sha256":"']) expect(text).not.toContain(secret);
});

test('the operation that a header asks for is recorded as what it is, and as what it was sent', async () => {
  const s = await audited();
  const tus = { 'tus-resumable': '1.0.0' };
  const made = await s.call('POST', predictUrl('json'), { headers: { ...tus, 'upload-length': '2' } });
  const { location } = made.headers as { location: string };
  for (const method of ['HEAD', 'delete']) {
    const asked = await s.call('POST', location, { headers: { ...tus, 'x-http-method-override': method } });
    expect(await s.recordOf(asked.headers['x-request-id'])).toMatchObject({
      method: method.toUpperCase(),
      method_sent: 'POST',
      job_id: location.split('/').at(-1),
      status: method === 'HEAD' ? 200 : 204,
    });
  }
  // Elsewhere the header changes nothing, and is not recorded.
  const other = await s.call('POST', predictUrl('json'), {
    body: '[]',
    headers: { 'x-http-method-override': 'DELETE' },
  });
  const record = await s.recordOf(other.headers['x-request-id']);
  expect([record.method, record.method_sent]).toEqual(['POST', undefined]);
});

test('a refused request is recorded with what it asked for, as far as that exists', async () => {
  const settings = (folder: string) => [`audit.file=${path.join(folder, 'audit.ndjson')}`];
  const t = await startTenants(settings);
  onTestFinished(() => t.close());
  const file = path.join(t.folder, 'audit.ndjson');
  const mine = '/api/v1/scoring/predict.json?modelId=model-alpha';
  const made = await t.ask('alpha', 'POST', mine, { body: '[]', headers: asJob });
  const job = made.headers.location!.split('/').at(-1);
  const asked = async (...[method, url, more]: [string, string, Parameters<typeof t.ask>[3]?]) => {
    const { headers } = await t.ask('beta', method, url, more);
    const find = () => recordsIn(file).find((r) => r.kind === 'request' && r.request_id === headers['x-request-id']);
    await expect.poll(find).toBeDefined();
    return find()!;
  };
  const refused = { identity: 'beta', login: 'model', code: 'forbidden', status: 403 };
  const moved = '/api/v1/models/model-alpha/aliases';
  const override = { 'tus-resumable': '1.0.0', 'x-http-method-override': 'DELETE' };
  for (const [request, expected] of [
    [['POST', mine], { ...refused, model: 'model-alpha' }],
    [['GET', '/api/v1/models/model-alpha:1'], { ...refused, model: 'model-alpha:1' }],
    [['GET', '/api/v1/models/model-alpha:jane.doe-77'], { ...refused, model: 'model-alpha' }],
    [['GET', '/v2/models/model-alpha/versions/1'], { ...refused, model: 'model-alpha:1' }],
    [['DELETE', `${moved}/jane.doe-77`], { ...refused, method: 'DELETE', model: 'model-alpha' }],
    [['GET', '/api/v1/models/jane.doe-77'], { ...refused, model: null }],
    [
      ['POST', '/api/v1/pipelines/pipeline-alpha'],
      { login: 'model', status: 404, pipeline: 'pipeline-alpha', model: 'model-alpha' },
    ],
    [['POST', '/api/v1/pipelines/jane.doe-77'], { status: 404, model: null }],
    [
      ['DELETE', `/api/v1/scoring/jobs/${job}`],
      { login: 'owner', status: 404, method: 'DELETE', job_id: job, model: 'model-alpha:1' },
    ],
    [
      ['POST', `/api/v1/scoring/uploads/${job}`, { headers: override }],
      { status: 404, method: 'DELETE', method_sent: 'POST' },
    ],
  ] as [Parameters<typeof asked>, object][]) {
    // biome-ignore format: a table
    expect(await asked(...request), String(request)).toMatchObject(expected);
  }
  // Wherever a key can be tried, trying it leaves a record.
  for (const url of [
    '/metrics',
    '/api/v1/nothing',
    '/v2/x',
    '/api/v1/models/%zz',
    `/api/v1/models/${'x'.repeat(300)}`,
  ]) {
    const headers = { authorization: 'API-Key guess' };
    const { status, headers: answer } = await t.ask(null, 'GET', url, { headers });
    expect([url, status]).toEqual([url, 401]);
    await expect.poll(() => recordsIn(file).find((r) => r.request_id === answer['x-request-id'])).toMatchObject({ login: 'unknown', status: 401 }); // biome-ignore format: one line
  }
  expect(readFileSync(file, 'utf8')).not.toMatch(SUNG);
});

checkTest('values of an input, and names that only it knows, are in no record', async () => {
  const s = await audited();
  const ask = (url: string, body: string, headers: Record<string, string> = {}) =>
    s.call('POST', url, { body, headers });
  for (const [, body] of delimitedInputs('\t').filter((_, i) => i % 3 === 0)) await ask(predictUrl('csv'), body);
  for (const [, body] of jsonInputs().filter((_, i) => i % 3 === 0)) {
    await ask(predictUrl('json'), body);
    await ask(predictUrl('json'), body, asJob);
  }
  const sung = encodeURIComponent(CANARY);
  for (const url of [`${PREDICT}.csv?modelId=${sung}`, predictUrl('csv', `&passthrough=${sung}`), `/v2/models/${sung}/infer`]) await ask(url, '{}'); // biome-ignore format: one line
  for (const url of [
    `/api/v1/models/${sung}`,
    `/api/v1/models/credit-default/aliases/${sung}`,
    `/api/v1/scoring/jobs/${sung}`,
  ]) {
    for (const method of ['GET', 'DELETE', 'PUT']) await s.call(method, url, { body: method === 'PUT' ? '{"version":"999"}' : '' }); // biome-ignore format: one line
  }
  for (const name of ['authorization', 'x-forwarded-for', 'traceparent', 'idempotency-key', 'user-agent', 'referer']) await ask(predictUrl('csv'), '', { [name]: CANARY }); // biome-ignore format: one line
  await s.running.stop();
  const text = readFileSync(s.file, 'utf8');
  expect(recordsIn(s.file).length).toBeGreaterThan(40);
  expect(text.split('\n').filter((line) => SUNG.test(line))).toEqual([]);
});

testNeeding(
  ['unshare as root'],
  'while nothing can be recorded nothing is done, unless the configuration says otherwise',
  async () => {
    const full = async (settings: string[]) => {
      const folder = scratch();
      execFileSync('mount', ['-t', 'tmpfs', '-o', 'size=64k', 'tmpfs', folder]);
      onTestFinished(() => void execFileSync('umount', ['-l', folder]));
      const file = path.join(folder, 'audit.ndjson');
      const { log, lines } = collectedLog();
      const s = await startService([`audit.file=${file}`, ...settings], undefined, { log });
      const filler = path.join(folder, 'filler');
      execFileSync('sh', ['-c', `cat /dev/zero > ${filler} 2>/dev/null || true`]);
      return { s, file, filler, lines };
    };
    const predict = (s: Service) => s.call('POST', predictUrl('json'), { body: '[]' });
    const { s, file, filler, lines } = await full([]);
    await expect.poll(async () => (await predict(s)).json.code, { interval: 0 }).toBe('audit_unavailable');
    const refused = await predict(s);
    expect([refused.status, refused.headers['retry-after']]).toEqual([503, '2']);
    expect((await s.call('GET', '/readyz')).status).toBe(503);
    expect((await s.call('GET', '/metrics')).text).toContain('sluice_audit_failed 1');
    truncateSync(filler, 0);
    await expect.poll(async () => (await predict(s)).status).toBe(200);
    expect(lines.map(({ event }) => event).filter((e) => e.startsWith('audit_'))).toEqual(['audit_head', 'audit_failed', 'audit_restored']); // biome-ignore format: one line
    await s.running.stop();
    expect(await verifyChain([file])).toMatchObject({ whole: true, closed: true, lost: 0 });

    const other = await full(['audit.on_failure=continue']);
    await expect.poll(async () => [(await predict(other.s)).status, other.lines.some((l) => l.event === 'audit_failed')], { interval: 0 }).toEqual([200, true]); // biome-ignore format: one line
    expect((await predict(other.s)).status).toBe(200);
  },
);

const KILLS = times('kills of an audited server', { quick: 0, check: 1, campaigns: 10 });

checkTest('a server that is killed under load: the next one marks what it left, and the chain is whole', async () => {
  const folder = scratch();
  const file = path.join(folder, 'audit.ndjson');
  const args = ['serve', '--dev', '--port', '0', '--set', 'workers=1', `audit.file=${file}`, 'audit.sync=batch', `jobs.folder=${folder}/jobs`, `spill.folder=${folder}`, `registry=${path.resolve('src/bundled')}`]; // biome-ignore format: one line
  for (let round = 0; round < KILLS; round++) {
    const { child, done } = start(args, { cwd: folder });
    onTestFinished(() => void child.kill('SIGKILL'));
    let words = '';
    child.stderr!.on('data', (text: string) => {
      words += text;
    });
    await expect.poll(() => words).toContain('key of this run');
    const port = Number(/localhost:(\d+)/.exec(words)![1]);
    const token = /sluice_[\w-]+/.exec(words)![0];
    const answered: string[] = [];
    let stopped = false;
    const client = async (): Promise<void> => {
      while (!stopped) {
        const reply = await call(port, token, 'POST', predictUrl('json'), { body: '[]' }).catch(() => null);
        if (reply?.status === 200) answered.push(String(reply.headers['x-request-id']));
        else if (!reply) return;
      }
    };
    const clients = Array.from({ length: 3 }, client);
    await expect.poll(() => answered.length).toBeGreaterThan(100);
    const early = answered.slice(0, 50);
    await expect.poll(() => early.filter((id) => !readFileSync(file, 'utf8').includes(id))).toEqual([]);
    child.kill('SIGKILL');
    stopped = true;
    await Promise.all([done, ...clients]);
  }
  const { AuditLog } = await import('../../../src/audit/audit-log.ts');
  await (await AuditLog.open({ file, sync: 'none', maxBytes: 2 ** 30 })).close();
  const found = await verifyChain([file]);
  expect(found).toMatchObject({ whole: true, broken: null, lost: 0, closed: true });
  expect(found.records).toBeGreaterThanOrEqual(50 * KILLS); // those that each round waited for
});
