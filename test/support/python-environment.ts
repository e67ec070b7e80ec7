// A Python environment with the packages a test trains models with: made once, named after what is in it.
import { execFile } from 'node:child_process';
import { createHash } from 'node:crypto';
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { promisify } from 'node:util';
import { missingTools } from './tools.ts';

const run = promisify(execFile);

/** The interpreter, or what is missing. The first time it takes minutes and a network. */
export async function pythonWith(requirements: string): Promise<{ python: string } | { missing: string }> {
  const hash = createHash('sha256').update(readFileSync(requirements)).digest('hex').slice(0, 12);
  const folder = path.resolve('.cache/python', hash);
  const python = path.join(folder, 'bin', 'python');
  const ready = path.join(folder, '.ready');
  if (existsSync(ready)) return { python };
  const missing = missingTools('Python 3 with venv');
  if (missing !== null) return { missing };
  mkdirSync(folder, { recursive: true });
  try {
    await run('python3', ['-m', 'venv', '--clear', folder]);
    await run(python, ['-m', 'pip', 'install', '-q', '-r', requirements], { maxBuffer: 1 << 26 });
  } catch {
    return { missing: `a network, to install ${path.relative('.', requirements)} with pip once` };
  }
  writeFileSync(ready, '');
  return { python };
}
