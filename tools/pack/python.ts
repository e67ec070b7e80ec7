// `npm run pack:python`: the wheel of clients/python, the same for every platform.
//
//   npm run pack:python -- [--python python3] [--into FOLDER]
import { execFileSync, spawnSync } from 'node:child_process';
import { cpSync, mkdirSync, mkdtempSync, readdirSync, rmSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { parseArgs } from 'node:util';

const ROOT = path.resolve(import.meta.dirname, '..', '..');
const BUILT_FROM = ['pyproject.toml', 'README.md', 'src'];

/**
 * Builds the wheel from a copy of `root`/clients/python, with the hatchling of `python` if it has one; otherwise pip
 * fetches it.
 * @returns the wheel. @throws Error of pip, which prints the reason
 */
export function packWheel(root: string, python: string, into: string): string {
  const work = mkdtempSync(path.join(tmpdir(), 'sluice-wheel-'));
  try {
    const sources = path.join(work, 'sources');
    mkdirSync(sources);
    for (const name of BUILT_FROM)
      cpSync(path.join(root, 'clients', 'python', name), path.join(sources, name), {
        recursive: true,
        filter: (file) => path.basename(file) !== '__pycache__',
      });
    const own = spawnSync(python, ['-c', 'import hatchling'], { stdio: 'ignore' }).status === 0;
    const isolation = own ? ['--no-build-isolation'] : [];
    const args = ['-m', 'pip', 'wheel', '-q', '--no-deps', ...isolation, '--wheel-dir', work, sources];
    execFileSync(python, args, { stdio: ['ignore', 'ignore', 'inherit'] });
    const wheel = readdirSync(work).find((file) => file.endsWith('.whl'))!;
    mkdirSync(into, { recursive: true });
    cpSync(path.join(work, wheel), path.join(into, wheel));
    return path.join(into, wheel);
  } finally {
    rmSync(work, { recursive: true, force: true });
  }
}

if (import.meta.main) {
  const { values } = parseArgs({
    options: { python: { type: 'string', default: 'python3' }, into: { type: 'string', default: '.' } },
  });
  const wheel = packWheel(ROOT, values.python, values.into);
  process.stdout.write(`${wheel}, ${(statSync(wheel).size / 1e3).toFixed(0)} kB\n`);
}
