// States of versions: proposed, approved, champion, retired, removed; four eyes; what a policy lets through; what runs is protected.
import { createPublicKey, generateKeyPairSync, type KeyObject } from 'node:crypto';
import { cpSync, existsSync, readdirSync, readFileSync, rmSync, utimesSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { WorkerPool } from '../../../src/engine/worker-pool.ts';
import { loadPackage } from '../../../src/model/package/load-package.ts';
import { FolderRegistry } from '../../../src/model/registry/folder.ts';
import { holdVersion } from '../../../src/model/registry/in-use.ts';
import { chained, type Mover } from '../../../src/model/registry/journal.ts';
import { type Approvals, checkStates, type StateEntry } from '../../../src/model/registry/state-journal.ts';
import { signModel } from '../../../src/model/signing/model-signature.ts';
import { scratch, sluiceHere } from '../../support/cli.ts';
import { codeOf, makePackage, refOf } from '../../support/registries/packages.ts';
import { checkTest } from '../../support/tiers.ts';

const keyPair = () => generateKeyPairSync('ec', { namedCurve: 'P-256' });
const [ann, bob, eve] = [keyPair(), keyPair(), generateKeyPairSync('ed25519')];
const by = (who: string, key?: KeyObject): Mover => ({ who, why: 'the board agreed', ...(key ? { key } : {}) });
const ANN = by('ann', ann.privateKey);
const BOB = by('bob', bob.privateKey);

/** Versions that Ann added and signed for. */
async function proposed(versions: number[], adder: Mover = ANN) {
  const root = scratch();
  const registry = new FolderRegistry([root]);
  for (const v of versions) await registry.add('m', String(v), makePackage('m', v), adder);
  const asking = (approvals: Approvals) => new FolderRegistry([root], { approvals });
  return { root, registry, asking, journal: path.join(root, 'm/states.history.jsonl') };
}

const statesIn = async (registry: FolderRegistry) => (await registry.list()).find((e) => e.id === 'm')?.states;

test('the way of a version: each step is an entry in one signed chain, and says what the version is', async () => {
  const { registry } = await proposed([1, 2, 3]);
  await registry.setState('m', '1', 'approved', BOB);
  await registry.setState('m', '2', 'approved', BOB);
  await registry.moveAlias('m', 'champion', '2', 'ann');
  await registry.setState('m', '1', 'retired', ANN);
  await registry.setState('m', '1', 'removed', ANN);
  expect(await statesIn(registry)).toEqual({ 1: 'removed', 2: 'champion', 3: 'proposed' });
  const history = await registry.states('m');
  expect(history.map(({ who, version, from, to }) => [who, version, from, to])).toEqual([
    ['ann', '1', null, 'proposed'],
    ['ann', '2', null, 'proposed'],
    ['ann', '3', null, 'proposed'],
    ['bob', '1', 'proposed', 'approved'],
    ['bob', '2', 'proposed', 'approved'],
    ['ann', '1', 'approved', 'retired'],
    ['ann', '1', 'retired', 'removed'],
  ]);
  expect(history.at(-1)?.package_sha256).toBe(history[0]?.package_sha256);
  expect(history[1]?.package_sha256).toBe((await registry.resolve('m:2')).sha256);
  expect(checkStates(history, [ann.publicKey, bob.publicKey])).toEqual({ chained: 7, signed: 7 });
  for (const [i, entry] of history.entries()) {
    const changes: Partial<StateEntry>[] = [{ at: 'x' }, { who: 'x' }, { version: 'x' }, { from: 'retired' }, { to: 'proposed' }, { why: 'x' }, { package_sha256: 'x' }, { previous: 'x' }]; // biome-ignore format: one line
    for (const change of changes.filter((c) =>
      Object.entries(c).some(([k, v]) => entry[k as keyof StateEntry] !== v),
    )) {
      expect(() => checkStates(history.with(i, { ...entry, ...change }), [ann.publicKey, bob.publicKey]), `${i} ${JSON.stringify(change)}`).toThrow(/history/); // biome-ignore format: one line
    }
    if (i < history.length - 1)
      expect(() => checkStates(history.toSpliced(i, 1), null)).toThrow(/chain|does not follow/);
  }
});

test('four eyes: not with the key it was added with, not with that of its signature, not without one', async () => {
  const { root, registry } = await proposed([1]);
  const approve = (mover: Mover, version = '1') => codeOf(registry.setState('m', version, 'approved', mover));
  expect(await approve(ANN)).toBe('approval_refused');
  expect(await approve(by('bob'))).toBe('approval_refused');
  // Nobody signed that it was added, but its package is signed.
  const folder = makePackage('m', 2);
  const signer = { key: bob.privateKey, certificates: [] };
  writeFileSync(path.join(folder, 'model.sig'), signModel(await loadPackage(folder), signer));
  await registry.add('m', '2', folder, 'the service');
  expect(await approve(BOB, '2')).toBe('approval_refused');
  expect(await approve(by('bob'), '2')).toBe('approval_refused');
  expect(await approve(ANN, '2')).toMatchObject({ to: 'approved' });
  // Where nobody signed, nobody can be told apart.
  await registry.add('m', '3', makePackage('m', 3), 'me');
  expect(await approve(by('me'), '3')).toMatchObject({ to: 'approved' });
  expect(await codeOf(registry.setState('m', '9', 'approved', BOB))).toBe('model_not_found');
  writeFileSync(path.join(root, 'm/1/background.csv'), 'changed');
  expect(await codeOf(new FolderRegistry([root]).setState('m', '1', 'approved', BOB))).toBe('model_hash_mismatch');
});

test('where approvals are asked for, what is not approved is meant by nothing and loaded by nobody', async () => {
  const { registry, asking } = await proposed([1, 2, 3]);
  const policies: Approvals[] = ['any', [bob.publicKey], [eve.publicKey, bob.publicKey]];
  for (const policy of policies) expect(await codeOf(asking(policy).resolve('m'))).toBe('approval_missing');
  await registry.setState('m', '2', 'approved', BOB);
  await registry.moveAlias('m', 'next', '3', 'ann');
  for (const policy of policies) {
    const strict = asking(policy);
    expect(await refOf(strict.resolve('m'))).toBe('m:2');
    expect(await refOf(strict.resolve('m:2'))).toBe('m:2');
    expect(await codeOf(strict.resolve('m:3'))).toBe('approval_missing');
    expect(await codeOf(strict.resolve('m@next'))).toBe('approval_missing');
    expect(await codeOf(strict.moveAlias('m', 'champion', '1', 'ann'))).toBe('approval_missing');
  }
  // The key of somebody whose approvals do not count.
  expect(await codeOf(asking([eve.publicKey]).resolve('m:2'))).toBe('approval_missing');
  expect(await refOf(registry.resolve('m'))).toBe('m:3');
  await asking([bob.publicKey]).moveAlias('m', 'champion', '2', 'ann');
  expect(await statesIn(registry)).toEqual({ 1: 'proposed', 2: 'champion', 3: 'proposed' });
});

test('an approval that was written by hand, moved, or given to another package does not count', async () => {
  const { root, registry, asking, journal } = await proposed([1, 2]);
  await registry.setState('m', '1', 'approved', BOB);
  const text = readFileSync(journal, 'utf8');
  const codeWith = async (changed: string) => {
    writeFileSync(journal, changed);
    return codeOf(asking([bob.publicKey]).resolve('m').then((m) => m.ref)); // biome-ignore format: one line
  };
  expect(await codeWith(text)).toBe('m:1');
  const [one, two, approval] = text.trimEnd().split('\n') as [string, string, string];
  const entry = JSON.parse(approval) as StateEntry;
  const lines = (...all: string[]) => all.map((l) => `${l}\n`).join('');
  const forged = JSON.stringify({ ...entry, version: '2', package_sha256: JSON.parse(two).package_sha256 });
  expect(await codeWith(lines(one, two, forged))).toBe('approval_missing');
  expect(await codeWith(lines(one, two, approval, forged))).toBe('signature_invalid');
  expect(await codeWith(lines(one, approval))).toBe('signature_invalid');
  expect(await codeWith(lines(two, approval))).toBe('signature_invalid');
  expect(await codeWith(`${text}not json\n`)).toBe('model_invalid');
  expect(await codeWith(lines(one, two))).toBe('approval_missing');
  writeFileSync(journal, text);
  rmSync(path.join(root, 'm/1/package.lock'));
  const yaml = path.join(root, 'm/1/model.yaml');
  writeFileSync(yaml, `${readFileSync(yaml, 'utf8')}# not what was approved\n`);
  expect(await codeOf(asking([bob.publicKey]).resolve('m:1'))).toBe('approval_missing');
});

test('a retired version is meant by nothing; by its number it loads, and that is told', async () => {
  const { root, registry } = await proposed([1, 2, 3]);
  await registry.moveAlias('m', 'next', '2', 'ann');
  expect(await codeOf(registry.setState('m', '3', 'retired', BOB))).toBe('model_in_use');
  expect(await codeOf(registry.setState('m', '2', 'retired', BOB))).toBe('model_in_use');
  expect(await codeOf(registry.setState('m', '2', 'removed', BOB))).toBe('model_in_use');
  await registry.setState('m', '3', 'retired', BOB, true);
  const told: string[] = [];
  const after = new FolderRegistry([root], { onRetired: (ref) => told.push(ref) });
  expect(await refOf(after.resolve('m'))).toBe('m:2');
  expect(told).toEqual([]);
  expect(await refOf(after.resolve('m:3'))).toBe('m:3');
  expect(told).toEqual(['m:3']);
  expect(await codeOf(registry.moveAlias('m', 'champion', '3', 'ann'))).toBe('model_retired');
  expect(await codeOf(registry.setState('m', '3', 'retired', BOB))).toBe('model_retired');
  await registry.setState('m', '2', 'retired', BOB, true);
  expect(await codeOf(after.resolve('m@next'))).toBe('model_retired');
  await registry.setState('m', '1', 'retired', BOB, true);
  expect(await codeOf(after.resolve('m:1').then(() => registry.resolve('m')))).toBe('model_retired');
  // Approving it brings it back.
  await registry.setState('m', '1', 'approved', BOB);
  expect(await refOf(registry.resolve('m'))).toBe('m:1');
});

test('what is removed leaves its entry, and its number is never given again', async () => {
  const { root, registry } = await proposed([1, 2]);
  await registry.setState('m', '1', 'removed', BOB);
  expect(readdirSync(path.join(root, 'm')).sort()).toEqual(['.lock.sqlite', '2', 'states.history.jsonl']);
  expect(await refOf(registry.resolve('m:1'))).toBe('model_not_found: m has no version 1; it was removed (it has 2)');
  expect(await codeOf(registry.add('m', '1', makePackage('m', 1), ANN))).toBe('version_exists');
  await registry.setState('m', '2', 'removed', BOB, true);
  expect(await codeOf(registry.resolve('m'))).toBe('model_not_found');
  expect((await registry.states('m')).map((e) => `${e.version} ${e.to}`)).toContain('2 removed');
  expect(await codeOf(registry.add('m', '2', makePackage('m', 2), ANN))).toBe('version_exists');
  await registry.add('m', '3', makePackage('m', 3), ANN);
  expect(await refOf(registry.resolve('m'))).toBe('m:3');
});

test('a removal that was broken off is one, and goes on', async () => {
  const { root, registry } = await proposed([1, 2]);
  await registry.setState('m', '1', 'removed', BOB);
  cpSync(path.join(root, 'm/2'), path.join(root, 'm/1'), { recursive: true });
  expect(await statesIn(registry)).toEqual({ 1: 'removed', 2: 'proposed' });
  expect(await codeOf(registry.resolve('m:1'))).toBe('model_not_found');
  expect(await registry.setState('m', '1', 'removed', ANN)).toMatchObject({ who: 'bob' });
  expect(existsSync(path.join(root, 'm/1'))).toBe(false);
  expect(await registry.states('m')).toHaveLength(3);
});

test('who may approve does not approve what they added, whatever wrote the entry', async () => {
  const { registry, asking, journal } = await proposed([1], BOB);
  const [before] = await registry.states('m');
  const { at, who, version, package_sha256 = null } = before!;
  const entry: StateEntry = { at, who, version, from: 'proposed', to: 'approved', package_sha256 };
  const textOf = ({ why = 'the board agreed', ...e }: StateEntry) => JSON.stringify(['state', e.at, e.who, e.version, e.from, e.to, e.to === 'approved' ? null : why, e.package_sha256, e.previous]); // biome-ignore format: one line
  const codeWith = async (key: KeyObject) => {
    const lines = [before!, chained(entry, before, textOf, key)].map((e) => `${JSON.stringify(e)}\n`);
    writeFileSync(journal, lines.join(''));
    return codeOf(asking([ann.publicKey, bob.publicKey]).resolve('m').then((m) => m.ref)); // biome-ignore format: one line
  };
  expect(await codeWith(ann.privateKey)).toBe('m:1');
  expect(await codeWith(bob.privateKey)).toBe('approval_missing');
});

test('who adds one version at the same time: one does, and is the one that is written down', async () => {
  const root = scratch();
  const adders = [ANN, BOB, by('eve', eve.privateKey)];
  const added = await Promise.all(
    adders.map((adder) => codeOf(new FolderRegistry([root]).add('m', '1', makePackage('m', 1, adder.who), adder))),
  );
  expect(added.sort()).toEqual(['1', 'version_exists', 'version_exists']);
  const registry = new FolderRegistry([root]);
  const [entry, ...others] = await registry.states('m');
  expect(others).toEqual([]);
  expect(entry?.who).toBe((await registry.resolve('m')).manifest.description);
});

test('a version that a process has loaded is kept, until it lets go or is silent for long', async () => {
  const { root, registry } = await proposed([1, 2]);
  const letGo = holdVersion(await registry.resolve('m:1'), 0);
  onTestFinished(letGo);
  const held = path.join(root, 'm/.in-use');
  await expect.poll(() => existsSync(held) && readdirSync(held).some((f) => f.endsWith('.json'))).toBe(true);
  const [name] = readdirSync(held);
  await expect.poll(() => readFileSync(path.join(held, name!), 'utf8')).toContain(String(process.pid));
  expect(await refOf(registry.setState('m', '1', 'removed', BOB).then(() => ({ ref: 'removed' })))).toMatch(
    new RegExp(`^model_in_use: m:1 is loaded by process ${process.pid} of `),
  );
  expect(await codeOf(registry.setState('m', '1', 'retired', BOB))).toBe('model_in_use');
  // Its process died long ago.
  utimesSync(path.join(held, name!), new Date(0), new Date(0));
  await registry.setState('m', '1', 'retired', BOB);
  await letGo();
  expect(existsSync(held)).toBe(false);
  await registry.setState('m', '1', 'removed', BOB);
  // Where nobody can write, no word is left, and nothing fails.
  const model = await registry.resolve('m:2');
  await holdVersion({ ...model, heldIn: path.join(root, 'm/2/model.yaml/no-folder') }, 0)();
  // A registry that was taken away is not made again.
  const away = holdVersion({ ...model, heldIn: path.join(root, 'gone/.in-use') }, 0);
  const here = holdVersion(model, 0);
  await expect.poll(() => existsSync(held) && readdirSync(held).length > 0).toBe(true);
  await Promise.all([away(), here()]);
  expect(existsSync(path.join(root, 'gone'))).toBe(false);
});

checkTest('workers hold the version they have loaded, and let go of it with their pool', async () => {
  const { registry } = await proposed([1, 2]);
  const pool = await WorkerPool.start({ model: await registry.resolve('m:1'), workers: 1 });
  onTestFinished(() => pool.close());
  const outcome = () => codeOf(registry.setState('m', '1', 'approved', BOB).then(() => registry.setState('m', '1', 'retired', BOB))); // biome-ignore format: one line
  await expect.poll(outcome).toBe('model_in_use');
  await pool.close();
  expect(await outcome()).toMatchObject({ to: 'retired' });
});

checkTest('at the command line: approve, retire, remove, and the policy at the doors', async () => {
  const { root } = await proposed([1, 2]);
  const at = (name: string) => path.join(root, name);
  const pem = (key: KeyObject) => key.export({ type: key.type === 'private' ? 'pkcs8' : 'spki', format: 'pem' });
  writeFileSync(at('ann.pem'), pem(ann.privateKey));
  writeFileSync(at('bob.pem'), pem(bob.privateKey));
  writeFileSync(at('approvers.pem'), `${pem(createPublicKey(eve.privateKey))}${pem(bob.publicKey)}`);
  const model = (...args: string[]) => sluiceHere(['model', ...args, '--registry', root]);
  const same = await model('approve', 'm:1', '--key', at('ann.pem'));
  expect([same.code, same.stderr]).toEqual([1, expect.stringContaining('[approval_refused]')]);
  const approved = await model('approve', 'm:1', '--key', at('bob.pem'), '--reason', 'AUC .92');
  expect([approved.code, approved.stdout, approved.stderr]).toEqual([0, 'm:1: proposed → approved\n', '']);
  const rows = path.join(root, 'm/1/selftest.csv');
  const flags = ['--registry', root, '--require-approval', at('approvers.pem')];
  const score = (ref: string) => sluiceHere(['score', rows, '--model', ref, '-o', at(`${ref}.csv`), ...flags]);
  expect((await score('m:2')).stderr).toContain('[approval_missing]');
  expect((await score('m')).code).toBe(0);
  const env = { SLUICE_REQUIRE_APPROVAL: at('approvers.pem') };
  const moved = await sluiceHere(['model', 'alias', 'm@champion', '2', '--registry', root], { env });
  expect([moved.code, moved.stderr]).toEqual([1, expect.stringContaining('[approval_missing]')]);
  // Whoever is to approve it has to look at it first.
  expect((await sluiceHere(['model', 'show', 'm:2', '--registry', root], { env })).code).toBe(0);
  expect((await model('retire', 'm:2')).stderr).toContain('give a reason');
  expect((await model('retire', 'm:2', '--reason', 'old')).stderr).toContain('[model_in_use]');
  expect((await model('retire', 'm:2', '--force', 'it is wrong')).stdout).toBe('m:2: proposed → retired\n');
  expect((await model('remove', 'm:2', '--reason', 'and gone')).stdout).toBe('m:2: retired → removed\n');
  const told = await model('history', 'm', '--key', at('approvers.pem'));
  expect([told.code, told.stderr]).toEqual([1, expect.stringContaining('is not signed with this key')]);
  const all = await model('history', 'm');
  expect(all.stdout).toContain('version 2 proposed → retired because forced: it is wrong\n');
  expect(all.stderr).toContain('versions: 5 entries, 5 in one chain\n');
});
