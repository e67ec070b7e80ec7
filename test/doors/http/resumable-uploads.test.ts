// Resumable uploads (tus): parts, cuts, wrong calls, quotas, time limits, and who may see what.
import { createHash } from 'node:crypto';
import { existsSync, readdirSync, statSync } from 'node:fs';
import https from 'node:https';
import path from 'node:path';
import { describe, expect, onTestFinished, test, vi } from 'vitest';
import { generatePortfolio } from '../../../src/demo/portfolio.ts';
import { FolderFiles } from '../../../src/doors/http/jobs/folder-files.ts';
import { ResumableUploads } from '../../../src/doors/http/jobs/resumable-uploads.ts';
import { scratch } from '../../support/cli.ts';
import { controlClock } from '../../support/controlled-clock.ts';
import { startFaulty } from '../../support/faulty-service.ts';
import {
  asNative,
  asObjects,
  type CallOptions,
  call,
  predictUrl,
  type Reply,
  type Service,
  startService,
} from '../../support/service.ts';
import { sharedService } from '../../support/shared-service.ts';
import { checkTest } from '../../support/tiers.ts';

const portfolio = (rows: number, faults = 0): Buffer =>
  Buffer.concat([...generatePortfolio({ rows, seed: 19, faults, delimiter: '\t' })]);

const TUS = { 'tus-resumable': '1.0.0' };
const PART = { ...TUS, 'content-type': 'application/offset+octet-stream' };

const make = (s: Service, length: number, headers: Record<string, string> = {}, url = predictUrl('csv')) =>
  s.call('POST', url, { headers: { ...TUS, 'upload-length': String(length), ...headers } });

const append = (s: Service, at: string, offset: number, body: Uint8Array, headers: Record<string, string> = {}) =>
  s.call('PATCH', at, { body, headers: { ...PART, 'upload-offset': String(offset), ...headers } });

const head = (s: Service, at: string) => s.call('HEAD', at, { headers: TUS });

async function resultOf(s: Service, job: string): Promise<Reply> {
  await expect.poll(async () => (await s.call('GET', job)).json.state, { interval: 20 }).toBe('done');
  return s.call('GET', `${job}/result`);
}

const sumOf = (algorithm: string, of: Uint8Array) =>
  `${algorithm} ${createHash(algorithm).update(of).digest('base64')}`;

const fileOf = (s: Service, at: string) => path.join(s.folder, 'jobs', `${at.split('/').at(-1)}.upload`);

/** A part whose body the test sends and ends as it likes. */
function openPart(s: Service, at: string, offset: number) {
  const request = https.request({
    host: '127.0.0.1',
    port: s.port,
    method: 'PATCH',
    path: at,
    rejectUnauthorized: false,
    agent: false,
    headers: { ...PART, authorization: `API-Key ${s.token}`, 'upload-offset': String(offset) },
  });
  const over = new Promise<number | null>((resolve) => {
    request.on('response', (response) => {
      response.resume();
      resolve(response.statusCode!);
    });
    request.on('error', () => resolve(null));
  });
  return { request, over };
}

