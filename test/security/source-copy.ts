// A copy of the working tree in which a test file runs against changed source.
import { spawn } from 'node:child_process';
import { cp, mkdtemp, readFile, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import type { Defence } from './defence.ts';

/** A run that takes longer is ended. */
const MOST_RUN_MS = 15 * 60_000;
const LEFT_OUT = new Set(['.git', 'node_modules', 'dist', 'coverage']);

/** `load error`: the test file could not run at all, so that its failure shows nothing. */
export type Outcome = 'passed' | 'failed' | 'load error' | 'no end';

export interface TestRun {
  outcome: Outcome;
  /** The name of the first test that failed; null: none. */
  failure: string | null;
}

/** What is read of a report of Vitest. */
interface Report {
  testResults: { assertionResults: { status: string; fullName: string }[] }[];
}

export class SourceCopy {
  readonly #folder: string;

  private constructor(folder: string) {
    this.#folder = folder;
  }

  static async create(): Promise<SourceCopy> {
    const folder = await mkdtemp(path.join(tmpdir(), 'sluice-source-'));
    const root = process.cwd();
    await cp(root, folder, { recursive: true, filter: (from) => !LEFT_OUT.has(path.relative(root, from)) });
    await symlink(path.resolve('node_modules'), path.join(folder, 'node_modules'));
    return new SourceCopy(folder);
  }

  /** Runs the test file of a defence without the defence. */
  async runWithout({ file, find, replace, test }: Defence): Promise<TestRun> {
    const target = path.join(this.#folder, file);
    const source = await readFile(target, 'utf8');
    await writeFile(
      target,
      source.replace(find, () => replace),
    );
    try {
      return await this.run(test);
    } finally {
      await writeFile(target, source);
    }
  }

  async run(test: string): Promise<TestRun> {
    const file = path.join(this.#folder, 'report.json');
    await rm(file, { force: true });
    const code = await this.#vitest(['run', test, '--mode', 'check', '--bail', '1', '--reporter', 'json', '--outputFile', file]); // biome-ignore format: one line
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

  /** The exit code, null after a signal. */
  #vitest(args: readonly string[]): Promise<number | null | 'no end'> {
    // What this run of Vitest has set is not meant for another one.
    const own = /^(?:VITEST|SLUICE_|npm_lifecycle_event$)/;
    const env = Object.fromEntries(Object.entries(process.env).filter(([name]) => !own.test(name)));
    const child = spawn(process.execPath, [path.join('node_modules', 'vitest', 'vitest.mjs'), ...args], {
      cwd: this.#folder,
      env,
      stdio: 'ignore',
      detached: true,
    });
    return new Promise((resolve, reject) => {
      let ended = true;
      const timer = setTimeout(() => {
        ended = false;
        // With the processes that it started.
        process.kill(-child.pid!, 'SIGKILL');
      }, MOST_RUN_MS);
      child.on('error', reject);
      child.on('exit', (code) => {
        clearTimeout(timer);
        resolve(ended ? code : 'no end');
      });
    });
  }

  remove(): Promise<void> {
    return rm(this.#folder, { recursive: true, force: true });
  }
}
