// Uploads of packages: permission before the body, shares and time limits as of other bodies, one trial of each key at a time.
import { cpSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import type http from 'node:http';
import https from 'node:https';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterAll, beforeAll, expect, onTestFinished, test } from 'vitest';
import { loadConfig } from '../../../src/config/load-config.ts';
import { ServerConfigSchema } from '../../../src/config/server-config.ts';
import { createKey } from '../../../src/doors/commands/keys.ts';
import { type RunningService, serve } from '../../../src/doors/http/service.ts';
import { KeyTurns } from '../../../src/doors/http/wire/key-turns.ts';
import { devCertificate } from '../../../src/doors/http/wire/listener.ts';
import { FolderRegistry } from '../../../src/model/registry/folder.ts';
import { scratch } from '../../support/cli.ts';
import { CREDIT_DEFAULT } from '../../support/score.ts';
import { call } from '../../support/service.ts';

const UPLOADS_A_KEY = 2;
const HEAD = { 'content-type': 'multipart/form-data; boundary=xx' };
const part = (name: string, content: string | Buffer): Buffer =>
  Buffer.concat([
    Buffer.from(`--xx\r\nContent-Disposition: form-data; name="f"; filename="${name}"\r\n\r\n`),
    Buffer.from(content),
    Buffer.from('\r\n'),
  ]);
const form = (...parts: Buffer[]): Buffer => Buffer.concat([...parts, Buffer.from('--xx--\r\n')]);
const fileOf = (folder: string, name: string): Buffer => part(name, readFileSync(path.join(folder, name)));
const PARTS = ['model.yaml', 'model.onnx', 'selftest.csv', 'selftest-expected.csv'];

const own = mkdtempSync(path.join(tmpdir(), 'sluice-test-'));
let running: RunningService | undefined;
let port = 0;
let spill = '';
const tokens: Record<'one' | 'two' | 'some', string> = { one: '', two: '', some: '' };

beforeAll(async () => {
  const folder = own;
  spill = path.join(own, 'spill');
  mkdirSync(spill);
  const file = path.join(folder, 'keys.yaml');
  const { cert, key } = await devCertificate();
  writeFileSync(path.join(folder, 'tls.crt'), cert);
  writeFileSync(path.join(folder, 'tls.key'), key);
  const scopes = 'predict,models:read,models:write';
  tokens.one = await createKey('one', { file, scopes });
  tokens.two = await createKey('two', { file, scopes });
  tokens.some = await createKey('some', { file, scopes, models: 'credit-default' });
  const config = await loadConfig(ServerConfigSchema, {
    settings: [
      'listen.port=0',
      'listen.host=127.0.0.1',
      'workers=1',
      `keys_file=${file}`,
      `tls.certificate=${folder}/tls.crt`,
      `tls.key=${folder}/tls.key`,
      `jobs.folder=${folder}/jobs`,
      `spill.folder=${spill}`,
      'timeouts.body_idle_ms=1500',
      'limits.model_bytes=4194304',
      `limits.concurrent_model_uploads_per_key=${UPLOADS_A_KEY}`,
    ],
  });
  running = await serve({ config, registry: new FolderRegistry([path.join(folder, 'models')]) });
  port = Number(new URL(running.url).port);
});
afterAll(async () => {
  await running?.stop();
  rmSync(own, { recursive: true, force: true });
});

const upload = (token: string, body: Buffer, query = '') =>
  call(port, token, 'POST', `/api/v1/models${query}`, { body, headers: HEAD });

interface Unfinished {
  request: http.ClientRequest;
  answer: Promise<{ status: number; json: { code: string; limit?: string } } | null>;
}

/** Sends a head and the first bytes of a form; null: the connection ended without an answer. */
function unfinished(token: string, bytes: Buffer, query = ''): Unfinished {
  const request = https.request({
    ...{ host: '127.0.0.1', port, method: 'POST', path: `/api/v1/models${query}`, rejectUnauthorized: false },
    ...{ agent: false, headers: { ...HEAD, authorization: token, 'content-length': '1000000' } },
  });
  const answer = new Promise<Awaited<Unfinished['answer']>>((resolve) => {
    request.on('error', () => resolve(null));
    request.on('close', () => resolve(null));
    request.on('response', (response) => {
      let text = '';
      response.on('data', (chunk) => {
        text += chunk;
      });
      response.on('end', () => resolve({ status: response.statusCode!, json: JSON.parse(text) }));
    });
  });
  onTestFinished(() => {
    request.destroy();
  });
  request.flushHeaders();
  if (bytes.length > 0) request.write(bytes);
  return { request, answer };
}

test('a key for some models names the one it registers, and is refused before a byte of the body is read', async () => {
  const nothing = Buffer.alloc(0);
  expect((await unfinished(tokens.some, nothing).answer)?.json.code).toBe('bad_request');
  expect((await unfinished(tokens.some, nothing, '?modelId=credit-columns').answer)?.status).toBe(403);
  const package_ = form(...PARTS.map((name) => fileOf(CREDIT_DEFAULT, name)));
  const other = await upload(tokens.one, package_, '?modelId=credit-columns');
  expect([other.status, other.json.code]).toEqual([400, 'bad_request']);
  const own = await upload(tokens.some, package_, '?modelId=credit-default');
  expect([own.status, own.json.id, own.json.versions]).toEqual([201, 'credit-default', ['1']]);
});

