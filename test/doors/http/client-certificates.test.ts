// Certificates of clients beside keys and tokens: who is known by one, and when one is taken no more.
import { X509Certificate } from 'node:crypto';
import { writeFileSync } from 'node:fs';
import https from 'node:https';
import path from 'node:path';
import tls from 'node:tls';
import { expect, onTestFinished, test } from 'vitest';
import { loadConfig } from '../../../src/config/load-config.ts';
import { ServerConfigSchema } from '../../../src/config/server-config.ts';
import { describeCertificate } from '../../../src/doors/http/access/client-certificate.ts';
import { serve } from '../../../src/doors/http/service.ts';
import { devCertificate } from '../../../src/doors/http/wire/listener.ts';
import { scratch } from '../../support/cli.ts';
import { Authority, type ClientCredential } from '../../support/client-certificates.ts';
import { collectedLog } from '../../support/collected-log.ts';
import { REGISTRY, startService } from '../../support/service.ts';
import { newSigningKey, oidcSettings, tokenProvider } from '../../support/token-provider.ts';
import { testNeeding } from '../../support/tools.ts';

async function startWithCertificates(ca: Authority, names: object[], settings: string[] = []) {
  const folder = scratch();
  const made = await devCertificate();
  const [certificate, key, keysFile] = ['tls.crt', 'tls.key', 'keys.yaml'].map((name) => path.join(folder, name));
  writeFileSync(certificate!, made.cert);
  writeFileSync(key!, made.key);
  const name = (certificates: object[]): void => writeFileSync(keysFile!, JSON.stringify({ keys: [], certificates }));
  name(names);
  const { log, lines } = collectedLog();
  const config = await loadConfig(ServerConfigSchema, {
    settings: [
      'listen.port=0',
      'listen.host=127.0.0.1',
      'workers=1',
      `keys_file=${keysFile}`,
      `tls.certificate=${certificate}`,
      `tls.key=${key}`,
      `tls.client_ca=${ca.file}`,
      `jobs.folder=${folder}/jobs`,
      ...settings,
    ],
  });
  const running = await serve({ config, registry: REGISTRY, log });
  onTestFinished(() => running.stop());
  return { port: Number(new URL(running.url).port), name, lines };
}

interface Asked {
  agent?: https.Agent;
  headers?: Record<string, string>;
  url?: string;
}

/** Status and code of an answer; what ended the connection where there is none. */
const ask = (
  port: number,
  client: ClientCredential | null,
  { agent, headers = {}, url = '/api/v1/models' }: Asked = {},
) =>
  new Promise<string>((resolve) => {
    const shown = client ? { cert: client.cert, key: client.key } : {};
    const to = { host: '127.0.0.1', port, path: url, headers, rejectUnauthorized: false, ...shown };
    https
      .get({ ...to, agent: agent ?? false }, (response) => {
        let text = '';
        response.on('data', (d) => {
          text += d;
        });
        response.on('end', () => resolve(`${response.statusCode} ${JSON.parse(text).code ?? 'ok'}`));
      })
      .on('error', () => resolve('no connection'));
  });

const SCOPES = ['models:read', 'predict'];

