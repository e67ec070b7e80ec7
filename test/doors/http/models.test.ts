// Models over HTTP: uploads, aliases with their history, hot swaps under load, and a damaged version that changes nothing.
import { cpSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { describe, expect, test } from 'vitest';
import { FolderRegistry } from '../../../src/model/registry/folder.ts';
import { scratch, sluiceHere } from '../../support/cli.ts';
import { copyUnlocked } from '../../support/registries/packages.ts';
import { CREDIT_COLUMNS, CREDIT_DEFAULT } from '../../support/score.ts';
import { call, type Service, startProcess, startService } from '../../support/service.ts';
import { checkTest, TIER, times } from '../../support/tiers.ts';

const SWAPS = times('swaps', { quick: 2, check: 2, campaigns: 200 });
const WARM_UP = times('swaps before them', { quick: 0, check: 0, campaigns: 30 });

/** A registry with two versions of one id: version 1 is the boosted model, version 2 the logistic one. */
function twoVersions(): { folder: string; registry: FolderRegistry } {
  const folder = path.join(scratch(), 'models');
  for (const [version, source] of [
    ['1', CREDIT_DEFAULT],
    ['2', CREDIT_COLUMNS],
  ] as const) {
    const target = path.join(folder, 'credit', version);
    copyUnlocked(source, target);
    const file = path.join(target, 'model.yaml');
    const text = readFileSync(file, 'utf8')
      .replace(/^id: .*$/m, 'id: credit')
      .replace(/^version: .*$/m, `version: ${version}`);
    writeFileSync(file, text);
  }
  return { folder, registry: new FolderRegistry([folder]) };
}

const application = async (service: Pick<Service, 'call'>, ref = 'credit:1') =>
  (await service.call('GET', `/api/v1/models/${ref}`)).json.sample;

const predict = (service: Pick<Service, 'call'>, ref: string, body: unknown) =>
  service.call('POST', `/api/v1/scoring/predict.json?modelId=${ref}`, { body: JSON.stringify(body) });

function multipart(folder: string, names: string[]): { body: Buffer; headers: Record<string, string> } {
  const parts = names.flatMap((n) => [
    Buffer.from(
      `--xx\r\nContent-Disposition: form-data; name="f"; filename="${n}"\r\nContent-Type: application/octet-stream\r\n\r\n`,
    ),
    readFileSync(path.join(folder, n)),
    Buffer.from('\r\n'),
  ]);
  return {
    body: Buffer.concat([...parts, Buffer.from('--xx--\r\n')]),
    headers: { 'content-type': 'multipart/form-data; boundary=xx' },
  };
}

const PARTS = ['model.yaml', 'model.onnx', 'selftest.csv', 'selftest-expected.csv'];

describe('upload', () => {
  test('a package is registered after its self-test, served at once, and never again under the same version', async () => {
    const { registry } = twoVersions();
    const service = await startService([], scratch(), { registry });
    const upload = multipart(CREDIT_DEFAULT, PARTS);
    const first = await service.call('POST', '/api/v1/models', upload);
    expect([first.status, first.headers.location]).toEqual([201, '/api/v1/models/credit-default:1']);
    expect((await predict(service, 'credit-default', first.json.sample)).json.predictions[0].probability).toBeTypeOf(
      'number',
    );
    const again = await service.call('POST', '/api/v1/models', upload);
    expect([again.status, again.json.code]).toEqual([409, 'version_exists']);
  });

  test.each([
    ['no model.yaml', ['model.onnx'], /model\.yaml/, 'invalid_content'],
    ['no model.onnx', ['model.yaml', 'selftest.csv', 'selftest-expected.csv'], /model\.onnx/, 'model_invalid'],
    [
      'a self-test without its expectation',
      ['model.yaml', 'model.onnx', 'selftest.csv'],
      /selftest-expected/,
      'model_invalid',
    ],
  ])('%s is refused in words', async (_name, parts, words, code) => {
    const { registry } = twoVersions();
    const service = await startService([], scratch(), { registry });
    const reply = await service.call('POST', '/api/v1/models', multipart(CREDIT_DEFAULT, parts));
    expect([reply.status, reply.json.code]).toEqual([400, code]);
    expect(reply.json.detail).toMatch(words);
    expect(reply.json.detail).not.toMatch(/\/tmp|sluice-upload/);
    expect((await service.call('GET', '/api/v1/models')).json.models.map((m: { id: string }) => m.id)).toEqual([
      'credit',
    ]);
  });

  test('a model that no longer predicts what its training library did is not registered', async () => {
    const folder = path.join(scratch(), 'p');
    cpSync(CREDIT_DEFAULT, folder, { recursive: true });
    const file = path.join(folder, 'selftest-expected.csv');
    writeFileSync(file, readFileSync(file, 'utf8').replace(/0\.\d+/, '0.123'));
    const service = await startService([], scratch(), twoVersions());
    const reply = await service.call('POST', '/api/v1/models', multipart(folder, PARTS));
    expect([reply.status, reply.json.code]).toEqual([400, 'self_test_failed']);
  });
});

describe('aliases', () => {
  test('move with a history of who, when, from and to; a version that is not there does not', async () => {
    const { registry } = twoVersions();
    const service = await startService([], scratch(), { registry });
    const put = (version: string, reason?: unknown) =>
      service.call('PUT', '/api/v1/models/credit/aliases/champion', { body: JSON.stringify({ version, reason }) });
    expect((await put('1', 'the board agreed')).json).toMatchObject({
      ...{ who: 'dev', alias: 'champion', from: null, to: '1', why: 'the board agreed' },
    });
    expect((await put('2', 7)).json.code).toBe('bad_request');
    expect((await service.call('GET', '/api/v1/models/credit:1')).json).toMatchObject({
      ...{ state: 'champion', states: { 1: 'champion', 2: 'proposed' } },
    });
    expect((await put('2')).json).toMatchObject({ from: '1', to: '2' });
    expect((await put('9')).status).toBe(404);
    const removal = await service.call('DELETE', '/api/v1/models/credit/aliases/champion?reason=it%20drifted');
    expect(removal.json).toMatchObject({ from: '2', to: null, why: 'it drifted' });
    const { json } = await service.call('GET', '/api/v1/models/credit/aliases');
    expect(json.aliases).toEqual({});
    expect(json.history[0].why).toBe('the board agreed');
    expect(json.history.map((m: { from: string; to: string }) => [m.from, m.to])).toEqual([
      [null, '1'],
      ['1', '2'],
      ['2', null],
    ]);
  });

  test('twenty moves at once, and one of a command: each is in the history and the last is what stands', async () => {
    const { folder, registry } = twoVersions();
    await Promise.all([
      ...Array.from({ length: 10 }, (_, i) => registry.moveAlias('credit', 'a', i % 2 ? '1' : '2', `t${i}`)),
      ...Array.from({ length: 10 }, (_, i) =>
        new FolderRegistry([folder]).moveAlias('credit', 'a', i % 2 ? '1' : '2', `u${i}`),
      ),
    ]);
    expect((await sluiceHere(['model', 'alias', 'credit@a', '1', '--registry', folder, '--who', '1'])).code).toBe(0);
    const history = await registry.history('credit');
    expect(history).toHaveLength(21);
    expect(history.map((m) => m.from)).toEqual([null, ...history.slice(0, -1).map((m) => m.to)]);
    expect((await registry.list())[0]!.aliases).toEqual({ a: '1' });
  });

  test('a key without models:write may not, and a key for other models learns nothing', async () => {
    const { registry } = twoVersions();
    const service = await startService([], scratch(), { registry });
    const reply = await call(service.port, 'not-a-key', 'PUT', '/api/v1/models/credit/aliases/champion', {
      body: '{"version":"1"}',
    });
    expect(reply.status).toBe(401);
  });
});

describe('hot swap', () => {
  test('a damaged new version leaves the old one answering, is told once and raises a metric until it is mended', async () => {
    const { folder, registry } = twoVersions();
    const service = await startService([], scratch(), { registry });
    const body = await application(service);
    await registry.moveAlias('credit', 'champion', '1', 'test');
    expect((await predict(service, 'credit', body)).json.modelVersion).toBe('1');
    const bad = path.join(folder, 'credit', '3');
    copyUnlocked(path.join(folder, 'credit', '2'), bad);
    const yaml = readFileSync(path.join(bad, 'model.yaml'), 'utf8').replace(/^version: .*$/m, 'version: 3');
    writeFileSync(path.join(bad, 'model.yaml'), yaml);
    const onnx = readFileSync(path.join(bad, 'model.onnx'));
    writeFileSync(path.join(bad, 'model.onnx'), onnx.subarray(0, onnx.length >> 1));
    writeFileSync(path.join(folder, 'credit', 'aliases.yaml'), 'champion: 3\n');
    const stale = async () => {
      const reply = await predict(service, 'credit', body);
      expect([reply.status, reply.json.modelVersion]).toEqual([200, '1']);
      return (await service.call('GET', '/metrics')).text;
    };
    await expect.poll(stale).toMatch(/sluice_model_stale\{reference="credit"\} 1/);
    const metrics = await stale();
    expect(metrics).toMatch(/sluice_model_load_failures_total\{model="credit",code="model_hash_mismatch"\} 1/);
    expect((await predict(service, 'credit:3', body)).status).toBe(400);
    writeFileSync(path.join(folder, 'credit', 'aliases.yaml'), 'champion: 2\n');
    await expect.poll(async () => (await predict(service, 'credit', body)).json.modelVersion).toBe('2');
    expect((await service.call('GET', '/metrics')).text).toMatch(/sluice_model_stale\{reference="credit"\} 0/);
  });

  test('what is retired by force while it is served goes on, and that is told', async () => {
    const { folder, registry } = twoVersions();
    const service = await startService([], scratch(), { registry });
    const body = await application(service);
    await registry.moveAlias('credit', 'champion', '1', 'test');
    expect((await predict(service, 'credit', body)).json.modelVersion).toBe('1');
    await new FolderRegistry([folder]).setState('credit', '1', 'retired', { who: 'me', why: 'by force: it is wrong' }, true); // biome-ignore format: one line
    await expect
      .poll(async () => {
        expect((await predict(service, 'credit', body)).json.modelVersion).toBe('1');
        return (await service.call('GET', '/metrics')).text;
      })
      .toMatch(/sluice_model_load_failures_total\{model="credit",code="model_retired"\} 1/);
    const refused = await service.call('PUT', '/api/v1/models/credit/aliases/next', { body: '{"version": "1"}' });
    expect([refused.status, refused.json.code]).toEqual([400, 'model_retired']);
  });

  test('an alias that cannot be read, or points nowhere, changes nothing either', async () => {
    const { folder, registry } = twoVersions();
    const service = await startService([], scratch(), { registry });
    const body = await application(service);
    expect((await predict(service, 'credit', body)).json.modelVersion).toBe('2');
    const failures = async () =>
      [...(await service.call('GET', '/metrics')).text.matchAll(/^sluice_model_load_failures_total\{.*\} (\d+)$/gm)]
        .map((m) => Number(m[1]))
        .reduce((a, b) => a + b, 0);
    for (const text of ['champion: [', 'champion: 77\n']) {
      const before = await failures();
      writeFileSync(path.join(folder, 'credit', 'aliases.yaml'), text);
      // It looks when it is asked.
      await expect
        .poll(async () => {
          expect((await predict(service, 'credit', body)).json.modelVersion).toBe('2');
          return failures();
        })
        .toBeGreaterThan(before);
      expect((await predict(service, 'credit', body)).json.modelVersion).toBe('2');
    }
  });

  checkTest(`${SWAPS} swaps under load: every answer is of one version, whole, and memory comes back`, async () => {
    const { folder, registry } = twoVersions();
    // A process of its own: its memory is not that of the clients.
    const service = await startProcess(folder);
    const one = await application(service);
    const body = Array.from({ length: 100 }, () => one);
    const expected = new Map<string, string>();
    const swap = async (to: string) => {
      await registry.moveAlias('credit', 'champion', to, 'test');
      await expect
        .poll(async () => (await predict(service, 'credit@champion', [one])).json.modelVersion, { interval: 30 })
        .toBe(to);
    };
    for (const v of ['1', '2']) {
      await swap(v);
      expected.set(v, JSON.stringify((await predict(service, 'credit@champion', body)).json.predictions));
    }
    expect(expected.get('1')).not.toBe(expected.get('2'));
    let stop = false;
    let paused = false;
    const seen = new Map<string, number>();
    const wrong: string[] = [];
    const client = async () => {
      while (!stop) {
        if (paused) {
          await sleep(20);
          continue;
        }
        const reply = await predict(service, 'credit@champion', body);
        const version = String(reply.json?.modelVersion);
        seen.set(version, (seen.get(version) ?? 0) + 1);
        if (reply.status !== 200 || JSON.stringify(reply.json.predictions) !== expected.get(version))
          wrong.push(reply.text.slice(0, 200));
      }
    };
    const clients = Array.from({ length: TIER === 'campaigns' ? 3 : 1 }, client);
    const metrics = async () => (await service.call('GET', '/metrics')).text;
    /** The lowest of some readings: what is collected sooner or later is no leak. */
    const memory = async () => {
      // Few swaps show no leak.
      if (TIER !== 'campaigns') return 1;
      paused = true;
      const readings: number[] = [];
      for (let i = 0; i < 25; i++) {
        readings.push(Number(/^process_resident_memory_bytes (\S+)/m.exec(await metrics())![1]));
        await sleep(100);
      }
      paused = false;
      return Math.min(...readings);
    };
    // The first swaps fill the heaps; what is measured is whether 200 more make them grow.
    for (let i = 0; i < WARM_UP; i++) await swap(i % 2 ? '2' : '1');
    const before = await memory();
    for (let i = 0; i < SWAPS; i++) await swap(i % 2 ? '2' : '1');
    const after = await memory();
    stop = true;
    await Promise.all(clients);
    expect(wrong).toEqual([]);
    expect(seen.get('1')).toBeGreaterThan(SWAPS / 4);
    expect(seen.get('2')).toBeGreaterThan(SWAPS / 4);
    const swaps = Number(/sluice_model_swaps_total\{model="credit"\} (\d+)/.exec(await metrics())![1]);
    expect(swaps).toBeGreaterThanOrEqual(SWAPS + WARM_UP);
    expect(
      `${Math.round(before / 1e6)} → ${Math.round(after / 1e6)} MB: ${after / before < 1.2 ? 'steady' : 'grown'}`,
    ).toMatch(/steady/);
  });
});

test('a folder that does not exist yet is made by the first upload', async () => {
  const folder = path.join(scratch(), 'none', 'yet');
  const registry = new FolderRegistry([folder]);
  const service = await startService([], scratch(), { registry });
  expect((await service.call('GET', '/api/v1/models')).json).toEqual({ models: [] });
  mkdirSync(path.dirname(folder), { recursive: true });
  expect((await service.call('POST', '/api/v1/models', multipart(CREDIT_DEFAULT, PARTS))).status).toBe(201);
});
