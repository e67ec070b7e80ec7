// References: id, id:version, id@alias; what they mean, and what a hostile one cannot do.
import { cpSync, mkdirSync, readFileSync, renameSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { expect, test } from 'vitest';
import { FolderRegistry } from '../../../src/model/registry/folder.ts';
import { parseReference } from '../../../src/model/registry/registry.ts';
import { scratch } from '../../support/cli.ts';
import { controlClock } from '../../support/controlled-clock.ts';
import { copyUnlocked } from '../../support/registries/packages.ts';

const BUNDLED = path.resolve('src/bundled/credit-default/1');

/** How long a registry keeps a resolved reference. */
const FRESH_MS = 500;

function registryFolder(versions: (string | number)[], aliases?: string): string {
  const folder = scratch();
  for (const v of versions) {
    const to = path.join(folder, 'm', String(v));
    mkdirSync(to, { recursive: true });
    copyUnlocked(BUNDLED, to);
    const yaml = readFileSync(path.join(to, 'model.yaml'), 'utf8');
    writeFileSync(
      path.join(to, 'model.yaml'),
      yaml.replace('id: credit-default', 'id: m').replace('version: 1', `version: ${v}`),
    );
  }
  if (aliases !== undefined) writeFileSync(path.join(folder, 'm', 'aliases.yaml'), aliases);
  return folder;
}

function namedRegistry(versions: number[], aliases?: string, others: string[] = []) {
  const folder = registryFolder(versions, aliases);
  return { folder, registry: new FolderRegistry([folder, ...others]) };
}

const registryWith = (versions: (string | number)[], aliases?: string): FolderRegistry =>
  new FolderRegistry([registryFolder(versions, aliases)]);

const refOf = async (r: FolderRegistry, ref: string) =>
  r.resolve(ref).then(
    (m) => m.ref,
    (e: { code: string; message: string }) => `${e.code}: ${e.message}`,
  );

test('a bare id is the champion, else the newest version in numeric order', async () => {
  expect(await refOf(registryWith([2, 10, 9]), 'm')).toBe('m:10');
  expect(await refOf(registryWith([2, 10, 9], 'champion: 9\n'), 'm')).toBe('m:9');
});

test('what cannot be read is not taken for what is not there: another version would answer', async () => {
  const r = registryWith([1, 2], 'champion: 1\n');
  expect(await refOf(r, 'm')).toBe('m:1');
  const folder = scratch();
  for (const version of ['1', '2']) mkdirSync(path.join(folder, 'm', version), { recursive: true });
  // Reading it fails with EISDIR, and with ELOOP where the folder of the model is a circle of links.
  mkdirSync(path.join(folder, 'm', 'aliases.yaml'));
  symlinkSync('loop', path.join(folder, 'loop'));
  const unreadable = new FolderRegistry([folder, path.resolve('src/bundled')]);
  for (const reference of ['m', 'm@champion', 'loop']) {
    expect(await refOf(unreadable, reference)).toMatch(/^registry_unavailable: .*(EISDIR|ELOOP)/);
  }
  await expect(unreadable.list()).rejects.toMatchObject({ code: 'registry_unavailable' });
});

test.each(['', '\n', ' \r\n', '\0\0\0'])(
  'aliases %j, as a crash leaves them, do not let the newest version answer',
  async (text) => {
    const r = registryWith([1, 2], text);
    for (const reference of ['m', 'm@champion'])
      expect(await refOf(r, reference)).toMatch(/^model_invalid: .*is empty/);
    expect(await refOf(r, 'm:1')).toMatch(/^model_invalid: .*is empty/);
  },
);

test.each(['{}\n', '# none\n'])('aliases %j: the model has none', async (text) => {
  expect(await refOf(registryWith([1, 2], text), 'm')).toBe('m:2');
});

test('a file of aliases that is lost does not let the newest version answer', async () => {
  const clock = controlClock();
  const { folder, registry } = namedRegistry([1, 2], 'champion: 1\n');
  expect(await refOf(registry, 'm')).toBe('m:1');
  const file = path.join(folder, 'm', 'aliases.yaml');
  rmSync(file);
  // The first registry has read the file. The second finds the history of a move.
  expect(await refOf(new FolderRegistry([folder]), 'm')).toBe('m:2');
  expect(await refOf(new FolderRegistry([folder]), 'm:1')).toBe('m:1');
  await clock.advance(FRESH_MS);
  expect(await refOf(registry, 'm')).toMatch(/^model_invalid: .*does not exist, but it did before/);
  writeFileSync(file, '{}\n');
  await new FolderRegistry([folder]).moveAlias('m', 'champion', '1', 'A');
  rmSync(file);
  for (const reference of ['m', 'm@champion', 'm:2'])
    expect(await refOf(new FolderRegistry([folder]), reference)).toMatch(
      /^model_invalid: .*the history has champion: 1/,
    );
  writeFileSync(file, 'champion: 1\n');
  expect(await refOf(new FolderRegistry([folder]), 'm')).toBe('m:1');
  await new FolderRegistry([folder]).moveAlias('m', 'champion', null, 'A');
  rmSync(file);
  expect(await refOf(new FolderRegistry([folder]), 'm')).toBe('m:2');
});

test.each(['missing', 'empty', 'without the model'])(
  'a registry folder that is %s for a moment does not let the next folder answer',
  async (state) => {
    const clock = controlClock();
    const { folder, registry } = namedRegistry([1, 2], 'champion: 1\n', [registryFolder([3])]);
    expect(await refOf(registry, 'm')).toBe('m:1');
    const away = `${folder}.away`;
    renameSync(folder, away);
    if (state !== 'missing') mkdirSync(folder);
    if (state === 'without the model') mkdirSync(path.join(folder, 'other'));
    for (const reference of ['m', 'm@champion', 'm:1', 'm:3']) {
      await clock.advance(FRESH_MS);
      expect(await refOf(registry, reference)).toMatch(/^registry_unavailable: .*contained models before/);
    }
    if (state !== 'without the model')
      await expect(registry.list()).rejects.toMatchObject({ code: 'registry_unavailable' });
    rmSync(folder, { recursive: true, force: true });
    renameSync(away, folder);
    expect(await refOf(registry, 'm')).toBe('m:1');
  },
);

test('the next folder answers after the last version was removed on purpose', async () => {
  const { registry } = namedRegistry([1], undefined, [registryFolder([3])]);
  expect(await refOf(registry, 'm')).toBe('m:1');
  await registry.setState('m', '1', 'removed', { who: 'A' }, true);
  expect(await refOf(registry, 'm')).toBe('m:3');
});

test('versions and aliases by name', async () => {
  const r = registryWith([1, 2], 'champion: 1\nchallenger: 2\ngone: 7\n');
  expect(await refOf(r, 'm:2')).toBe('m:2');
  expect(await refOf(r, 'm@challenger')).toBe('m:2');
  expect(await refOf(r, 'm:3')).toBe('model_not_found: m has no version 3 (it has 1, 2)');
  expect(await refOf(r, 'm@challengr')).toBe('model_not_found: m has no alias challengr (did you mean challenger?)');
  expect(await refOf(r, 'm@gone')).toContain('points to version 7, which does not exist');
  expect(await refOf(r, 'm@constructor')).toContain('has no alias constructor');
  expect(await refOf(r, 'n')).toBe('model_not_found: no model n (did you mean m?)');
});

test.each(['', '../m', 'm:../1', 'm/1', 'm:1:2', 'm@a@b', '.', 'M', 'm:', 'm@', 'm\0', `${'a'.repeat(101)}`])(
  '%j is no reference',
  (text) => {
    expect(() => parseReference(text)).toThrowError(expect.objectContaining({ code: 'model_not_found' }));
  },
);

test('a folder whose package says it is another is refused', async () => {
  const r = registryWith([1]);
  const folder = scratch();
  cpSync(BUNDLED, path.join(folder, 'other', '1'), { recursive: true });
  expect(await refOf(new FolderRegistry([folder]), 'other')).toMatch(/^model_invalid: .*credit-default:1/);
  expect(await refOf(r, 'm:1')).toBe('m:1');
});
