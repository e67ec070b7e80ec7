// HTTP/2 beside HTTP/1.1 on one port: the same answers, and cuts that show, of bodies and of answers.
import { execFile } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import http2 from 'node:http2';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import tls from 'node:tls';
import { promisify } from 'node:util';
import zlib from 'node:zlib';
import { columnFromArray, tableFromColumns, tableToIPC } from '@uwdata/flechette';
import { beforeAll, describe, expect, test, vi } from 'vitest';
import { generatePortfolio } from '../../../src/demo/portfolio.ts';
import { scratch } from '../../support/cli.ts';
import { type CollectedLog, collectedLog } from '../../support/collected-log.ts';
import { END_HEADERS, FRAME, FrameClient, frame, requestHead, resetFrame } from '../../support/h2-frames.ts';
import { callOver, connectH2, openStream } from '../../support/h2-session.ts';
import { PATIENCE_MS } from '../../support/patience.ts';
import {
  asNative,
  asObjects,
  PREDICT,
  predictUrl,
  type Reply,
  type Service,
  startService,
} from '../../support/service.ts';
import { type ToolName, testNeeding } from '../../support/tools.ts';

const { NGHTTP2_INTERNAL_ERROR } = http2.constants;
const ON = 'http2=true';
const portfolio = (rows: number): Buffer =>
  Buffer.concat([...generatePortfolio({ rows, seed: 5, delimiter: '\t', dirty: false })]);
const key = (token: string) => ({ authorization: `API-Key ${token}` });

/** Fails behind the head of its answer: one row more than may be. */
const TOO_MANY = 30_000;
const LIMITED = [ON, `limits.rows=${TOO_MANY - 1}`];

/** The ends of so many requests that were cut, as the log has them. */
const cut = (lines: CollectedLog['lines'], n: number) =>
  vi.waitUntil(
    () => {
      const all = lines.filter(({ event, fields }) => event === 'request' && fields.cut === true);
      return all.length >= n && all;
    },
    { timeout: PATIENCE_MS },
  );

const ROWS = asNative(asObjects(Buffer.concat([...generatePortfolio({ rows: 40, seed: 8, dirty: false })]).toString()));
const JSON_BODY = JSON.stringify(ROWS);
const INTERPRETED = `${PREDICT}/interpretation`;
const FORM = '--x\r\ncontent-disposition: form-data; name="f"; filename="a"\r\n\r\n';
const MULTIPART = { 'content-type': 'multipart/form-data; boundary=x' };

function arrow(): Buffer {
  const names = Object.keys(ROWS[0]!);
  const columns = names.map((n) => [n, columnFromArray(ROWS.map((row) => row[n] ?? null))] as never);
  return Buffer.from(tableToIPC(tableFromColumns(columns), { format: 'stream' })!);
}

interface Asked {
  name: string;
  method?: string;
  path: string;
  body?: string | Buffer;
  headers?: Record<string, string>;
  token?: string | null;
  status: number;
}

