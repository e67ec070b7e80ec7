// Finds the test files that run a place of the sources: all tests run once with the coverage of V8.
import { createHash } from 'node:crypto';
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { SourceCopy } from '../support/source-copy.ts';
import { COVERAGE_VARIABLE, CPU_TABLE_VARIABLE, RESULTS_VARIABLE } from './campaign-variables.ts';
import { isCovered } from './coverage-bounds.ts';
import { jsonLinesOf, type ModuleResult } from './module-reporter.ts';
import type { Mutant } from './mutants.ts';

/** The longest time that all tests take. */
const MOST_MS = 60 * 60_000;

/** Share of the sources that may have changed since they were measured. */
const MOST_CHANGED = 0.1;

/** What a test file runs: the offsets where covered text begins and ends, in turn, by source file. */
export interface FileCoverage {
  test: string;
  ranges: Record<string, number[]>;
}

export interface CoveringTest {
  test: string;
  /** Milliseconds that the file takes, coverage included. */
  ms: number;
}

/** What is kept in a file: the sources that were measured, and what the tests run of them. */
interface Kept {
  /** Source file → SHA-256 of its text. */
  sources: Record<string, string>;
  tests: (FileCoverage & CoveringTest)[];
}

const hashOf = (file: string): string => createHash('sha256').update(readFileSync(file)).digest('hex');

export class CoveringTests {
  readonly #kept: Kept;
  readonly #names: ReadonlySet<string>;

  private constructor(kept: Kept) {
    this.#kept = kept;
    this.#names = new Set(kept.tests.map(({ test }) => test));
  }

  /**
   * Reads what an earlier campaign of the same tier measured. Measures it if there is no such campaign or many sources have changed since:
   * that takes as long as the tests of the tier.
   */
  static async open(mode: string): Promise<CoveringTests> {
    const file = path.resolve('.cache/mutation', `${mode}.json`);
    if (existsSync(file)) {
      const kept = JSON.parse(readFileSync(file, 'utf8')) as Kept;
      const sources = Object.entries(kept.sources);
      const changed = sources.filter(([source, hash]) => !existsSync(source) || hashOf(source) !== hash);
      if (changed.length <= sources.length * MOST_CHANGED) return new CoveringTests(kept);
    }
    console.log('measuring which tests run which part of the sources');
    const kept = await measure(mode);
    mkdirSync(path.dirname(file), { recursive: true });
    writeFileSync(file, JSON.stringify(kept));
    return new CoveringTests(kept);
  }

  /** Whether the coverage of a test file was measured. */
  has(test: string): boolean {
    return this.#names.has(test);
  }

  /** Test files that run the place of a mutant; null: the source has changed since it was measured, or is new. */
  of({ file, start }: Pick<Mutant, 'file' | 'start'>): CoveringTest[] | null {
    const hash = this.#kept.sources[file];
    if (hash === undefined || hash !== hashOf(file)) return null;
    return this.#kept.tests
      .filter(({ ranges }) => isCovered(ranges[file] ?? [], start))
      .map(({ test, ms }) => ({ test, ms }));
  }
}

async function measure(mode: string): Promise<Kept> {
  const copy = await SourceCopy.create();
  try {
    const folder = path.join(copy.folder, 'mutation-coverage');
    mkdirSync(folder);
    const results = path.join(folder, 'results.jsonl');
    const args = ['run', '--config', 'test/mutation/vitest.config.ts', '--mode', mode];
    const env = {
      [COVERAGE_VARIABLE]: folder,
      [RESULTS_VARIABLE]: results,
      [CPU_TABLE_VARIABLE]: path.resolve('coverage/cpu-check.tsv'),
      NODE_V8_COVERAGE: folder,
    };
    await copy.vitest(args, { mostMs: MOST_MS, env });
    const ms = new Map(
      jsonLinesOf<ModuleResult>(results)
        .filter(({ state }) => state === 'passed')
        .map((result) => [result.file, result.ms]),
    );
    const tests = jsonLinesOf<FileCoverage>(path.join(folder, 'files.jsonl'))
      .filter(({ test }) => ms.has(test))
      .map((one) => ({ ...one, ms: ms.get(one.test)! }));
    if (tests.length === 0) throw new Error('the coverage of no test file could be measured');
    const sources = new Set(tests.flatMap(({ ranges }) => Object.keys(ranges)));
    return { sources: Object.fromEntries([...sources].map((file) => [file, hashOf(file)])), tests };
  } finally {
    await copy.remove();
  }
}
