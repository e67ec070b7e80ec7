// Runs the command line as people do: a process of its own, its streams and its exit code.
import { type ChildProcess, spawn } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { onTestFinished } from 'vitest';
import { capture } from './captured-stream.ts';

const SOURCES = path.resolve('src/main.ts');
/** The program that processes of tests run: the built one in `npm run check`. */
export const MAIN = process.env.SLUICE_TEST_MAIN ?? SOURCES;

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

/** Starts `sluice ...args`; `sources`: not the built program. */
export function start(
  args: string[],
  options: { cwd?: string; env?: Record<string, string>; stdin?: Buffer | 'open'; sources?: boolean } = {},
): Started {
  const child = spawn(process.execPath, [options.sources ? SOURCES : MAIN, ...args], {
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

/** The last run of `sluiceHere`, which the next one waits for: the streams and the exit code of a process are those of one command. */
let turn: Promise<unknown> = Promise.resolve();
let runs = 0;
/** Variables that the program reads once a process: a command that has one gets a process of its own. */
const READ_ONCE = ['SLUICE_DECODER'];

/**
 * The same in this process, without the second that Node needs to load the program: for tests of what a command does. Those of the process
 * itself (signals, standard input, pipes, settings of Node) start one. Runs follow one another.
 */
export function sluiceHere(args: string[], options: { cwd?: string; env?: Record<string, string> } = {}): Promise<Run> {
  const isReadOnce = READ_ONCE.some((name) => options.env?.[name] !== undefined);
  if (isReadOnce) return sluice(args, options);
  const run = turn.then(() => runHere(args, options));
  turn = run.catch(() => {});
  return run;
}

async function runHere(args: string[], options: { cwd?: string; env?: Record<string, string> }): Promise<Run> {
  const streams = [process.stdout, process.stderr];
  const before = { argv: process.argv, code: process.exitCode, cwd: process.cwd(), env: { ...process.env } };
  const errorHandlers = streams.map((stream) => stream.listeners('error'));
  const written: Buffer[][] = streams.map(() => []);
  const captured = streams.map((stream, i) => capture(stream, (chunk) => written[i]!.push(chunk)));
  try {
    process.argv = [process.execPath, MAIN, ...args];
    process.exitCode = undefined;
    Object.assign(process.env, { SLUICE_LOG_FORMAT: 'text', ...options.env });
    if (options.cwd !== undefined) process.chdir(options.cwd);
    // The program runs when it is loaded: under another name it is loaded again, without the modules it imports.
    const program = path.join(before.cwd, `src/cli.ts?run=${runs++}`);
    await import(program);
    const [stdout, stderr] = written.map((chunks) => Buffer.concat(chunks).toString());
    return { code: Number(process.exitCode ?? 0), signal: null, stdout: stdout!, stderr: stderr! };
  } finally {
    for (const { restore } of captured) restore();
    for (const [i, stream] of streams.entries()) {
      const added = stream.listeners('error').filter((one) => !errorHandlers[i]!.includes(one));
      for (const one of added) stream.off('error', one as () => void);
    }
    process.argv = before.argv;
    process.exitCode = before.code;
    process.chdir(before.cwd);
    for (const name of Object.keys(process.env)) if (!(name in before.env)) delete process.env[name];
    Object.assign(process.env, before.env);
  }
}

/** A folder of its own, removed when the test ends. */
export function scratch(): string {
  const folder = mkdtempSync(path.join(tmpdir(), 'sluice-test-'));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  return folder;
}