test('a key has its share of uploads, other keys have theirs, and a client that stops sending loses its place', async () => {
  const begun = part('model.yaml', 'id: a');
  const answers: string[] = [];
  const idle = Array.from(
    { length: UPLOADS_A_KEY + 3 },
    (_, i) => unfinished(tokens.one, i === 0 ? Buffer.alloc(0) : begun).answer,
  );
  for (const answer of idle) answer.then((a) => answers.push(a?.json.limit ?? a?.json.code ?? 'client_gone'));
  await expect.poll(() => answers.length).toBeGreaterThanOrEqual(3);
  expect(answers.slice(0, 3)).toEqual(new Array(3).fill('concurrent_model_uploads_per_key'));
  const other = await upload(tokens.two, form(part('selftest.csv', 'a')));
  expect(other.json.detail).toContain('model.yaml');
  await Promise.all(idle);
  expect(answers.slice(3)).toEqual(new Array(UPLOADS_A_KEY).fill('client_gone'));
  await expect.poll(async () => (await upload(tokens.one, form())).json.code).toBe('invalid_content');
  await expect.poll(() => readdirSync(spill).filter((name) => name.startsWith('sluice-upload-'))).toEqual([]);
});

test('a client that sends too slowly loses its place, too: in the head of a part, and in a file', async () => {
  const slow = [Buffer.from('--xx\r\n'), part('model.yaml', '# ').subarray(0, -2)].map((begun) => {
    const { request, answer } = unfinished(tokens.two, begun);
    const timer = setInterval(() => request.destroyed || request.write('a'), 100);
    return answer.finally(() => clearInterval(timer));
  });
  for (const answer of slow) expect((await answer)?.json.code ?? 'client_gone').toBe('client_gone');
});

test.each([
  ['model.yaml', 'model.yaml', 2 ** 20 + 1, 'model_yaml_bytes'],
  ['all files together', 'model.onnx', 5 * 2 ** 20, 'model_bytes'],
])('%s may not be larger than the limit', async (_name, file, bytes, limit) => {
  const { status, json } = await upload(tokens.one, form(part(file, Buffer.alloc(bytes, '#'))));
  expect([status, json.code, json.limit]).toEqual([400, 'limit_exceeded', limit]);
});

test('a model.yaml that takes long to read is read in another process, and its faults have their places', async () => {
  const yaml = `id: a\nvalues: [${','.repeat(2 ** 18)}]\n`;
  const before = process.threadCpuUsage();
  const { status, json } = await upload(tokens.one, form(part('model.yaml', yaml)));
  const { user, system } = process.threadCpuUsage(before);
  expect([status, json.code]).toEqual([400, 'model_invalid']);
  expect(json.detail).toMatch(/^model\.yaml:2:11 Unexpected , in flow sequence/);
  // Reading it takes seconds of CPU time.
  expect((user + system) / 1e6).toBeLessThan(0.5);
});

test('what is in the other files is read in another process, too', async () => {
  const folder = path.join(scratch(), 'p');
  cpSync(CREDIT_DEFAULT, folder, { recursive: true });
  writeFileSync(path.join(folder, 'selftest.csv'), `${'a,b\n'.repeat(300_000)}`);
  const before = process.threadCpuUsage();
  const { json } = await upload(tokens.one, form(...PARTS.map((name) => fileOf(folder, name))));
  const { user, system } = process.threadCpuUsage(before);
  expect([json.code, json.detail]).toEqual(['model_invalid', expect.stringContaining('selftest.csv lacks')]);
  expect((user + system) / 1e6).toBeLessThan(0.5);
});

test('turns: one piece of work of each key at a time, no more than the limit in all, keys one after the other', async () => {
  const turns = new KeyTurns(2);
  const { signal } = new AbortController();
  const began: string[] = [];
  const ends: (() => void)[] = [];
  const work = (key: string, name: string) =>
    turns.run(key, signal, () => {
      began.push(name);
      return new Promise<void>((resolve) => ends.push(resolve));
    });
  const all = [work('a', 'a1'), work('a', 'a2'), work('a', 'a3'), work('b', 'b1'), work('c', 'c1')];
  const next = async (count: number) => expect.poll(() => began.length).toBe(count);
  await next(2);
  expect(began).toEqual(['a1', 'b1']);
  ends[0]!();
  await next(3);
  expect(began).toEqual(['a1', 'b1', 'c1']);
  ends[1]!();
  await next(4);
  ends[3]!();
  ends[2]!();
  await next(5);
  ends[4]!();
  await Promise.all(all);
  expect(began).toEqual(['a1', 'b1', 'c1', 'a2', 'a3']);
});

test('turns: who is gone takes none, and work that fails gives its turn on', async () => {
  const turns = new KeyTurns(1);
  const { signal } = new AbortController();
  const gone = new AbortController();
  const held = Promise.withResolvers<void>();
  const first = turns.run('a', signal, () => held.promise);
  const left = turns.run('a', gone.signal, async () => 'left');
  const last = turns.run('b', signal, async () => 'last');
  gone.abort(new Error('gone'));
  await expect(left).rejects.toThrow('gone');
  held.reject(new Error('failed'));
  await expect(first).rejects.toThrow('failed');
  expect(await last).toBe('last');
});
