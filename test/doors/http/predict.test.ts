// The predict operations over real TLS sockets: the same predictions at every door, exact statuses, nothing echoed.
import { once } from 'node:events';
import type { ClientRequest } from 'node:http';
import https from 'node:https';
import net from 'node:net';
import tls from 'node:tls';
import zlib from 'node:zlib';
import { describe, expect, test } from 'vitest';
import { VERSION } from '../../../src/core/version.ts';
import { generatePortfolio } from '../../../src/demo/portfolio.ts';
import { filesOf, packageHash } from '../../../src/model/package/package-hash.ts';
import { scoreText } from '../../support/score.ts';
import {
  asNative,
  asObjects,
  type CallOptions,
  predictUrl,
  type Service,
  startService,
} from '../../support/service.ts';
import { sharedService } from '../../support/shared-service.ts';
import { checkTest } from '../../support/tiers.ts';

const portfolio = (rows: number, faults = 0, seed = 17): string =>
  Buffer.concat([...generatePortfolio({ rows, seed, faults, oddness: 'none' })]).toString();

const predict = (s: Service, format: string, body: string | Uint8Array, query = '', options: CallOptions = {}) =>
  s.call('POST', predictUrl(format, query), { body, ...options });

function multipart(file: string, type = 'text/csv'): CallOptions {
  const boundary = 'xYzZY';
  const body = `--${boundary}\r\ncontent-disposition: form-data; name="note"\r\n\r\nx\r\n--${boundary}\r\ncontent-disposition: form-data; name="file"; filename="a.csv"\r\ncontent-type: ${type}\r\n\r\n${file}\r\n--${boundary}--\r\n`;
  return { body, headers: { 'content-type': `multipart/form-data; boundary=${boundary}` } };
}

test('the same rows as native JSON, strings, NDJSON, TSV, CSV, gzip, zstd and multipart give the same predictions', async () => {
  const s = await sharedService();
  const csv = portfolio(300);
  const strings = asObjects(csv);
  const native = asNative(strings);
  const want = (await predict(s, 'json', JSON.stringify(native))).json;
  expect(want.summary).toEqual({ rows: 300, scored: 300, rejected: 0 });
  expect(want.modelId).toBe('credit-default');
  expect((await predict(s, 'json', JSON.stringify(strings))).json).toEqual(want);
  const lines = await predict(s, 'ndjson', native.map((o) => JSON.stringify(o)).join('\n'));
  expect(
    lines.text
      .trimEnd()
      .split('\n')
      .map((l) => JSON.parse(l)),
  ).toEqual(want.predictions);

  const tsv = csv.replaceAll(',', '\t');
  const answer = await predict(s, 'csv', tsv);
  expect(answer.headers['content-type']).toContain('text/csv');
  expect(
    answer.text
      .trimEnd()
      .split('\n')
      .slice(1)
      .map((l) => l.split('\t')[2]),
  ).toEqual(want.predictions.map((p: { probability: number }) => String(p.probability)));
  expect((await predict(s, 'csv', zlib.gzipSync(tsv), '', { headers: { 'content-encoding': 'gzip' } })).text).toBe(
    answer.text,
  );
  expect(
    (await predict(s, 'csv', zlib.zstdCompressSync(tsv), '', { headers: { 'content-encoding': 'zstd' } })).text,
  ).toBe(answer.text);
  const form = multipart(tsv);
  expect((await predict(s, 'csv', form.body!, '', form)).text).toBe(answer.text);
  const comma = await predict(s, 'csv', csv, '&delimiter=comma');
  expect(comma.text).toBe(answer.text.replaceAll('\t', ','));
  // and the file door gives the very same bytes
  expect((await scoreText(csv)).output).toBe(comma.text);
});

test('an answer names the version and the package that made it', async () => {
  const s = await sharedService();
  const { headers } = await predict(s, 'csv', portfolio(2).replaceAll(',', '\t'));
  expect(headers).toMatchObject({
    'sluice-model': 'credit-default:1',
    'sluice-package-sha256': packageHash(await filesOf('src/bundled/credit-default/1')),
    'sluice-version': VERSION,
  });
});

