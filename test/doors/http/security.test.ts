// Keys with scopes, models and expiry; certificates that change; proxies; configuration faults; hostile framing.
import { mkdirSync, renameSync, symlinkSync, writeFileSync } from 'node:fs';
import http from 'node:http';
import net from 'node:net';
import path from 'node:path';
import { text } from 'node:stream/consumers';
import tls from 'node:tls';
import { expect, onTestFinished, test } from 'vitest';
import { loadConfig } from '../../../src/config/load-config.ts';
import { ServerConfigSchema } from '../../../src/config/server-config.ts';
import { createKey } from '../../../src/doors/commands/keys.ts';
import { KeyRing } from '../../../src/doors/http/access/api-keys.ts';
import { hashToken, newToken, readKeys } from '../../../src/doors/http/access/keys-file.ts';
import { serve } from '../../../src/doors/http/service.ts';
import { hostInUrl } from '../../../src/doors/http/service-parts.ts';
import { createListener, devCertificate } from '../../../src/doors/http/wire/listener.ts';
import { scratch, sluiceHere } from '../../support/cli.ts';
import { controlClock } from '../../support/controlled-clock.ts';
import { call, predictUrl, REGISTRY, startService } from '../../support/service.ts';
import { checkTest } from '../../support/tiers.ts';

async function startWithKeys() {
  const folder = scratch();
  const certificate = path.join(folder, 'tls.crt');
  const key = path.join(folder, 'tls.key');
  const put = async () => {
    const made = await devCertificate();
    writeFileSync(certificate, made.cert);
    writeFileSync(key, made.key);
    return made.cert;
  };
  await put();
  const file = path.join(folder, 'keys.yaml');
  const flags = { file, scopes: 'predict,models:read' };
  const tokens = {
    all: await createKey('all', { ...flags, scopes: 'predict,interpret,jobs,models:read,metrics' }),
    narrow: await createKey('narrow', { ...flags, models: 'credit-columns' }),
    reader: await createKey('reader', { ...flags, scopes: 'models:read' }),
    expired: await createKey('expired', { ...flags, days: 0.000_000_1 }),
  };
  const config = await loadConfig(ServerConfigSchema, {
    settings: [
      'listen.port=0',
      'listen.host=127.0.0.1',
      'workers=1',
      `keys_file=${file}`,
      `tls.certificate=${certificate}`,
      `tls.key=${key}`,
      `jobs.folder=${folder}/jobs`,
    ],
  });
  const told: string[] = [];
  const running = await serve({ config, registry: REGISTRY, log: (_level, _event, says) => told.push(says) });
  onTestFinished(() => running.stop());
  return { port: Number(new URL(running.url).port), tokens, file, put, told, certificate };
}

test('scopes, models and expiry; a key file that changes is followed, a broken one is not', async () => {
  const { port, tokens, file, told } = await startWithKeys();
  const post = (token: string, model = 'credit-default') =>
    call(port, token, 'POST', `/api/v1/scoring/predict.json?modelId=${model}`, { body: '[]' });
  expect((await post(tokens.all)).status).toBe(200);
  expect((await post(tokens.reader)).json.code).toBe('forbidden');
  expect((await post(tokens.expired)).status).toBe(401);
  expect((await post(tokens.narrow, 'credit-columns')).status).toBe(200);
  // 403 whether the model is there or not
  for (const model of ['credit-default', 'no-such-model']) expect((await post(tokens.narrow, model)).status).toBe(403);
  expect(
    (await call(port, tokens.narrow, 'GET', '/api/v1/models')).json.models.map((m: { id: string }) => m.id),
  ).toEqual(['credit-columns']);
  expect((await call(port, tokens.reader, 'GET', '/metrics')).status).toBe(403);
  expect((await call(port, tokens.all, 'GET', '/metrics')).status).toBe(200);
  const job = await call(port, tokens.narrow, 'POST', '/api/v1/scoring/predict.json?modelId=credit-columns', {
    body: '[]',
    headers: { prefer: 'respond-async' },
  });
  expect(job.status).toBe(403);

  const late = await createKey('late', { file, scopes: 'predict' });
  await expect.poll(async () => (await post(late)).status).toBe(200);
  const revoked = await sluiceHere(['keys', 'revoke', 'late', '--file', file]);
  expect(revoked.code).toBe(0);
  await expect.poll(async () => (await post(late)).status).toBe(401);
  writeFileSync(file, 'keys: [{name: x}]');
  await expect.poll(() => told.join()).toContain('keeping the previous keys');
  expect((await post(tokens.all)).status).toBe(200);
});