testNeeding(['openssl'], 'who shows a certificate is whom the file of keys names by it, while it does', async () => {
  const ca = new Authority('clients');
  const [cn, uri, print] = [ca.issue('nightly'), ca.issue('x', { uri: 'spiffe://bank/scoring' }), ca.issue('y')];
  const { sha256 } = describeCertificate(new X509Certificate(print.cert));
  const names = [
    { name: 'nightly', subject_cn: 'nightly', scopes: SCOPES },
    { name: 'scoring', san_uri: 'spiffe://bank/scoring', scopes: SCOPES, models: ['credit-columns'] },
    { name: 'y', sha256, scopes: ['predict'] },
    { name: 'over', subject_cn: 'over', scopes: SCOPES, expires: '2020-01-01T00:00:00Z' },
  ];
  const { port, name, lines } = await startWithCertificates(ca, names);
  expect(await ask(port, cn)).toBe('200 ok');
  expect(await ask(port, uri)).toBe('200 ok');
  expect(await ask(port, uri, { url: '/api/v1/models/credit-default' })).toBe('403 forbidden');
  expect(await ask(port, print)).toBe('403 forbidden');
  for (const [what, client] of [
    ['none', null],
    ['nobody has named it', ca.issue('z')],
    ['its name is over', ca.issue('over')],
    ['two names', ca.issue('nightly/CN=scoring')],
    ['another authority', new Authority('clients').issue('nightly')],
    ['one for servers', ca.issue('nightly', { use: 'serverAuth' })],
    ['expired', ca.issue('nightly', { days: -1 })],
  ] as const)
    expect([what, await ask(port, client)]).toEqual([what, '401 unauthorized']);
  // A header that says so is read by nobody; a wrong key is wrong, whatever certificate is beside it.
  const said = {
    'x-client-cert': cn.cert.replaceAll('\n', ''),
    'x-ssl-client-s-dn': 'CN=nightly',
    'ssl-client-verify': 'SUCCESS',
  };
  expect(await ask(port, null, { headers: said })).toBe('401 unauthorized');
  expect(await ask(port, cn, { headers: { authorization: 'Bearer guessed' } })).toBe('401 unauthorized');
  expect(lines.some(({ fields }) => fields.key === 'certificate:nightly')).toBe(true);
  // On a connection that stays open, too.
  const agent = new https.Agent({ keepAlive: true, maxSockets: 1 });
  onTestFinished(() => agent.destroy());
  expect(await ask(port, cn, { agent })).toBe('200 ok');
  name(names.slice(1));
  await expect.poll(() => ask(port, cn, { agent })).toBe('401 unauthorized');
});

/** A service that reads a revocation list, two clients of it, and an agent that keeps one connection open. */
async function startWithRevocable() {
  const ca = new Authority('clients');
  const [good, bad] = [ca.issue('good'), ca.issue('bad')];
  const names = ['good', 'bad'].map((n) => ({ name: n, subject_cn: n, scopes: SCOPES }));
  const { port } = await startWithCertificates(ca, names, [`tls.client_crl=${ca.crlFile}`]);
  const agent = new https.Agent({ keepAlive: true, maxSockets: 1 });
  onTestFinished(() => agent.destroy());
  return { ca, good, bad, port, agent };
}

testNeeding(
  ['openssl'],
  'a certificate that is revoked ends, on open connections and in resumed sessions, too',
  async () => {
    const { ca, good, bad, port, agent } = await startWithRevocable();
    for (const client of [good, bad]) expect(await ask(port, client)).toBe('200 ok');
    expect(await ask(port, bad, { agent })).toBe('200 ok');
    let session: Buffer | undefined;
    await new Promise<void>((resolve, reject) => {
      const shown = { cert: bad.cert, key: bad.key, rejectUnauthorized: false, maxVersion: 'TLSv1.2' as const };
      const socket = tls.connect({ host: '127.0.0.1', port, ...shown }).on('error', reject);
      socket.on('session', (s) => {
        session = s;
        socket.end();
      });
      socket.on('close', () => resolve()).resume();
    });
    expect(session).toBeDefined();
    ca.revoke(bad);
    await expect.poll(() => ask(port, bad)).toBe('401 unauthorized');
    expect(await ask(port, bad, { agent })).toBe('401 unauthorized');
    const resumed = new https.Agent({ session: session!, maxVersion: 'TLSv1.2' } as https.AgentOptions);
    expect(await ask(port, bad, { agent: resumed })).toBe('401 unauthorized');
    expect(await ask(port, good)).toBe('200 ok');
  },
);