test('an upload in parts becomes a job with the very result of the direct call', async () => {
  const s = await sharedService();
  const body = portfolio(3000, 5);
  const asked = await s.call('OPTIONS', predictUrl('csv'));
  expect([asked.status, asked.headers]).toMatchObject([
    204,
    {
      'tus-resumable': '1.0.0',
      'tus-version': '1.0.0',
      'tus-extension': 'creation,creation-with-upload,termination,expiration,checksum',
      'tus-max-size': String(64 * 1024 ** 3),
      'tus-checksum-algorithm': 'sha1,sha256,sha512',
    },
  ]);
  const made = await make(
    s,
    body.length,
    { 'upload-metadata': 'filename bmlnaHQuY3N2,urgent' },
    predictUrl('csv', '&passthrough=*'),
  );
  expect([made.status, made.headers['upload-offset'], made.headers['tus-resumable']]).toEqual([201, '0', '1.0.0']);
  const at = made.headers.location as string;
  expect(at).toMatch(/^\/api\/v1\/scoring\/uploads\/[0-9a-f-]{36}$/);
  expect(Date.parse(made.headers['upload-expires'] as string)).toBeGreaterThan(Date.now() + 23 * 3600_000);
  const job = at.replace('uploads', 'jobs');
  expect((await s.call('GET', job)).status).toBe(404);
  for (const [from, to] of [
    [0, 1000],
    [1000, 70_000],
    [70_000, body.length],
  ] as const) {
    const kept = await head(s, at);
    expect([kept.status, kept.headers]).toMatchObject([
      200,
      {
        'upload-offset': String(from),
        'upload-length': String(body.length),
        'upload-metadata': 'filename bmlnaHQuY3N2,urgent',
        'cache-control': 'no-store',
      },
    ]);
    const sent = await append(s, at, from, body.subarray(from, to));
    expect([sent.status, sent.headers['upload-offset'], sent.headers['tus-resumable']]).toEqual([
      204,
      String(to),
      '1.0.0',
    ]);
    expect(sent.headers['sluice-job']).toBe(to === body.length ? job : undefined);
  }
  const direct = await s.call('POST', predictUrl('csv', '&passthrough=*'), { body });
  expect((await resultOf(s, job)).text).toBe(direct.text);
  // Told for as long as the job is there, and its last part may be repeated by who got no answer.
  expect((await head(s, at)).headers).toMatchObject({ 'upload-offset': String(body.length), 'sluice-job': job });
  expect((await append(s, at, body.length, Buffer.alloc(0))).headers['sluice-job']).toBe(job);
  expect((await s.call('DELETE', at, { headers: TUS })).status).toBe(204);
  expect((await s.call('GET', job)).status).toBe(404);
  expect((await head(s, at)).status).toBe(404);
});

test.each(['ndjson', 'interpretation'])(
  '%s: the first part comes with the creation, the rest by POST that says it is a PATCH',
  async (what) => {
    const s = await sharedService();
    const rows = asObjects(Buffer.concat([...generatePortfolio({ rows: 40, seed: 3, faults: 0 })]).toString());
    const body = Buffer.from(
      asNative(rows)
        .map((row) => `${JSON.stringify(row)}\n`)
        .join(''),
    );
    const url =
      what === 'ndjson'
        ? predictUrl('ndjson')
        : '/api/v1/scoring/predict/interpretation.ndjson?modelId=credit-default&top_effects=3';
    const made = await s.call('POST', url, {
      body: body.subarray(0, 777),
      headers: { ...PART, 'upload-length': String(body.length) },
    });
    expect([made.status, made.headers['upload-offset']]).toEqual([201, '777']);
    const at = made.headers.location as string;
    const sent = await s.call('POST', at, {
      body: body.subarray(777),
      headers: { ...PART, 'upload-offset': '777', 'x-http-method-override': 'PATCH' },
    });
    expect([sent.status, sent.headers['upload-offset']]).toEqual([204, String(body.length)]);
    const direct = await s.call('POST', url, { body });
    expect(direct.status).toBe(200);
    expect((await resultOf(s, sent.headers['sluice-job'] as string)).text).toBe(direct.text);
  },
);