test('the token is nowhere in the key file, and the list shows no hash', async () => {
  const file = path.join(scratch(), 'keys.yaml');
  const made = await sluiceHere(['keys', 'create', 'ops', '--file', file, '--scopes', 'metrics', '--days', '30']);
  const token = made.stdout.trim();
  expect(token).toMatch(/^sluice_[\w-]{43}$/);
  expect(JSON.stringify(await readKeys(file))).not.toContain(token);
  const list = await sluiceHere(['keys', 'list', '--file', file]);
  expect(list.stdout).toMatch(/^ops\tmetrics\tall models\tuntil 20/);
  expect((await sluiceHere(['keys', 'create', 'ops', '--file', file])).code).toBe(2);
  expect((await sluiceHere(['keys', 'create', 'x', '--file', file, '--scopes', 'all'])).code).toBe(2);
});

test('a ring finds a key by its token only', () => {
  const token = newToken();
  const ring = new KeyRing([{ name: 'a', sha256: hashToken(token), scopes: [], expires: '2030-01-01T00:00:00Z' }]);
  expect(ring.find(`Bearer ${token}`, Date.parse('2029-12-31'))?.name).toBe('a');
  expect(ring.find(`Bearer ${token}`, Date.parse('2030-01-02'))).toBeNull();
  expect(ring.find(`Basic ${token}`)).toBeNull();
  expect(ring.find(hashToken(token))).toBeNull();
  expect(ring.find(undefined)).toBeNull();
});

test('certificate files that change are used for new connections; a broken one is not', async () => {
  const { port, put, told, certificate } = await startWithKeys();
  const seen = () =>
    new Promise<string>((resolve, reject) => {
      const socket = tls.connect({ port, host: '127.0.0.1', rejectUnauthorized: false }, () => {
        resolve(socket.getPeerCertificate().fingerprint256);
        socket.destroy();
      });
      socket.on('error', reject);
    });
  const first = await seen();
  await put();
  await expect.poll(seen).not.toBe(first);
  const second = await seen();
  writeFileSync(certificate, 'nonsense');
  await expect.poll(() => told.join()).toContain('keeping the previous certificate');
  expect(await seen()).toBe(second);
});

test('behind a proxy: only its address, and only what came over HTTPS; health is told to whoever asks', async () => {
  const start = async (address: string) => {
    const folder = scratch();
    const config = await loadConfig(ServerConfigSchema, {
      settings: [
        'listen.port=0',
        'listen.host=127.0.0.1',
        `behind_tls_proxy=["${address}"]`,
        `keys_file=${folder}/k.yaml`,
        `jobs.folder=${folder}/jobs`,
      ],
    });
    const running = await serve({ config, registry: REGISTRY });
    onTestFinished(() => running.stop());
    const get = (path: string, proto?: string) =>
      new Promise<number>((resolve) => {
        const headers = proto === undefined ? {} : { 'x-forwarded-proto': proto };
        http.get(`${running.url}${path}`, { headers, agent: false }, (r) => resolve(r.resume().statusCode!));
      });
    // The kubelet asks the pod itself, in plain HTTP.
    for (const path of ['/livez', '/readyz']) expect(await get(path)).toBe(200);
    const protos = ['https', 'HTTPS', 'https,http', 'https, http', 'http', 'http, https', ''];
    return Promise.all([...protos, undefined].map((proto) => get('/openapi.json', proto)));
  };
  expect(await start('127.0.0.0/8')).toEqual([200, 200, 200, 200, 400, 400, 400, 400]);
  expect(await start('10.1.2.3')).toEqual(Array(8).fill(400));
});

