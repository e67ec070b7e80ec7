// What a hostile client of HTTP/2 can do: it loses its own connection or its own streams, and nobody else notices.
import { mkdtempSync, rmSync } from 'node:fs';
import http2 from 'node:http2';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import tls from 'node:tls';
import { beforeAll, describe, expect, test, vi } from 'vitest';
import { generatePortfolio } from '../../../src/demo/portfolio.ts';
import { scratch } from '../../support/cli.ts';
import { collectedLog } from '../../support/collected-log.ts';
import { ACK, END_HEADERS, END_STREAM, FRAME, FrameClient, fields, frame, requestHead, resetFrame, uint32 } from '../../support/h2-frames.ts'; // biome-ignore format: one line
import { callOver, connectH2, openStream } from '../../support/h2-session.ts';
import { PATIENCE_MS } from '../../support/patience.ts';
import { predictUrl, type Service, startService } from '../../support/service.ts';
import { campaignTest } from '../../support/tiers.ts';

const MB = 1024 * 1024;
const { NGHTTP2_REFUSED_STREAM, NGHTTP2_INTERNAL_ERROR, NGHTTP2_ENHANCE_YOUR_CALM, NGHTTP2_PROTOCOL_ERROR } =
  http2.constants;
const portfolio = (rows: number): Buffer =>
  Buffer.concat([...generatePortfolio({ rows, seed: 5, delimiter: '\t', dirty: false })]);

const metric = async (s: Service, series: string): Promise<number> => {
  const line = (await s.call('GET', '/metrics')).text.split('\n').find((l) => l.startsWith(`${series} `));
  return Number(line?.split(' ')[1] ?? 0);
};
const until = (check: () => Promise<boolean>) => vi.waitUntil(check, { timeout: PATIENCE_MS });
const stillServes = async (s: Service): Promise<void> => {
  const { status } = await callOver(connectH2(s), s.token)('POST', predictUrl('csv'), { body: portfolio(3) });
  expect(status).toBe(200);
};

const ASK = frame(FRAME.headers, END_HEADERS | END_STREAM, 1, requestHead('GET', '/livez'));
const opened = (i: number, method = 'POST'): Buffer =>
  frame(FRAME.headers, END_HEADERS, 2 * i + 1, requestHead(method, '/api/v1/models'));
/** One field of 4 KB in the dynamic table, and how often an octet may name it. */
const bomb = (i: number): Buffer =>
  Buffer.concat([
    requestHead('GET', '/livez'),
    Buffer.concat([Buffer.of(0x40), fields(['x', 'y'.repeat(4000)]).subarray(1)]),
    Buffer.alloc(15_000 + (i % 2), 0xbe),
  ]).subarray(0, 16_384);

/** Each sends without end; `most`: bytes after which a server that bears it has lost. */
const FLOODS: { name: string; piece: (i: number) => Buffer; most: number; deaf?: true }[] = [
  { name: 'rapid reset (CVE-2023-44487)', piece: (i) => Buffer.concat([opened(i), resetFrame(2 * i + 1, 8)]), most: MB },
  { name: 'rapid reset with an error', piece: (i) => Buffer.concat([opened(i), resetFrame(2 * i + 1, 1)]), most: MB },
  { name: 'streams that the server has to reset (CVE-2025-8671)', piece: (i) => Buffer.concat([opened(i), frame(FRAME.window, 0, 2 * i + 1, uint32(0))]), most: MB },
  { name: 'CONTINUATION without end (CVE-2024-27316)', piece: (i) => (i === 0 ? frame(FRAME.headers, 0, 1, requestHead('GET', '/')) : frame(FRAME.continuation, 0, 1, fields([`x-${i}`, 'y'.repeat(8000)]))), most: MB },
  { name: 'empty CONTINUATION without end', piece: (i) => (i === 0 ? frame(FRAME.headers, 0, 1, requestHead('GET', '/')) : frame(FRAME.continuation, 0, 1)), most: MB },
  { name: 'PING (CVE-2019-9512)', piece: () => frame(FRAME.ping, 0, 0, Buffer.alloc(8)), most: MB },
  { name: 'PING whose answers nobody reads', piece: () => frame(FRAME.ping, 0, 0, Buffer.alloc(8)), most: 4 * MB, deaf: true },
  { name: 'SETTINGS (CVE-2019-9515)', piece: () => frame(FRAME.settings, 0, 0), most: MB },
  { name: 'SETTINGS with a thousand of them', piece: () => frame(FRAME.settings, 0, 0, Buffer.alloc(6000, Buffer.of(0, 3, 0, 0, 1, 0))), most: MB },
  { name: 'empty DATA (CVE-2019-9518)', piece: (i) => (i === 0 ? opened(0) : frame(FRAME.data, 0, 1)), most: MB },
  { name: 'requests that are answered, one after the other, by frames for streams that are over', piece: (i) => (i === 0 ? ASK : frame(FRAME.headers, END_HEADERS | END_STREAM, 1, requestHead('GET', '/livez'))), most: MB },
]; // biome-ignore format: a table

