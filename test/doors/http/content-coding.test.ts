// Compressed answers decode to the plain ones byte for byte, arrive while they grow, and never look whole when they were cut.
import { execFile } from 'node:child_process';
import { createHash } from 'node:crypto';
import { once } from 'node:events';
import https from 'node:https';
import { setImmediate as turn } from 'node:timers/promises';
import { promisify } from 'node:util';
import { createGunzip, createZstdDecompress, gunzipSync, zstdDecompressSync } from 'node:zlib';
import { columnFromArray, tableFromColumns, tableFromIPC, tableToIPC } from '@uwdata/flechette';
import { expect, test, vi } from 'vitest';
import { generatePortfolio } from '../../../src/demo/portfolio.ts';
import { agreedCoding, type ContentCoding, ContentEncoder } from '../../../src/doors/http/wire/response-coding.ts';
import { asNative, asObjects, openUpload, PREDICT, predictUrl, type Reply } from '../../support/service.ts';
import { sharedService } from '../../support/shared-service.ts';
import { testNeeding } from '../../support/tools.ts';
import { until } from '../../support/until.ts';

const ON = ['compression.level=1'];
const csv = (rows: number): string =>
  Buffer.concat([...generatePortfolio({ rows, seed: 7, delimiter: ',', oddness: 'none' })]).toString();
const bodies = (rows: number): { csv: string; json: string; ndjson: string } => {
  const native = asNative(asObjects(csv(rows)));
  const ndjson = native.map((row) => `${JSON.stringify(row)}\n`).join('');
  return { csv: csv(rows), json: JSON.stringify(native), ndjson };
};
const arrowOf = (rows: number): Uint8Array => {
  const given = asNative(asObjects(csv(rows)));
  const names = Object.keys(given[0]!);
  const columns = names.map(
    (name) => [name, columnFromArray(given.map((row) => row[name] ?? null))] as [string, never],
  );
  return Buffer.from(tableToIPC(tableFromColumns(columns), { format: 'stream' })!);
};
const rowsOf = (arrow: Uint8Array): string =>
  JSON.stringify(tableFromIPC(new Uint8Array(arrow)).toArray(), (_, v) => (typeof v === 'bigint' ? String(v) : v));
const decoded = ({ headers, bytes }: Reply): Buffer => {
  const coding = headers['content-encoding'];
  return coding === 'gzip' ? gunzipSync(bytes) : coding === 'zstd' ? zstdDecompressSync(bytes) : bytes;
};

test.each<[string | undefined, ContentCoding | null, number?]>([
  [undefined, null],
  ['', null],
  ['gzip', 'gzip'],
  ['x-gzip', 'gzip'],
  ['zstd', 'zstd'],
  ['gzip, zstd', 'zstd'],
  ['GZIP', 'gzip'],
  ['gzip;q=1, zstd;q=0.999', 'gzip'],
  ['gzip ; q=0.5 , zstd ; Q=0.5', 'zstd'],
  ['gzip;q=0', null],
  ['gzip;q=0, *', 'zstd'],
  ['*', 'zstd'],
  ['*;q=0', null],
  ['zstd;q=0, gzip;q=0, *;q=1', null],
  ['identity', null],
  ['identity, gzip;q=0.5', null],
  ['identity;q=0.5, gzip;q=0.5', 'gzip'],
  ['identity;q=0', null],
  ['identity;q=0, gzip', 'gzip', 0],
  ['*;q=0, gzip', 'gzip', 0],
  ['identity;q=0, *', 'zstd', 0],
  ['br, deflate, compress', null],
  ['br, gzip;q=0.001', 'gzip'],
  ['gzip;q=2', null],
  ['gzip;q=0.0001', null],
  ['gzip;q=', null],
  [',, gzip ,', 'gzip'],
])('Accept-Encoding: %s means %s', (header, coding, leastBytes = 1024) => {
  expect(agreedCoding(header, 3, ['zstd', 'gzip'])).toEqual(coding && { coding, level: 3, leastBytes });
  expect(agreedCoding(header, 0, ['zstd', 'gzip'])).toBeNull();
  if (header === '*') expect(agreedCoding(header, 3, ['gzip'])?.coding).toBe('gzip');
});

