// Answers through real proxies, and to clients of HTTP/1.0: whole, or not accepted.
import { readFileSync, writeFileSync } from 'node:fs';
import net from 'node:net';
import path from 'node:path';
import tls from 'node:tls';
import zlib from 'node:zlib';
import { generate } from 'selfsigned';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { parse } from 'yaml';
import { generatePortfolio } from '../../../src/demo/portfolio.ts';
import { scratch } from '../../support/cli.ts';
import {
  type Outcome,
  post,
  startBehindProxy,
  startHaproxy,
  startNginx,
  startNginxServer,
} from '../../support/proxies.ts';
import { predictUrl } from '../../support/service.ts';
import { sharedService } from '../../support/shared-service.ts';
import { checkTestNeeding } from '../../support/tools.ts';
import { eventually } from '../../support/until.ts';

const ROWS = 30_000;
const portfolio = (rows: number): Buffer =>
  Buffer.concat([...generatePortfolio({ rows, seed: 29, delimiter: '\t', oddness: 'none' })]);
const body = portfolio(ROWS);
/** Fails behind some 25,000 rows. */
const packed = zlib.gzipSync(body, { level: 1 });
const broken = packed.subarray(0, Math.floor(packed.length * 0.9));
const GZIP = { 'content-encoding': 'gzip' };
const URL = predictUrl('csv');

let behind: Awaited<ReturnType<typeof startBehindProxy>>;
beforeAll(async () => {
  behind = await startBehindProxy([], { keep: true });
});
afterAll(() => behind?.stop());

const rowsOf = ({ text }: Pick<Outcome, 'text'>): number => text.trimEnd().split('\n').length - 1;

/** All rows come back whole; what fails late is a proper error, or none is received. */
async function wholeOrRefused(port: number, token: string, late: (number | null)[] = [400]): Promise<void> {
  const good = await post(port, URL, { token, body });
  expect([good.status, rowsOf(good)]).toEqual([200, ROWS]);
  const bad = await post(port, URL, { token, body: broken, headers: GZIP });
  expect(late).toContain(bad.status);
  if (bad.status !== null) expect(JSON.parse(bad.text).code).toBe('truncated_input');
  const small = await post(port, URL, { token, body: portfolio(3) });
  expect([small.status, rowsOf(small)]).toEqual([200, 3]);
}

checkTestNeeding(['nginx'], 'nginx as it comes, which speaks HTTP/1.0', async () => {
  const { port, token } = behind;
  await wholeOrRefused(await startNginx(`http://127.0.0.1:${port}`), token);
});

checkTestNeeding(['nginx'], 'nginx as it comes in front of a service that does its own TLS', async () => {
  const s = await sharedService();
  const nginx = await startNginx(`https://127.0.0.1:${s.port}`, 'proxy_set_header X-Forwarded-Proto "";');
  await wholeOrRefused(nginx, s.token);
});

checkTestNeeding(['nginx'], 'nginx with HTTP/1.1, which stops sending when the answer begins', async () => {
  const { port, token } = behind;
  await wholeOrRefused(await startNginx(`http://127.0.0.1:${port}`, 'proxy_http_version 1.1;'), token);
  const s = await sharedService();
  await wholeOrRefused(await startNginx(`https://127.0.0.1:${s.port}`, 'proxy_http_version 1.1;'), s.token);
});

checkTestNeeding(['nginx'], 'nginx that passes the body on as it comes', async () => {
  const { port, token } = behind;
  const lines = 'proxy_http_version 1.1; proxy_request_buffering off; proxy_buffering off;';
  await wholeOrRefused(await startNginx(`http://127.0.0.1:${port}`, lines), token);
});

checkTestNeeding(['nginx'], 'nginx and the service as docs/serve.md configures them', async () => {
  const page = readFileSync('docs/serve.md', 'utf8');
  const [, server] = /```nginx\n([\s\S]*?)```/.exec(page)!;
  const [, yaml] = /```yaml\n(# sluice\.yaml\nlisten: [\s\S]*?)```/.exec(page)!;
  const folder = scratch();
  const audit = path.join(folder, 'audit.ndjson');
  const { behind_tls_proxy, client_address } = parse(yaml!);
  const { port, token } = await startBehindProxy([
    `behind_tls_proxy=${JSON.stringify(behind_tls_proxy)}`,
    `client_address=${client_address}`,
    `audit.file=${audit}`,
  ]);
  const pems = await generate([{ name: 'commonName', value: 'scoring.example.com' }], {
    extensions: [{ name: 'subjectAltName', altNames: [{ type: 2, value: 'scoring.example.com' }] }],
  });
  writeFileSync(path.join(folder, 'tls.crt'), pems.cert);
  writeFileSync(path.join(folder, 'tls.key'), pems.private);
  const nginx = await startNginxServer((own) =>
    server!
      .replace('listen 443 ssl', `listen 127.0.0.1:${own} ssl`)
      .replaceAll('/etc/nginx/', `${folder}/`)
      .replace('127.0.0.1:8080', `127.0.0.1:${port}`),
  );
  // Another address of this machine than that of nginx, and a forged header.
  const tls = { ca: pems.cert, servername: 'scoring.example.com', localAddress: '127.0.0.2' };
  const reply = await post(nginx, URL, { token, body, headers: { 'x-forwarded-for': '192.0.2.1' }, tls });
  expect([reply.status, rowsOf(reply)]).toEqual([200, ROWS]);
  await eventually(() => {
    const records = readFileSync(audit, 'utf8').trimEnd().split('\n').map((line) => JSON.parse(line)); // biome-ignore format: one line
    expect(records.filter(({ kind }) => kind === 'request')).toEqual([
      expect.objectContaining({ address: '127.0.0.2', rows: ROWS, cut: false }),
    ]);
  });
});