describe('floods', () => {
  let s: Service;
  beforeAll(async () => {
    const folder = mkdtempSync(path.join(tmpdir(), 'sluice-floods-'));
    s = await startService(['http2=true'], folder, { keep: true });
    return async () => {
      await s.running.stop();
      rmSync(folder, { recursive: true });
    };
  });

  test.each(FLOODS)('$name: the connection ends', async ({ piece, most, deaf }) => {
    const before = await metric(s, 'sluice_http_protocol_requests_total{protocol="HTTP/2"}');
    const client = await FrameClient.connect(s.port);
    if (deaf) client.socket.pause();
    expect(await client.flood(piece, most)).toBeLessThan(most);
    await stillServes(s);
    // Whatever was asked for, few of it was worked on.
    expect(await metric(s, 'sluice_http_protocol_requests_total{protocol="HTTP/2"}')).toBeLessThan(before + 450);
    await until(async () => (await metric(s, 'sluice_http2_streams')) === 0);
  });

  test('those that ask for too much are counted', async () => {
    expect(await metric(s, 'sluice_http2_refused_total{reason="flood"}')).toBeGreaterThan(0);
  });

  test('a small head that unpacks to a large one: its stream is reset, and nothing of it is kept', async () => {
    const before = await metric(s, 'sluice_http_protocol_requests_total{protocol="HTTP/2"}');
    const client = await FrameClient.connect(s.port);
    await client.flood((i) => frame(FRAME.headers, END_HEADERS | END_STREAM, 2 * i + 1, bomb(i)), MB);
    const reset = await client.frame(FRAME.reset);
    expect(FrameClient.codeOf(reset)).toBe(NGHTTP2_ENHANCE_YOUR_CALM);
    await stillServes(s);
    expect(await metric(s, 'sluice_http_protocol_requests_total{protocol="HTTP/2"}')).toBeLessThan(before + 10);
    await until(async () => (await metric(s, 'sluice_http2_streams')) === 0);
  });

  campaignTest('frames that cost nothing but their bytes cost no more than a body does', async () => {
    const body = portfolio(20_000);
    const cpu = async (work: () => Promise<unknown>) => {
      const before = process.cpuUsage();
      await work();
      const { user, system } = process.cpuUsage(before);
      return (user + system) / 1000;
    };
    const ofBody = await cpu(() => callOver(connectH2(s), s.token)('POST', predictUrl('csv'), { body }));
    const client = await FrameClient.connect(s.port);
    const priority = Buffer.concat(Array(200).fill(frame(FRAME.priority, 0, 3, Buffer.alloc(5))));
    const ofFrames = await cpu(() => client.flood(() => priority, body.length));
    // Client and scoring are in it, too: what is told is that nothing is a hundred times as much.
    expect(ofFrames).toBeLessThan(20 * ofBody + 200);
    await stillServes(s);
  });
});

