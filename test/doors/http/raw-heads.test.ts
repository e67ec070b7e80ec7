// Heads as no client library writes them: each is answered or refused, in words that are the same whenever they are sent.
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import tls from 'node:tls';
import { beforeAll, describe, expect, test } from 'vitest';
import { predictUrl, type Service, startService } from '../../support/service.ts';

let s: Service;
beforeAll(async () => {
  const folder = mkdtempSync(path.join(tmpdir(), 'sluice-heads-'));
  s = await startService([], folder, { keep: true });
  return async () => {
    await s.running.stop();
    rmSync(folder, { recursive: true });
  };
});

/** All that comes back until the connection ends; `rest` is sent once something has come. */
const raw = (text: string, rest: string | null = null): Promise<string> =>
  new Promise((resolve) => {
    let got = '';
    const socket = tls.connect({ port: s.port, host: '127.0.0.1', rejectUnauthorized: false }, () =>
      socket.write(text),
    );
    socket.on('data', (d) => {
      got += d;
      if (rest !== null) socket.write(rest);
      rest = null;
    });
    socket.on('error', () => {});
    socket.on('close', () => resolve(got));
  });

/** The protocols that requests were counted under. */
async function protocols(): Promise<string[]> {
  const { text } = await s.call('GET', '/metrics');
  return [...text.matchAll(/^sluice_http_protocol_requests_total\{protocol="([^"]*)"/gm)].map((m) => m[1]!).sort();
}

const LAST = 'host: x\r\nconnection: close\r\n\r\n';

// What Node's parser lets through is answered as if it were HTTP/1.0: as a whole, with a length.
test.each([
  ['HTTP/1.1', 200],
  ['HTTP/1.0', 200],
  ['HTTP/0.9', 200],
  ['HTTP/2.0', 200],
  ['HTTP/2', 400],
  ['HTTP/3.0', 400],
  ['HTTP/1.2', 400],
  ['HTTP/1.9', 400],
  ['HTTP/9.9', 400],
  ['HTTP/11.1', 400],
  ['HTTP/1.10', 400],
  ['HTTP/-1.1', 400],
  ['HTTP/1', 400],
  ['HTTP/', 400],
  ['http/1.1', 400],
  ['ICE/1.0', 400],
  ['RTSP/1.0', 200],
  ['HTTPS/1.1', 400],
  ['', 400],
])('a head of %s is answered or refused, and counted under a name that there is', async (version, status) => {
  const got = await raw(`GET /livez ${version}\r\n${LAST}`);
  expect(got).toMatch(new RegExp(`^HTTP/1\\.[01] ${status} `));
  expect(['HTTP/1.0', 'HTTP/1.1']).toEqual(expect.arrayContaining(await protocols()));
  expect((await s.call('GET', '/livez')).status).toBe(200);
});

test('the connection preface of HTTP/2 is refused', async () => {
  expect(await raw('PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n')).toMatch(/^HTTP\/1\.1 400 /);
});

describe('a problem has the same content type, whenever it is told', () => {
  const long = 'content-length: 1000\r\n';
  const post = (path: string, key: string) =>
    `POST ${path} HTTP/1.1\r\nauthorization: ${key}\r\nhost: x\r\nconnection: close\r\n`;
  const cases: [string, string, () => string, string | null][] = [
    ['before the body has ended', '401', () => `${post(predictUrl('json'), 'wrong')}${long}\r\n[`, ' '.repeat(999)],
    ['behind the body', '401', () => `${post(predictUrl('json'), 'wrong')}content-length: 2\r\n\r\n[]`, null],
    ['of the operation', '400', () => `${post(predictUrl('json'), s.token)}content-length: 2\r\n\r\n{]`, null],
    ['of an operation that there is not', '404', () => `${post('/nothing', s.token)}${long}\r\n`, ' '.repeat(1000)],
    ['of another method', '405', () => `${post('/livez', s.token)}content-length: 2\r\n\r\n{}`, null],
    ['of the router', '400', () => `GET /%zz HTTP/1.1\r\n${LAST}`, null],
    ['of the Open Inference Protocol', '400', () => `${post('/v2/models/credit-default/infer', s.token)}content-length: 2\r\n\r\n{}`, null], // biome-ignore format: one line
    ['of the parser', '400', () => `GET /livez HTTP/1.1\r\nno colon\r\n${LAST}`, null],
  ];
  test.each(cases)('%s', async (_, status, head, rest) => {
    const got = await raw(head(), rest);
    expect(got).toMatch(new RegExp(`^HTTP/1\\.1 ${status} `));
    expect(/^content-type: (.*)\r$/im.exec(got)?.[1]).toBe('application/problem+json; charset=utf-8');
  });
});