test('configuration faults: all at once, where they stand', async () => {
  const folder = scratch();
  const file = path.join(folder, 'sluice.yaml');
  writeFileSync(file, 'listen:\n  prt: 1\nlimits:\n  rows: many\n  body_bytes: -1\n');
  const run = await sluiceHere(['serve', '--dev', '-c', file]);
  expect(run.code).toBe(2);
  expect(run.stderr).toContain(`${file}:2:3 unknown key prt (did you mean port?)`);
  expect(run.stderr).toMatch(/sluice\.yaml:4:9 limits\.rows must be/);
  expect(run.stderr).toMatch(/sluice\.yaml:5:15 limits\.body_bytes must be/);
  const env = await loadConfig(ServerConfigSchema, {
    env: { SLUICE_LIMITS__ROWS: '5', SLUICE_REGISTRY: 'x' },
    settings: ['limits.columns=7'],
  });
  expect(env.limits).toMatchObject({ rows: 5, columns: 7, row_bytes: 1024 * 1024 });
  await expect(loadConfig(ServerConfigSchema, { settings: ['limits.rows=x'] })).rejects.toMatchObject({
    code: 'usage',
  });
  const bare = await sluiceHere(['serve']);
  expect([bare.code, bare.stderr.includes('tls')]).toEqual([2, true]);
});

checkTest('hostile framing is refused on its own connection and the others are served', async () => {
  const s = await startService(['timeouts.head_ms=3000', 'timeouts.body_idle_ms=3000']);
  const raw = (text: string) =>
    new Promise<string>((resolve) => {
      const socket = tls.connect({ port: s.port, host: '127.0.0.1', rejectUnauthorized: false }, () => {
        socket.write(text);
      });
      let got = '';
      socket.on('data', (d) => {
        got += d;
      });
      socket.on('error', () => {});
      socket.on('close', () => resolve(got));
    });
  const head = (extra: string) =>
    `POST ${predictUrl('json')} HTTP/1.1\r\nhost: x\r\nauthorization: ${s.token}\r\n${extra}\r\n`;
  const replies = await Promise.all([
    raw(`${head('content-length: 2\r\ntransfer-encoding: chunked\r\n')}[]`),
    raw(`${head('content-length: 2\r\ncontent-length: 3\r\n')}[]`),
    raw(`${head('transfer-encoding: chunked\r\n')}zz\r\n[]\r\n0\r\n\r\n`),
    raw(head(`x-flood: ${'x'.repeat(40_000)}\r\n`)),
    raw(`POST ${predictUrl('json')} HTTP/1.1\r\nx-slow: 1\r\n`),
    raw(`${head('content-length: 100\r\n')}[{"a":`),
  ]);
  for (const i of [0, 1, 3]) expect(replies[i], `request ${i}`).toMatch(/^HTTP\/1\.1 400 /);
  // the operation had begun: its connection is cut
  expect(replies[2]).toMatch(/^HTTP\/1\.1 400 |^$/);
  expect(replies[3]).toContain('too large');
  expect(replies[4]).toMatch(/^HTTP\/1\.1 400 .*did not arrive in time/s);
  expect(replies[5]).toContain('client_gone');
  expect((await s.call('POST', predictUrl('json'), { body: '[]' })).status).toBe(200);
});

for (const [over, certificate] of [
  ['TLS', await devCertificate()],
  ['plain HTTP', null],
] as const) {
  test(`a connection that is opened ahead and not used is closed without a response: ${over}`, async () => {
    const refused: string[] = [];
    const limits = { headersTimeoutMs: 1000, keepAliveMs: 1000, headerBytes: 16_384 };
    const onRefused = (code: string) => refused.push(code);
    const listener = createListener({ ...limits, ...(certificate ? { certificate } : {}), onRefused });
    listener.factory((_request, response) => response.end());
    const { port } = await listener.listen(0, '127.0.0.1');
    onTestFinished(() => listener.close());
    const allReceived = async (sent: string) => {
      const at = { port, host: '127.0.0.1', rejectUnauthorized: false };
      const socket = certificate ? tls.connect(at) : net.connect(at);
      socket.on('error', () => {}).write(sent);
      return text(socket).catch((error: NodeJS.ErrnoException) => error.code!);
    };
    const received = await Promise.all(['', 'GET / HTTP/1.1\r\n'].map(allReceived));
    expect(received).toEqual(['', expect.stringMatching(/^HTTP\/1\.1 400 .*did not arrive in time/s)]);
    expect(refused).toEqual(['bad_request']);
  });
}

