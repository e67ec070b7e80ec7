// One of the two versions, and what a user of it can see of a case: exit code, error code, standard output, files, answers.
import { spawn } from 'node:child_process';
import { mkdirSync, readdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import type { Program } from '../prepare.ts';

export interface Side {
  name: 'here' | 'base';
  program: Program;
  /** Everything it writes; both sides use the same names in it. */
  folder: string;
  /** The inputs, the same files for both. */
  corpus: string;
}

/** What can be seen of a case, part by part. Messages are words for people and no part of it. */
export type Seen = Map<string, Buffer>;

export interface Case {
  name: string;
  see(side: Side): Promise<Seen>;
  /** Others need what it leaves: it is never left out. */
  always?: boolean;
}

export interface CommandLine {
  /** Below the case's own folder: `in` is the corpus, `../models` the registry. */
  args: readonly string[];
  stdin?: Buffer | undefined;
  /** Files written before the command starts, by name. */
  files?: Readonly<Record<string, string>>;
}

/** Runs one command in a folder of its own. */
export async function commandLine(side: Side, name: string, line: CommandLine): Promise<Seen> {
  const cwd = path.join(side.folder, name.replaceAll(/[^\w.-]+/g, '-'));
  mkdirSync(cwd);
  symlinkSync(side.corpus, path.join(cwd, 'in'));
  for (const [file, text] of Object.entries(line.files ?? {})) writeFileSync(path.join(cwd, file), text);
  const { code, stdout, stderr } = await started([...side.program.sluice, ...line.args], cwd, line.stdin);
  const seen: Seen = new Map([
    ['exit code', Buffer.from(String(code))],
    ['error code', Buffer.from(/\[([a-z_]+)\]$/m.exec(stderr)?.[1] ?? '')],
    ['standard output', stdout],
  ]);
  for (const entry of readdirSync(cwd, { recursive: true, withFileTypes: true })) {
    if (!entry.isFile()) continue;
    const file = path.relative(cwd, path.join(entry.parentPath, entry.name));
    if (!Object.hasOwn(line.files ?? {}, file)) seen.set(file, readFileSync(path.join(cwd, file)));
  }
  return seen;
}

interface Ended {
  code: number | string;
  stdout: Buffer;
  stderr: string;
}

/** Ends only what hangs, which is then what differs. */
const PATIENCE_MS = 300_000;

function started(command: readonly string[], cwd: string, stdin?: Buffer): Promise<Ended> {
  const [program, ...args] = command as [string, ...string[]];
  const child = spawn(program, args, { cwd, stdio: ['pipe', 'pipe', 'pipe'] });
  const late = setTimeout(() => child.kill('SIGKILL'), PATIENCE_MS);
  const out: Buffer[] = [];
  let stderr = '';
  child.stdout.on('data', (bytes: Buffer) => out.push(bytes));
  child.stderr.setEncoding('utf8').on('data', (text: string) => {
    stderr += text;
  });
  // A command that refuses its flags does not read.
  child.stdin.on('error', () => {}).end(stdin);
  return new Promise((resolve, reject) => {
    child.once('error', reject);
    child.once('close', (code, signal) => {
      clearTimeout(late);
      resolve({ code: code ?? signal ?? 'nothing', stdout: Buffer.concat(out), stderr });
    });
  });
}