describe('wrong calls', () => {
  const body = Buffer.from('0123456789');
  const sum = (algorithm: string, of = body) => sumOf(algorithm, of);
  type Wrong = [what: string, call: (s: Service, at: string) => Promise<Reply>, status: number, code: string];
  const creation =
    (headers: Record<string, string>, options: CallOptions & { url?: string } = {}) =>
    (s: Service) =>
      s.call('POST', options.url ?? predictUrl('csv'), { ...options, headers: { ...TUS, ...headers } });
  const part =
    (offset: string, headers: Record<string, string> = {}, of: Uint8Array = body) =>
    (s: Service, at: string) =>
      s.call('PATCH', at, { body: of, headers: { ...PART, 'upload-offset': offset, ...headers } });
  const WRONG: Wrong[] = [
    ['another version', creation({ 'tus-resumable': '0.2.2', 'upload-length': '5' }), 412, 'tus_version'],
    ['no length', creation({}), 400, 'bad_request'],
    ['a length that is none', creation({ 'upload-length': '-1' }), 400, 'bad_request'],
    ['the length later', creation({ 'upload-defer-length': '1' }), 400, 'bad_request'],
    [
      'one of several to be put together',
      creation({ 'upload-length': '5', 'upload-concat': 'partial' }),
      400,
      'bad_request',
    ],
    [
      'metadata that are none',
      creation({ 'upload-length': '5', 'upload-metadata': 'name b\u00e4' }),
      400,
      'bad_request',
    ],
    [
      'a key of metadata twice',
      creation({ 'upload-length': '5', 'upload-metadata': 'a YQ==,a YQ==' }),
      400,
      'bad_request',
    ],
    ['too long', creation({ 'upload-length': '2000001' }), 413, 'upload_too_large'],
    [
      'a body of another type',
      creation({ 'upload-length': '10', 'content-type': 'text/csv' }, { body }),
      415,
      'upload_media_type',
    ],
    ['a first part beyond the length', creation({ ...PART, 'upload-length': '5' }, { body }), 413, 'upload_too_large'],
    [
      'no such model',
      creation({ 'upload-length': '5' }, { url: '/api/v1/scoring/predict.csv?modelId=nobody' }),
      404,
      'model_not_found',
    ],
    ['no text', creation({ 'upload-length': '5' }, { url: predictUrl('arrow') }), 400, 'bad_request'],
    ['a wrong query', creation({ 'upload-length': '5' }, { url: predictUrl('csv', '&x=1') }), 400, 'bad_request'],
    ['nobody', creation({ 'upload-length': '5' }, { token: null }), 401, 'unauthorized'],
    ['a key that is none', creation({ 'upload-length': '5', 'idempotency-key': 'a b' }), 400, 'bad_request'],
    [
      'a part without version',
      (s, at) => s.call('PATCH', at, { body, headers: { 'upload-offset': '0' } }),
      412,
      'tus_version',
    ],
    ['a part of another type', part('0', { 'content-type': 'text/csv' }), 415, 'upload_media_type'],
    ['a part without offset', (s, at) => s.call('PATCH', at, { body, headers: PART }), 400, 'bad_request'],
    ['a part with an offset that is none', part('0x1'), 400, 'bad_request'],
    ['a part at another offset', part('3'), 409, 'upload_offset_conflict'],
    ['a part behind the end', part('21'), 400, 'bad_request'],
    ['a part beyond the end', part('0', {}, Buffer.alloc(21)), 413, 'upload_too_large'],
    ['a compressed part', part('0', { 'content-encoding': 'gzip' }), 400, 'invalid_content'],
    ['an unknown checksum', part('0', { 'upload-checksum': 'crc32 AAAA' }), 400, 'bad_request'],
    ['a checksum that is none', part('0', { 'upload-checksum': 'sha1 !' }), 400, 'bad_request'],
    [
      'does not match its Upload-Checksum',
      part('0', { 'upload-checksum': sum('sha1', Buffer.from('x')) }),
      460,
      'upload_checksum_mismatch',
    ],
    [
      'does not match its Content-Digest',
      part('0', { 'content-digest': `sha-256=:${createHash('sha256').digest('base64')}:` }),
      400,
      'digest_mismatch',
    ],
    ['a part of nobody', (s, at) => s.call('PATCH', at, { body, headers: PART, token: null }), 401, 'unauthorized'],
    [
      'no such upload',
      (s) => append(s, '/api/v1/scoring/uploads/00000000-0000-0000-0000-000000000000', 0, body),
      404,
      'upload_not_found',
    ],
    ['an id that is none', (s) => append(s, '/api/v1/scoring/uploads/..%2f..%2fetc', 0, body), 404, 'upload_not_found'],
    [
      'the end of no upload',
      (s) => s.call('DELETE', '/api/v1/scoring/uploads/x', { headers: TUS }),
      404,
      'upload_not_found',
    ],
    ['to read it', (s, at) => s.call('GET', at, { headers: TUS }), 405, 'method_not_allowed'],
    ['a POST that is none', (s, at) => s.call('POST', at, { headers: TUS }), 405, 'method_not_allowed'],
  ];

  test('have the statuses of tus, a code each, and change nothing', async () => {
    const s = await startService(['limits.body_bytes=2000000']);
    const at = (await make(s, 20)).headers.location as string;
    for (const [what, ask, status, code] of WRONG) {
      const reply = await ask(s, at);
      expect([what, reply.status, reply.json?.code, String(reply.headers['content-type']).split(';')[0]]).toEqual([
        what,
        status,
        code,
        'application/problem+json',
      ]);
      if (code === 'tus_version') expect(reply.headers['tus-version']).toBe('1.0.0');
      expect([what, (await head(s, at)).headers['upload-offset']]).toEqual([what, '0']);
    }
    for (const algorithm of ['sha1', 'sha256', 'sha512']) {
      const right = await append(s, at, 0, body, { 'upload-checksum': sum(algorithm) });
      expect(right.status).toBe(algorithm === 'sha1' ? 204 : 409);
    }
    expect((await append(s, at, 10, body, { 'upload-checksum': sum('sha512') })).status).toBe(204);
    // None of them is left but the one that was made for this.
    expect(readdirSync(path.join(s.folder, 'jobs')).filter((f) => f.endsWith('.upload')).length).toBeLessThanOrEqual(1);
  });
});