describe('bounds', () => {
  test('a stream more than there may be in the process is refused unseen, on whatever connection', async () => {
    const s = await startService(['http2=true', 'limits.http2_streams=3']);
    const clients = [await FrameClient.connect(s.port), await FrameClient.connect(s.port)] as const;
    for (const i of [0, 1]) clients[0].send(opened(i));
    await until(async () => (await metric(s, 'sluice_http2_streams')) === 2);
    clients[1].send(opened(0), opened(1));
    const refused = await clients[1].frame(FRAME.reset);
    expect([refused.stream, FrameClient.codeOf(refused)]).toEqual([3, NGHTTP2_REFUSED_STREAM]);
    expect(await metric(s, 'sluice_http2_refused_total{reason="streams"}')).toBe(1);
    clients[0].send(resetFrame(1, 8));
    await until(async () => (await metric(s, 'sluice_http2_streams')) === 2);
    clients[1].send(frame(FRAME.headers, END_HEADERS | END_STREAM, 5, requestHead('GET', '/livez')));
    await clients[1].frame(FRAME.data, 5);
    await vi.waitUntil(() => clients[1].ended(5), { timeout: PATIENCE_MS });
  });

  test('a session more than there may be speaks HTTP/1.1, or does not come about', async () => {
    const s = await startService(['http2=true', 'limits.http2_sessions=1']);
    const first = await FrameClient.connect(s.port);
    const agreed = (ALPNProtocols: string[]) =>
      new Promise((resolve) => {
        const socket = tls.connect({ port: s.port, rejectUnauthorized: false, ALPNProtocols });
        socket.on('error', () => resolve('refused'));
        socket.on('secureConnect', () => {
          resolve(socket.alpnProtocol);
          socket.destroy();
        });
      });
    expect(await agreed(['h2', 'http/1.1'])).toBe('http/1.1');
    expect(await agreed(['h2'])).toBe('refused');
    expect(await agreed(['spdy/3'])).toBe('refused');
    expect(await agreed(['http/1.1', 'h2'])).toBe('http/1.1');
    first.socket.destroy();
    await until(async () => (await agreed(['h2', 'http/1.1'])) === 'h2');
  });

  test('windows of nothing: streams of clients that take nothing are cut, the connection and the places are free', async () => {
    const { log, lines } = collectedLog();
    const s = await startService(
      ['http2=true', 'timeouts.answer_idle_ms=300', 'timeouts.keep_alive_ms=300'],
      scratch(),
      { log },
    );
    // SETTINGS_INITIAL_WINDOW_SIZE
    const client = await FrameClient.connect(s.port, [[4, 0]]);
    const body = portfolio(50);
    const key = { authorization: `API-Key ${s.token}` };
    client.send(
      frame(FRAME.settings, ACK, 0),
      frame(FRAME.headers, END_HEADERS | END_STREAM, 1, requestHead('GET', '/openapi.json')),
      frame(FRAME.headers, END_HEADERS, 3, requestHead('POST', predictUrl('csv'), key)),
      frame(FRAME.data, END_STREAM, 3, body.subarray(0, 16_384)),
      frame(FRAME.headers, END_HEADERS | END_STREAM, 5, requestHead('GET', '/livez')),
    );
    for (const stream of [1, 3, 5]) {
      expect(FrameClient.codeOf(await client.frame(FRAME.reset, stream))).toBe(NGHTTP2_INTERNAL_ERROR);
      expect(client.ended(stream)).toBe(false);
    }
    await client.over();
    const told = lines.filter(({ event }) => event === 'request');
    expect(told.map(({ fields }) => [fields.protocol, fields.cut])).toEqual(Array(3).fill(['HTTP/2', true]));
    expect(await metric(s, 'sluice_http_uploads_in_flight')).toBe(0);
  });

  test('a head beyond the limit is refused before and after the settings are known', async () => {
    const s = await startService(['http2=true', 'limits.header_bytes=4096']);
    const session = connectH2(s);
    const ask = () => callOver(session, s.token)('GET', '/api/v1/models', { headers: { 'x-large': 'x'.repeat(8000) } });
    expect((await ask()).json.code).toBe('limit_exceeded');
    expect((await ask()).status).toBe(0);
    await stillServes(s);
  });

  test('a connection that asks for nothing ends, whatever it pings, and half a head is nothing', async () => {
    const s = await startService(['http2=true', 'timeouts.head_ms=400']);
    const [pinging, half] = [await FrameClient.connect(s.port), await FrameClient.connect(s.port)];
    half.send(frame(FRAME.headers, 0, 1, requestHead('GET', '/livez')));
    const pings = setInterval(() => pinging.send(frame(FRAME.ping, 0, 0, Buffer.alloc(8))), 100);
    await Promise.all([pinging.over(), half.over()]);
    clearInterval(pings);
    expect(FrameClient.codeOf(await pinging.frame(FRAME.goaway))).toBe(0);
  });

  test('a body that comes too slowly, or not at all, is 400, and its stream ends', async () => {
    const s = await startService([
      'http2=true',
      'timeouts.body_idle_ms=300',
      'timeouts.body_min_bytes_per_second=1000',
    ]);
    const session = connectH2(s);
    const headers = { ':path': predictUrl('csv'), authorization: `API-Key ${s.token}` };
    const [silent, slow] = [openStream(session, headers), openStream(session, headers)];
    // Otherwise the server reads on for a while, so that the answer is not lost.
    for (const { stream } of [silent, slow]) stream.on('response', () => stream.end());
    slow.stream.write(portfolio(3));
    const drip = setInterval(() => !slow.stream.writableEnded && slow.stream.write('x'), 50);
    const answers = await Promise.all([silent.over, slow.over]);
    clearInterval(drip);
    expect(answers.map(({ status, json, code }) => [status, json.code, code])).toEqual(
      Array(2).fill([400, 'client_gone', 0]),
    );
    await sleep(0);
    expect(await metric(s, 'sluice_http_uploads_in_flight')).toBe(0);
  });
});