test('each format, with and without reasons, short and streamed, is the plain answer encoded', async () => {
  const s = await sharedService(ON);
  for (const [rows, query] of [
    [60, '&delimiter=comma'],
    [12_000, '&delimiter=comma'],
  ] as const) {
    for (const [format, body] of Object.entries({ ...bodies(rows), arrow: arrowOf(rows) })) {
      for (const path of [PREDICT, `${PREDICT}/interpretation`]) {
        if (path !== PREDICT && rows > 100) continue;
        const url = `${path}.${format}?modelId=credit-default${format === 'arrow' ? '' : query}`;
        const plain = await s.call('POST', url, { body });
        expect([plain.status, plain.headers['content-encoding'], plain.headers.vary]).toEqual([200, undefined, 'accept-encoding']); // biome-ignore format: one line
        for (const coding of ['gzip', 'zstd']) {
          const answer = await s.call('POST', url, {
            body,
            headers: { 'accept-encoding': coding, 'want-content-digest': 'sha-256=1', te: 'trailers' },
          });
          const what = `${path} ${format} ${rows} ${coding} ${query}`;
          expect([answer.status, answer.headers['content-encoding'], what]).toEqual([200, coding, what]);
          // Where record batches of Arrow end is a matter of time.
          if (format === 'arrow') expect(rowsOf(decoded(answer)), what).toBe(rowsOf(plain.bytes));
          else expect(decoded(answer).equals(plain.bytes), what).toBe(true);
          expect(answer.bytes.length).toBeLessThan(plain.bytes.length);
          const digest = answer.headers['content-digest'];
          const sent = `sha-256=:${createHash('sha256').update(answer.bytes).digest('base64')}:`;
          if (digest === undefined) expect(answer.headers.trailer).toBe('content-digest');
          else expect(digest).toBe(sent);
        }
      }
    }
  }
});

test('short answers stay plain unless that is refused; without the setting nothing is encoded', async () => {
  const s = await sharedService(ON);
  const ask = (encoding: string) =>
    s.call('POST', predictUrl('json'), { body: bodies(1).json, headers: { 'accept-encoding': encoding } });
  const plain = await ask('gzip');
  expect(plain.headers['content-encoding']).toBeUndefined();
  const forced = await ask('identity;q=0, gzip');
  expect(forced.headers['content-encoding']).toBe('gzip');
  expect(decoded(forced).equals(plain.bytes)).toBe(true);
  const off = await sharedService();
  const headers = { 'accept-encoding': 'gzip, zstd' };
  const never = await off.call('POST', predictUrl('ndjson'), { body: bodies(100).ndjson, headers });
  expect([never.headers['content-encoding'], never.headers.vary]).toEqual([undefined, undefined]);
});

test('an answer that must be whole is encoded with its length, also through the file', async () => {
  const s = await sharedService(ON);
  const body = bodies(12_000).ndjson;
  const plain = await s.call('POST', predictUrl('ndjson', '&passthrough=*'), { body });
  for (const coding of ['gzip', 'zstd']) {
    const headers = { 'accept-encoding': coding, via: '1.1 desk', 'want-content-digest': 'sha-256=1' };
    const answer = await s.call('POST', predictUrl('ndjson', '&passthrough=*'), { body, headers });
    expect(answer.headers).toMatchObject({
      'content-encoding': coding,
      'content-length': String(answer.bytes.length),
      'content-digest': `sha-256=:${createHash('sha256').update(answer.bytes).digest('base64')}:`,
    });
    expect(decoded(answer).equals(plain.bytes)).toBe(true);
  }
});

test('results of jobs: whole ones encoded with a tag of their own, ranges plain; HEAD alike; models, too', async () => {
  const s = await sharedService(ON);
  const body = bodies(500).ndjson;
  const made = await s.call('POST', predictUrl('ndjson'), { body, headers: { prefer: 'respond-async' } });
  expect(made.status).toBe(201);
  const url = String(made.headers.location);
  await until(async () => (await s.call('GET', url)).json.state === 'done');
  const plain = await s.call('GET', `${url}/result`);
  for (const coding of ['gzip', 'zstd']) {
    const headers = { 'accept-encoding': coding };
    const whole = await s.call('GET', `${url}/result`, { headers });
    expect(whole.headers).toMatchObject({ 'content-encoding': coding, vary: 'accept-encoding' });
    expect(whole.headers.etag).not.toBe(plain.headers.etag);
    expect(decoded(whole).equals(plain.bytes)).toBe(true);
    const head = await s.call('HEAD', `${url}/result`, { headers });
    expect([head.status, head.headers['content-encoding'], head.headers.etag, head.bytes.length]).toEqual([200, coding, whole.headers.etag, 0]); // biome-ignore format: one line
    const part = await s.call('GET', `${url}/result`, { headers: { ...headers, range: 'bytes=100-199' } });
    expect([part.status, part.headers['content-encoding'], part.headers.etag]).toEqual([206, undefined, plain.headers.etag]); // biome-ignore format: one line
    expect(part.bytes.equals(plain.bytes.subarray(100, 200))).toBe(true);
    // Who has a part of the encoded one gets the whole anew.
    const resumed = { ...headers, range: 'bytes=100-', 'if-range': String(whole.headers.etag) };
    expect((await s.call('GET', `${url}/result`, { headers: resumed })).bytes.equals(whole.bytes)).toBe(true);
    for (const models of ['/api/v1/models', '/api/v1/models/credit-default']) {
      const forced = { 'accept-encoding': `identity;q=0, ${coding}`, 'want-content-digest': 'sha-256=1' };
      const encoded = await s.call('GET', models, { headers: forced });
      expect(encoded.headers).toMatchObject({
        'content-encoding': coding,
        'content-digest': `sha-256=:${createHash('sha256').update(encoded.bytes).digest('base64')}:`,
      });
      expect(decoded(encoded).equals((await s.call('GET', models)).bytes)).toBe(true);
    }
  }
});

