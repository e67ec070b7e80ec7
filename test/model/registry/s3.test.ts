// The registry in object storage against a real server that checks signatures: conformance, races, credentials.
import { writeFileSync } from 'node:fs';
import path from 'node:path';
import { AwsClient } from 'aws4fetch';
import { afterAll, beforeAll, expect, onTestFinished, test } from 'vitest';
import { loadConfig } from '../../../src/config/load-config.ts';
import { ServerConfigSchema } from '../../../src/config/server-config.ts';
import { serve } from '../../../src/doors/http/service.ts';
import { scratch, sluiceHere } from '../../support/cli.ts';
import { conformance, openTest, QUICK, type Remote } from '../../support/registries/conformance.ts';
import { Gate } from '../../support/registries/gate.ts';
import { codeOf, makePackage, refOf } from '../../support/registries/packages.ts';
import { requireServer } from '../../support/registries/require.ts';
import { S3_KEYS, S3_MAKES, type Server } from '../../support/registries/servers.ts';
import { asNative, asObjects, call, predictUrl, readText } from '../../support/service.ts';
import { eventually } from '../../support/until.ts';

/** Applications of the bundled model. */
const ROWS = path.resolve('src/bundled/credit-default/1/selftest.csv');

function registryIn(start: () => Promise<Server>): void {
  let server: Server;
  let gate: Gate;
  let prefixes = 0;
  const client = new AwsClient({
    accessKeyId: S3_KEYS.AWS_ACCESS_KEY_ID,
    secretAccessKey: S3_KEYS.AWS_SECRET_ACCESS_KEY,
    service: 's3',
    region: 'us-east-1',
    retries: 0,
  });

  beforeAll(async () => {
    server = await start();
    // s3proxy lets two writes with the same condition through now and then.
    gate = await Gate.open(server.url, { oneAtATime: true });
    expect((await client.fetch(new URL('/models', server.url), { method: 'PUT' })).status).toBe(200);
  });
  afterAll(async () => {
    await gate?.[Symbol.asyncDispose]();
    await server?.[Symbol.asyncDispose]();
  });

  const remote = async (): Promise<Remote> => {
    const prefix = `of a test/${prefixes++}`;
    gate.up();
    gate.delayMs = 0;
    const object = (key: string) => new URL(`/models/${prefix}/${key}`, server.url);
    const put = async (key: string, body: Buffer) => {
      expect((await client.fetch(object(key), { method: 'PUT', body: Uint8Array.from(body) })).status).toBe(200);
    };
    return {
      gate,
      address: `s3://models/${prefix}`,
      env: { ...S3_KEYS, ...QUICK, AWS_ENDPOINT_URL: gate.url.href },
      keepsStates: true,
      isLastUpload: ({ method, path: p }) => method === 'PUT' && p.endsWith('/model.yaml'),
      later: async () => {
        await put('m/2/.upload', Buffer.from(`${new Date(Date.now() - 2 * 3600_000).toISOString()} another\n`));
        return '2';
      },
      overwrite: (id, version, name, bytes) => put(`${id}/${version}/${name}`, bytes),
    };
  };
  conformance(remote);

  test('moves of an alias at the same time come one after another, and none is lost', async () => {
    const r = await remote();
    const { registry } = openTest(r);
    for (const v of [1, 2, 3]) await registry.add('m', String(v), makePackage('m', v));
    const movers = [1, 2, 3, 1, 2, 3].map((v, i) => ({
      v: String(v),
      who: `mover ${i}`,
      registry: openTest(r).registry,
    }));
    await Promise.all(movers.map((m) => m.registry.moveAlias('m', 'champion', m.v, m.who)));
    const history = await openTest(r).registry.history('m');
    expect(history.map((h) => h.who).sort()).toEqual(movers.map((m) => m.who).sort());
    const links = new Map(history.map((h) => [h.who, h]));
    expect(links.size).toBe(movers.length);
    // Each began where another ended: the froms are the tos, less the last, with none before the first.
    const last = (await openTest(r).registry.list()).find((e) => e.id === 'm')!.aliases.champion;
    const ends = history.map((h) => String(h.to)).sort();
    expect([...history.map((h) => h.from), last].filter((v) => v !== null).sort()).toEqual(ends);
  });

  test('a move whose mover died before it wrote the history is told by whoever comes next', async () => {
    const r = await remote();
    const { registry } = openTest(r);
    for (const v of [1, 2]) await registry.add('m', String(v), makePackage('m', v));
    gate.rule = (c) => (c.method === 'PUT' && c.path.endsWith('.jsonl') ? 'cut' : 'pass');
    expect(await codeOf(registry.moveAlias('m', 'champion', '1', 'the late one'))).toBe('registry_unavailable');
    gate.up();
    expect((await registry.history('m')).map((h) => h.who)).toEqual(['the late one']);
    await registry.moveAlias('m', 'champion', '2', 'the next');
    await r.overwrite('m', '.', 'aliases.yaml', Buffer.from('champion: 1\n'));
    await registry.moveAlias('m', 'challenger', '2', 'a');
    await registry.moveAlias('m', 'champion', '2', 'a');
    const told = (await registry.history('m')).map((h) => `${h.who}: ${h.alias} ${h.from} ${h.to}`);
    expect(told).toEqual([
      'the late one: champion null 1',
      'the next: champion 1 2',
      'a: challenger null 2',
      'edited by hand: champion 2 1',
      'a: champion 1 2',
    ]);
  });

  test('aliases that are lost do not let the newest version answer', async () => {
    const r = await remote();
    const { registry } = openTest(r);
    for (const v of [1, 2]) await registry.add('m', String(v), makePackage('m', v));
    await registry.moveAlias('m', 'champion', '1', 'A');
    const key = `${r.address.slice('s3:/'.length)}/m/aliases.yaml`;
    expect((await client.fetch(new URL(key, server.url), { method: 'DELETE' })).status).toBe(204);
    expect(await refOf(openTest(r).registry.resolve('m'))).toMatch(/^model_invalid: .*the history has champion: 1/);
  });

  test('an alias whose answer was lost is moved once', async () => {
    const r = await remote();
    const { registry } = openTest(r);
    await registry.add('m', '1', makePackage('m', 1));
    let lost = 0;
    gate.rule = (c) => (c.method === 'PUT' && c.path.endsWith('aliases.yaml') && lost++ === 0 ? 'lost' : 'pass');
    await registry.moveAlias('m', 'champion', '1', 'a');
    expect(lost).toBe(2);
    expect(await registry.history('m')).toHaveLength(1);
  });

  test('two who add the same version at the same time: one does, and its files are not mixed', async () => {
    const r = await remote();
    const adders = ['a', 'b', 'c'].map((who) => ({ registry: openTest(r).registry, folder: makePackage('m', 1, who) }));
    const outcomes = await Promise.all(adders.map((a) => codeOf(a.registry.add('m', '1', a.folder))));
    expect(outcomes.sort()).toEqual(['1', 'version_exists', 'version_exists']);
    expect(await refOf(openTest(r).registry.resolve('m:1'))).toBe('m:1');
  });

  test('a service goes on through an outage, and takes up a moved alias without a pause', async () => {
    const r = await remote();
    const { registry } = openTest(r);
    for (const v of [1, 2]) await registry.add('m', String(v), makePackage('m', v));
    await registry.moveAlias('m', 'champion', '1', 'a');
    const config = await loadConfig(ServerConfigSchema, {
      settings: ['listen.port=0', 'workers=1', `jobs.folder=${scratch()}`, 'preload=["m"]'],
    });
    const running = await serve({ config, registry: openTest(r).registry, dev: true });
    onTestFinished(() => running.stop());
    const row = JSON.stringify(asNative(asObjects(readText(ROWS)))[0]);
    const predict = async () => {
      const headers = { 'content-type': 'application/json' };
      const url = predictUrl('json').replace('credit-default', 'm');
      const reply = await call(Number(new URL(running.url).port), running.token!, 'POST', url, { body: row, headers });
      return `${reply.status} ${reply.json.modelVersion}`;
    };
    expect(await predict()).toBe('200 1');
    gate.down();
    const before = gate.calls;
    const askedInVain = async () => {
      expect(await predict()).toBe('200 1');
      return gate.calls;
    };
    await expect.poll(askedInVain).toBeGreaterThan(before);
    gate.up();
    await openTest(r).registry.moveAlias('m', 'champion', '2', 'a');
    await eventually(async () => expect(await predict()).toBe('200 2'));
  });

  test('a server that takes calls and never answers, and one that is not there, are told in time', async () => {
    const r = await remote();
    const env = { SLUICE_REGISTRY_OPTIONS__TIMEOUT_MS: '300', SLUICE_REGISTRY_OPTIONS__RETRIES: '1' };
    // Never answered: an error comes because somebody looks at the clock, not because the server gave up.
    const release = gate.hold();
    expect(await refOf(openTest(r, scratch(), env).registry.resolve('m'))).toMatch(
      /^registry_unavailable: .*within 300 ms/,
    );
    const nowhere = { ...env, AWS_ENDPOINT_URL: 'http://127.0.0.1:9' };
    expect(await refOf(openTest(r, scratch(), nowhere).registry.resolve('m'))).toMatch(/ECONNREFUSED/);
    release();
  });

  test('models beyond one page of a listing are found', async () => {
    const r = await remote();
    const { registry } = openTest(r);
    await registry.add('m', '1', makePackage('m', 1));
    const names = Array.from({ length: 1010 }, (_, i) => `${i}.txt`).values();
    const worker = async () => {
      for (const name of names) await r.overwrite('m', '0', name, Buffer.from('x'));
    };
    await Promise.all([worker(), worker(), worker(), worker()]);
    expect(await refOf(openTest(r).registry.resolve('m'))).toBe('m:1');
  });

  test('the commands take its address', async () => {
    const r = await remote();
    await openTest(r).registry.add('m', '1', makePackage('m', 1));
    const folder = scratch();
    const env = { ...r.env, SLUICE_REGISTRY: r.address, XDG_CACHE_HOME: folder };
    const run = await sluiceHere(['score', ROWS, '--model', 'm'], { env });
    expect(run.stderr).toMatch(/model m:1, sha256/);
    expect(run.code).toBe(0);
    gate.down();
    const offline = await sluiceHere(['score', ROWS, '--model', 'm'], { env });
    expect(offline.stderr).toMatch(/the registry is unreachable; serving the last known versions/);
    expect([offline.code, offline.stdout]).toEqual([0, run.stdout]);
    const unknown = await sluiceHere(['score', ROWS, '--model', 'm:2'], { env });
    expect([unknown.code, unknown.stderr]).toEqual([1, expect.stringMatching(/\[registry_unavailable\]/)]);
    gate.up();
    const wrong = await sluiceHere(['score', ROWS, '--model', 'm', '--registry', 'ftp://x/y'], { env });
    expect([wrong.code, wrong.stderr]).toEqual([2, expect.stringMatching(/must be a folder, s3/)]);
    const option = { ...env, SLUICE_REGISTRY_OPTIONS__REFRSH_MS: '5' };
    const misspelt = await sluiceHere(['score', ROWS, '--model', 'm'], { env: option });
    expect([misspelt.code, misspelt.stderr]).toEqual([2, expect.stringMatching(/did you mean refresh_ms/)]);
  });

  test('keys come from the shared credentials file too, and wrong ones are told', async () => {
    const r = await remote();
    await openTest(r).registry.add('m', '1', makePackage('m', 1));
    const wrong = openTest(r, scratch(), { AWS_SECRET_ACCESS_KEY: 'wrong' });
    expect(await refOf(wrong.registry.resolve('m'))).toMatch(/^registry_unavailable: .*403 SignatureDoesNotMatch/);
    const file = path.join(scratch(), 'credentials');
    const { AWS_ACCESS_KEY_ID: id, AWS_SECRET_ACCESS_KEY: secret } = S3_KEYS;
    writeFileSync(
      file,
      `[default]\naws_access_key_id = x\n[scoring]\naws_access_key_id=${id}\naws_secret_access_key = ${secret}\n`,
    );
    const keyless = { AWS_ACCESS_KEY_ID: '', AWS_SHARED_CREDENTIALS_FILE: file };
    const scoring = openTest(r, scratch(), { ...keyless, SLUICE_REGISTRY_OPTIONS__PROFILE: 'scoring' });
    expect(await refOf(scoring.registry.resolve('m'))).toBe('m:1');
    expect(await refOf(openTest(r, scratch(), keyless).registry.resolve('m'))).toMatch(
      /has no keys for the profile default/,
    );
    const nowhere = openTest({ ...r, address: 's3://no-such-bucket/x' });
    expect(await refOf(nowhere.registry.resolve('m'))).toMatch(/^registry_unavailable: .*NoSuchBucket/);
  });
}

for (const { make, install, start } of S3_MAKES) {
  await requireServer(`the registry in object storage, ${make}`, install, (installed) =>
    registryIn(() => start(installed)),
  );
}