const BODY = portfolio(5);
/** What no client may send on a stream: it is reset, and others go on, unless it ends the connection. */
const MALFORMED: { name: string; head: Record<string, string>; ends?: 'connection' }[] = [
  { name: 'Connection', head: { connection: 'close' } },
  { name: 'Transfer-Encoding', head: { 'transfer-encoding': 'chunked' } },
  { name: 'Keep-Alive', head: { 'keep-alive': 'timeout=5' } },
  { name: 'Upgrade', head: { upgrade: 'websocket' } },
  { name: 'TE but trailers', head: { te: 'gzip' } },
  { name: 'a name in capitals', head: { 'X-Name': 'y' } },
  { name: 'a length that is too long', head: { 'content-length': String(BODY.length + 1) } },
  { name: 'a length that is too short', head: { 'content-length': String(BODY.length - 1) }, ends: 'connection' },
  { name: 'two lengths', head: { 'content-length': `${BODY.length}, ${BODY.length}` } },
];

test.each(MALFORMED)('$name: the stream is reset, and is no request', async ({ head, ends }) => {
  const { log, lines } = collectedLog();
  const s = await startService(['http2=true'], scratch(), { log });
  const client = await FrameClient.connect(s.port);
  const asked = requestHead('POST', predictUrl('csv'), {
    authorization: `API-Key ${s.token}`,
    prefer: 'respond-async',
  });
  client.send(
    frame(FRAME.headers, END_HEADERS, 1, Buffer.concat([asked, fields(...Object.entries(head))])),
    frame(FRAME.data, END_STREAM, 1, BODY),
    frame(FRAME.headers, END_HEADERS | END_STREAM, 3, requestHead('GET', '/livez')),
  );
  if (ends === 'connection') {
    await client.over();
    expect(client.ended(1)).toBe(false);
  } else {
    expect(FrameClient.codeOf(await client.frame(FRAME.reset, 1))).toBe(NGHTTP2_PROTOCOL_ERROR);
    await vi.waitUntil(() => client.ended(3), { timeout: PATIENCE_MS });
  }
  expect(lines.filter(({ event }) => event === 'job_queued')).toEqual([]);
  expect((await s.call('GET', '/api/v1/scoring/jobs')).json.jobs).toEqual([]);
});
