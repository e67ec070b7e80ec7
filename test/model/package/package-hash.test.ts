// The package hash: every file counts, and anybody can make it with what every machine has.
import { execFileSync } from 'node:child_process';
import { appendFileSync, cpSync, mkdirSync, renameSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { expect, test } from 'vitest';
import { loadPackage } from '../../../src/model/package/load-package.ts';
import { assertCovered, filesOf, packageHash } from '../../../src/model/package/package-hash.ts';
import { PackageCache } from '../../../src/model/registry/cache.ts';
import { scratch } from '../../support/cli.ts';
import { codeOf, makePackage } from '../../support/registries/packages.ts';
import { testNeeding } from '../../support/tools.ts';

/** As docs/proof.md has it. */
const SCRIPT = `
import hashlib, pathlib, sys
root = pathlib.Path(sys.argv[1])
lines = []
for file in root.rglob('*'):
    name = file.relative_to(root)
    if name.as_posix() in ('package.lock', 'model.sig') or any(part.startswith('.') for part in name.parts):
        continue
    if file.is_file():
        digest = hashlib.sha256(file.read_bytes()).hexdigest()
        lines.append(f'{digest} {name.as_posix()}\\n'.encode())
print(hashlib.sha256(b''.join(sorted(lines))).hexdigest())
`;

const hashIn = async (folder: string): Promise<string> => (await loadPackage(folder)).sha256;

testNeeding(['Python 3'], 'a Python script of ten lines gets the same hash, whatever the names', async () => {
  const folder = makePackage('m', 1);
  mkdirSync(path.join(folder, 'notes/old'), { recursive: true });
  for (const name of ['Z.txt', 'a b.txt', 'ä.txt', '\u{1f600}.txt', '\u{ff5e}.txt', 'notes/old/x', 'notes.txt']) {
    writeFileSync(path.join(folder, name), 'the same');
  }
  writeFileSync(path.join(folder, '.hidden'), 'no part of it');
  const said = execFileSync('python3', ['-c', SCRIPT, folder], { encoding: 'utf8' }).trim();
  expect(await hashIn(folder)).toBe(said);
  expect(await hashIn(path.resolve('src/bundled/credit-default/1'))).toBe(
    execFileSync('python3', ['-c', SCRIPT, 'src/bundled/credit-default/1'], { encoding: 'utf8' }).trim(),
  );
});

test('each file counts, its name and its bytes; where the folder lies does not', async () => {
  const folder = makePackage('m', 1);
  const before = await hashIn(folder);
  const copy = path.join(scratch(), 'elsewhere');
  cpSync(folder, copy, { recursive: true });
  expect(await hashIn(copy)).toBe(before);
  for (const { name } of await filesOf(folder)) {
    const changed = path.join(scratch(), 'changed');
    cpSync(folder, changed, { recursive: true });
    appendFileSync(path.join(changed, name), '\n');
    expect(await hashIn(changed), name).not.toBe(before);
  }
  renameSync(path.join(copy, 'background.csv'), path.join(copy, 'background2.csv'));
  expect(await hashIn(copy)).not.toBe(before);
});

test('a file that is served and not covered by the hash is refused', async () => {
  const folder = makePackage('m', 1);
  const model = await loadPackage(folder);
  const { manifest } = model;
  for (const file of [
    '.model.onnx',
    '../model.onnx',
    '/model.onnx',
    'a/.b/model.onnx',
    'package.lock',
    'a/../model.sig',
  ]) {
    const other = { ...model, manifest: { ...manifest, onnx: { ...manifest.onnx, file } } };
    expect(await codeOf((async () => assertCovered(other))()), file).toBe('model_invalid');
  }
  for (const name of ['a\nb', 'a\\b', 'a\rb']) {
    writeFileSync(path.join(folder, name), '');
    expect(await codeOf(loadPackage(folder)), name).toBe('model_invalid');
    rmSync(path.join(folder, name));
  }
});

test('links count as what they lead to', async () => {
  const folder = makePackage('m', 1);
  const aside = scratch();
  writeFileSync(path.join(aside, 'x'), '1');
  mkdirSync(path.join(folder, 'linked'));
  writeFileSync(path.join(folder, 'linked/x'), '1');
  const before = await loadPackage(folder);
  const linked = path.join(scratch(), 'm');
  cpSync(folder, linked, { recursive: true, filter: (name) => !name.endsWith('linked') });
  symlinkSync(aside, path.join(linked, 'linked'));
  expect(await hashIn(linked)).toBe(before.sha256);
  expect(before.sha256).toBe(packageHash(before.files));
});

test('a package that was fetched from elsewhere has the hash of the folder it was added from', async () => {
  const folder = makePackage('m', 1);
  const cache = new PackageCache({ folder: scratch(), maxBytes: 1e9 });
  const fill = async (to: string) => {
    cpSync(folder, to, { recursive: true });
    return filesOf(to);
  };
  const { key, model } = await cache.put(fill, () => {});
  expect(model.folder).not.toBe(folder);
  expect(model.sha256).toBe(await hashIn(folder));
  expect(key).toBe(await hashIn(folder));
});
