// Two keys with every scope, each for a model of its own: neither sees anything of the other, nor that it exists.
import { existsSync, readdirSync } from 'node:fs';
import path from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { type Answer, modelOf, pipelineOf, startTenants, type Tenant, type TwoTenants } from '../../support/tenants.ts';

let s: TwoTenants;
beforeAll(async () => {
  s = await startTenants();
});
afterAll(() => s.close());

const JOBS = '/api/v1/scoring/jobs';
const UPLOADS = '/api/v1/scoring/uploads';
const predict = (model: string): string => `/api/v1/scoring/predict.json?modelId=${model}`;
const TUS = { 'tus-resumable': '1.0.0' };

async function makeJob(tenant: Tenant): Promise<string> {
  const made = await s.ask(tenant, 'POST', predict(modelOf(tenant)), {
    body: '[]',
    headers: { prefer: 'respond-async' },
  });
  expect(made.status, made.text).toBe(201);
  const location = made.headers.location!;
  await expect.poll(async () => JSON.parse((await s.ask(tenant, 'GET', location)).text).state).toBe('done');
  return location.slice(JOBS.length + 1);
}

/** An upload of two bytes of which one came, or both. */
async function makeUpload(tenant: Tenant, url: string, body: string): Promise<string> {
  const part = body === '' ? {} : { 'content-type': 'application/offset+octet-stream' };
  const headers = { ...TUS, 'upload-length': '2', ...part };
  const made = await s.ask(tenant, 'POST', url, { headers, body });
  expect(made.status, made.text).toBe(201);
  return made.headers.location!.slice(UPLOADS.length + 1);
}