test('what came of a part that was cut is kept, and another goes on from there', async () => {
  const s = await startService();
  const body = portfolio(2000);
  const at = (await make(s, body.length)).headers.location as string;
  const cut = openPart(s, at, 0);
  cut.request.write(body.subarray(0, 100_000));
  await expect.poll(() => statSync(fileOf(s, at)).size).toBe(100_000);
  cut.request.destroy();
  expect(await cut.over).toBe(null);
  await expect.poll(async () => (await head(s, at)).headers['upload-offset']).toBe('100000');
  const last = await append(s, at, 100_000, body.subarray(100_000));
  const direct = await s.call('POST', predictUrl('csv'), { body });
  expect((await resultOf(s, last.headers['sluice-job'] as string)).text).toBe(direct.text);
  const metrics = (await s.call('GET', '/metrics')).text;
  expect(metrics).toMatch(/^sluice_resumable_uploads 0$/m);
  expect(metrics).toMatch(/^sluice_resumable_uploads_resumed_total 1$/m);
  expect(metrics).toMatch(/^sluice_resumable_uploads_total\{end="queued"\} 1$/m);
});

test('whoever goes on while what came of a cut part is still being kept waits for that', async () => {
  const s = await sharedService();
  const body = portfolio(100);
  const at = (await make(s, body.length)).headers.location as string;
  const [closing, disk] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
  const openTail = FolderFiles.prototype.openTail;
  const slow = vi.spyOn(FolderFiles.prototype, 'openTail').mockImplementation(async function (
    this: FolderFiles,
    ...of
  ) {
    const tail = await openTail.apply(this, of);
    const close = async () => {
      closing.resolve();
      await disk.promise;
      await tail.close();
    };
    return { ...tail, close };
  });
  const began = vi.spyOn(ResumableUploads.prototype, 'append');
  onTestFinished(() => [slow, began].forEach((spy) => void spy.mockRestore()));
  const cut = openPart(s, at, 0);
  cut.request.write(body.subarray(0, 1000));
  await expect.poll(() => statSync(fileOf(s, at)).size).toBe(1000);
  cut.request.destroy();
  await closing.promise;
  const asked = [head(s, at), append(s, at, 1000, body.subarray(1000))];
  await expect.poll(() => began.mock.calls.length).toBe(2);
  const order: string[] = [];
  const answered = asked.map((one) => one.then(() => void order.push('answered')));
  // A wrong answer would not wait for the disk: it would come before those to later requests.
  for (let i = 0; i < 5; i++) await s.call('GET', '/livez');
  order.push('kept');
  disk.resolve();
  const [told, last] = await Promise.all(asked);
  await Promise.all(answered);
  expect(order).toEqual(['kept', 'answered', 'answered']);
  expect([told!.status, last!.status, last!.headers['upload-offset']]).toEqual([200, 204, String(body.length)]);
});

