// Nothing that came with a request is in an error answer, in the log or in the metrics: a canary in every place a request has.
import net from 'node:net';
import path from 'node:path';
import tls from 'node:tls';
import { expect, onTestFinished, test } from 'vitest';
import { loadConfig } from '../../../src/config/load-config.ts';
import { ServerConfigSchema } from '../../../src/config/server-config.ts';
import { faultFields, saysOf } from '../../../src/core/log.ts';
import { generatePortfolio } from '../../../src/demo/portfolio.ts';
import { serve } from '../../../src/doors/http/service.ts';
import { problemOf, systemFault } from '../../../src/doors/http/wire/problem.ts';
import { FolderRegistry } from '../../../src/model/registry/folder.ts';
import type { Registry } from '../../../src/model/registry/registry.ts';
import { scratch } from '../../support/cli.ts';
import { collectedLog } from '../../support/collected-log.ts';
import { call, REGISTRY } from '../../support/service.ts';
import { checkTest } from '../../support/tiers.ts';

const CANARY = 'canary-4711';
const P = '/api/v1/scoring/predict';
const GOOD = `${P}.csv?modelId=credit-default`;
const csv = Buffer.concat([...generatePortfolio({ rows: 3, seed: 1, delimiter: '\t', oddness: 'none' })]).toString();
const form = (name: string, file: string, text: string) =>
  `--x\r\ncontent-disposition: form-data; name="${name}"; filename="${file}"\r\n\r\n${text}\r\n--x--\r\n`;
const FORM = { 'content-type': 'multipart/form-data; boundary=x' };
const ASYNC = { prefer: 'respond-async' };

interface Case {
  method?: string;
  path: string;
  headers?: Record<string, string>;
  body?: string;
  token?: string | null;
  /** Statuses that are right. */
  status?: number;
}