/** Every door, and what it refuses. */
const TABLE: Asked[] = [
  { name: 'CSV', path: predictUrl('csv'), body: portfolio(300), status: 200 },
  { name: 'CSV of many rows', path: predictUrl('csv'), body: portfolio(12_000), status: 200 },
  { name: 'JSON', path: predictUrl('json'), body: JSON_BODY, status: 200 },
  { name: 'NDJSON', path: predictUrl('ndjson'), body: ROWS.map((r) => `${JSON.stringify(r)}\n`).join(''), status: 200 },
  { name: 'Arrow', path: predictUrl('arrow'), body: arrow(), status: 200 },
  { name: 'interpretation', path: `${INTERPRETED}.json?modelId=credit-default&top_effects=3`, body: JSON.stringify(ROWS.slice(0, 3)), status: 200 },
  { name: 'a compressed answer', path: predictUrl('csv'), body: portfolio(300), headers: { 'accept-encoding': 'gzip' }, status: 200 },
  { name: 'a compressed body', path: predictUrl('csv'), body: zlib.gzipSync(portfolio(300)), headers: { 'content-encoding': 'gzip' }, status: 200 },
  { name: 'a form', path: predictUrl('csv'), body: `${FORM}${portfolio(30)}\r\n--x--\r\n`, headers: MULTIPART, status: 200 },
  { name: 'a digest', path: predictUrl('csv'), body: portfolio(30), headers: { 'want-content-digest': 'sha-256=1' }, status: 200 },
  { name: 'a wrong digest', path: predictUrl('csv'), body: portfolio(30), headers: { 'content-digest': 'sha-256=:AAAA:' }, status: 400 },
  { name: 'an expectation', path: predictUrl('csv'), body: portfolio(30), headers: { expect: '100-continue' }, status: 200 },
  { name: 'a proxy in between', path: predictUrl('csv'), body: portfolio(12_000), headers: { via: '1.1 x' }, status: 200 },
  { name: 'models', method: 'GET', path: '/api/v1/models', status: 200 },
  { name: 'a model', method: 'GET', path: '/api/v1/models/credit-default', status: 200 },
  { name: 'HEAD', method: 'HEAD', path: '/api/v1/models/credit-default', status: 200 },
  { name: 'jobs', method: 'GET', path: '/api/v1/scoring/jobs', status: 200 },
  { name: 'V2', path: '/v2/models/credit-default/infer', body: JSON.stringify({ inputs: Object.keys(ROWS[0]!).map((name) => ({ name, shape: [1], datatype: typeof ROWS[0]![name] === 'number' ? 'FP64' : typeof ROWS[0]![name] === 'boolean' ? 'BOOL' : 'BYTES', data: [ROWS[0]![name] ?? null] })) }), status: 200 },
  { name: 'V2 ready', method: 'GET', path: '/v2/health/ready', status: 200 },
  { name: 'readiness', method: 'GET', path: '/readyz', status: 200 },
  { name: 'OpenAPI', method: 'GET', path: '/openapi.json', status: 200 },
  { name: 'a page of another origin', method: 'OPTIONS', path: predictUrl('csv'), headers: { origin: 'https://desk.bank.example', 'access-control-request-method': 'POST' }, token: null, status: 204 },
  { name: 'no key', path: predictUrl('csv'), body: portfolio(30), token: null, status: 401 },
  { name: 'a wrong key', path: predictUrl('csv'), body: portfolio(30), token: 'wrong', status: 401 },
  { name: 'no JSON', path: predictUrl('json'), body: '[{', status: 400 },
  { name: 'nothing that can be scored', path: predictUrl('json'), body: '[{}]', status: 400 },
  { name: 'another type', path: predictUrl('json'), body: '[]', headers: { 'content-type': 'text/csv' }, status: 400 },
  { name: 'an unknown coding', path: predictUrl('json'), body: '[]', headers: { 'content-encoding': 'br' }, status: 400 },
  { name: 'a limit', path: predictUrl('csv'), body: Array.from({ length: 40 }, (_, i) => `c${i}`).join('\t'), status: 400 },
  { name: 'an unknown model', path: predictUrl('csv').replace('credit-default', 'none'), body: portfolio(3), status: 404 },
  { name: 'an unknown path', method: 'GET', path: '/api/v1/nothing', status: 404 },
  { name: 'another method', method: 'PUT', path: predictUrl('csv'), body: 'x', status: 405 },
  { name: 'an expectation nobody has', path: predictUrl('csv'), body: portfolio(3), headers: { expect: 'coffee' }, status: 417 },
]; // biome-ignore format: a table

/** What belongs to a connection, or to one request. */
const OWN = new Set(['connection', 'keep-alive', 'transfer-encoding', 'date', 'x-request-id', 'content-length', 'content-digest']); // biome-ignore format: one line
const UUID = /[0-9a-f]{8}-[0-9a-f-]{27}/g;
/** The same for both versions: status, headers that are the answer's own, bytes. */
const shape = ({ status, headers, bytes }: Reply) => ({
  status,
  // A problem has a charset where the body had come whole before it, over either version.
  headers: Object.fromEntries(Object.entries(headers).filter(([n]) => !OWN.has(n)).map(([n, v]) => [n, String(v)]).sort()),
  text: bytes.toString('latin1').replaceAll(UUID, 'id'),
}); // biome-ignore format: short

