// HTTP/2 beside HTTP/1.1 on one port: the same answers, cuts that show, and floods that end their own connection only.
import { execFile } from 'node:child_process';
import { once } from 'node:events';
import { writeFileSync } from 'node:fs';
import http2 from 'node:http2';
import net from 'node:net';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import tls from 'node:tls';
import { promisify } from 'node:util';
import { describe, expect, onTestFinished, test, vi } from 'vitest';
import { generatePortfolio } from '../../../src/demo/portfolio.ts';
import { scratch } from '../../support/cli.ts';
import { PATIENCE_MS } from '../../support/patience.ts';
import { predictUrl, type Service, startService } from '../../support/service.ts';
import { type ToolName, testNeeding } from '../../support/tools.ts';

const portfolio = (rows: number): Buffer =>
  Buffer.concat([...generatePortfolio({ rows, seed: 5, delimiter: '\t', dirty: false })]);

/** Fails behind the head of its answer: one row more than may be. */
const TOO_MANY = 30_000;
const LIMITED = ['http2=true', `limits.rows=${TOO_MANY - 1}`];

interface Stream {
  stream: http2.ClientHttp2Stream;
  /** Resolves when the stream is over. */
  over: Promise<{ status: number; headers: http2.IncomingHttpHeaders; trailers: http2.IncomingHttpHeaders; text: string; code: number }>;
} // biome-ignore format: one line each

function connect({ port }: Pick<Service, 'port'>): http2.ClientHttp2Session {
  const session = http2.connect(`https://localhost:${port}`, { rejectUnauthorized: false });
  session.on('error', () => {});
  onTestFinished(() => session.destroy());
  return session;
}

function open(session: http2.ClientHttp2Session, token: string, headers: http2.OutgoingHttpHeaders): Stream {
  const stream = session.request({ ':method': 'POST', authorization: `API-Key ${token}`, ...headers });
  let head: http2.IncomingHttpHeaders = {};
  let trailers: http2.IncomingHttpHeaders = {};
  const chunks: Buffer[] = [];
  stream.on('response', (h) => {
    head = h;
  });
  stream.on('trailers', (t) => {
    trailers = t;
  });
  stream.on('data', (c: Buffer) => chunks.push(c));
  stream.on('error', () => {});
  const over = new Promise<void>((resolve) => stream.on('close', resolve)).then(() => ({
    status: Number((head as http2.IncomingHttpHeaders & http2.IncomingHttpStatusHeader)[':status'] ?? 0),
    headers: head,
    trailers,
    text: Buffer.concat(chunks).toString(),
    code: stream.rstCode,
  }));
  return { stream, over };
}

function post(session: http2.ClientHttp2Session, token: string, url: string, body: string | Buffer, headers = {}) {
  const { stream, over } = open(session, token, { ':path': url, ...headers });
  stream.end(body);
  return over;
}

describe('one port, two protocols', () => {
  test('gives the same answers as HTTP/1.1, in all formats', async () => {
    const service = await startService(['http2=true']);
    const session = connect(service);
    const csv = portfolio(3000);
    const [head, ...lines] = csv.toString().trimEnd().split('\n');
    const names = head!.split('\t');
    const objects = lines.slice(0, 5).map((line) => Object.fromEntries(line.split('\t').map((v, i) => [names[i]!, v])));
    const bodies = {
      csv,
      json: JSON.stringify(objects),
      ndjson: objects.map((o) => `${JSON.stringify(o)}\n`).join(''),
    };
    for (const [format, body] of Object.entries(bodies)) {
      const by1 = await service.call('POST', predictUrl(format), { body });
      const by2 = await post(session, service.token, predictUrl(format), body);
      expect([by1.status, by2.status, by2.code]).toEqual([200, 200, 0]);
      expect(by2.text).toBe(by1.text);
      for (const name of ['connection', 'transfer-encoding', 'keep-alive']) expect(by2.headers[name]).toBeUndefined();
    }
    expect(session.alpnProtocol).toBe('h2');
  });

  test('is off unless configured', async () => {
    const { port } = await startService();
    const socket = tls.connect({ port, rejectUnauthorized: false, ALPNProtocols: ['h2', 'http/1.1'] });
    await once(socket, 'secureConnect');
    expect(socket.alpnProtocol).toBe('http/1.1');
    socket.destroy();
  });

  test('answers plain HTTP with a readable refusal, and no key with 401', async () => {
    const service = await startService(['http2=true']);
    const socket = net.connect(service.port, '127.0.0.1');
    socket.write('GET / HTTP/1.1\r\nhost: x\r\n\r\n');
    expect(String((await once(socket, 'data'))[0])).toContain('This port speaks HTTPS');
    const answer = await post(connect(service), 'wrong', predictUrl('csv'), portfolio(5));
    expect([answer.status, answer.code]).toEqual([401, 0]);
  });

  test('streams both ways, with a digest behind the answer', async () => {
    const service = await startService(['http2=true']);
    const lines = portfolio(40_000)
      .toString()
      .split(/(?<=\n)/);
    const { stream, over } = open(connect(service), service.token, {
      ':path': predictUrl('csv'),
      te: 'trailers',
      'want-content-digest': 'sha-256=1',
    });
    stream.write(lines.slice(0, 20_000).join(''));
    // The answer begins while the body is open.
    await once(stream, 'response');
    stream.end(lines.slice(20_000).join(''));
    const { status, text, code, trailers } = await over;
    expect([status, code, text.split('\n').length]).toEqual([200, 0, 40_002]);
    expect(trailers['content-digest']).toMatch(/^sha-256=:/);
  });
});