testNeeding(
  ['openssl'],
  'a connection that is busy while a certificate is revoked takes no request after that',
  async () => {
    const { ca, good, bad, port, agent } = await startWithRevocable();
    const { cert, key } = bad;
    const to = { host: '127.0.0.1', port, rejectUnauthorized: false, agent, cert, key };
    const path = '/api/v1/scoring/predict.json?modelId=credit-default';
    const busy = https.request({ ...to, path, method: 'POST' });
    const answered = new Promise<number>((resolve, reject) => {
      busy.on('response', (response) => response.resume().on('end', () => resolve(response.statusCode!)));
      busy.on('error', reject);
    });
    await new Promise<void>((resolve) => busy.write('[', () => resolve()));
    ca.revoke(bad);
    await expect.poll(() => ask(port, bad)).toBe('401 unauthorized');
    // What was let in before goes on to its end.
    busy.end(']');
    expect(await answered).toBe(200);
    const next = https.get({ ...to, path: '/api/v1/models' });
    const status = await new Promise<number>((resolve, reject) => {
      next.on('response', (response) => resolve(response.resume().statusCode!)).on('error', reject);
    });
    expect([next.reusedSocket, status]).toEqual([true, 401]);
    expect(await ask(port, good)).toBe('200 ok');
  },
);

testNeeding(['openssl'], 'require: no connection without a certificate; a token may be bound to one', async () => {
  const ca = new Authority('clients');
  const [client, other] = [ca.issue('gateway'), ca.issue('other')];
  const key = await newSigningKey('k');
  const provider = await tokenProvider(key);
  const settings = ['tls.client_certificates=require', oidcSettings(provider)];
  const { port } = await startWithCertificates(ca, [], settings);
  expect(await ask(port, null, { url: '/livez' })).toBe('no connection');
  expect(await ask(port, new Authority('clients').issue('gateway'), { url: '/livez' })).toBe('no connection');
  expect(await ask(port, client, { url: '/livez' })).toBe('200 ok');
  const { thumbprint } = describeCertificate(new X509Certificate(client.cert));
  const token = await provider.sign({ scope: 'models:read', cnf: { 'x5t#S256': thumbprint } });
  const headers = { authorization: `Bearer ${token}` };
  expect(await ask(port, client, { headers })).toBe('200 ok');
  expect(await ask(port, other, { headers })).toBe('401 invalid_token');
  expect(await ask(port, client)).toBe('401 unauthorized');
});

test('TLS 1.1 gets no connection, 1.2 and 1.3 do', async () => {
  const { port } = await startService();
  const version = (v: tls.SecureVersion) =>
    new Promise<string>((resolve) => {
      // A client that would take it: by itself OpenSSL speaks nothing older any more.
      const old = { minVersion: v, maxVersion: v, ciphers: 'DEFAULT@SECLEVEL=0', rejectUnauthorized: false };
      const socket = tls.connect({ host: '127.0.0.1', port, ...old }, () => {
        resolve(socket.getProtocol() ?? 'none');
        socket.destroy();
      });
      socket.on('error', (error: NodeJS.ErrnoException) => resolve(String(error.code)));
    });
  expect([await version('TLSv1.2'), await version('TLSv1.3')]).toEqual(['TLSv1.2', 'TLSv1.3']);
  expect(await version('TLSv1.1')).toBe('ERR_SSL_TLSV1_ALERT_PROTOCOL_VERSION');
});

testNeeding(
  ['openssl'],
  'what cannot be is refused in words: names without an authority, behind a proxy, twice',
  async () => {
    const folder = scratch();
    const keys = path.join(folder, 'keys.yaml');
    const start = async (certificates: object[], settings: string[]) => {
      writeFileSync(keys, JSON.stringify({ keys: [], certificates }));
      const config = await loadConfig(ServerConfigSchema, {
        settings: ['listen.port=0', `keys_file=${keys}`, `jobs.folder=${folder}/jobs`, ...settings],
      });
      return serve({ config, registry: REGISTRY });
    };
    const named = { name: 'a', subject_cn: 'a', scopes: [] };
    await expect(start([named], ['behind_tls_proxy=["127.0.0.1"]'])).rejects.toThrow(
      'a TLS proxy does not pass them on',
    );
    await expect(start([{ ...named, san_uri: 'b' }], ['behind_tls_proxy=["127.0.0.1"]'])).rejects.toThrow('set one of');
    const crl = ['tls.certificate=x', 'tls.key=y', 'tls.client_crl=z'];
    await expect(start([], crl)).rejects.toThrow('tls.client_ca');
  },
);
