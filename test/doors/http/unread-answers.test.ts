// A client that asks and then never reads has a time limit at every door; one that reads slowly gets all of it.
import { mkdtempSync, rmSync } from 'node:fs';
import https from 'node:https';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import path from 'node:path';
import tls from 'node:tls';
import { beforeAll, expect, onTestFinished, test } from 'vitest';
import { replaceClock } from '../../../src/core/clock.ts';
import { generatePortfolio } from '../../../src/demo/portfolio.ts';
import { devCertificate } from '../../../src/doors/http/wire/listener.ts';
import { cutUnread } from '../../../src/doors/http/wire/unread-answer.ts';
import { collectedLog, type LogLine } from '../../support/collected-log.ts';
import { ControlledClock } from '../../support/controlled-clock.ts';
import { atFileEnd } from '../../support/file-end.ts';
import { type Service, startService } from '../../support/service.ts';
import { checkTest } from '../../support/tiers.ts';
import { until } from '../../support/until.ts';

const IDLE_MS = 2000;
const EXPLAINED = '/api/v1/scoring/predict/interpretation.csv?modelId=credit-default';

/** Replaces the clock of the file, as the service outlives each test. */
const clock = new ControlledClock({ runs: true });
let s: Service;
let lines: LogLine[];
let result: string;
let resultBytes: number;
const body = Buffer.concat([...generatePortfolio({ rows: 14_000, seed: 3, delimiter: '\t', oddness: 'none' })]);

beforeAll(async () => {
  const restoreClock = replaceClock(clock);
  const folder = mkdtempSync(path.join(tmpdir(), 'sluice-unread-'));
  const collected = collectedLog();
  lines = collected.lines;
  s = await startService([`timeouts.answer_idle_ms=${IDLE_MS}`], folder, { keep: true, log: collected.log });
  const headers = { prefer: 'respond-async' };
  const made = await s.call('POST', EXPLAINED, { body, headers });
  const job = made.headers.location as string;
  const isDone = async () => (await s.call('GET', job)).json.state === 'done';
  await until(isDone);
  ({ result, resultBytes } = (await s.call('GET', job)).json);
  atFileEnd(async () => {
    await s.running.stop();
    restoreClock();
    rmSync(folder, { recursive: true });
  });
});

/** A connection that has sent requests, and has read nothing. */
async function asking(port: number, requests: readonly (string | Uint8Array)[]): Promise<tls.TLSSocket> {
  const socket = tls.connect({ port, host: '127.0.0.1', rejectUnauthorized: false });
  socket.on('error', () => {});
  await new Promise((resolve) => socket.once('secureConnect', resolve));
  socket.pause();
  for (const request of requests) socket.write(request);
  return socket;
}

const head = (line: string, more = '') => `${line} HTTP/1.1\r\nhost: x\r\nauthorization: ${s.token}\r\n${more}\r\n`;
const repeated = (line: string, n: number) => Array.from({ length: n }, () => head(line));

/** So much that no buffers on the way hold it; many answers on one connection are as much as a large one. */
const DOORS: [string, string, () => (string | Uint8Array)[]][] = [
  ['a result', '/api/v1/scoring/jobs/:id/result', () => repeated(`GET ${result}`, 4)],
  ['a range of it', '/api/v1/scoring/jobs/:id/result', () => [head(`GET ${result}`, `range: bytes=1-\r\n`), ...repeated(`GET ${result}`, 3)]], // biome-ignore format: one line
  ['the description', '/openapi.json', () => repeated('GET /openapi.json', 300)],
  ['predictions with their effects', EXPLAINED.split('?')[0]!, () => [head(`POST ${EXPLAINED}`, `content-length: ${body.length}\r\n`), body]], // biome-ignore format: one line
];

for (const [nth, [what, route, requests]] of DOORS.entries()) {
  (nth === 0 ? test : checkTest)(`nobody waits for ever for whoever does not read ${what}`, async () => {
    lines.length = 0;
    const socket = await asking(s.port, requests());
    const cut = () => lines.some(({ event, fields }) => event === 'request' && fields.cut && fields.route === route);
    await expect.poll(cut, { interval: 100 }).toBe(true);
    socket.destroy();
  });
}

/** For each piece of 64 KiB that a slow client reads: within the limit it reads more than the kernel keeps of both sides. */
const PACE_MS = 10;

/** Reads all that comes, with pauses. */
async function slowly(socket: tls.TLSSocket): Promise<{ bytes: number; ms: number }> {
  const began = clock.monotonicMs();
  let bytes = 0;
  socket.on('data', async (piece) => {
    bytes += piece.length;
    socket.pause();
    await clock.advance(PACE_MS);
    socket.resume();
  });
  socket.resume();
  await new Promise((resolve) => socket.once('close', resolve));
  return { bytes, ms: clock.monotonicMs() - began };
}

test('who reads slowly, but reads, gets all of it', async () => {
  const socket = await asking(s.port, [
    ...repeated(`GET ${result}`, 2),
    head(`GET ${result}`, 'connection: close\r\n'),
  ]);
  const { bytes, ms } = await slowly(socket);
  expect(bytes).toBeGreaterThan(3 * resultBytes);
  // Else the limit was never at risk.
  expect(ms).toBeGreaterThan(IDLE_MS);
});

checkTest('also of one large write, of which nothing is done until all of it is', async () => {
  const large = Buffer.alloc(24_000_000);
  const { cert, key } = await devCertificate();
  const server = https.createServer({ cert, key }, (_request, response) => {
    response.setHeader('content-length', large.length).end(large);
    cutUnread(response, IDLE_MS);
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  onTestFinished(() => void server.close());
  const ask = 'GET / HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n';
  const { port } = server.address() as AddressInfo;
  const { bytes, ms } = await slowly(await asking(port, [ask]));
  expect(bytes).toBeGreaterThan(large.length);
  expect(ms).toBeGreaterThan(IDLE_MS);
});