test('one at a time writes; whoever is silent lets go of it to the next one that asks', async () => {
  const clock = controlClock({ runs: true });
  // Its own service: the clock of a shared one would go back when this test ends.
  const s = await startService();
  const body = portfolio(100);
  const at = (await make(s, body.length)).headers.location as string;
  const silent = openPart(s, at, 0);
  silent.request.write(body.subarray(0, 1000));
  await expect.poll(() => statSync(fileOf(s, at)).size).toBe(1000);
  const other = await append(s, at, 0, body);
  expect([other.status, other.json.code, other.headers['retry-after']]).toEqual([423, 'upload_locked', '1']);
  // Longer than a writer may be silent, and less than a body may be idle.
  await clock.advance(1_500);
  expect((await head(s, at)).headers['upload-offset']).toBe('1000');
  expect(await silent.over).toBe(null);
  expect((await append(s, at, 1000, body.subarray(1000))).status).toBe(204);
});

test('it counts for the quota with all it will be, from the beginning', async () => {
  const s = await startService(['jobs.max_jobs=2', 'jobs.max_bytes=100000']);
  const large = await make(s, 100_001);
  expect([large.status, large.json.code, large.json.limit]).toEqual([400, 'limit_exceeded', 'jobs.max_bytes']);
  const first = await make(s, 90_000);
  expect(first.status).toBe(201);
  expect((await make(s, 20_000)).json.limit).toBe('jobs.max_bytes');
  expect((await make(s, 5000)).status).toBe(201);
  expect((await make(s, 5)).json.limit).toBe('jobs.max_jobs');
  // Removed, it counts no more.
  expect((await s.call('DELETE', first.headers.location as string, { headers: TUS })).status).toBe(204);
  expect(existsSync(fileOf(s, first.headers.location as string))).toBe(false);
  expect((await make(s, 20_000)).status).toBe(201);
});

test('the same Idempotency-Key gives the same upload, another request with it is refused', async () => {
  const s = await sharedService();
  const body = portfolio(20);
  const key = { 'idempotency-key': 'night' };
  const made = await make(s, body.length, key);
  const at = made.headers.location as string;
  await append(s, at, 0, body.subarray(0, 100));
  const again = await make(s, body.length, key);
  expect([again.headers.location, again.headers['upload-offset']]).toEqual([at, '100']);
  for (const other of [
    await make(s, body.length + 1, key),
    await make(s, body.length, key, predictUrl('csv', '&on_invalid=fail')),
    await s.call('POST', predictUrl('csv'), { body, headers: { prefer: 'respond-async', ...key } }),
  ]) {
    expect([other.status, other.json.code]).toEqual([400, 'idempotency_conflict']);
  }
  await append(s, at, 100, body.subarray(100));
  const after = await make(s, body.length, key);
  expect([after.headers.location, after.headers['sluice-job']]).toEqual([at, at.replace('uploads', 'jobs')]);
});

test('an abandoned one expires, also while the server is down', async () => {
  const clock = controlClock({ runs: true });
  const folder = scratch();
  const before = await startService(['jobs.upload_ttl_ms=50000'], folder);
  const at = (await make(before, 10)).headers.location as string;
  const other = (await make(before, 10)).headers.location as string;
  await append(before, at, 0, Buffer.from('12345'));
  // Less than the interval at which the server sweeps: it answers 404 before it removes the file.
  await clock.advance(50_001);
  for (const method of ['HEAD', 'PATCH', 'DELETE']) {
    const headers = { ...PART, 'upload-offset': '5' };
    expect((await before.call(method, at, { headers })).status).toBe(404);
  }
  expect(existsSync(fileOf(before, at))).toBe(true);
  await before.running.stop();
  const events: string[] = [];
  const after = await startService(['jobs.upload_ttl_ms=50000'], folder, {
    log: (_, event) => void events.push(event),
  });
  for (const one of [at, other]) expect(existsSync(fileOf(after, one))).toBe(false);
  expect(events.filter((e) => e === 'upload_expired')).toHaveLength(2);
  expect((await after.call('GET', '/metrics')).text).toMatch(/^sluice_resumable_uploads_total\{end="expired"\} 2$/m);
});

