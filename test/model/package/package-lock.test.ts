// package.lock: what is in a package is what was registered, in a form that sha256sum checks, and nothing else is loaded.
import { spawnSync } from 'node:child_process';
import { copyFileSync, readdirSync, readFileSync, renameSync, rmSync, statSync, utimesSync, writeFileSync } from 'node:fs'; // biome-ignore format: one line
import path from 'node:path';
import { expect, test } from 'vitest';
import { readBackground } from '../../../src/engine/explaining.ts';
import { loadPackage } from '../../../src/model/package/load-package.ts';
import { type ModelPackage, readModelBytes, readPackageFile } from '../../../src/model/package/model-package.ts';
import { LOCK } from '../../../src/model/package/package-hash.ts';
import { lockText, sealPackage } from '../../../src/model/package/package-lock.ts';
import { FolderRegistry } from '../../../src/model/registry/folder.ts';
import { tryPackage } from '../../../src/onboarding/trial.ts';
import { scratch } from '../../support/cli.ts';
import { codeOf, copyUnlocked, makePackage } from '../../support/registries/packages.ts';
import { testNeeding } from '../../support/tools.ts';

async function sealed(): Promise<string> {
  const folder = makePackage('m', 1);
  await sealPackage(folder);
  return folder;
}

const messageOf = (work: Promise<unknown>): Promise<string> =>
  work.then(
    () => 'loaded',
    (e: { code: string; message: string }) => `${e.code}: ${e.message}`,
  );

test.each(['src/bundled/credit-default/1', 'test/fixtures/packages/credit-columns/1'])(
  'the lock of %s is right, whoever wrote it',
  async (folder) => {
    const { files, locked } = await loadPackage(path.resolve(folder));
    expect(locked).toBe(true);
    expect(readFileSync(path.join(folder, LOCK), 'utf8')).toBe(lockText(files));
  },
);

testNeeding(['sha256sum'], 'sha256sum -c --strict reads it, and finds what was changed', async () => {
  const folder = await sealed();
  const check = () => spawnSync('sha256sum', ['-c', '--strict', '--quiet', LOCK], { cwd: folder, encoding: 'utf8' });
  expect(check()).toMatchObject({ status: 0, stdout: '', stderr: '' });
  writeFileSync(path.join(folder, 'selftest.csv'), 'x');
  expect(check()).toMatchObject({ status: 1, stdout: 'selftest.csv: FAILED\n' });
});

test('every file that is changed, gone, added or exchanged is named', async () => {
  const folder = await sealed();
  const at = (name: string) => path.join(folder, name);
  const cases: [string, string, () => void][] = [
    ['background.csv was changed', 'background.csv', () => writeFileSync(at('background.csv'), 'x')],
    ['selftest.csv was removed', 'selftest.csv', () => rmSync(at('selftest.csv'))],
    ['notes.txt was added', 'notes.txt', () => writeFileSync(at('notes.txt'), 'x')],
    ['package.lock is damaged', LOCK, () => writeFileSync(at(LOCK), 'x')],
    ['package.lock is damaged', LOCK, () => writeFileSync(at(LOCK), readFileSync(at(LOCK), 'utf8').toUpperCase())],
    [
      'package.lock is damaged',
      LOCK,
      () =>
        writeFileSync(at(LOCK), readFileSync(at(LOCK), 'utf8').split('\n').reverse().join('\n').slice(1).concat('\n')),
    ],
    ['model.yaml was changed', 'model.yaml', () => writeFileSync(at('model.yaml'), '{')],
  ];
  for (const [says, name, damage] of cases) {
    const kept = readdirSync(folder).includes(name) ? readFileSync(at(name)) : null;
    damage();
    const said = await messageOf(loadPackage(folder));
    expect(said).toContain('model_hash_mismatch: ');
    expect(said).toContain(path.join(folder, says));
    if (kept) writeFileSync(at(name), kept);
    else rmSync(at(name));
    expect(await messageOf(loadPackage(folder))).toBe('loaded');
  }
  renameSync(at('selftest.csv'), at('aside'));
  copyFileSync(at('background.csv'), at('selftest.csv'));
  renameSync(at('aside'), at('background.csv'));
  expect(await messageOf(loadPackage(folder))).toMatch(/background\.csv was changed.*selftest\.csv was changed/);
});

test('what is read is what was checked, also when a file changes after the package was loaded', async () => {
  for (const name of ['model.onnx', 'background.csv', 'selftest.csv', 'selftest-expected.csv']) {
    const folder = await sealed();
    const model = await loadPackage(folder);
    const readers: Record<string, () => Promise<unknown>> = {
      'model.onnx': () => readModelBytes(model),
      'background.csv': () => readBackground(model),
      'selftest.csv': () => tryPackage(model),
      'selftest-expected.csv': () => tryPackage(model),
    };
    const bytes = readFileSync(path.join(folder, name));
    bytes[bytes.length >> 1]! ^= 1;
    writeFileSync(path.join(folder, name), bytes);
    expect(await messageOf(readers[name]!())).toMatch(`model_hash_mismatch: m:1: ${name} was changed after`);
  }
});

test('a file that was put there after the package was loaded is not read', async () => {
  const folder = makePackage('m', 1);
  const model: ModelPackage = await loadPackage(folder);
  writeFileSync(path.join(folder, 'covers.json'), '{}');
  expect(await codeOf(readPackageFile(model, 'covers.json'))).toBe('model_hash_mismatch');
  for (const name of ['../x', '/etc/hostname', 'gone.csv']) {
    expect(await codeOf(readPackageFile(model, name)), name).toBe('model_invalid');
  }
});

test('a folder registry writes the lock of what is added, keeps the one that is there, and refuses a wrong one', async () => {
  const registry = new FolderRegistry([scratch()]);
  await registry.add('m', '1', makePackage('m', 1));
  const model = await registry.resolve('m:1');
  expect(model.locked).toBe(true);
  const second = makePackage('m', 2);
  await sealPackage(second);
  await registry.add('m', '2', second);
  expect((await registry.resolve('m:2')).locked).toBe(true);
  const third = makePackage('m', 3);
  await sealPackage(third);
  writeFileSync(path.join(third, 'selftest.csv'), 'x');
  expect(await codeOf(registry.add('m', '3', third))).toBe('model_hash_mismatch');
  expect((await registry.list())[0]!.versions).toEqual(['1', '2']);
});

test('a folder registry sees a change of any file, though its size and time are as they were', async () => {
  const root = scratch();
  copyUnlocked(makePackage('m', 1), path.join(root, 'm', '1'));
  const registry = new FolderRegistry([root]);
  const before = await registry.resolve('m');
  expect(before.locked).toBe(false);
  const file = path.join(root, 'm/1/background.csv');
  const { mtime, atime } = statSync(file);
  const bytes = readFileSync(file);
  bytes[bytes.length - 2]! ^= 1;
  writeFileSync(file, bytes);
  utimesSync(file, atime, mtime);
  await expect.poll(async () => (await registry.resolve('m')).sha256).not.toBe(before.sha256);
});

test('a package is sealed once, and not while it is damaged', async () => {
  const folder = makePackage('m', 1);
  expect(await sealPackage(folder)).toBe(true);
  expect(await sealPackage(folder)).toBe(false);
  writeFileSync(path.join(folder, 'model.yaml'), 'x');
  expect(await codeOf(sealPackage(folder))).toBe('model_hash_mismatch');
});
