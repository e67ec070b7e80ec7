// A Python environment with the packages that a test needs: made once, named after what is in it.
import { execFile } from 'node:child_process';
import { createHash } from 'node:crypto';
import { existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { promisify } from 'node:util';
import { test, vi } from 'vitest';
import { IN_CHECK, SKIPPED, TIER } from './tiers.ts';
import { missingTools } from './tools.ts';

const run = promisify(execFile);

const HOME = path.resolve('.cache/python');
/** Installs packages for a tenth of the CPU seconds of pip, because it shares files between environments and compiles none. */
const UV = 'uv==0.13.9';
/** Settings of pip that uv has as environment variables. */
const SETTINGS: Record<string, string> = {
  'index-url': 'UV_DEFAULT_INDEX',
  'extra-index-url': 'UV_INDEX',
  'find-links': 'UV_FIND_LINKS',
};
/** Longest time that an installation takes on a busy machine. */
const INSTALL_MS = 15 * 60_000;

/** The interpreter, or what is missing. The first time it takes a network; test files wait for each other. */
export async function pythonWith(requirements: string): Promise<{ python: string } | { missing: string }> {
  const hash = createHash('sha256').update(readFileSync(requirements)).digest('hex').slice(0, 12);
  const missing = `a network, to install ${path.relative('.', requirements)} with pip once`;
  return madeOnce(hash, missing, async (folder, python) => {
    const uv = await madeOnce(UV, missing, (home) => makeUv(home));
    if ('python' in uv && (await uvInstalls(path.dirname(uv.python), folder, requirements))) return;
    await makeVenv(folder);
    await run(python, ['-m', 'pip', 'install', '-q', '--no-compile', '-r', requirements], { maxBuffer: 1 << 26 });
  });
}

const makeVenv = (folder: string): Promise<unknown> => run('python3', ['-m', 'venv', '--clear', folder]);

async function makeUv(folder: string): Promise<void> {
  await makeVenv(folder);
  const pip = path.join(folder, 'bin', 'pip');
  await run(pip, ['install', '-q', '--no-compile', UV]);
  const { stdout } = await run(pip, ['config', 'list']);
  const found = [...stdout.matchAll(/^[^.\n]+\.([a-z-]+)='(.*)'$/gm)].flatMap(([, key, value]) =>
    key! in SETTINGS ? [[SETTINGS[key!]!, value!.replaceAll('\\n', ' ')]] : [],
  );
  writeFileSync(path.join(folder, 'bin', 'environment.json'), JSON.stringify(Object.fromEntries(found)));
}

/** False: uv does not work here, as behind a proxy that only pip knows. */
async function uvInstalls(bin: string, folder: string, requirements: string): Promise<boolean> {
  const uv = path.join(bin, 'uv');
  const settings = JSON.parse(readFileSync(path.join(bin, 'environment.json'), 'utf8')) as Record<string, string>;
  const env = { ...process.env, ...settings, UV_CACHE_DIR: path.join(HOME, 'uv-cache') };
  try {
    await run(uv, ['venv', '-q', '--seed', '--clear', '--python', 'python3', folder], { env });
    await run(uv, ['pip', 'install', '-q', '--python', path.join(folder, 'bin', 'python'), '-r', requirements], {
      env,
    });
    return true;
  } catch {
    return false;
  }
}

/** Makes an environment unless it is there; `make` gets its folder and its interpreter. */
async function madeOnce(
  name: string,
  failure: string,
  make: (folder: string, python: string) => Promise<void>,
): Promise<{ python: string } | { missing: string }> {
  const folder = path.join(HOME, name);
  const python = path.join(folder, 'bin', 'python');
  const ready = path.join(folder, '.ready');
  if (existsSync(ready)) return { python };
  const missing = missingTools('Python 3 with venv');
  if (missing !== null) return { missing };
  mkdirSync(HOME, { recursive: true });
  const lock = `${folder}.lock`;
  await vi.waitUntil(() => takeLock(lock), { timeout: INSTALL_MS, interval: 500 });
  try {
    if (existsSync(ready)) return { python };
    await make(folder, python);
    writeFileSync(ready, '');
  } catch {
    return { missing: failure };
  } finally {
    rmSync(lock, { force: true });
  }
  return { python };
}

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
