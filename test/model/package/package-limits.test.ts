// The files of a package are bounded by their sizes before one of them is read into memory.
import { appendFileSync, mkdirSync, readFileSync, rmSync, symlinkSync, truncateSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { expect, test } from 'vitest';
import { loadPackage } from '../../../src/model/package/load-package.ts';
import type { Manifest } from '../../../src/model/package/manifest.ts';
import { readPackageFile } from '../../../src/model/package/model-package.ts';
import { assertWithinLimits } from '../../../src/model/package/package-hash.ts';
import { scratch } from '../../support/cli.ts';
import { copyUnlocked } from '../../support/registries/packages.ts';
import { CREDIT_DEFAULT } from '../../support/score.ts';

function copy(): { folder: string; file: (name: string) => string } {
  const folder = path.join(scratch(), 'p');
  copyUnlocked(CREDIT_DEFAULT, folder);
  return { folder, file: (name) => path.join(folder, name) };
}

const refusal = (folder: string): Promise<string> =>
  loadPackage(folder).then(
    () => 'loaded',
    (error) => `${error.code}: ${error.message}`,
  );

test.each(['model.yaml', 'package.lock'])('%s may have 1 MiB', async (name) => {
  const { folder, file } = copy();
  writeFileSync(file(name), '', { flag: 'a' });
  truncateSync(file(name), 2 ** 20 + 1);
  expect(await refusal(folder)).toBe(`model_invalid: ${file(name)} has 1,048,577 bytes; at most 1,048,576 are read`);
});

test('a package that is refused and removed at once leaves no hash of another file under way', async () => {
  for (let i = 0; i < 10; i++) {
    const { folder, file } = copy();
    appendFileSync(file('model.onnx'), Buffer.alloc(2 ** 20));
    writeFileSync(file('package.lock'), '');
    truncateSync(file('package.lock'), 2 ** 20 + 1);
    const refused = refusal(folder);
    await refused;
    rmSync(folder, { recursive: true });
    expect(await refused).toMatch(/^model_invalid: /);
  }
});

test('tables, covers, categories and the model have limits each', () => {
  const manifest = {
    onnx: { file: 'm.onnx' },
    explain: { background: 'b.csv', covers: 'c.json' },
    self_test: { input: 's.csv', expected: 'e.csv' },
    columns: [
      { name: 'a', codes_file: 'k.csv' },
      { name: 'b', values_file: 'v.csv' },
    ],
  } as unknown as Manifest;
  const MIB = 2 ** 20;
  const most = { 'm.onnx': 2048 * MIB - 1, 'c.json': 256 * MIB };
  for (const name of ['m.onnx', 'b.csv', 'c.json', 's.csv', 'e.csv', 'k.csv', 'v.csv']) {
    const bytes = most[name as keyof typeof most] ?? 64 * MIB;
    const check = (size: number) => () => assertWithinLimits(manifest, [{ name, bytes: size, sha256: '' }]);
    expect(check(bytes)).not.toThrow();
    expect(check(bytes + 1)).toThrow(expect.objectContaining({ code: 'model_invalid' }));
  }
});

test('a self-test that is too large is refused by the folder, and before it is read', async () => {
  const { folder, file } = copy();
  truncateSync(file('selftest.csv'), 65 * 2 ** 20);
  expect(await refusal(folder)).toMatch(/^model_invalid: selftest\.csv has 68,157,440 bytes/);
});

test('what is no regular file, and too many files, are refused', async () => {
  const device = copy();
  symlinkSync('/dev/null', device.file('more.csv'));
  expect(await refusal(device.folder)).toBe(`model_invalid: ${device.file('more.csv')} is not a regular file`);
  const many = copy();
  mkdirSync(many.file('more'));
  for (let i = 0; i < 1000; i++) writeFileSync(many.file(`more/${i}`), '');
  expect(await refusal(many.folder)).toMatch(/has more than 1,000 files$/);
});

test('a file that has another size than when the package was loaded is not read', async () => {
  const { folder, file } = copy();
  const model = await loadPackage(folder);
  // Sparse: reading it would fail.
  truncateSync(file('selftest.csv'), 2 ** 40);
  await expect(readPackageFile(model, 'selftest.csv')).rejects.toMatchObject({ code: 'model_hash_mismatch' });
});

test('a long model.yaml is read beside the thread that asked, with the same result and the same faults', async () => {
  const { folder, file } = copy();
  const short = await loadPackage(folder);
  appendFileSync(file('model.yaml'), `# ${'x'.repeat(70_000)}\n${'#\n'.repeat(100_000)}`);
  expect((await loadPackage(folder)).manifest).toEqual(short.manifest);
  writeFileSync(file('model.yaml'), readFileSync(file('model.yaml'), 'utf8').replace('task: binary', 'task: binry'));
  const before = process.threadCpuUsage();
  expect(await refusal(folder)).toMatch(
    /model\.yaml:\d+:\d+ task must be one of binary, multiclass, regression, score$/,
  );
  const { user, system } = process.threadCpuUsage(before);
  // Explaining it loads the schema library and reads the text twice.
  expect((user + system) / 1e6).toBeLessThan(0.3);
});
