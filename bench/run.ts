// Runs a command as a whole process and says what it took: wall, CPU and peak memory, its children included.
import { spawn, spawnSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';

export interface Usage {
  seconds: number;
  userSeconds: number;
  systemSeconds: number;
  peakBytes: number;
}

export interface Command {
  args: readonly string[];
  cwd?: string;
  env?: Record<string, string>;
}

/** Libraries of linear algebra wait for each other by spinning, which would count as CPU time. */
export const ONE_THREAD = { OMP_NUM_THREADS: '1', OPENBLAS_NUM_THREADS: '1', MKL_NUM_THREADS: '1' };

export const say = (text: string): void => {
  process.stderr.write(`${text}\n`);
};

/** Loud on purpose: what is not measured must not look measured. */
export const warn = (text: string): void => say(`\n!!! ${text}\n`);

const python = spawnSync('python3', ['-c', 'import os; os.wait4']).status === 0;

/** Whether memory and CPU of children count: only with Python's wait4; Node cannot ask for a child's use. */
export const metersChildren = python;

/**
 * Runs `command` and measures it. The meter is a small process of its own: a child's peak memory begins with that of the
 * process that started it.
 * @throws Error with the end of what it said when it fails
 */
export async function measure(command: Command): Promise<Usage> {
  // What others wrote must not go to the disk in this one's time.
  spawnSync('sync');
  const folder = mkdtempSync(path.join(tmpdir(), 'sluice-bench-'));
  const report = path.join(folder, 'usage.json');
  try {
    const [program, ...args] = command.args as [string, ...string[]];
    if (python) {
      const meter = ['-S', path.join(import.meta.dirname, 'peers.py'), 'meter', report, program, ...args];
      await run({ ...command, args: ['python3', ...meter] });
    } else {
      const preload = path.join(import.meta.dirname, 'usage-preload.ts');
      const env = { ...command.env, SLUICE_BENCH_USAGE: report };
      await run({ ...command, args: [program, '--import', preload, ...args], env });
    }
    return JSON.parse(readFileSync(report, 'utf8')) as Usage;
  } finally {
    rmSync(folder, { recursive: true });
  }
}

/** Runs to the end and returns standard output. @throws Error with the end of what it said when it fails */
export async function run(command: Command, show = false): Promise<string> {
  const [program, ...args] = command.args as [string, ...string[]];
  const child = spawn(program, args, {
    cwd: command.cwd,
    env: { ...process.env, ...command.env },
    stdio: ['ignore', 'pipe', show ? 'inherit' : 'pipe'],
  });
  let out = '';
  let err = '';
  child.stdout!.setEncoding('utf8').on('data', (text: string) => {
    out += text;
  });
  child.stderr?.setEncoding('utf8').on('data', (text: string) => {
    err = (err + text).slice(-4000);
  });
  const code = await new Promise<number | string>((resolve, reject) => {
    child.once('error', reject);
    child.once('close', (status, signal) => resolve(status ?? signal ?? 'nothing'));
  });
  if (code !== 0) throw new Error(`${command.args.join(' ')} ended with ${code}\n${err}`);
  return out;
}

export function folder(...parts: string[]): string {
  const full = path.join(...parts);
  mkdirSync(full, { recursive: true });
  return full;
}

export function median(values: readonly number[]): number {
  const sorted = [...values].sort((a, b) => a - b);
  const middle = sorted.length >> 1;
  return sorted.length % 2 === 1 ? sorted[middle]! : (sorted[middle - 1]! + sorted[middle]!) / 2;
}

export interface Spread {
  median: number;
  min: number;
  max: number;
}

export const spread = (values: readonly number[]): Spread => ({
  median: median(values),
  min: Math.min(...values),
  max: Math.max(...values),
});