describe('one port, two protocols', () => {
  let service: Service;
  beforeAll(async () => {
    const folder = mkdtempSync(path.join(tmpdir(), 'sluice-h2-'));
    const own = ['compression.level=1', 'cors.origins=["https://desk.bank.example"]', 'limits.columns=30'];
    service = await startService([ON, ...own], folder, { keep: true });
    return async () => {
      await service.running.stop();
      rmSync(folder, { recursive: true });
    };
  });

  test.each(TABLE)('$name: the same answer', async ({ method = 'POST', path: url, status, ...options }) => {
    const by1 = await service.call(method, url, options);
    const by2 = await callOver(connectH2(service), service.token)(method, url, options);
    expect([by1.status, by2.code]).toEqual([status, 0]);
    expect(shape(by2)).toEqual(shape(by1));
    for (const name of ['connection', 'transfer-encoding', 'keep-alive']) expect(by2.headers[name]).toBeUndefined();
  });

  test('a job, its result and a range of it are those of HTTP/1.1', async () => {
    const over2 = callOver(connectH2(service), service.token);
    const made = await over2('POST', predictUrl('csv'), { body: portfolio(500), headers: { prefer: 'respond-async' } });
    expect(made.status).toBe(201);
    const location = made.headers.location as string;
    await vi.waitUntil(async () => (await over2('GET', location)).json.state === 'done', { timeout: PATIENCE_MS });
    for (const headers of [{}, { range: 'bytes=100-199' }]) {
      const [by1, by2] = [service.call, over2].map((call) => call('GET', `${location}/result`, { headers }));
      expect(shape(await by2!)).toEqual(shape(await by1!));
    }
    expect((await over2('DELETE', location)).status).toBe(204);
  });

  test('is off unless configured', async () => {
    const { port } = await startService();
    const socket = tls.connect({ port, rejectUnauthorized: false, ALPNProtocols: ['h2', 'http/1.1'] });
    await once(socket, 'secureConnect');
    expect(socket.alpnProtocol).toBe('http/1.1');
    socket.destroy();
  });

  test('a Host that is not the authority is refused', async () => {
    const over2 = callOver(connectH2(service), service.token);
    expect((await over2('GET', '/livez', { headers: { ':authority': 'localhost', host: 'other' } })).json.code).toBe(
      'bad_request',
    );
    expect((await over2('GET', '/livez', { headers: { ':authority': 'localhost', host: 'LOCALHOST' } })).status).toBe(
      200,
    );
  });

  test('streams both ways, with a digest behind the answer', async () => {
    const lines = portfolio(40_000)
      .toString()
      .split(/(?<=\n)/);
    const { stream, over } = openStream(connectH2(service), {
      ':path': predictUrl('csv'),
      te: 'trailers',
      'want-content-digest': 'sha-256=1',
      ...key(service.token),
    });
    stream.write(lines.slice(0, 20_000).join(''));
    // The answer begins while the body is open.
    await once(stream, 'response');
    stream.end(lines.slice(20_000).join(''));
    const { status, text, code, trailers } = await over;
    expect([status, code, text.split('\n').length]).toEqual([200, 0, 40_002]);
    expect(trailers['content-digest']).toMatch(/^sha-256=:/);
  });

  test('who sends everything before it reads gets all of it, through a file', async () => {
    const body = portfolio(40_000);
    const direct = await service.call('POST', predictUrl('csv'), { body });
    const asked = { ':path': predictUrl('csv'), ...key(service.token) };
    const { stream, over } = openStream(connectH2(service), asked, { paused: true });
    stream.end(body);
    const metrics = async () => (await service.call('GET', '/metrics')).text;
    const spilled = async () => Number(/^sluice_http_spilled_bytes (\d+)/m.exec(await metrics())?.[1] ?? 0);
    const most = direct.bytes.length - 400_000;
    await vi.waitUntil(async () => (await spilled()) > most, { timeout: PATIENCE_MS });
    stream.resume();
    const { status, code, text } = await over;
    expect([status, code]).toEqual([200, 0]);
    expect(text).toBe(direct.text);
    expect(await spilled()).toBe(0);
  });
});

const SENT = portfolio(50);
const RESET_DOORS: { name: string; head: Record<string, string>; body: Buffer }[] = [
  { name: 'predict', head: {}, body: SENT },
  { name: 'a job', head: { prefer: 'respond-async' }, body: SENT },
  { name: 'a form', head: MULTIPART, body: Buffer.from(`${FORM}${SENT}\r\n--x--\r\n`) },
  { name: 'a job of a form', head: { prefer: 'respond-async', ...MULTIPART }, body: Buffer.from(`${FORM}${SENT}\r\n--x--\r\n`) },
]; // biome-ignore format: a table

