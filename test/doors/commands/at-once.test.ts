// Commands that change a file in place, many at once as processes of their own: each finds what those before it wrote.
import { cpSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { expect } from 'vitest';
import { createKey } from '../../../src/doors/commands/keys.ts';
import { readKeys } from '../../../src/doors/http/access/keys-file.ts';
import { FolderRegistry } from '../../../src/model/registry/folder.ts';
import { scratch, sluice, sluiceHere } from '../../support/cli.ts';
import { checkTest, times } from '../../support/tiers.ts';

const names = (prefix: string, count: number): string[] => Array.from({ length: count }, (_, i) => `${prefix}${i}`);

/** Of each kind. */
const CHANGES = times('changes at once', { quick: 2, check: 2, campaigns: 8 });

checkTest('changes of one file of keys at once: none is lost', async () => {
  const file = path.join(scratch(), 'keys.yaml');
  const [made, turned, gone] = [names('made', CHANGES), names('turned', CHANGES), names('gone', CHANGES)];
  for (const name of [...turned, ...gone]) await createKey(name, { file, scopes: 'predict' });
  const before = new Map((await readKeys(file)).map((k) => [k.name, k.sha256]));
  const runs = await Promise.all([
    ...made.map((name) => sluice(['keys', 'create', name, '--file', file])),
    ...turned.map((name) => sluice(['keys', 'rotate', name, '--file', file])),
    ...gone.map((name) => sluice(['keys', 'revoke', name, '--file', file])),
  ]);
  expect(runs.filter((r) => r.code !== 0).map((r) => r.stderr)).toEqual([]);
  const after = await readKeys(file);
  expect(after.map((k) => k.name).sort()).toEqual([...made, ...turned].sort());
  for (const name of turned) {
    const key = after.find((k) => k.name === name)!;
    expect(key.previous?.map((p) => p.sha256)).toEqual([before.get(name)]);
    expect(key.sha256).not.toBe(before.get(name));
  }
});

checkTest('changes of one model of a registry at once: none is lost, and their history is one chain', async () => {
  const folder = scratch();
  cpSync(path.resolve('src/bundled/credit-default/1'), path.join(folder, 'credit-default', '1'), { recursive: true });
  const aliases = names('a', 2 * CHANGES);
  const runs = await Promise.all(
    aliases.map((alias) => sluice(['model', 'alias', `credit-default@${alias}`, '1', '--registry', folder])),
  );
  expect(runs.filter((r) => r.code !== 0).map((r) => r.stderr)).toEqual([]);
  const [entry] = await new FolderRegistry([folder]).list();
  expect(Object.keys(entry!.aliases).sort()).toEqual(aliases.sort());
  const history = readFileSync(path.join(folder, 'credit-default', 'aliases.history.jsonl'), 'utf8')
    .trim()
    .split('\n');
  expect(history.map((line) => JSON.parse(line).alias).sort()).toEqual(aliases);
  const told = await sluiceHere(['model', 'history', 'credit-default', '--registry', folder]);
  expect([told.code, told.stderr]).toEqual([0, expect.not.stringContaining('changed')]);
});
