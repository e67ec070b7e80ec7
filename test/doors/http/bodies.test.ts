// What a body has to be: the one its digest says, one file a form, the one its idempotency key belongs to, and not nothing by accident.
import { createHash } from 'node:crypto';
import { mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import tls from 'node:tls';
import zlib from 'node:zlib';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { generatePortfolio } from '../../../src/demo/portfolio.ts';
import { type CallOptions, predictUrl, type Service, startService } from '../../support/service.ts';

// One for all: what is tested leaves nothing behind.
let s: Service;
let folder: string;
beforeAll(async () => {
  folder = mkdtempSync(path.join(tmpdir(), 'sluice-test-'));
  s = await startService([], folder, { keep: true });
});
afterAll(async () => {
  await s.running.stop();
  rmSync(folder, { recursive: true, force: true });
});

const portfolio = (rows: number, seed = 31): string =>
  Buffer.concat([...generatePortfolio({ rows, seed, delimiter: '\t', oddness: 'none' })]).toString();

const digest = (bytes: Uint8Array | string, name = 'sha-256'): string =>
  `${name}=:${createHash(name.replace('-', '')).update(bytes).digest('base64')}:`;

const BOUNDARY = 'xYzZY';
const filePart = (text: string, name = 'file'): string =>
  `--${BOUNDARY}\r\ncontent-disposition: form-data; name="${name}"; filename="a.csv"\r\ncontent-type: text/csv\r\n\r\n${text}\r\n`;
const FIELD = `--${BOUNDARY}\r\ncontent-disposition: form-data; name="note"\r\n\r\nx\r\n`;
const form = (...parts: string[]): CallOptions & { body: string } => ({
  body: `${parts.join('')}--${BOUNDARY}--\r\n`,
  headers: { 'content-type': `multipart/form-data; boundary=${BOUNDARY}` },
});
const ASYNC = { prefer: 'respond-async' };

const predict = (format: string, options: CallOptions) => s.call('POST', predictUrl(format), options);

/** Files in the folder of jobs that belong to no job: those of other tests may still run. */
async function strayFiles(): Promise<string[]> {
  const { jobs } = (await s.call('GET', '/api/v1/scoring/jobs')).json as { jobs: { id: string }[] };
  const files = readdirSync(path.join(s.folder, 'jobs')).filter((f) => !f.startsWith('jobs.sqlite'));
  return files.filter((file) => !jobs.some(({ id }) => file.includes(id)));
}

describe('a form', () => {
  test.each([
    ['behind the file', [filePart(portfolio(5)), filePart(portfolio(3))]],
    ['of another name', [filePart(portfolio(5)), FIELD, filePart('x', 'other')]],
    ['that is empty', [filePart(portfolio(5)), filePart('')]],
    ['behind an empty file', [filePart(''), filePart(portfolio(5))]],
  ])('with a second file %s is refused, as a request and as a job', async (_, parts) => {
    const sent = form(...parts);
    for (const more of [{}, ASYNC]) {
      const reply = await predict('csv', { ...sent, headers: { ...sent.headers, ...more } });
      expect([reply.status, reply.json.code]).toEqual([400, 'several_files']);
    }
    await expect.poll(strayFiles).toEqual([]);
  });

  test('with fields before and behind its one file is taken', async () => {
    const direct = await predict('csv', { body: portfolio(50) });
    const reply = await predict('csv', form(FIELD, filePart(portfolio(50)), FIELD));
    expect([reply.status, reply.text]).toEqual([200, direct.text]);
  });

  test.each([
    ['quoted-printable', 400],
    ['BASE64', 400],
    ['x-uuencode', 400],
    ['8bit', 200],
    ['Binary', 200],
  ])('with a file in the transfer encoding %s gets %i', async (encoding, status) => {
    const part = filePart(portfolio(5)).replace('\r\n\r\n', `\r\ncontent-transfer-encoding: ${encoding}\r\n\r\n`);
    const reply = await predict('csv', form(part));
    expect(reply.status).toBe(status);
    if (status === 400)
      expect(reply.json).toMatchObject({ code: 'invalid_content', detail: expect.stringContaining('must be 7bit') });
  });

  test('whose second file comes when the answer has begun is cut', async () => {
    const outcome = await predict('csv', form(filePart(portfolio(30_000)), filePart(portfolio(3)))).then(
      (r) => r.status,
      () => 'cut',
    );
    expect(['cut', 400]).toContain(outcome);
  });
});

describe('Content-Digest of a request', () => {
  const csv = portfolio(40);
  const packed = zlib.gzipSync(csv);
  const sent = form(filePart(csv));
  const wrong = digest('something else');
  const cases: [string, CallOptions & { body: string | Uint8Array }][] = [
    ['a small body', { body: csv }],
    ['a large body', { body: portfolio(3000) }],
    ['a compressed body', { body: packed, headers: { 'content-encoding': 'gzip' } }],
    ['a form', sent],
    ['an upload', { body: csv, headers: ASYNC }],
    ['an upload as a form', { body: sent.body, headers: { ...sent.headers, ...ASYNC } }],
  ];
  test.each(cases)('of %s is checked', async (_, { body, headers = {} }) => {
    const ask = (value: string) => predict('csv', { body, headers: { ...headers, 'content-digest': value } });
    const fine = headers.prefer ? 201 : 200;
    for (const value of [
      digest(body),
      digest(body, 'sha-512'),
      `${digest(body)}, ${digest(body, 'sha-512')};x=1`,
      'md5=:AAAA:, crc32c=:AAAA:',
    ]) {
      expect([value, (await ask(value)).status]).toEqual([value, fine]);
    }
    for (const value of [wrong, `${digest(body)},${digest('x', 'sha-512')}`]) {
      const reply = await ask(value);
      expect([reply.status, reply.json?.code]).toEqual([400, 'digest_mismatch']);
    }
    for (const value of ['sha-256=abc', 'sha-256=:abc:', 'sha-256', 'sha-256=:!:', 'SHA-256=:AAAA:', ',', digest(body).slice(0, -1)]) {
      const reply = await ask(value);
      expect([value, reply.status, reply.json?.code]).toEqual([value, 400, 'invalid_content']);
    }
  }); // biome-ignore format: one table

  test('a wrong one that is known when the answer has begun cuts it', async () => {
    const reply = predict('csv', { body: portfolio(40_000), headers: { 'content-digest': wrong } });
    expect(await reply.then((r) => r.status, () => 'cut')).toBe('cut'); // biome-ignore format: one line
  });
});

describe('Content-Digest of an answer', () => {
  test('is a header where the answer is complete before its head', async () => {
    const want = { 'want-content-digest': 'sha-512=3, sha-256=10, md5=9' };
    for (const reply of [
      await predict('csv', { body: portfolio(30), headers: want }),
      await predict('csv', { body: 'nonsense', headers: want }),
      await s.call('GET', '/api/v1/models', { headers: want }),
    ]) {
      expect(reply.headers['content-digest']).toBe(digest(reply.text));
    }
    for (const none of ['sha-256=0', 'md5=1', 'nonsense', 'sha-256=11']) {
      const reply = await predict('csv', { body: portfolio(3), headers: { 'want-content-digest': none } });
      expect([reply.status, reply.headers['content-digest']]).toEqual([200, undefined]);
    }
    const whole = await predict('csv', { body: portfolio(15_000), headers: { ...want, via: '1.1 x' } });
    expect([whole.headers['content-digest'], whole.headers['content-length']]).toEqual([
      digest(whole.text),
      String(Buffer.byteLength(whole.text)),
    ]);
  });

  test('stands behind an answer that streams, for whoever takes trailers', async () => {
    const body = portfolio(25_000);
    const ask = (more: string) =>
      new Promise<string>((resolve) => {
        const socket = tls.connect({ port: s.port, host: '127.0.0.1', rejectUnauthorized: false });
        let got = '';
        socket.setEncoding('latin1').on('data', (d: string) => {
          got += d;
          if (/\r\n0\r\n(?:[^\r]+\r\n)*\r\n$/.test(got)) {
            socket.destroy();
            resolve(got);
          }
        });
        socket.write(
          `POST ${predictUrl('csv')} HTTP/1.1\r\nhost: x\r\nauthorization: ${s.token}\r\ncontent-length: ${body.length}\r\nwant-content-digest: sha-256=1\r\n${more}\r\n${body}`,
        );
      });
    const got = await ask('te: trailers\r\n');
    expect(got).toMatch(/\r\ntrailer: content-digest\r\n/i);
    const chunks: string[] = [];
    for (let at = got.indexOf('\r\n\r\n') + 4; ; ) {
      const from = got.indexOf('\r\n', at) + 2;
      const size = Number.parseInt(got.slice(at, from), 16);
      if (!(size > 0)) break;
      chunks.push(got.slice(from, from + size));
      at = from + size + 2;
    }
    expect(/content-digest: (.*)\r\n\r\n$/i.exec(got)![1]).toBe(digest(Buffer.from(chunks.join(''), 'latin1')));
    expect(await ask('')).not.toMatch(/content-digest/i);
  });
});

describe('an Idempotency-Key', () => {
  const keyed = (key: string) => ({ 'idempotency-key': key, ...ASYNC });

  test('belongs to one body: another is refused, the same in any wrapping is the same job', async () => {
    const key = keyed('night-2026-11-22');
    const csv = portfolio(20);
    const first = await predict('csv', { body: csv, headers: key });
    expect(first.status).toBe(201);
    const sent = form(filePart(csv));
    const same: (CallOptions & { body: string | Uint8Array })[] = [
      { body: csv, headers: key },
      { body: zlib.gzipSync(csv), headers: { ...key, 'content-encoding': 'gzip' } },
      { body: sent.body, headers: { ...key, ...sent.headers } },
    ];
    for (const again of same) {
      const reply = await predict('csv', again);
      expect([reply.status, reply.headers.location]).toEqual([201, first.headers.location]);
    }
    for (const body of [portfolio(20, 32), csv.slice(0, -1), '', `${csv}\n`]) {
      const reply = await predict('csv', { body, headers: key });
      expect([reply.status, reply.json.code]).toEqual([400, 'idempotency_key_reused']);
    }
    const other = await s.call('POST', predictUrl('csv', '&on_invalid=fail'), { body: csv, headers: key });
    expect([other.status, other.json.code]).toEqual([400, 'idempotency_conflict']);
  });

  test('used at once for several bodies makes one job; only its own body is told of it', async () => {
    const key = keyed('night-2026-11-23');
    const bodies = Array.from({ length: 6 }, (_, i) => portfolio(200, 40 + (i % 2)));
    const replies = await Promise.all(bodies.map((body) => predict('csv', { body, headers: key })));
    const made = new Set(replies.filter((r) => r.status === 201).map((r) => r.json.id));
    expect(made.size).toBe(1);
    expect(replies.filter((r) => r.status === 201)).toHaveLength(3);
    expect(new Set(replies.filter((r) => r.status !== 201).map((r) => r.json.code))).toEqual(
      new Set(['idempotency_key_reused']),
    );
  });
});

test.each([
  ['ndjson', '', 400, 'empty_input'],
  ['ndjson', '\n\n', 400, 'empty_input'],
  ['json', '', 400, 'malformed_json'],
  ['csv', '', 400, 'empty_input'],
  ['json', '[]', 200, undefined],
])('a %s body of %j that names no length is %i', async (format, body, status, code) => {
  const chunked = { 'transfer-encoding': 'chunked' };
  const reply = await predict(format, { body, headers: chunked });
  expect([reply.status, reply.json?.code]).toEqual([status, code]);
  if (format !== 'ndjson' || body !== '') return;
  const job = await predict(format, { body, headers: { ...chunked, ...ASYNC } });
  expect([job.status, job.json.code]).toEqual([400, 'empty_input']);
  const meant = await predict(format, { body: '', headers: { 'content-length': '0' } });
  expect([meant.status, meant.text]).toEqual([200, '']);
});

test('a charset that is not UTF-8, and codings of the transfer, are refused', async () => {
  const ask = (headers: Record<string, string>) => predict('csv', { body: portfolio(3), headers });
  for (const charset of ['utf-16', 'bogus', 'iso-8859-1', '""']) {
    const reply = await ask({ 'content-type': `text/csv; charset=${charset}` });
    expect([charset, reply.status, reply.json.code]).toEqual([charset, 400, 'invalid_content']);
  }
  for (const charset of ['utf-8', 'UTF-8', '"utf-8"', 'utf8', 'us-ascii']) {
    expect([charset, (await ask({ 'content-type': `text/csv; header=present; charset=${charset}` })).status]).toEqual([charset, 200]); // biome-ignore format: one line
  }
  const reply = await ask({ 'transfer-encoding': 'gzip, chunked' });
  expect([reply.status, reply.json.code]).toEqual([400, 'invalid_content']);
});