describe('what is cut', () => {
  test('an answer that fails behind its head is reset, and other streams go on', async () => {
    const service = await startService(LIMITED);
    const over2 = callOver(connectH2(service), service.token);
    const late = await over2('POST', predictUrl('csv'), { body: portfolio(TOO_MANY) });
    expect([late.status, late.code]).toEqual([200, NGHTTP2_INTERNAL_ERROR]);
    const whole = await over2('POST', predictUrl('csv'), { body: portfolio(100) });
    expect([whole.status, whole.code]).toEqual([200, 0]);
  });

  // Every row has come, and only the end of the body has not: Node would tell it as whole.
  test.each(RESET_DOORS)(
    '$name whose body is reset behind its last row is no request, and leaves its place',
    async ({ head, body }) => {
      const { log, lines } = collectedLog();
      const one = ['limits.concurrent_requests=1', 'limits.queued_requests=0', 'limits.concurrent_requests_per_key=1'];
      const service = await startService([ON, ...one], scratch(), { log });
      const read = async (): Promise<number> => {
        const { text } = await service.call('GET', '/metrics');
        return Number(/^sluice_http_request_body_bytes_total (\d+)/m.exec(text)![1]);
      };
      for (const [i, code] of [0, 8, 2].entries()) {
        const before = await read();
        const client = await FrameClient.connect(service.port);
        client.send(
          frame(
            FRAME.headers,
            END_HEADERS,
            1,
            requestHead('POST', predictUrl('csv'), { ...key(service.token), ...head }),
          ),
          frame(FRAME.data, 0, 1, body),
        );
        await vi.waitUntil(async () => (await read()) >= before + body.length - 200, { timeout: PATIENCE_MS });
        client.send(resetFrame(1, code));
        const cuts = await cut(lines, i + 1);
        expect(cuts[i]!.fields).toMatchObject({ protocol: 'HTTP/2', code: 'client_gone' });
        expect(client.ended(1)).toBe(false);
        const next = () => service.call('POST', predictUrl('csv'), { body: portfolio(3) });
        await vi.waitUntil(async () => (await next()).status === 200, { timeout: PATIENCE_MS });
      }
      expect((await service.call('GET', '/api/v1/scoring/jobs')).json.jobs).toEqual([]);
      expect(lines.filter(({ event }) => event.startsWith('job_'))).toEqual([]);
    },
  );

  test('a stop says GOAWAY, answers what runs, and ends', async () => {
    const service = await startService([ON], scratch(), { keep: true });
    const session = connectH2(service);
    const { stream, over } = openStream(session, { ':path': predictUrl('csv'), ...key(service.token) });
    const body = portfolio(1000).toString();
    stream.write(body.slice(0, 20_000));
    await sleep(200);
    const goaway = once(session, 'goaway');
    const stopped = service.running.stop();
    await goaway;
    stream.end(body.slice(20_000));
    const { status, code, text } = await over;
    expect([status, code, text.split('\n').length]).toEqual([200, 0, 1002]);
    await stopped;
  });

  test('an answer that does not end before the stop does is not told as whole', async () => {
    const service = await startService([ON, 'timeouts.stop_ms=300'], scratch(), { keep: true });
    const asked = { ':path': predictUrl('csv'), ...key(service.token) };
    const { stream, over } = openStream(connectH2(service), asked);
    stream.write(portfolio(20_000));
    await once(stream, 'response');
    await service.running.stop();
    const { status, code } = await over;
    expect(status).toBe(200);
    expect(code).not.toBe(0);
  });
});

const CLIENTS: { name: string; needs: ToolName[]; command: string[] }[] = [
  { name: 'net/http of Go', needs: ['Go'], command: ['go', 'run', 'main.go'] },
  { name: 'HttpClient of Java', needs: ['Java 17 or newer', 'a Java compiler'], command: ['java', 'JavaClient.java'] },
];

describe.each(CLIENTS)('$name', ({ needs, command: [program, ...args] }) => {
  testNeeding(needs, 'speaks HTTP/2, streams some MB, and takes no cut answer for a whole one', async () => {
    const { running, port, token } = await startService(LIMITED);
    const folder = scratch();
    const [authority, whole, cut] = ['ca.pem', 'whole.csv', 'cut.csv'].map((name) => path.join(folder, name));
    writeFileSync(authority!, running.certificate!);
    writeFileSync(whole!, portfolio(TOO_MANY - 1));
    writeFileSync(cut!, portfolio(TOO_MANY));
    const url = `https://localhost:${port}${predictUrl('csv')}`;
    const { stdout } = await promisify(execFile)(program!, [...args, authority!, url, token, whole!, cut!, whole!], {
      cwd: path.resolve('test/support/h2-clients'),
    });
    const told = stdout.trimEnd().split('\n').map((line) => JSON.parse(line)); // biome-ignore format: short
    const good = { status: 200, lines: TOO_MANY, protocol: 'HTTP/2.0', failed: false };
    expect([told[0], told[1].failed, told[2]]).toEqual([good, true, good]);
  });
});
