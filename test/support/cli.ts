// Runs the command line as people do: a process of its own, its streams and its exit code.
import { type ChildProcess, spawn } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { onTestFinished } from 'vitest';

/** SLUICE_TEST_MAIN: another program than the one of this checkout's sources, such as a built one. */
export const MAIN = path.resolve(process.env.SLUICE_TEST_MAIN ?? 'src/main.ts');

export interface Run {
  code: number | null;
  signal: NodeJS.Signals | null;
  stdout: string;
  stderr: string;
}

export interface Started {
  child: ChildProcess;
  done: Promise<Run>;
}

/** Starts `sluice ...args`. */
export function start(
  args: string[],
  options: { cwd?: string; env?: Record<string, string>; stdin?: Buffer | 'open' } = {},
): Started {
  const child = spawn(process.execPath, [MAIN, ...args], {
    cwd: options.cwd ?? process.cwd(),
    // Words, as at a terminal, unless a test wants what a machine reads.
    env: { ...process.env, SLUICE_LOG_FORMAT: 'text', ...options.env },
    stdio: ['pipe', 'pipe', 'pipe'],
  });
  let stdout = '';
  let stderr = '';
  child.stdout!.setEncoding('utf8').on('data', (text: string) => {
    stdout += text;
  });
  child.stderr!.setEncoding('utf8').on('data', (text: string) => {
    stderr += text;
  });
  child.stdin!.on('error', () => {});
  if (options.stdin !== 'open') child.stdin!.end(options.stdin);
  const done = new Promise<Run>((resolve, reject) => {
    child.on('error', reject);
    child.on('close', (code, signal) => resolve({ code, signal, stdout, stderr }));
  });
  return { child, done };
}

export const sluice = (args: string[], options: Parameters<typeof start>[1] = {}): Promise<Run> =>
  start(args, options).done;

/** A folder of its own, removed when the test ends. */
export function scratch(): string {
  const folder = mkdtempSync(path.join(tmpdir(), 'sluice-test-'));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  return folder;
}