test('a body that trickles is ended, though it never stops for long', async () => {
  const s = await startService(['timeouts.body_idle_ms=3000', 'timeouts.body_min_bytes_per_second=1000']);
  const got = await new Promise<string>((resolve) => {
    const socket = tls.connect({ port: s.port, host: '127.0.0.1', rejectUnauthorized: false }, () => {
      socket.write(
        `POST ${predictUrl('json')} HTTP/1.1\r\nhost: x\r\nauthorization: ${s.token}\r\ncontent-length: 5000\r\n\r\n`,
      );
    });
    // Not before the head: on a busy machine the handshake takes longer.
    let drip: NodeJS.Timeout;
    socket.on('secureConnect', () => {
      drip = setInterval(() => socket.write(' '), 50);
    });
    socket.on('error', () => {});
    socket.once('data', (d) => {
      clearInterval(drip);
      socket.destroy();
      resolve(String(d));
    });
  });
  expect(got).toMatch(/^HTTP\/1\.1 400 /);
  expect(got).toContain('at less than 1000 bytes per second');
});

test('a key file behind a link that is moved, as mounted secrets are, is followed', async () => {
  const folder = scratch();
  const token = newToken();
  const put = (name: string, keys: object[]) => {
    mkdirSync(path.join(folder, name));
    writeFileSync(path.join(folder, name, 'keys.yaml'), JSON.stringify({ keys }));
    symlinkSync(name, path.join(folder, 'next'));
    renameSync(path.join(folder, 'next'), path.join(folder, '..data'));
  };
  put('v1', []);
  symlinkSync(path.join('..data', 'keys.yaml'), path.join(folder, 'keys.yaml'));
  const ring = new KeyRing();
  onTestFinished(() => ring.close());
  await ring.follow(path.join(folder, 'keys.yaml'), () => {});
  expect(ring.find(token)).toBeNull();
  put('v2', [{ name: 'a', sha256: hashToken(token), scopes: ['predict'] }]);
  await expect.poll(() => ring.find(token)?.name).toBe('a');
});

test('a key is revoked in the target of a link in another folder; an unusable file is reported once', async () => {
  const clock = controlClock({ runs: true });
  const [target, token, errors] = [path.join(scratch(), 'keys.yaml'), newToken(), [] as unknown[]];
  const put = (text: string) => {
    writeFileSync(`${target}.new`, text);
    renameSync(`${target}.new`, target);
  };
  put(JSON.stringify({ keys: [{ name: 'a', sha256: hashToken(token), scopes: ['predict'] }] }));
  const folder = scratch();
  symlinkSync(target, path.join(folder, 'keys.yaml'));
  const ring = new KeyRing();
  onTestFinished(() => ring.close());
  await ring.follow(path.join(folder, 'keys.yaml'), (error) => errors.push(error));
  const later = async () => {
    writeFileSync(path.join(folder, 'other'), '');
    await clock.advance(2_000);
    return [ring.find(token) !== null, errors.length];
  };
  expect(await later()).toEqual([true, 0]);
  put('keys: {');
  await expect.poll(later).toEqual([true, 1]);
  for (let i = 0; i < 5; i++) expect(await later()).toEqual([true, 1]);
  put('keys: []');
  await expect
    .poll(async () => {
      await clock.advance(2_000);
      return ring.find(token);
    })
    .toBeNull();
});

test.each([
  ['::', '[::]'],
  ['::1', '[::1]'],
  ['0.0.0.0', '0.0.0.0'],
  ['scoring.bank', 'scoring.bank'],
])('an address to listen on, %s, is %s in a URL', (host, want) => {
  expect(new URL(`https://${hostInUrl(host)}:18444`).hostname).toBe(want);
});
