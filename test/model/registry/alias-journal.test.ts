// The journal of aliases: whatever is changed, taken out or put in afterwards is seen.
import { spawnSync } from 'node:child_process';
import { createPublicKey, generateKeyPairSync } from 'node:crypto';
import { readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { expect, test } from 'vitest';
import { checkJournal } from '../../../src/model/registry/aliases.ts';
import { FolderRegistry } from '../../../src/model/registry/folder.ts';
import type { Mover } from '../../../src/model/registry/journal.ts';
import type { AliasMove } from '../../../src/model/registry/registry.ts';
import { MAIN, scratch, sluiceHere } from '../../support/cli.ts';
import { makePackage } from '../../support/registries/packages.ts';
import { checkTest } from '../../support/tiers.ts';

const { privateKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' });
const publicKey = createPublicKey(privateKey);
const ann: Mover = { who: 'ann', why: 'less default', key: privateKey };

/** Two versions, three moves, one of them by hand. */
async function moved(by: Mover | string = ann): Promise<{ root: string; registry: FolderRegistry; file: string }> {
  const root = scratch();
  const registry = new FolderRegistry([root]);
  for (const version of [1, 2]) await registry.add('m', String(version), makePackage('m', version));
  await registry.moveAlias('m', 'champion', '1', by);
  writeFileSync(path.join(root, 'm/aliases.yaml'), 'champion: 2\n');
  await registry.moveAlias('m', 'champion', '1', by);
  await registry.moveAlias('m', 'champion', null, by);
  return { root, registry, file: path.join(root, 'm/aliases.history.jsonl') };
}

const contentOf = (file: string): string => (statSync(file).isFile() ? readFileSync(file, 'latin1') : '');

const checked = (moves: readonly AliasMove[], key = publicKey): unknown => {
  try {
    return checkJournal(moves, [key]);
  } catch (e) {
    return `${(e as { code: string }).code}: ${(e as Error).message}`;
  }
};

test('who, when, from, to, why and the package, in one signed chain', async () => {
  const { registry } = await moved();
  const moves = await registry.history('m');
  expect(moves.map(({ who, from, to, why }) => [who, from, to, why])).toEqual([
    ['ann', null, '1', 'less default'],
    ['edited by hand', '1', '2', undefined],
    ['ann', '2', '1', 'less default'],
    ['ann', '1', null, 'less default'],
  ]);
  expect(moves[0]).toMatchObject({ previous: null, package_sha256: (await registry.resolve('m:1')).sha256 });
  expect(checked(moves)).toEqual({ chained: 4, signed: 3 });
  expect(checked(moves, generateKeyPairSync('ed25519').publicKey)).toMatch(/^signature_invalid: entry 1 of 4/);
});

test('a change of any field of any entry, one that is missing, doubled or exchanged: all are seen', async () => {
  const { registry } = await moved();
  const moves = await registry.history('m');
  const last = moves.length - 1;
  for (const [i, move] of moves.entries()) {
    for (const field of ['at', 'who', 'alias', 'from', 'to', 'why', 'package_sha256', 'previous'] as const) {
      // The last entry has none behind it, and what happened by hand is signed by nobody.
      const changed = moves.with(i, { ...move, [field]: 'x' });
      expect(checked(changed), `${field} of ${i + 1}`).toMatch(/^signature_invalid: /);
    }
    const { signature: _, ...unsigned } = move;
    if (move.signature)
      expect(checked(moves.with(i, unsigned)), `signature of ${i + 1}`).toMatch(/^signature_invalid: /);
    const { previous: _p, ...loose } = move;
    // Of the first, absent and null say the same: there was none before.
    if (i > 0) expect(checked(moves.with(i, loose)), `place of ${i + 1}`).toMatch(/^signature_invalid: /);
    if (i < last) expect(checked(moves.toSpliced(i, 1)), `without ${i + 1}`).toMatch(/^signature_invalid: /);
    expect(checked(moves.toSpliced(i, 0, move)), `${i + 1} twice`).toMatch(/^signature_invalid: /);
  }
  expect(checked(moves.toReversed())).toMatch(/^signature_invalid: /);
});

test('entries of older releases stand before the chain, and are held by it', async () => {
  const { registry, file } = await moved('ann');
  const old = (await registry.history('m')).map(({ at, who, alias, from, to }) => ({ at, who, alias, from, to }));
  writeFileSync(file, old.map((m) => `${JSON.stringify(m)}\n`).join(''));
  await registry.moveAlias('m', 'champion', '2', 'bob');
  expect(checkJournal(await registry.history('m'), null)).toEqual({ chained: 1, signed: 0 });
  writeFileSync(file, readFileSync(file, 'utf8').replace('"ann"', '"eve"'));
  const seen = await registry.history('m');
  expect(checked(seen.with(3, { ...seen[3]!, who: 'eve' }))).toMatch(/^signature_invalid: entry 5 of 5/);
});

test.each(['at its end', 'and continued by a newer release'])(
  'a line that was cut off is no entry: %s',
  async (where) => {
    const { registry, file } = await moved();
    const before = await registry.history('m');
    writeFileSync(file, `${readFileSync(file, 'utf8')}{"at":"2026-01-01T00:00:00.000Z","who":"a`);
    expect(await registry.history('m')).toEqual(before);
    if (where === 'at its end') return;
    const move = await registry.moveAlias('m', 'champion', '2', ann);
    expect(await registry.history('m')).toEqual([...before, move]);
    expect(checked([...before, move])).toEqual({ chained: 5, signed: 4 });
  },
);

checkTest('on a full disk an alias stays where it is, and its history stays whole', async () => {
  const { root, registry } = await moved();
  await registry.moveAlias('m', 'champion', '1', { ...ann, why: 'w'.repeat(10_000) });
  const seen = () => readdirSync(path.join(root, 'm')).map((name) => [name, contentOf(path.join(root, 'm', name))]);
  const before = seen();
  // A file that is larger than 8 KiB cannot be written, so aliases.yaml can, and its history cannot.
  const script = 'trap "" XFSZ; ulimit -f 8; exec "$@"';
  const alias = ['model', 'alias', 'm@champion', '2', '--registry', root];
  const run = spawnSync('bash', ['-c', script, 'bash', process.execPath, MAIN, ...alias], { encoding: 'utf8' });
  expect([run.status, run.stderr]).toEqual([1, expect.stringMatching(/EFBIG.*\[registry_unavailable\]/)]);
  expect(seen()).toEqual(before);
  await registry.moveAlias('m', 'champion', '2', ann);
  expect(checked(await registry.history('m'))).toEqual({ chained: 6, signed: 5 });
});

checkTest('at the command line: a reason, a key, and a history that says whether it is whole', async () => {
  const { root, file } = await moved('ann');
  const at = (name: string) => path.join(root, name);
  writeFileSync(at('k.pem'), privateKey.export({ type: 'pkcs8', format: 'pem' }));
  writeFileSync(file, '');
  const flags = ['--registry', root];
  const said = ['--reason', 'the board agreed', '--who', 'ann', '--sign-key', at('k.pem')];
  expect((await sluiceHere(['model', 'alias', 'm@champion', '2', ...said, ...flags])).code).toBe(0);
  const told = await sluiceHere(['model', 'history', 'm', ...flags]);
  expect([told.code, told.stdout, told.stderr]).toEqual([
    0,
    expect.stringMatching(/ ann: champion \(none\) → 2 because the board agreed\n$/),
    expect.stringContaining('1 entry, 1 in one chain'),
  ]);
  writeFileSync(at('k.pub.pem'), publicKey.export({ type: 'spki', format: 'pem' }));
  const key = ['--key', at('k.pub.pem'), ...flags];
  expect((await sluiceHere(['model', 'history', 'm', ...key])).stderr).toContain('1 signed with this key');
  writeFileSync(file, readFileSync(file, 'utf8').replace('board', 'cat'));
  const broken = await sluiceHere(['model', 'history', 'm', ...key]);
  expect([broken.code, broken.stderr]).toEqual([1, expect.stringContaining('[signature_invalid]')]);
});
