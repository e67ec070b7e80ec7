// A Python environment with the packages a test trains models with: made once, named after what is in it.
import { execFile } from 'node:child_process';
import { createHash } from 'node:crypto';
import { existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { promisify } from 'node:util';
import { test, vi } from 'vitest';
import { IN_CHECK, SKIPPED, TIER } from './tiers.ts';
import { missingTools } from './tools.ts';

const run = promisify(execFile);

/** The interpreter, or what is missing. The first time it takes minutes and a network; test files wait for each other. */
export async function pythonWith(requirements: string): Promise<{ python: string } | { missing: string }> {
  const hash = createHash('sha256').update(readFileSync(requirements)).digest('hex').slice(0, 12);
  const folder = path.resolve('.cache/python', hash);
  const python = path.join(folder, 'bin', 'python');
  const ready = path.join(folder, '.ready');
  if (existsSync(ready)) return { python };
  const missing = missingTools('Python 3 with venv');
  if (missing !== null) return { missing };
  mkdirSync(path.dirname(folder), { recursive: true });
  const lock = `${folder}.lock`;
  await vi.waitUntil(() => takeLock(lock), { timeout: INSTALL_MS, interval: 500 });
  try {
    if (existsSync(ready)) return { python };
    mkdirSync(folder, { recursive: true });
    await run('python3', ['-m', 'venv', '--clear', folder]);
    await run(python, ['-m', 'pip', 'install', '-q', '-r', requirements], { maxBuffer: 1 << 26 });
    writeFileSync(ready, '');
  } catch {
    return { missing: `a network, to install ${path.relative('.', requirements)} with pip once` };
  } finally {
    rmSync(lock, { force: true });
  }
  return { python };
}

/** Longest time that an installation takes on a busy machine. */
const INSTALL_MS = 15 * 60_000;

/** Creates the lock with the number of this process. The lock of a process that has ended is taken over. */
function takeLock(lock: string): boolean {
  try {
    writeFileSync(lock, String(process.pid), { flag: 'wx' });
    return true;
  } catch {
    const owner = Number(existsSync(lock) ? readFileSync(lock, 'utf8') : '0');
    if (owner > 0 && !isRunning(owner)) rmSync(lock, { force: true });
    return false;
  }
}

function isRunning(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'EPERM';
  }
}

/** A test of `npm run check` with the packages of a requirements file; skipped with the reason if they are missing. */
export async function pythonTest(
  requirements: string,
  name: string,
  body: (python: string) => Promise<void>,
): Promise<void> {
  if (TIER === 'quick') {
    test.skip(`${name}${SKIPPED}${IN_CHECK}`);
    return;
  }
  const environment = await pythonWith(requirements);
  if ('missing' in environment) test.skip(`${name}${SKIPPED}needs ${environment.missing}`);
  else test(name, () => body(environment.python));
}