const C = CANARY;
const CASES: Record<string, Case> = {
  'an unknown path': { path: `/${C}`, status: 404 },
  'a path of the operations': { path: `${P}/${C}.json?modelId=credit-default`, status: 404 },
  'a path that cannot be decoded': { path: `/%${C}`, status: 400 },
  'a part of a path that is too long': { path: `/api/v1/models/${C.repeat(30)}`, status: 404 },
  'a path under a method it does not take': { method: 'DELETE', path: `/api/v1/models/${C}`, status: 405 },
  'a model': { path: `/api/v1/models/${C}`, status: 404 },
  'a version': { path: `/api/v1/models/credit-default:${C}`, status: 404 },
  'an alias': { path: `/api/v1/models/credit-default@${C}`, status: 404 },
  'something that is no reference': { path: `/api/v1/models/${C}:${C}:${C}`, status: 404 },
  'the aliases of a model': { path: `/api/v1/models/${C}/aliases`, status: 404 },
  'an alias to move': { method: 'PUT', path: `/api/v1/models/credit-default/aliases/${C}`, body: `{"version":"${C}"}`, status: 404 },
  'a version that is none': { method: 'PUT', path: `/api/v1/models/credit-default/aliases/x`, body: `{"version":{"${C}":1}}`, status: 400 },
  'a body that is no JSON': { method: 'PUT', path: `/api/v1/models/credit-default/aliases/x`, body: C, status: 400 },
  'an alias to remove': { method: 'DELETE', path: `/api/v1/models/credit-default/aliases/${C}`, status: 404 },
  'a job': { path: `/api/v1/scoring/jobs/${C}`, status: 404 },
  'a pipeline': { method: 'POST', path: `/api/v1/pipelines/${C}`, status: 404 },
  'modelId': { method: 'POST', path: `${P}.csv?modelId=${C}`, body: csv, status: 404 },
  'modelId with a version': { method: 'POST', path: `${P}.csv?modelId=credit-default:${C}`, body: csv, status: 404 },
  'modelId with an alias': { method: 'POST', path: `${P}.csv?modelId=credit-default@${C}`, body: csv, status: 404 },
  'modelId of a job': { method: 'POST', path: `${P}.csv?modelId=credit-default@${C}`, body: csv, headers: ASYNC, status: 404 },
  'the name of a query parameter': { method: 'POST', path: `${GOOD}&${C}=1`, body: csv, status: 400 },
  'several unknown parameters': { method: 'POST', path: `${GOOD}&${C}=1&x${C}=${C}`, body: csv, status: 400 },
  'no modelId': { method: 'POST', path: `${P}.csv?${C}`, body: csv, status: 400 },
  'delimiter': { method: 'POST', path: `${GOOD}&delimiter=${C}`, body: csv, status: 400 },
  'on_invalid': { method: 'POST', path: `${GOOD}&on_invalid=${C}`, body: csv, status: 400 },
  'top_effects': { method: 'POST', path: `${GOOD}&top_effects=${C}`, body: csv, status: 400 },
  'interpret_below': { method: 'POST', path: `${GOOD}&interpret_below=${C}`, body: csv, status: 400 },
  'passthrough': { method: 'POST', path: `${GOOD}&passthrough=${C}`, body: csv, status: 400 },
  'passthrough that is too long': { method: 'POST', path: `${GOOD}&passthrough=${C.repeat(400)}`, body: csv, status: 400 },
  'Content-Type': { method: 'POST', path: GOOD, body: csv, headers: { 'content-type': `text/${C}` }, status: 400 },
  'Content-Type that is none': { method: 'POST', path: GOOD, body: csv, headers: { 'content-type': C }, status: 400 },
  'charset': { method: 'POST', path: GOOD, body: csv, headers: { 'content-type': `text/csv; charset=${C}` }, status: 400 },
  'Content-Encoding': { method: 'POST', path: GOOD, body: csv, headers: { 'content-encoding': C }, status: 400 },
  'Content-Digest': { method: 'POST', path: GOOD, body: csv, headers: { 'content-digest': `${C}=:${C}:` }, status: 400 },
  'Want-Content-Digest': { method: 'POST', path: GOOD, body: 'x', headers: { 'want-content-digest': C }, status: 400 },
  'Idempotency-Key': { method: 'POST', path: GOOD, body: csv, headers: { ...ASYNC, 'idempotency-key': `${C} é` }, status: 400 },
  'Authorization': { path: '/api/v1/models', token: null, headers: { authorization: `API-Key ${C}` }, status: 401 },
  'Authorization of a scheme': { path: '/api/v1/models', token: null, headers: { authorization: `${C} x` }, status: 401 },
  'Range': { path: `/api/v1/scoring/jobs/${C}/result`, headers: { range: `bytes=${C}` }, status: 404 },
  // One that is fit for an id is the client's name for its request, and repeated.
  'X-Request-Id': { path: '/nothing', headers: { 'x-request-id': `${C} ${C}`, 'request-id': C }, status: 404 },
  'Accept-Version': { path: '/nothing', headers: { 'accept-version': C }, status: 404 },
  'the name of a header': { path: '/nothing', headers: { [C]: C }, status: 404 },
  'Origin and Referer': { path: '/nothing', headers: { origin: `https://${C}`, referer: `https://${C}/` }, status: 404 },
  'the name of a file': { method: 'POST', path: GOOD, headers: FORM, body: form('file', C, 'x\n1\n'), status: 400 },
  'the name of a part': { method: 'POST', path: GOOD, headers: FORM, body: form(C, 'a.csv', 'x\n1\n'), status: 400 },
  'two files': { method: 'POST', path: GOOD, headers: FORM, body: form('a', C, csv).replace('--x--', '--x') + form('b', C, csv), status: 400 },
  'the boundary of a form': { method: 'POST', path: GOOD, headers: { 'content-type': `multipart/form-data; boundary=${C}` }, body: 'x', status: 400 },
  'a file of a package': { method: 'POST', path: '/api/v1/models', headers: FORM, body: form('file', `${C}/x`, 'x'), status: 400 },
  'a package without a manifest': { method: 'POST', path: '/api/v1/models', headers: FORM, body: form('file', C, C), status: 400 },
  'a cell of the header': { method: 'POST', path: GOOD, body: csv.replace('\n', `\t${C}\n`), status: 400 },
  'a cell that is there twice': { method: 'POST', path: GOOD, body: csv.replace('\n', `\t${C}\t${C}\n`), status: 400 },
  'an applicant for a header': { method: 'POST', path: GOOD, body: `${C}\t1\t2\n`, status: 400 },
  'a cell of the header of a job': { method: 'POST', path: GOOD, body: `${C}\t1\n1\t2\n`, headers: ASYNC, status: 201 },
  'a key of an application': { method: 'POST', path: `${P}.json?modelId=credit-default`, body: `[{"${C}":"${C}"}]`, status: 400 },
  'a body that is cut': { method: 'POST', path: `${P}.json?modelId=credit-default`, body: `[{"${C}":"${C}`, status: 400 },
}; // biome-ignore format: a table