describe('what is cut', () => {
  test('an answer that fails behind its head is reset, and other streams go on', async () => {
    const service = await startService(LIMITED);
    const session = connect(service);
    const cut = await post(session, service.token, predictUrl('csv'), portfolio(TOO_MANY));
    expect([cut.status, cut.code]).toEqual([200, http2.constants.NGHTTP2_INTERNAL_ERROR]);
    const whole = await post(session, service.token, predictUrl('csv'), portfolio(100));
    expect([whole.status, whole.code]).toEqual([200, 0]);
  });

  test.each([http2.constants.NGHTTP2_NO_ERROR, http2.constants.NGHTTP2_CANCEL])(
    'a body that is reset with %i is no whole body: no job, and its place is free',
    async (code) => {
      const service = await startService(['http2=true', 'limits.concurrent_requests_per_key=1']);
      const session = connect(service);
      const job = predictUrl('csv').replace('predict', 'jobs');
      for (const path of [predictUrl('csv'), job]) {
        const { stream, over } = open(session, service.token, { ':path': path });
        stream.write(portfolio(50));
        await sleep(100);
        stream.close(code);
        await over;
      }
      await vi.waitFor(
        async () => {
          const next = await post(session, service.token, predictUrl('csv'), portfolio(3));
          expect(next.status).toBe(200);
        },
        { timeout: PATIENCE_MS },
      );
      expect((await service.call('GET', '/metrics')).text).not.toMatch(/sluice_jobs_total\{[^}]*\} [1-9]/);
    },
  );

  test('a stop says GOAWAY, answers what runs, and ends', async () => {
    const service = await startService(['http2=true'], scratch(), { keep: true });
    const session = connect(service);
    const { stream, over } = open(session, service.token, { ':path': predictUrl('csv') });
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
});

/** A frame of HTTP/2. */
function frame(type: number, flags: number, stream: number, payload = Buffer.alloc(0)): Buffer {
  const head = Buffer.alloc(9);
  head.writeUIntBE(payload.length, 0, 3);
  head[3] = type;
  head[4] = flags;
  head.writeUInt32BE(stream, 5);
  return Buffer.concat([head, payload]);
}

describe('floods', () => {
  test('resets without end cost their own connection, and nobody else', async () => {
    const service = await startService(['http2=true']);
    // Frames by hand: the client of Node sends nothing of a stream that is reset at once.
    const socket = tls.connect({ port: service.port, rejectUnauthorized: false, ALPNProtocols: ['h2'] });
    socket.on('error', () => {}).resume();
    await once(socket, 'secureConnect');
    const ended = new Promise((resolve) => socket.on('close', resolve));
    socket.write(Buffer.concat([Buffer.from('PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n'), frame(4, 0, 0)]));
    const head = Buffer.concat([Buffer.from([0x83, 0x87, 0x84, 0x41, 1]), Buffer.from('x')]);
    for (let id = 1; id < 10_000 && !socket.destroyed; id += 2) {
      socket.write(Buffer.concat([frame(1, 4, id, head), frame(3, 0, id, Buffer.from([0, 0, 0, 8]))]));
      if (id % 40 === 1) await sleep(1);
    }
    await ended;
    expect((await service.call('POST', predictUrl('csv'), { body: portfolio(3) })).status).toBe(200);
  });

  test('a head beyond the limit is refused before and after the settings are known', async () => {
    const service = await startService(['http2=true', 'limits.header_bytes=4096']);
    const session = connect(service);
    const ask = () => post(session, service.token, predictUrl('csv'), portfolio(3), { 'x-large': 'x'.repeat(8000) });
    expect(JSON.parse((await ask()).text).code).toBe('limit_exceeded');
    expect((await ask()).status).toBe(0);
    expect((await post(connect(service), service.token, predictUrl('csv'), portfolio(3))).status).toBe(200);
  });

  test('a connection that asks for nothing ends, whatever it pings', async () => {
    const service = await startService(['http2=true', 'timeouts.head_ms=300']);
    const session = connect(service);
    const ended = once(session, 'close');
    const pings = setInterval(() => !session.destroyed && session.ping(() => {}), 50);
    await ended;
    clearInterval(pings);
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