test('a server that stops keeps what has come, and the next one goes on', async () => {
  const folder = scratch();
  const before = await startService(['timeouts.stop_ms=200'], folder);
  const body = portfolio(1000);
  const at = (await make(before, body.length)).headers.location as string;
  const open = openPart(before, at, 0);
  open.request.write(body.subarray(0, 50_000));
  await expect.poll(() => statSync(fileOf(before, at)).size).toBe(50_000);
  await before.running.stop();
  await open.over;
  const after = await startService([], folder);
  expect((await head(after, at)).headers['upload-offset']).toBe('50000');
  const last = await append(after, at, 50_000, body.subarray(50_000));
  const direct = await after.call('POST', predictUrl('csv'), { body });
  expect((await resultOf(after, last.headers['sluice-job'] as string)).text).toBe(direct.text);
});

test('nothing at all is an upload, too', async () => {
  const s = await sharedService();
  const made = await make(s, 0, {}, predictUrl('ndjson'));
  expect([made.status, made.headers['upload-offset']]).toEqual([201, '0']);
  expect((await resultOf(s, made.headers['sluice-job'] as string)).text).toBe('');
});

checkTest(
  'whichever operation of the disk fails: it is told with a code, what was told before stands, and the rest comes',
  async () => {
    const s = await startFaulty();
    const body = portfolio(300);
    const third = Math.floor(body.length / 3);
    const ask = (method: string, url: string, options: CallOptions) => call(s.port, s.token, method, url, options);
    const direct = await ask('POST', predictUrl('csv'), { body });
    const fired = new Set<string>();
    for (const [round, errno] of ['ENOSPC', 'EIO', 'EMFILE'].entries()) {
      const headers = { ...TUS, 'upload-length': String(body.length) };
      for (let operation = 1; operation <= 9; operation++) {
        const made = await ask('POST', predictUrl('csv'), { headers });
        expect(made.status).toBe(201);
        const at = made.headers.location as string;
        const part = (offset: number, to: number) => {
          const headers = {
            ...PART,
            'upload-offset': String(offset),
            ...(round === 1 ? { 'upload-checksum': sumOf('sha1', body.subarray(offset, to)) } : {}),
          };
          return ask('PATCH', at, { body: body.subarray(offset, to), headers });
        };
        expect((await part(0, third)).status).toBe(204);
        s.plant(operation, errno);
        const reply = await part(third, 2 * third);
        if (reply.status !== 204) {
          expect([500, 503]).toContain(reply.status);
          expect(reply.json.code).toBe({ ENOSPC: 'output_full', EIO: 'internal_error', EMFILE: 'overloaded' }[errno]);
          await expect.poll(s.fired).not.toBe('');
          fired.add(s.fired());
        }
        s.plant(0, '');
        const offset = Number((await ask('HEAD', at, { headers: TUS })).headers['upload-offset']);
        expect([third, 2 * third]).toContain(offset);
        if (reply.status === 204) expect(offset).toBe(2 * third);
        const last = await part(offset, body.length);
        expect(last.status).toBe(204);
        const job = last.headers['sluice-job'] as string;
        await expect.poll(async () => (await ask('GET', job, {})).json.state, { interval: 10 }).toBe('done');
        expect((await ask('GET', `${job}/result`, {})).text).toBe(direct.text);
      }
    }
    expect([...fired].sort()).toEqual(['handle.stat', 'handle.sync', 'handle.truncate', 'handle.write', 'open']);
    expect(s.alive()).toBe(true);
  },
);