test('an invalid row is data, passthrough echoes native values, one object is an array of one', async () => {
  const s = await sharedService();
  const [a, b] = asNative(asObjects(portfolio(2)));
  const answer = await predict(
    s,
    'json',
    JSON.stringify([
      { ...a, id: 7 },
      { ...b, amount: 'x', id: { deep: [1] } },
    ]),
    '&passthrough=id',
  );
  expect(answer.status).toBe(200);
  expect(answer.json.predictions[0]).toMatchObject({ id: 7, row: 1 });
  expect(answer.json.predictions[1]).toEqual({
    id: { deep: [1] },
    row: 2,
    error: { code: 'bad_number', column: 'amount', message: 'not a plain decimal number' },
  });
  const all = await predict(s, 'json', JSON.stringify({ ...a, x: 'y"z', n: null }), '&passthrough=*');
  expect(all.json.predictions).toEqual([
    expect.objectContaining({ x: 'y"z', n: null, row: 1, prediction: expect.any(Boolean) }),
  ]);
});

test('empty inputs', async () => {
  const s = await sharedService();
  const none = await predict(s, 'json', '[]');
  expect([none.status, none.json]).toEqual([
    200,
    { modelId: 'credit-default', modelVersion: '1', predictions: [], summary: { rows: 0, scored: 0, rejected: 0 } },
  ]);
  const header = portfolio(1).split('\n')[0]!.replaceAll(',', '\t');
  expect((await predict(s, 'csv', header)).status).toBe(200);
  const empty = await predict(s, 'json', '[{}]');
  expect([empty.status, empty.json.code, empty.json.errors[0].code]).toEqual([400, 'nothing_scored', 'missing_column']);
});