test.each(['gzip', 'zstd'] as const)('%s: predictions arrive while the client still sends; a cut answer does not decode as a whole', async (coding) => {
  const s = await sharedService(ON);
  const headers = { authorization: `API-Key ${s.token}`, 'accept-encoding': coding };
  const upload = openUpload(s.port, headers, undefined, 'ndjson');
  upload.on('error', () => {});
  const body = bodies(12_000).ndjson;
  upload.write(body);
  const [answer] = (await once(upload, 'response')) as [import('node:http').IncomingMessage];
  answer.on('error', () => {});
  const plain = coding === 'gzip' ? createGunzip() : createZstdDecompress();
  const ended = vi.fn();
  const failed = vi.fn();
  let lines = 0;
  plain.on('end', ended).on('error', failed).on('data', (d: Buffer) => {
    lines += d.toString().split('\n').length - 1;
  });
  answer.on('data', (d: Buffer) => plain.write(d)).on('close', () => plain.end());
  await until(() => lines === 12_000);
  const row = body.slice(0, body.indexOf('\n') + 1);
  upload.write(row);
  await until(() => lines === 12_001);
  // A client that leaves in the middle: the answer is cut.
  upload.destroy();
  await until(() => failed.mock.calls.length > 0);
  expect(ended).not.toHaveBeenCalled();
  // Its place is free again.
  expect((await s.call('POST', predictUrl('ndjson'), { body: row })).status).toBe(200);
}); // biome-ignore format: a long name

test('a client that reads slowly gets all of it, and the digest of what was sent behind it', async () => {
  const s = await sharedService(ON);
  const body = bodies(12_000).ndjson;
  const url = predictUrl('ndjson', '&passthrough=*');
  const plain = await s.call('POST', url, { body });
  const request = https.request({
    ...{ host: '127.0.0.1', port: s.port, method: 'POST', path: url, rejectUnauthorized: false, agent: false },
    headers: {
      ...{ authorization: `API-Key ${s.token}`, 'accept-encoding': 'gzip' },
      ...{ 'want-content-digest': 'sha-256=1', te: 'trailers' },
    },
  });
  request.end(body);
  const [answer] = (await once(request, 'response')) as [import('node:http').IncomingMessage];
  const chunks: Buffer[] = [];
  for await (const chunk of answer) {
    chunks.push(chunk as Buffer);
    // So that the service is faster and has to wait.
    for (let i = 0; i < 20; i++) await turn();
  }
  const sent = Buffer.concat(chunks);
  expect(gunzipSync(sent).equals(plain.bytes)).toBe(true);
  const digest = `sha-256=:${createHash('sha256').update(sent).digest('base64')}:`;
  expect(answer.trailers['content-digest']).toBe(digest);
});

test('an encoder that is closed lets nobody wait', async () => {
  const encoder = new ContentEncoder({ coding: 'gzip', level: 9, leastBytes: 0 });
  const waiting = encoder.push(Buffer.alloc(1 << 22, 'abc'));
  encoder.close();
  await expect(waiting).rejects.toThrow('the response was cut off');
  await expect(encoder.finish()).rejects.toThrow('the response was cut off');
});

testNeeding(['curl'], 'curl --compressed gives the plain answer', async () => {
  const s = await sharedService(ON);
  const args = [
    '-sSk',
    '-H',
    `Authorization: API-Key ${s.token}`,
    '-H',
    'Content-Type: application/x-ndjson',
    '--data-binary',
    bodies(100).ndjson,
  ];
  const url = `https://127.0.0.1:${s.port}${predictUrl('ndjson')}`;
  const run = async (...more: string[]) => (await promisify(execFile)('curl', [...args, ...more, url])).stdout;
  expect(await run('--compressed')).toBe(await run());
});