test('metrics show the series of the models of a key, and nothing of other keys', async () => {
  for (const tenant of ['alpha', 'beta'] as const) {
    const scored = await s.ask(tenant, 'POST', predict(modelOf(tenant)), { body: '[{"x":1}]' });
    expect(scored.status, scored.text).toBe(400);
    await s.ask(null, 'GET', '/api/v1/models', { headers: { authorization: 'API-Key wrong' } });
  }
  for (const url of ['/metrics', '/metrics/columns']) {
    const { status, text } = await s.ask('alpha', 'GET', url);
    expect(status).toBe(200);
    expect(text).not.toMatch(/beta/);
    // No series of the process, of keys or of jobs, in whatever family.
    const series = text.split('\n').filter((line) => line !== '' && !line.startsWith('#'));
    const open = /^(?:sluice_ready |sluice_build_info\{)|[{,](?:model|reference)="model-alpha(?::1)?"/;
    expect(series.filter((line) => !open.test(line))).toEqual([]);
    expect(text).toContain(url === '/metrics' ? 'sluice_rows_total{model="model-alpha:1",outcome="rejected"} 1' : '');
  }
});

const METHODS = ['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS', 'TRACE', 'QUERY', 'PROPFIND', 'REPORT'];

test('without a key everything under /api/ and /v2/ is 401, whatever the method and whether the path exists', async () => {
  const ids = [pipelineOf('alpha'), 'nobody', 'x'.repeat(300), '%zz', 'a%2Fb', '..%2f..'];
  const described = s.routes.filter((url) => /^\/(?:api|v2)\//.test(url) && !url.startsWith('/v2/health/'));
  const urls = described.flatMap((url) => (url.includes(':') ? ids.map((id) => url.replaceAll(/:\w+/g, id)) : [url]));
  const more = [
    '/api',
    '/api/',
    '/api/v1',
    '/api/v2/x',
    '/v2/x',
    '/%61pi/v1/pipelines/nobody',
    '/api/v1/models?x=%zz',
    '/v2/models/a/b/c',
  ];
  const wrong: string[] = [];
  const bodies = new Set<string>();
  for (const url of [...urls, ...more]) {
    for (const method of METHODS) {
      const { status, headers, text } = await s.ask(null, method, url);
      if (status !== 401 || headers['www-authenticate'] === undefined) wrong.push(`${status} ${method} ${url}`);
      const protocol = /v2/.test(url.slice(0, 4)) ? 'Open Inference' : '';
      if (method !== 'HEAD') bodies.add(`${protocol} ${text.replace(/"requestId":"[^"]*"/, '')}`);
    }
  }
  expect(wrong).toEqual([]);
  // Clients of the Open Inference Protocol look for `error`.
  expect([...bodies].sort()).toHaveLength(2);
  for (const url of ['/livez', '/readyz', '/v2/health/live', '/openapi.json', '/docs']) {
    expect([url, (await s.ask(null, 'GET', url)).status]).toEqual([url, 200]);
  }
});

interface Thing {
  /** Of the other tenant. */
  theirs: string;
  /** Of the same form, and of nobody. */
  nobodys: string;
}

/** What of an answer may differ is masked: when it was, which request, and the name that was asked for. */
function masked({ status, headers, text }: Answer, name: string): unknown {
  const { date: _date, 'x-request-id': _id, ...rest } = headers;
  const mask = (value: string): string =>
    value.replaceAll(name, 'NAME').replaceAll(/"requestId":"[^"]*"/g, '"requestId":"ID"');
  // A length counts the name.
  const { 'content-length': length, ...others } = rest;
  const grown = length === undefined ? [] : [Number(length) - (text.length - mask(text).length)];
  return { status, headers: mask(JSON.stringify(others)), grown: text === '' ? 0 : grown, text: mask(text) };
}

test('what another key has and what does not exist are answered alike, on every route with every method', async () => {
  const done = await makeJob('beta');
  const open = await makeUpload('beta', predict(modelOf('beta')), '[');
  const whole = await makeUpload('beta', predict(modelOf('beta')), '[]');
  const nobody = '00000000-0000-4000-8000-000000000000';
  const uploaded = [done, open, whole].map((theirs): Thing => ({ theirs, nobodys: nobody }));
  const models: Thing[] = [{ theirs: modelOf('beta'), nobodys: 'model-none' }];
  const references = [
    ...models,
    { theirs: `${modelOf('beta')}:1`, nobodys: 'model-none:1' },
    { theirs: `${modelOf('beta')}@champion`, nobodys: 'model-none@champion' },
  ];
  const things = (url: string): Thing[] => {
    if (url.includes('/jobs/') || url.includes('/uploads/')) return uploaded;
    if (url.includes('/runs/'))
      return [{ theirs: '20260101T000000000Z-0000beta', nobodys: '20260101T000000000Z-00000000' }];
    if (url.includes('/pipelines/')) return [{ theirs: pipelineOf('beta'), nobodys: 'pipeline-none' }];
    if (/\/models\/|\/predict|\/v2\//.test(url)) return references;
    // Neither its path nor its query names anything.
    return [{ theirs: '', nobodys: '' }];
  };
  const heads = [
    {},
    { prefer: 'respond-async' },
    { ...TUS, 'upload-length': '2' },
    { ...TUS, 'upload-offset': '0', 'content-type': 'application/offset+octet-stream' },
    ...['PATCH', 'DELETE', 'HEAD', 'GET'].map((method) => ({
      ...TUS,
      'upload-offset': '1',
      'content-type': 'application/offset+octet-stream',
      'x-http-method-override': method,
    })),
    { range: 'bytes=0-1' },
    { 'content-type': 'multipart/form-data; boundary=x' },
  ];
  const differences: unknown[] = [];
  let asked = 0;
  for (const url of s.routes) {
    for (const { theirs, nobodys } of things(url)) {
      for (const method of METHODS) {
        for (const headers of method === 'POST' || url.includes('/uploads/') || url.includes('/jobs/') ? heads : [{}]) {
          const body = ['POST', 'PUT', 'PATCH'].includes(method) ? '{"version":"1"}' : '';
          const answerFor = async (name: string) => {
            const named = url
              .replaceAll(/:(ref|name|id)/g, name)
              .replaceAll(':version', '1')
              .replaceAll(':alias', 'champion');
            const query = url.includes('/predict') ? `?modelId=${name}` : '';
            const answer = await s.ask('alpha', method, `${named}${query}`, { headers, body });
            return { answer, masked: masked(answer, name) };
          };
          const [first, second] = [await answerFor(theirs), await answerFor(nobodys)];
          asked++;
          if (theirs === '') continue;
          try {
            expect(first.masked).toEqual(second.masked);
          } catch {
            differences.push({ method, url, headers, theirs: first.masked, nobodys: second.masked });
          }
          if (theirs !== '') expect(first.answer.text).not.toMatch(/"state"|"columns"|"predictions"/);
        }
      }
    }
  }
  expect(asked).toBeGreaterThan(2000);
  expect(differences).toEqual([]);
  // Everything of the other key is still there.
  for (const id of [done, whole]) expect((await s.ask('beta', 'GET', `${JOBS}/${id}`)).status).toBe(200);
  const { headers } = await s.ask('beta', 'HEAD', `${UPLOADS}/${open}`, { headers: TUS });
  expect(headers['upload-offset']).toBe('1');
  expect(existsSync(path.join(s.folder, 'out')) ? readdirSync(path.join(s.folder, 'out')) : []).toEqual([]);
  // Lists hold what is of the key.
  for (const url of [JOBS, '/api/v1/models', '/metrics']) {
    expect((await s.ask('alpha', 'GET', url)).text).not.toMatch(/beta/);
  }
});

/** What a key gets that asks everything about a job and the upload that it came by. */
async function askedAbout(tenant: Tenant, id: string): Promise<number[]> {
  const part = { ...TUS, 'upload-offset': '1', 'content-type': 'application/offset+octet-stream' };
  const override = (method: string) => ({ headers: { ...part, 'x-http-method-override': method } });
  const answers = [
    await s.ask(tenant, 'GET', `${JOBS}/${id}`),
    await s.ask(tenant, 'GET', `${JOBS}/${id}/result`),
    await s.ask(tenant, 'DELETE', `${JOBS}/${id}`),
    await s.ask(tenant, 'HEAD', `${UPLOADS}/${id}`, { headers: TUS }),
    await s.ask(tenant, 'PATCH', `${UPLOADS}/${id}`, { headers: part, body: ']' }),
    await s.ask(tenant, 'POST', `${UPLOADS}/${id}`, override('DELETE')),
    await s.ask(tenant, 'DELETE', `${UPLOADS}/${id}`, { headers: TUS }),
  ];
  return answers.map(({ status }) => status);
}

test('keys that may use the same model have their own jobs and uploads all the same', async () => {
  const [job, open] = [await makeJob('alpha'), await makeUpload('alpha', predict(modelOf('alpha')), '[')];
  const whole = await makeUpload('alpha', predict(modelOf('alpha')), '[]');
  await s.restrict('beta', [modelOf('alpha'), modelOf('beta')]);
  await expect.poll(async () => (await s.ask('beta', 'GET', `/api/v1/models/${modelOf('alpha')}`)).status).toBe(200);
  for (const id of [job, open, whole]) expect(await askedAbout('beta', id)).toEqual(Array(7).fill(404));
  expect((await s.ask('beta', 'GET', JOBS)).text).not.toContain(job);
  await s.restrict('beta', [modelOf('beta')]);
  await expect.poll(async () => (await s.ask('beta', 'GET', `/api/v1/models/${modelOf('alpha')}`)).status).toBe(403);
  expect((await s.ask('alpha', 'GET', `${JOBS}/${job}/result`)).status).toBe(200);
});

test('jobs and uploads of a key are gone while it may not use their model, whatever is asked of them', async () => {
  const job = await makeJob('alpha');
  const open = await makeUpload('alpha', predict(modelOf('alpha')), '[');
  const whole = await makeUpload('alpha', `/api/v1/pipelines/${pipelineOf('alpha')}`, '[]');
  const ids = [job, open, whole];
  const listed = async (): Promise<string[]> =>
    JSON.parse((await s.ask('alpha', 'GET', JOBS)).text).jobs.map((j: { id: string }) => j.id);
  expect(await listed()).toEqual(expect.arrayContaining([job, whole]));
  await s.restrict('alpha', [modelOf('beta')]);
  await expect.poll(async () => (await s.ask('alpha', 'GET', `/api/v1/models/${modelOf('beta')}`)).status).toBe(200);
  expect(await listed()).toEqual([]);
  for (const id of ids) expect(await askedAbout('alpha', id)).toEqual(Array(7).fill(404));
  await s.restrict('alpha', [modelOf('alpha')]);
  await expect.poll(async () => (await s.ask('alpha', 'GET', `${JOBS}/${job}/result`)).status).toBe(200);
  expect(await listed()).toEqual(expect.arrayContaining([job, whole]));
  expect((await s.ask('alpha', 'HEAD', `${UPLOADS}/${open}`, { headers: TUS })).headers['upload-offset']).toBe('1');
});