/** Requests that no client library sends. */
const RAW: Record<string, string> = {
  'a method': `${C.toUpperCase()} / HTTP/1.1\r\nhost: x\r\n\r\n`,
  'a version of HTTP': `GET / ${C}\r\nhost: x\r\n\r\n`,
  'a header without a colon': `GET / HTTP/1.1\r\n${C}\r\n\r\n`,
  'Host': `GET /nothing HTTP/1.1\r\nhost: ${C}\r\nconnection: close\r\n\r\n`,
  'no Host': `GET /${C} HTTP/1.1\r\n\r\n`,
  'an absolute address': `GET https://${C}/${C} HTTP/1.1\r\nhost: ${C}\r\nconnection: close\r\n\r\n`,
  'an address that is none': `GET ${C} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n`,
  'CONNECT': `CONNECT ${C}:443 HTTP/1.1\r\nhost: ${C}\r\n\r\n`,
  'Upgrade': `GET /nothing HTTP/1.1\r\nhost: x\r\nupgrade: ${C}\r\nconnection: upgrade, close\r\n\r\n`,
  'Expect': `POST ${GOOD} HTTP/1.1\r\nhost: x\r\nexpect: ${C}\r\ncontent-length: 1\r\nconnection: close\r\n\r\nx`,
  'Transfer-Encoding': `POST ${GOOD} HTTP/1.1\r\nhost: x\r\ntransfer-encoding: ${C}\r\n\r\n`,
  'a coding before chunked': `POST ${GOOD} HTTP/1.1\r\nhost: x\r\ntransfer-encoding: ${C}, chunked\r\nconnection: close\r\n\r\n0\r\n\r\n`,
  'Content-Length': `POST ${GOOD} HTTP/1.1\r\nhost: x\r\ncontent-length: ${C}\r\n\r\n`,
  'a head that is too large': `GET /${C} HTTP/1.1\r\nhost: x\r\nx: ${C.repeat(3000)}\r\n\r\n`,
  'an address that is too long': `GET /${C.repeat(3000)} HTTP/1.1\r\nhost: x\r\n\r\n`,
}; // biome-ignore format: a table

async function startTelling(registry: Registry = REGISTRY) {
  const folder = scratch();
  const settings = [
    'listen.port=0',
    'workers=1',
    'timeouts.keep_alive_ms=500',
    `jobs.folder=${path.join(folder, 'jobs')}`,
    `spill.folder=${folder}`,
  ];
  const config = await loadConfig(ServerConfigSchema, { settings });
  const { log, lines, text } = collectedLog();
  const running = await serve({ config, registry, dev: true, log });
  onTestFinished(() => running.stop());
  return { port: Number(new URL(running.url).port), token: running.token!, lines, logged: text };
}

const isProblem = (headers: unknown, body: string, name: string) => {
  expect(String(headers), name).toMatch(/application\/problem\+json/);
  expect(Object.keys(JSON.parse(body)), name).toEqual(expect.arrayContaining(['type', 'title', 'status', 'detail', 'code', 'requestId'])); // biome-ignore format: one line
};