describe('bad input', () => {
  test('gets its code, in a problem document, and the next request is served', async () => {
    const s = await startService([
      'limits.rows=50',
      'limits.row_bytes=4000',
      'limits.body_bytes=30000',
      'limits.expanded_bytes=60000',
    ]);
    const [row] = asNative(asObjects(portfolio(1)));
    const csv = portfolio(3);
    const tsv = csv.replaceAll(',', '\t');
    const json = (change: object) => JSON.stringify([{ ...row, ...change }]);
    const cases: [string, string, string | Uint8Array, string, CallOptions?, string?][] = [
      ['outcome_present', 'json', json({ ok: true }), ''],
      ['outcome_present', 'json', `[${JSON.stringify({ ...row, ok: 1 })},${JSON.stringify(row)}]`, ''],
      ['header_mismatch', 'csv', tsv.replace('banned', 'banned\tok'), ''],
      ['wrong_delimiter', 'csv', csv, ''],
      ['empty_input', 'csv', '', ''],
      ['malformed_json', 'json', '', ''],
      ['malformed_json', 'json', '[{"a":1}}', ''],
      ['truncated_input', 'json', json({}).slice(0, -1), ''],
      ['nothing_scored', 'json', '[1,null,"x",[]]', ''],
      ['nothing_scored', 'json', json({ amount: true }), ''],
      ['nothing_scored', 'json', json({ __proto__x: 1 }), ''],
      ['nothing_scored', 'json', `[${JSON.stringify(row).replace('{', '{"__proto__":{"a":1},')}]`, ''],
      ['nothing_scored', 'json', `[${JSON.stringify(row).replace('{', '{"amount":5,')}]`, ''],
      ['nothing_scored', 'json', `[${JSON.stringify(row).replace(/"amount":\d+/, '"amount":1e400')}]`, ''],
      ['nothing_scored', 'json', json({ source_type: 'a\0b' }), ''],
      ['nothing_scored', 'json', Buffer.concat([Buffer.from('[{"'), Buffer.from([0xff]), Buffer.from('":1}]')]), ''],
      ['nothing_scored', 'json', `[{"a":${'['.repeat(100)}${']'.repeat(100)}}]`, ''],
      ['invalid_row', 'json', JSON.stringify([row, { ...row, amount: 'x' }]), '&on_invalid=fail'],
      ['limit_exceeded', 'ndjson', Array(60).fill('{}').join('\n'), ''],
      ['limit_exceeded', 'json', json({ source_type: 'x'.repeat(5000) }), ''],
      ['limit_exceeded', 'csv', 'x'.repeat(40_000), ''],
      [
        'limit_exceeded',
        'csv',
        zlib.gzipSync(`${tsv.split('\n')[0]}\n${'\n'.repeat(80_000)}`),
        '',
        { headers: { 'content-encoding': 'gzip' } },
      ],
      ['truncated_input', 'csv', zlib.gzipSync(tsv).subarray(0, 100), '', { headers: { 'content-encoding': 'gzip' } }],
      ['invalid_content', 'csv', tsv, '', { headers: { 'content-encoding': 'gzip' } }],
      ['invalid_content', 'csv', tsv, '', { headers: { 'content-encoding': 'br' } }],
      ['invalid_content', 'csv', tsv, '', { headers: { 'content-type': 'application/json' } }],
      ['invalid_content', 'json', json({}), '', { headers: { 'content-type': 'text/csv' } }],
      ['invalid_content', 'csv', 'no part', '', { headers: { 'content-type': 'multipart/form-data; boundary=x' } }],
      [
        'invalid_content',
        'csv',
        '--x\r\nbroken',
        '',
        { headers: { 'content-type': 'multipart/form-data; boundary=x' } },
      ],
      ['bad_request', 'json', json({}), '&on_invalid=maybe'],
      ['bad_request', 'json', json({}), '&colour=red'],
      ['bad_request', 'json', json({}), '&top_effects=x'],
    ];
    for (const [code, format, body, query, options] of cases) {
      const reply = await predict(s, format, body, query, options);
      const name = `${code} ${String(body).slice(0, 60)}`;
      expect([reply.status, reply.json?.code], name).toEqual([400, code]);
      expect(reply.headers['content-type'], name).toContain('application/problem+json');
      expect(reply.json).toMatchObject({
        status: 400,
        title: expect.any(String),
        requestId: reply.headers['x-request-id'],
      });
      if (code === 'limit_exceeded')
        expect(reply.json).toMatchObject({
          limit: expect.any(String),
          value: expect.any(Number),
          unit: expect.any(String),
        });
    }
    expect((await predict(s, 'json', json({}))).status).toBe(200);
    expect((await s.call('GET', '/metrics')).text).toContain('sluice_http_uploads_in_flight 0');
  });

  test('no value of an application is in an error answer', async () => {
    const s = await sharedService();
    const [row] = asNative(asObjects(portfolio(1)));
    const secret = 'Taras-1984';
    for (const change of [{ amount: secret }, { source_type: { [secret]: 1 } }, { banned: secret }, { [secret]: 1 }]) {
      const reply = await predict(s, 'json', JSON.stringify([{ ...row, ...change }]));
      expect(reply.status).toBe(400);
      expect(reply.text).not.toContain(secret);
    }
  });
});

