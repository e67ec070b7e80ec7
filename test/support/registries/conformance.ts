// What every remote registry must do, whatever keeps it: the same tests for all of them.
import { generateKeyPairSync } from 'node:crypto';
import { cpSync, existsSync, readdirSync, readFileSync, truncateSync, utimesSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { registryOptions } from '../../../src/config/registry-options.ts';
import { readModelBytes } from '../../../src/model/package/model-package.ts';
import { checkJournal } from '../../../src/model/registry/aliases.ts';
import { FolderRegistry } from '../../../src/model/registry/folder.ts';
import { openRemote } from '../../../src/model/registry/open.ts';
import type { RemoteRegistry } from '../../../src/model/registry/remote.ts';
import { type Approvals, checkStates } from '../../../src/model/registry/state-journal.ts';
import { scratch } from '../cli.ts';
import { eventually } from '../until.ts';
import type { Gate } from './gate.ts';
import { codeOf, makePackage, refOf } from './packages.ts';

export interface Remote {
  gate: Gate;
  /** Address of a registry nobody else uses and the environment it is opened with. */
  address: string;
  env: Record<string, string>;
  /** Calls that store the last file of an upload. */
  isLastUpload(call: { method: string; path: string }): boolean;
  /** Makes the remains of an upload of m:2 look two hours old; the version that a new one gets. */
  later(): Promise<string>;
  /** Whether it keeps what becomes of versions. */
  keepsStates: boolean;
  /** Puts other bytes in place of a file of a version, past the registry. */
  overwrite(id: string, version: string, name: string, bytes: Buffer): Promise<void>;
}

export interface Opened {
  registry: RemoteRegistry;
  told: string[];
  lookups: string[];
}

/** Opens it with small time-outs; `cache`: the folder of an earlier one, to be its successor. */
export function openTest(
  remote: Remote,
  cache = scratch(),
  env: Record<string, string> = {},
  approvals: Approvals | null = null,
): Opened {
  const told: string[] = [];
  const lookups: string[] = [];
  const registry = openRemote(remote.address, {
    options: { ...registryOptions({ ...remote.env, ...env }), cache_folder: cache },
    env: { ...remote.env, ...env },
    behind: new FolderRegistry([path.resolve('src/bundled')]),
    approvals,
    log: (_level, _event, says) => told.push(says),
    onLookup: (outcome) => lookups.push(outcome),
  });
  onTestFinished(() => registry.close());
  return { registry, told, lookups };
}

export const QUICK = {
  SLUICE_REGISTRY_OPTIONS__REFRESH_MS: '150',
  SLUICE_REGISTRY_OPTIONS__TIMEOUT_MS: '5000',
  SLUICE_REGISTRY_OPTIONS__RETRIES: '1',
};

/** `remote` is asked in each test; it gives an empty registry. */
export function conformance(remote: () => Promise<Remote>): void {
  const opened = async (versions: number[] = [], env: Record<string, string> = {}) => {
    const r = await remote();
    const cache = scratch();
    const first = openTest(r, cache, env);
    for (const v of versions) expect(await first.registry.add('m', String(v), makePackage('m', v))).toBe(String(v));
    return { ...r, ...first, remote: r, cache, again: (env = {}) => openTest(r, cache, env), other: () => openTest(r) };
  };

  test('what is added is listed, resolved and whole', async () => {
    const { registry } = await opened([1, 2]);
    const states = { 1: 'proposed', 2: 'proposed' };
    const listed = (await registry.list()).find((e) => e.id === 'm');
    expect(listed).toEqual({ id: 'm', versions: ['1', '2'], aliases: {}, states });
    const model = await registry.resolve('m:1');
    expect(model.ref).toBe('m:1');
    expect((await readModelBytes(model)).length).toBeGreaterThan(100_000);
    const files = [
      'background.csv',
      'model.onnx',
      'model.yaml',
      'package.lock',
      'selftest-expected.csv',
      'selftest.csv',
    ];
    expect(readdirSync(model.folder).sort()).toEqual(files);
    expect(await refOf(registry.resolve('m'))).toBe('m:2');
    expect(await codeOf(registry.add('m', '2', makePackage('m', 2)))).toBe('version_exists');
    expect(await refOf(registry.resolve('m:9'))).toBe('model_not_found: m has no version 9 (it has 1, 2)');
    expect(await refOf(registry.resolve('m@nobody'))).toMatch(/^model_not_found: m has no alias nobody/);
    expect(await codeOf(registry.add('m', '3', makePackage('n', 3)))).toBe('usage');
  });

  test('aliases move, and their history says who moved them', async () => {
    const { registry, other } = await opened([1, 2]);
    const { privateKey, publicKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' });
    await registry.moveAlias('m', 'champion', '1', { who: 'zoë', why: 'it is the first', key: privateKey });
    expect(await refOf(registry.resolve('m'))).toBe('m:1');
    await registry.moveAlias('m', 'champion', '2', 'b\n"quoted"');
    // The mover sees its move at once.
    expect(await refOf(registry.resolve('m'))).toBe('m:2');
    await registry.moveAlias('m', 'champion', null, 'c');
    const history = await other().registry.history('m');
    const { sha256 } = await registry.resolve('m:1');
    expect(history).toMatchObject([
      { who: 'zoë', alias: 'champion', from: null, to: '1', why: 'it is the first', package_sha256: sha256 },
      { who: 'b\n"quoted"', alias: 'champion', from: '1', to: '2' },
      { who: 'c', alias: 'champion', from: '2', to: null, package_sha256: null },
    ]);
    expect(checkJournal(history.slice(0, 1), [publicKey]).signed).toBe(1);
    // Every entry has its place in the chain, or none has: MLflow has nothing to keep two from moving at once.
    expect([0, 3]).toContain(checkJournal(history, null).chained);
    expect(await codeOf(registry.moveAlias('m', 'champion', '7', 'd'))).toBe('model_not_found');
    expect(await codeOf(registry.moveAlias('m', 'gone', null, 'd'))).toBe('model_not_found');
    expect(await codeOf(registry.moveAlias('nobody', 'champion', '1', 'd'))).toBe('model_not_found');
  });

  test('versions are approved, retired and removed for everybody, or that is refused in words', async () => {
    const { registry, other, remote: r } = await opened([1, 2, 3]);
    const [ann, bob] = [generateKeyPairSync('ed25519'), generateKeyPairSync('ed25519')];
    const by = { who: 'bob', why: 'for a test', key: bob.privateKey };
    if (!r.keepsStates) {
      expect(await refOf(registry.setState('m', '1', 'approved', by).then(() => ({ ref: '' })))).toMatch(
        /^usage: .*does not store version states/,
      );
      expect(await registry.states('m')).toEqual([]);
      expect(() => openTest(r, scratch(), {}, 'any')).toThrow(/does not store approvals/);
      return;
    }
    await registry.add('m', '4', makePackage('m', 4), { who: 'ann', key: ann.privateKey });
    expect(await codeOf(registry.setState('m', '4', 'approved', { ...by, key: ann.privateKey }))).toBe(
      'approval_refused',
    );
    const strict = () => openTest(r, scratch(), {}, [bob.publicKey]).registry;
    expect(await codeOf(strict().resolve('m'))).toBe('approval_missing');
    await registry.setState('m', '2', 'approved', by);
    const second = strict();
    for (const reference of ['m', 'm:2']) expect(await refOf(second.resolve(reference))).toBe('m:2');
    for (const reference of ['m:4', 'm:1']) expect(await codeOf(second.resolve(reference))).toBe('approval_missing');
    expect(await codeOf(second.moveAlias('m', 'champion', '4', 'a'))).toBe('approval_missing');
    expect(await codeOf(registry.setState('m', '4', 'retired', by))).toBe('model_in_use');
    await registry.setState('m', '4', 'retired', by, true);
    expect(await refOf(other().registry.resolve('m'))).toBe('m:3');
    expect(await refOf(other().registry.resolve('m:4'))).toBe('m:4');
    expect(await codeOf(registry.moveAlias('m', 'champion', '4', 'a'))).toBe('model_retired');
    // Two at the same time: one comes after the other.
    await Promise.all([other().registry.setState('m', '1', 'removed', by), registry.setState('m', '4', 'removed', by)]);
    const third = other().registry;
    expect((await third.list()).find((e) => e.id === 'm')?.states).toEqual({
      ...{ 1: 'removed', 2: 'approved', 3: 'proposed', 4: 'removed' },
    });
    expect(await refOf(third.resolve('m:4'))).toBe('model_not_found: m has no version 4; it was removed (it has 2, 3)'); // biome-ignore format: one line
    expect(await codeOf(third.add('m', '1', makePackage('m', 1)))).toBe('version_exists');
    expect(checkStates(await third.states('m'), [ann.publicKey, bob.publicKey])).toEqual({ chained: 8, signed: 5 });
  });

  test('an alias moved elsewhere is followed, and no request waits for it', async () => {
    // Calls wait at the gate for longer than the test lasts.
    const { registry, gate, other, lookups } = await opened([1, 2], { SLUICE_REGISTRY_OPTIONS__TIMEOUT_MS: '3600000' });
    const second = other().registry;
    await second.moveAlias('m', 'champion', '1', 'a');
    expect(await refOf(registry.resolve('m'))).toBe('m:1');
    await second.moveAlias('m', 'champion', '2', 'a');
    await eventually(async () => expect(await refOf(registry.resolve('m'))).toBe('m:2'));
    expect(lookups).toContain('ok');
    const release = gate.hold();
    const before = gate.calls;
    await eventually(async () => {
      await registry.resolve('m');
      expect(gate.calls).toBeGreaterThan(before);
    });
    // A lookup is under way that does not come to an end; who waited for it would wait for ever.
    for (let i = 0; i < 1000; i++) await registry.resolve('m');
    release();
  });

  test('bundled models are found behind it, its own come first', async () => {
    const { registry } = await opened();
    expect(await refOf(registry.resolve('credit-default'))).toBe('credit-default:1');
    expect((await registry.list()).map((e) => e.id)).toContain('credit-default');
    expect(await refOf(registry.resolve('nobody'))).toMatch(/^model_not_found/);
    await registry.add('credit-default', '1', makePackage('credit-default', 1, 'another'));
    expect((await registry.resolve('credit-default')).manifest.description).toBe('another');
  });

  test('half an upload never resolves, and the version can be added after it', async () => {
    const { registry, gate, isLastUpload, later, other } = await opened([1]);
    // Nothing that would clean up comes through either: as if the machine had lost its power.
    let dead = false;
    gate.rule = (call) => {
      dead ||= isLastUpload(call);
      return dead ? 'cut' : 'pass';
    };
    expect(await codeOf(registry.add('m', '2', makePackage('m', 2)))).toBe('registry_unavailable');
    gate.up();
    expect(await refOf(registry.resolve('m'))).toBe('m:1');
    expect((await registry.list()).find((e) => e.id === 'm')?.versions).toEqual(['1']);
    // Its remains are taken for an upload that goes on, until they are an hour old.
    expect(await codeOf(registry.add('m', '2', makePackage('m', 2)))).toBe('version_exists');
    const expected = await later();
    const added = await registry.add('m', '2', makePackage('m', 2));
    expect(added).toBe(expected);
    expect(await refOf(other().registry.resolve('m'))).toBe(`m:${expected}`);
  });

  test('a model file that was changed is refused, and so is any other file of what was added', async () => {
    const { registry, other, overwrite } = await opened([1, 2]);
    await overwrite('m', '1', 'model.onnx', Buffer.from('something else'));
    await overwrite('m', '2', 'selftest.csv', Buffer.from('something else'));
    const second = other().registry;
    expect(await codeOf(second.resolve('m:1'))).toBe('model_hash_mismatch');
    expect(await codeOf(second.resolve('m:2'))).toBe('model_hash_mismatch');
    expect(await codeOf(second.moveAlias('m', 'champion', '1', 'a'))).toBe('model_hash_mismatch');
    expect(await codeOf(registry.resolve('nobody'))).toBe('model_not_found');
  });

  test('an outage is survived: known references keep their meaning, over a restart too', async () => {
    const { registry, gate, again, other, told, lookups } = await opened([1, 2]);
    await registry.moveAlias('m', 'champion', '1', 'a');
    for (const reference of ['m', 'm@champion', 'credit-default']) await registry.resolve(reference);
    gate.down();
    await eventually(() => expect(told.join()).toMatch(/is unreachable; serving the last known versions/));
    expect(lookups).toContain('stale');
    expect(await refOf(registry.resolve('m'))).toBe('m:1');
    expect(await codeOf(registry.resolve('m:2'))).toBe('registry_unavailable');
    expect(await codeOf(registry.moveAlias('m', 'champion', '2', 'a'))).toBe('registry_unavailable');
    const restarted = again();
    expect(await refOf(restarted.registry.resolve('m'))).toBe('m:1');
    expect(await refOf(restarted.registry.resolve('m:1'))).toBe('m:1');
    expect(await refOf(restarted.registry.resolve('credit-default'))).toBe('credit-default:1');
    expect(restarted.told).toHaveLength(1);
    expect(await codeOf(other().registry.resolve('m'))).toBe('registry_unavailable');
    gate.up();
    await eventually(() => expect(told.at(-1)).toMatch(/is reachable again$/));
    expect(await refOf(registry.resolve('m:2'))).toBe('m:2');
  });

  test('a server that stumbles is asked again, one that only fails is registry_unavailable', async () => {
    const { gate, other, remote: r } = await opened([1]);
    const patient = () => openTest(r, scratch(), { SLUICE_REGISTRY_OPTIONS__RETRIES: '2' });
    for (const fate of [500, 503, 429, 'cut'] as const) {
      let left = 2;
      gate.rule = () => (left-- > 0 ? fate : 'pass');
      expect(await refOf(patient().registry.resolve('m:1'))).toBe('m:1');
    }
    gate.rule = () => 500;
    expect(await refOf(other().registry.resolve('m:1'))).toMatch(/^registry_unavailable: .*it answered 500/);
    gate.up();
  });

  test('an answer that is lost on the way does not make an upload fail or happen twice', async () => {
    const { registry, gate, isLastUpload, other } = await opened([1]);
    let lost = 0;
    gate.rule = (call) => (isLastUpload(call) && lost++ === 0 ? 'lost' : 'pass');
    expect(await registry.add('m', '2', makePackage('m', 2))).toBe('2');
    expect(lost).toBe(2);
    gate.up();
    expect(await refOf(other().registry.resolve('m:2'))).toBe('m:2');
  });

  test('a damaged cache is fetched again', async () => {
    const { registry, gate, again, told, lookups } = await opened([1]);
    const { folder } = await registry.resolve('m');
    truncateSync(path.join(folder, 'model.onnx'), 1000);
    await eventually(() => expect(told.join()).toMatch(/is damaged and is fetched again/));
    await eventually(async () =>
      expect((await readModelBytes(await registry.resolve('m'))).length).toBeGreaterThan(1e5),
    );
    // The lookup that fetched it has ended when another one has.
    const before = lookups.length;
    await eventually(() => expect(lookups.length).toBeGreaterThan(before + 1));
    registry.close();
    writeFileSync(path.join(folder, 'selftest.csv'), 'other bytes');
    const restarted = again();
    const model = await restarted.registry.resolve('m');
    expect(restarted.told.join()).toMatch(/is damaged/);
    expect(readFileSync(path.join(model.folder, 'selftest.csv'), 'utf8')).not.toBe('other bytes');
    gate.down();
    writeFileSync(path.join(folder, 'selftest.csv'), 'other bytes');
    expect(await codeOf(again().registry.resolve('m'))).toBe('registry_unavailable');
    gate.up();
  });

  test('the cache stays small: the longest unused go, those in use stay', async () => {
    const { registry, cache, again } = await opened([1, 2, 3]);
    const folders = [];
    for (const v of [1, 2]) folders.push((await registry.resolve(`m:${v}`)).folder);
    registry.close();
    // A copy of the second, in no use by anybody, a day old like the others.
    const stray = path.join(cache, 'packages', 'f'.repeat(64));
    cpSync(folders[1]!, stray, { recursive: true });
    for (const folder of [...folders, stray]) utimesSync(folder, new Date(0), new Date(0));
    const { registry: next } = again({ SLUICE_REGISTRY_OPTIONS__CACHE_MAX_BYTES: '1000000' });
    const kept = await next.resolve('m:2');
    utimesSync(kept.folder, new Date(0), new Date(0));
    await next.resolve('m:3');
    expect(folders.map((f) => existsSync(f))).toEqual([false, true]);
    expect(existsSync(stray)).toBe(false);
    expect(kept.ref).toBe('m:2');
    expect(await refOf(next.resolve('m:1'))).toBe('m:1');
  });
}
