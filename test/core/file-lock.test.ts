// A lock between processes: one at a time, whoever is killed lets go, and two in one process exclude each other as well.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { expect, test } from 'vitest';
import { SluiceError } from '../../src/core/errors.ts';
import { takeFileLock, tryFileLock, underFileLock } from '../../src/core/file-lock.ts';
import { scratch } from '../support/cli.ts';

/** Runs a module that has the lock functions, and says when it printed something. */
function inProcess(code: string, folder: string) {
  const from = JSON.stringify(path.resolve('src/core/file-lock.ts'));
  const script = `import { readFileSync, writeFileSync } from 'node:fs';
    import { takeFileLock, underFileLock } from ${from}; const folder = ${JSON.stringify(folder)}; ${code}`;
  return spawn(process.execPath, ['--input-type=module', '-e', script], { stdio: ['ignore', 'pipe', 'inherit'] });
}

test('what many processes read and write under it loses nothing', async () => {
  const folder = scratch();
  writeFileSync(path.join(folder, 'n'), '0');
  const code = `const refused = () => new Error('refused');
    for (let i = 0; i < 25; i++) await underFileLock(folder + '/lock', { waitMs: 3_600_000, refused }, async () => {
      const n = Number(readFileSync(folder + '/n', 'utf8'));
      await new Promise((done) => setImmediate(done));
      writeFileSync(folder + '/n', String(n + 1));
    });`;
  const all = Array.from({ length: 8 }, () => inProcess(code, folder));
  const ends = await Promise.all(all.map(async (child) => (await once(child, 'exit'))[0]));
  expect(ends).toEqual(Array(8).fill(0));
  expect(readFileSync(path.join(folder, 'n'), 'utf8')).toBe('200');
});

test('a process that is killed lets go; until then nobody else has it, and who waits hears so', async () => {
  const folder = scratch();
  const file = path.join(folder, 'lock');
  const code = `await takeFileLock(folder + '/lock', 0); console.log('held'); setInterval(() => {}, 1000);`;
  const child = inProcess(code, folder);
  await once(child.stdout!, 'data');
  expect(await tryFileLock(file)).toBeNull();
  let waited = 0;
  expect(await takeFileLock(file, 30, () => waited++)).toBeNull();
  expect(waited).toBe(1);
  const refused = (cause: unknown) => new SluiceError('usage', String(cause));
  await expect(underFileLock(file, { waitMs: 0, refused }, async () => 1)).rejects.toThrow('null');
  child.kill('SIGKILL');
  const unlock = await takeFileLock(file, 3_600_000);
  expect(unlock).not.toBeNull();
  expect(await tryFileLock(file)).toBeNull();
  unlock!();
  (await tryFileLock(file))!();
});

test('a folder that is not there has no lock', async () => {
  await expect(takeFileLock(path.join(scratch(), 'none', 'lock'), 1000)).rejects.toThrow();
});