describe('who may', () => {
  test('keys in every spelling, and none', async () => {
    const s = await sharedService();
    const body = JSON.stringify(asNative(asObjects(portfolio(1))));
    for (const spelling of ['API-Key ', 'ApiKey ', 'Api-Key ', 'Bearer ', '']) {
      const reply = await predict(s, 'json', body, '', { token: null, headers: { authorization: spelling + s.token } });
      expect(reply.status).toBe(200);
    }
    for (const token of [null, 'wrong', `${s.token}x`]) {
      const reply = await predict(s, 'json', body, '', { token });
      expect([reply.status, reply.json.code]).toEqual([401, 'unauthorized']);
      expect(reply.headers['www-authenticate']).toContain('API-Key');
    }
    expect((await s.call('POST', predictUrl('json').replace('credit-default', 'nothing'), { body })).json.code).toBe(
      'model_not_found',
    );
    expect((await s.call('GET', '/nothing')).json.code).toBe('not_found');
  });

  test('plain HTTP on the TLS port is refused in words', async () => {
    const s = await sharedService();
    const text = await new Promise<string>((resolve) => {
      const socket = net.connect(s.port, '127.0.0.1', () => socket.write('GET / HTTP/1.1\r\nhost: x\r\n\r\n'));
      let got = '';
      socket.on('data', (d) => {
        got += d;
      });
      socket.on('close', () => resolve(got));
    });
    expect(text).toMatch(/^HTTP\/1\.1 400 /);
    expect(text).toContain('HTTPS');
  });
});

test('predictions come back while the upload is still arriving', async () => {
  const s = await sharedService();
  const lines = portfolio(30_000).replaceAll(',', '\t').trimEnd().split('\n');
  const request = https.request({
    host: '127.0.0.1',
    port: s.port,
    method: 'POST',
    path: predictUrl('csv'),
    rejectUnauthorized: false,
    headers: { authorization: s.token },
  });
  const half = `${lines.slice(0, 20_001).join('\n')}\n`;
  request.write(half);
  const response = await new Promise<import('node:http').IncomingMessage>((resolve) => request.on('response', resolve));
  let got = '';
  response.setEncoding('utf8').on('data', (d) => {
    got += d;
  });
  await expect.poll(() => got).toContain('\n20000\t');
  request.end(lines.slice(20_001).join('\n'));
  await new Promise((resolve) => response.on('end', resolve));
  expect(got.trimEnd().split('\n')).toHaveLength(30_001);
});

test('a fatal error after the head cuts the connection: no summary, no closing chunk', async () => {
  const s = await sharedService();
  const row = JSON.stringify(asNative(asObjects(portfolio(1)))[0]);
  const body = `[${Array(30_000).fill(row).join(',')},{"cut`;
  const result = await predict(s, 'json', body).then(
    (r) => `whole: ${r.status}`,
    (e: Error) => `cut: ${e.message}`,
  );
  expect(result).toMatch(/^cut/);
});

checkTest('a client that sends everything before it reads does not stall, and nothing is left of it', async () => {
  const s = await sharedService();
  const csv = portfolio(1).replaceAll(',', '\t');
  const [header, line] = csv.trimEnd().split('\n');
  // The kernel holds 4 MB of the answer (`tcp_wmem`), and part of what the client does not read.
  const rows = 170_000;
  const spilled = async () => /^sluice_http_spilled_bytes (\d+)$/m.exec((await s.call('GET', '/metrics')).text)?.[1];
  const body = Buffer.from(`${header}\n${`${line}\n`.repeat(rows)}`);
  const socket = tls.connect({ host: '127.0.0.1', port: s.port, rejectUnauthorized: false });
  await new Promise((resolve) => socket.once('secureConnect', resolve));
  socket.pause();
  socket.write(
    `POST ${predictUrl('csv')} HTTP/1.1\r\nhost: x\r\nauthorization: ${s.token}\r\ncontent-length: ${body.length}\r\nconnection: close\r\n\r\n`,
  );
  await new Promise<void>((resolve, reject) => socket.write(body, (e) => (e ? reject(e) : resolve())));
  // The answer has nowhere else to go.
  await expect.poll(spilled).not.toBe('0');
  let got = '';
  socket.setEncoding('utf8').on('data', (d) => {
    got += d;
  });
  socket.resume();
  await new Promise((resolve) => socket.on('end', resolve));
  // Chunks may end within a line.
  const lines = got.replaceAll(/\r\n[0-9a-f]+\r\n/g, '');
  expect(lines.match(/\n\d+\ttrue\t|\n\d+\tfalse\t/g)!.length).toBe(rows);
  expect(got.endsWith('0\r\n\r\n')).toBe(true);
  expect(await spilled()).toBe('0');
});

