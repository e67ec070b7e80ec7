// A copy of the working tree in which tests run against changed sources.
import { spawn } from 'node:child_process';
import { existsSync } from 'node:fs';
import { cp, mkdtemp, readFile, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { isSource } from './bundled-models.ts';

/** A run that takes longer is ended. */
const MOST_RUN_MS = 15 * 60_000;
const LEFT_OUT = new Set(['.git', 'node_modules', 'dist', 'coverage', '.cache']);

/** `load error`: the test file could not run at all, so that its failure shows nothing. */
export type Outcome = 'passed' | 'failed' | 'load error' | 'no end';

export interface TestRun {
  outcome: Outcome;
  /** The name of the first test that failed; null: none. */
  failure: string | null;
}

/** A change of one place of a file. */
export interface SourceChange {
  file: string;
  /** Occurs once in the file. */
  find: string;
  replace: string;
}

/** What is read of a report of Vitest. */
interface Report {
  testResults: { assertionResults: { status: string; fullName: string }[] }[];
}

export class SourceCopy {
  readonly folder: string;

  private constructor(folder: string) {
    this.folder = folder;
  }

  static async create(): Promise<SourceCopy> {
    const folder = await mkdtemp(path.join(tmpdir(), 'sluice-source-'));
    const root = process.cwd();
    const filter = (from: string) => isSource(from) && !LEFT_OUT.has(path.relative(root, from));
    await cp(root, folder, { recursive: true, filter });
    // What took long to install is shared.
    for (const name of ['node_modules', '.cache']) {
      if (existsSync(name)) await symlink(path.resolve(name), path.join(folder, name));
    }
    return new SourceCopy(folder);
  }

  /** Does the work while a file has another text. */
  async withText<T>(file: string, edit: (source: string) => string, work: () => Promise<T>): Promise<T> {
    const target = path.join(this.folder, file);
    const source = await readFile(target, 'utf8');
    await writeFile(target, edit(source));
    try {
      return await work();
    } finally {
      await writeFile(target, source);
    }
  }

  /** Runs a test file without a defence, for example. */
  runWithout({ file, find, replace, test }: SourceChange & { test: string }): Promise<TestRun> {
    return this.withText(
      file,
      (source) => source.replace(find, () => replace),
      () => this.run(test),
    );
  }

  async run(test: string): Promise<TestRun> {
    const file = path.join(this.folder, 'report.json');
    await rm(file, { force: true });
    const code = await this.vitest(['run', test, '--mode', 'check', '--bail', '1', '--reporter', 'json', '--outputFile', file]); // biome-ignore format: one line
    if (code === 'no end') return { outcome: 'no end', failure: null };
    const report = await readFile(file, 'utf8').then(
      (text) => JSON.parse(text) as Report,
      () => null,
    );
    const results = report?.testResults.flatMap(({ assertionResults }) => assertionResults) ?? [];
    const failed = results.find(({ status }) => status === 'failed');
    if (failed) return { outcome: 'failed', failure: failed.fullName };
    const passed = code === 0 && results.some(({ status }) => status === 'passed');
    return { outcome: passed ? 'passed' : 'load error', failure: null };
  }

  /** Runs Vitest and returns the exit code, or null after a signal. Everything it leaves in the folder for temporary files is removed. */
  async vitest(
    args: readonly string[],
    options: { mostMs?: number; env?: Record<string, string>; nice?: number } = {},
  ): Promise<number | null | 'no end'> {
    const { mostMs = MOST_RUN_MS, nice = 0 } = options;
    // Paths of sockets have at most 107 bytes: the folder has a short name.
    const temporary = await mkdtemp(path.join(tmpdir(), 'sl-'));
    // What this run of Vitest has set is not meant for another one.
    const own = /^(?:VITEST|SLUICE_|npm_lifecycle_event$)/;
    const inherited = Object.fromEntries(Object.entries(process.env).filter(([name]) => !own.test(name)));
    const script = path.join('node_modules', 'vitest', 'vitest.mjs');
    const [command, ...before] = nice > 0 ? ['nice', '-n', String(nice), process.execPath] : [process.execPath];
    const child = spawn(command!, [...before, script, ...args], {
      cwd: this.folder,
      env: { ...inherited, TMPDIR: temporary, ...options.env },
      stdio: 'ignore',
      detached: true,
    });
    const ended = new Promise<number | null>((resolve, reject) => {
      child.on('error', reject);
      child.on('exit', resolve);
    });
    const clock = new AbortController();
    const late = delay(mostMs, 'no end' as const, { signal: clock.signal }).catch(() => null);
    try {
      return await Promise.race([ended, late]);
    } finally {
      clock.abort();
      // With the processes that it started; none are left as a rule.
      try {
        process.kill(-child.pid!, 'SIGKILL');
      } catch {}
      await ended.catch(() => {});
      await rm(temporary, { recursive: true, force: true, maxRetries: 5 }).catch(() => {});
    }
  }

  remove(): Promise<void> {
    return rm(this.folder, { recursive: true, force: true });
  }
}
