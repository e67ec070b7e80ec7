// References: id, id:version, id@alias; what they mean, and what a hostile one cannot do.
import { cpSync, mkdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { expect, test } from 'vitest';
import { FolderRegistry } from '../../../src/model/registry/folder.ts';
import { parseReference } from '../../../src/model/registry/registry.ts';
import { scratch } from '../../support/cli.ts';
import { copyUnlocked } from '../../support/registries/packages.ts';

const BUNDLED = path.resolve('src/bundled/credit-default/1');

function registryWith(versions: (string | number)[], aliases?: string): FolderRegistry {
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
  return new FolderRegistry([folder]);
}

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