checkTest('clients that leave in the middle leave nothing behind', async () => {
  const s = await sharedService();
  const body = portfolio(5000).replaceAll(',', '\t');
  const inFlight = async () => (await s.call('GET', '/metrics')).text;
  const moments: ((request: ClientRequest, written: Promise<void>) => unknown)[] = [
    () => null,
    (request) => once(request, 'socket'),
    (_, written) => written,
    () => expect.poll(inFlight).toMatch(/^sluice_http_uploads_in_flight [1-9]/m),
  ];
  for (const moment of [...moments, ...moments]) {
    const request = https.request({
      host: '127.0.0.1',
      port: s.port,
      method: 'POST',
      path: predictUrl('csv'),
      rejectUnauthorized: false,
      headers: { authorization: s.token },
    });
    request.on('error', () => {});
    const written = new Promise<void>((resolve) => request.write(body, () => resolve()));
    await moment(request, written);
    request.destroy();
  }
  await expect.poll(inFlight).toContain('sluice_http_uploads_in_flight 0');
  expect((await predict(s, 'csv', body)).status).toBe(200);
});

test('too many at once: 503 with Retry-After, health stays up, everybody else is answered', async () => {
  const s = await startService(['limits.concurrent_requests=2', 'limits.queued_requests=3']);
  const body = portfolio(3000).replaceAll(',', '\t');
  const replies = await Promise.all(Array.from({ length: 12 }, () => predict(s, 'csv', body)));
  const refused = replies.filter((r) => r.status === 503);
  expect(refused.length).toBeGreaterThan(0);
  for (const r of refused) expect([r.json.code, Number(r.headers['retry-after']) > 0]).toEqual(['overloaded', true]);
  expect(replies.filter((r) => r.status === 200)).toHaveLength(12 - refused.length);
  const limited = await startService(['limits.concurrent_requests_per_key=1']);
  const two = await Promise.all([predict(limited, 'csv', body), predict(limited, 'csv', body)]);
  expect(two.map((r) => r.status).sort()).toEqual([200, 400]);
  expect(two.find((r) => r.status === 400)!.json).toMatchObject({
    code: 'limit_exceeded',
    limit: 'concurrent_requests_per_key',
  });
});

checkTest('a stop under load cuts no answer that was accepted', async () => {
  const outcomes: string[] = [];
  for (let round = 0; round < 2; round++) {
    const s = await startService();
    const inFlight = async () => (await s.call('GET', '/metrics')).text;
    const body = portfolio(2000).replaceAll(',', '\t');
    const replies = Array.from({ length: 8 }, () =>
      predict(s, 'csv', body).then(
        (r) =>
          r.status === 503 ? 'refused' : r.status === 200 && r.text.includes('\n2000\t') ? 'whole' : `bad ${r.status}`,
        (e: NodeJS.ErrnoException) => `error ${e.code}`,
      ),
    );
    // Once while all are scored or wait, once when the first has its answer.
    if (round > 0) await Promise.race(replies);
    else await expect.poll(inFlight).toMatch(/^sluice_http_uploads_in_flight [1-9]/m);
    await s.running.stop();
    outcomes.push(...(await Promise.all(replies)));
  }
  expect(outcomes.filter((o) => o.startsWith('bad'))).toEqual([]);
  expect(outcomes).toContain('whole');
});

test('a body that ends too early behind ten thousand rows still gets its status', async () => {
  const s = await sharedService();
  // Their answer is held to the end: what comes behind it decides.
  const body = zlib.gzipSync(Buffer.concat([...generatePortfolio({ rows: 10_100, seed: 5, delimiter: '\t' })]));
  const cut = body.subarray(0, body.length - 20);
  const reply = await s.call('POST', predictUrl('csv'), { body: cut, headers: { 'content-encoding': 'gzip' } });
  expect([reply.status, reply.json?.code]).toEqual([400, 'truncated_input']);
});