checkTest('a canary in every place of a request sings in no answer, no log and no metric', async () => {
  const { port, token, logged } = await startTelling();
  for (const [name, { method = 'GET', path, headers, body, token: own, status }] of Object.entries(CASES)) {
    const options = { ...(headers ? { headers } : {}), ...(body === undefined ? {} : { body }), token: own === null ? null : token };
    const reply = await call(port, token, method, encodeURI(path).replace('%25', '%'), options);
    expect([name, reply.status]).toEqual([name, status]);
    expect(`${name}: ${reply.text}${JSON.stringify(reply.headers)}`).not.toContain(CANARY);
    if (reply.status >= 400) isProblem(reply.headers['content-type'], reply.text, name);
    if (reply.status !== 201) continue;
    const location = reply.headers.location as string;
    await expect.poll(async () => (await call(port, token, 'GET', location)).json.state).toBe('failed');
    const job = await call(port, token, 'GET', location);
    expect(job.text).not.toContain(CANARY);
  }
  const refuse = async ([name, text]: [string, string]) => {
    const answer = await new Promise<string>((resolve) => {
      const socket = tls.connect({ port, host: '127.0.0.1', rejectUnauthorized: false }, () => socket.write(text));
      let got = '';
      socket.on('data', (d) => {
        got += d;
      });
      socket.on('error', () => {});
      socket.on('close', () => resolve(got));
    });
    expect(`${name}: ${answer}`).not.toMatch(new RegExp(CANARY, 'i'));
    // CONNECT is closed; an expectation that is none is 417 without a word.
    if (answer === '' || answer.startsWith('HTTP/1.1 417 ')) return;
    expect(`${name}: ${answer}`).toMatch(/: HTTP\/1\.1 40[04] /);
    isProblem(answer, answer.slice(answer.indexOf('\r\n\r\n') + 4), name);
  };
  await Promise.all(Object.entries(RAW).map(refuse));
  const metrics = await call(port, token, 'GET', '/metrics');
  expect(metrics.status).toBe(200);
  expect(metrics.text).not.toContain(CANARY);
  expect(logged()).not.toContain(CANARY);
}); // biome-ignore format: one case

test('plain HTTP on the TLS port is told nothing of itself', async () => {
  const { port } = await startTelling();
  const answer = await new Promise<string>((resolve) => {
    const socket = net.connect(port, '127.0.0.1', () => socket.write(`GET /${CANARY} HTTP/1.1\r\nhost: ${CANARY}\r\n\r\n`));
    let got = '';
    socket.on('data', (d) => {
      got += d;
    });
    socket.on('close', () => resolve(got));
  });
  expect(answer).toMatch(/^HTTP\/1\.1 400 /);
  expect(answer).not.toContain(CANARY);
}); // biome-ignore format: one case

test('an unknown fault is an internal error, and its request id is in the log with the place where it was thrown', async () => {
  class Broken extends FolderRegistry {
    override list(): never {
      throw new TypeError(CANARY);
    }
  }
  const { port, token, lines, logged } = await startTelling(new Broken([path.resolve('src/bundled')]));
  const reply = await call(port, token, 'GET', '/api/v1/models');
  expect([reply.status, reply.json.code]).toEqual([500, 'internal_error']);
  const found = () => lines.filter(({ fields }) => fields.request_id === reply.json.requestId);
  await expect.poll(found).toHaveLength(1);
  expect(found()[0]).toMatchObject({
    level: 'error',
    event: 'request',
    fields: { status: 500, code: 'internal_error', kind: 'TypeError', route: '/api/v1/models', method: 'GET' },
  });
  expect(String(found()[0]!.fields.stack)).toMatch(/Broken\.list .*no-echo\.test\.ts/);
  expect(`${reply.text}${logged()}`).not.toContain(CANARY);
});

test.each([
  ['ENOSPC', 503, 'output_full'],
  ['ERR_SQLITE_ERROR', 503, 'output_full'],
  ['EDQUOT', 503, 'output_full'],
  ['EMFILE', 503, 'overloaded'],
  ['ENFILE', 503, 'overloaded'],
  ['EIO', 500, 'internal_error'],
])('%s is told as what it is', (code, status, name) => {
  // SQLite has one code for all errors, and tells a full disk apart by its number.
  const error = systemFault(
    Object.assign(new Error(CANARY), { code, ...(/SQLITE/.test(code) ? { errcode: 13 } : {}) }),
  );
  const { body } = problemOf(error, 'r');
  expect([body.status, body.code]).toEqual([status, name]);
  expect(JSON.stringify([body, saysOf(error), faultFields(error)])).not.toContain(CANARY);
});