checkTestNeeding(['HAProxy'], 'HAProxy, which streams', async () => {
  const careful = behind;
  await wholeOrRefused(await startHaproxy(careful.port), careful.token);
  const streaming = await startBehindProxy(['proxy_streams=true']);
  await wholeOrRefused(await startHaproxy(streaming.port), streaming.token, [null]);
});

checkTestNeeding(['nginx'], 'what is refused at once reaches a client that still sends', async () => {
  const { port, token } = await startBehindProxy(['limits.row_bytes=1000']);
  const nginx = await startNginx(`http://127.0.0.1:${port}`);
  for (const [url, key, headers, status] of [
    [URL, 'wrong', {}, 401],
    ['/nothing', token, {}, 404],
    [URL, token, { 'content-type': 'application/json' }, 400],
    [URL.replace('credit-default', 'none'), token, {}, 404],
  ] as [string, string, Record<string, string>, number][]) {
    // By itself through a proxy that speaks HTTP/1.0, and from a client that closes.
    expect([url, (await post(nginx, url, { token: key, body, headers })).status]).toEqual([url, status]);
  }
});

/** Enough for answers to begin early where they may. */
const SOME = 15_000;
const some = portfolio(SOME);
const someBroken = zlib.gzipSync(some, { level: 1 }).subarray(0, -100);

/** What a client of HTTP/1.0 receives until the connection ends, over TLS or without. */
async function oldClient(port: number, token: string, bytes: Uint8Array, more = '', plain = true): Promise<string> {
  const socket = plain
    ? net.connect(port, '127.0.0.1')
    : tls.connect({ port, host: '127.0.0.1', rejectUnauthorized: false });
  await new Promise((resolve) => socket.once(plain ? 'connect' : 'secureConnect', resolve));
  let got = '';
  socket.setEncoding('utf8').on('data', (text: string) => {
    got += text;
  });
  const ended = new Promise((resolve) => socket.on('close', resolve));
  socket.on('error', () => {});
  socket.write(
    `POST ${URL} HTTP/1.0\r\nx-forwarded-proto: https\r\nauthorization: ${token}\r\ncontent-length: ${bytes.length}\r\n${more}\r\n`,
  );
  socket.write(bytes);
  await ended;
  return got;
}

test.each([['behind a proxy', true], ['with TLS', false]])('HTTP/1.0 %s: an answer has its length, or is an error', async (_, plain) => {
  const { port, token } = plain ? behind : await sharedService();
  const good = await oldClient(port, token, some, '', plain);
  const [head, text] = [good.slice(0, good.indexOf('\r\n\r\n')), good.slice(good.indexOf('\r\n\r\n') + 4)];
  expect(head).toMatch(/^HTTP\/1\.1 200 /);
  expect(Number(/content-length: (\d+)/i.exec(head)![1])).toBe(Buffer.byteLength(text));
  expect(rowsOf({ text })).toBe(SOME);
  const bad = await oldClient(port, token, someBroken, 'content-encoding: gzip\r\n', plain);
  expect(bad).toMatch(/^HTTP\/1\.1 400 .*truncated_input/s);
}); // biome-ignore format: one case

test('a whole answer that is larger than the spill may be is refused, and its file is gone', async () => {
  const { port, token } = await startBehindProxy(['spill.max_bytes=550000']);
  const headers = { 'x-forwarded-proto': 'https' };
  const reply = await post(port, URL, { token, body, headers });
  expect([reply.status, JSON.parse(reply.text)]).toEqual([
    400,
    expect.objectContaining({ code: 'limit_exceeded', limit: 'spill.max_bytes', value: 550_000, unit: 'bytes' }),
  ]);
});
