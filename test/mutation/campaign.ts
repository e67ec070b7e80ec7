// Runs the nearest tests against each mutant of a sample, in copies of the working tree, and lists the mutants that no test notices.
//
// npm run test:mutations -- [--count N | --each N] [--seed N] [--only REGEX]... [--mode quick|check] [--out FILE] [--again FILE]
//
// --count takes N mutants in all, and --each N of every folder; with several --only, of each of them. --mode quick runs the tests of
// `npm test`, fewer files of them, and no combinations. --out appends a line of JSON for each mutant and resumes the campaign that
// wrote the file; --again tries the mutants that survived an earlier campaign, with tests that take long, too.
import { spawn } from 'node:child_process';
import { appendFileSync, mkdirSync, readFileSync } from 'node:fs';
import { rm } from 'node:fs/promises';
import path from 'node:path';
import { parseArgs } from 'node:util';
import { SourceCopy } from '../support/source-copy.ts';
import { FILES_VARIABLE, RESULTS_VARIABLE } from './campaign-variables.ts';
import { type CoveringTest, CoveringTests } from './covering-tests.ts';
import { jsonLinesOf, type ModuleResult } from './module-reporter.ts';
import { allMutants, folderOf, type Mutant, mutated, sample } from './mutants.ts';
import { ReachingTests } from './reaching-tests.ts';

/** Mutants that are tried at the same time. */
const COPIES = 2;
/** The tests of one mutant together. */
const MOST_MUTANT_MS = 60_000;
/** Test files that take longer are left out: they would be cut. */
const MOST_FILE_MS = 45_000;
/** Test files of one mutant, and the sum of their durations. */
const SIZES = { quick: { files: 6, ms: 30_000 }, check: { files: 10, ms: 45_000 } } as const;
/** Mutants that survived get so many times as many files and as much time when they are tried again. */
const THOROUGH_PATIENCE = 3;
/** The duration of a file that has not run yet. */
const ASSUMED_MS = 4_000;
/** The same of a file that takes too long for its coverage to be measured. */
const COSTLY_MS = 15_000;
/** The distance of a test file that runs a source file in another process only. */
const FAR = 8;
/** A test file that takes so many times as long as usual, and `HANG_MS` more, does not end. */
const HANG_FACTOR = 3;
const HANG_MS = 10_000;
/** How many combinations of test/oracle are tried after the tests, and for how long. */
const COMBINATIONS = 24;
const MOST_COMBINATIONS_MS = 20_000;
const ORACLE = 'test/oracle/first-difference.ts';

export type Verdict = 'killed' | 'timeout' | 'survived' | 'uncovered';

export interface MutantResult {
  mutant: Mutant;
  verdict: Verdict;
  /** The test file, the combinations, or how many files passed. */
  by: string;
  seconds: number;
}

/** Milliseconds that a test file takes with unchanged sources; null: it fails, or takes too long. */
type Durations = Map<string, number | null>;

/** The tier of the tests. */
export type Mode = 'quick' | 'check';

class Campaign {
  readonly #mode: Mode;
  readonly #tests = new ReachingTests();
  readonly #covering: CoveringTests;
  readonly #isThorough: boolean;
  readonly #distances = new Map<string, Map<string, number>>();
  readonly #durations: Durations = new Map();
  readonly #baselines = new Map<string, Promise<number | null>>();
  /** Folder of sources → test file → how many mutants of the folder it killed. */
  readonly #killers = new Map<string, Map<string, number>>();
  #oracleWorks: Promise<boolean> | undefined;

  /** `isThorough`: tests that take too long for their coverage to be measured are tried, too. */
  constructor(mode: Mode, covering: CoveringTests, isThorough: boolean) {
    this.#isThorough = isThorough;
    this.#mode = mode;
    this.#covering = covering;
  }

  /** How many times as many files and as much time a mutant gets. */
  get #patience(): number {
    return this.#isThorough ? THOROUGH_PATIENCE : 1;
  }

  /** Has the test file that killed a mutant come earlier for others of its folder. */
  learn({ mutant, verdict, by }: MutantResult): void {
    const test = /^test\/\S+\.test\.ts/.exec(by)?.[0];
    if (verdict !== 'killed' || test === undefined) return;
    const folder = folderOf(mutant.file);
    const kills = this.#killers.get(folder) ?? new Map<string, number>();
    this.#killers.set(folder, kills.set(test, (kills.get(test) ?? 0) + 1));
  }

  /** Runs test files in their order until one fails; `current`: the file that ran at the end of the time, with its milliseconds. */
  async #run(
    copy: SourceCopy,
    files: readonly string[],
    mostMs: number,
  ): Promise<{ results: ModuleResult[]; current: { file: string; ms: number } | null }> {
    const report = path.join(copy.folder, 'mutation-results.jsonl');
    await rm(report, { force: true });
    const args = ['run', ...files, '--config', 'test/mutation/vitest.config.ts', '--mode', this.#mode, '--bail', '1'];
    const env = { [FILES_VARIABLE]: files.join(','), [RESULTS_VARIABLE]: report };
    const began = Date.now();
    const code = await copy.vitest(args, { mostMs, env, nice: 10 });
    const results = jsonLinesOf<ModuleResult>(report);
    const done = new Set(results.map(({ file }) => file));
    const file = files.find((name) => !done.has(name));
    if (code !== 'no end' || file === undefined) return { results, current: null };
    return { results, current: { file, ms: Date.now() - began - results.reduce((sum, { ms }) => sum + ms, 0) } };
  }

  /** How long a test file takes with unchanged sources; it runs at most once for this. */
  #baseline(file: string): Promise<number | null> {
    const known = this.#baselines.get(file);
    if (known) return known;
    const measured = (async () => {
      const copy = await SourceCopy.create();
      try {
        const { results } = await this.#run(copy, [file], MOST_MUTANT_MS * this.#patience);
        const [result] = results;
        const ms = result?.state === 'passed' ? result.ms : null;
        this.#durations.set(file, ms);
        if (ms === null) console.log(`  not used: ${file}, ${result?.failure ?? 'which takes too long'}`);
        return ms;
      } finally {
        await copy.remove();
      }
    })();
    this.#baselines.set(file, measured);
    return measured;
  }

  /** How far test files are from a source file. */
  #distancesOf(source: string): Map<string, number> {
    const known = this.#distances.get(source);
    if (known) return known;
    const distances = new Map(this.#tests.of(source).map(({ test, distance }) => [test, distance]));
    this.#distances.set(source, distances);
    return distances;
  }

  /** Test files that run the place of the mutant: near and short ones first. */
  #chosen(mutant: Mutant): string[] {
    const { files, ms: most } = SIZES[this.#mode];
    const distances = this.#distancesOf(mutant.file);
    const reaching = [...distances.keys()];
    const measured = this.#covering.of(mutant);
    const costly = this.#isThorough ? reaching.filter((test) => !this.#covering.has(test)) : [];
    const candidates = measured
      ? [...measured, ...costly.map((test) => ({ test, ms: COSTLY_MS }))]
      : reaching.map((test) => ({ test, ms: ASSUMED_MS }));
    const kills = this.#killers.get(folderOf(mutant.file));
    // A test file that killed mutants of the same folder is likely to kill others: each kill counts like an import less, and so does
    // half the duration.
    const rank = ({ test, ms }: CoveringTest): number =>
      (distances.get(test) ?? FAR) - (kills?.get(test) ?? 0) + Math.log2(1 + ms / 500);
    const chosen: string[] = [];
    let sum = 0;
    for (const { test, ms } of candidates.toSorted((a, b) => rank(a) - rank(b))) {
      const known = this.#durations.get(test);
      const duration = known ?? ms;
      if (known === null || duration > MOST_FILE_MS || sum + duration > most * this.#patience) continue;
      sum += duration;
      chosen.push(test);
      if (chosen.length === files * this.#patience) break;
    }
    return chosen;
  }

  async #byTests(copy: SourceCopy, mutant: Mutant): Promise<Omit<MutantResult, 'mutant' | 'seconds'>> {
    for (;;) {
      const files = this.#chosen(mutant);
      if (files.length === 0) return { verdict: 'uncovered', by: '' };
      const { results, current } = await this.#run(copy, files, MOST_MUTANT_MS * this.#patience);
      for (const { file, ms, state } of results) if (state === 'passed') this.#durations.set(file, ms);
      const failed = results.find(({ state }) => state === 'failed' || state === 'load error');
      if (failed) {
        if ((await this.#baseline(failed.file)) === null) continue;
        return { verdict: 'killed', by: `${failed.file}: ${failed.failure}` };
      }
      if (current) {
        const usual = await this.#baseline(current.file);
        if (usual === null) continue;
        if (current.ms > usual * HANG_FACTOR + HANG_MS) return { verdict: 'timeout', by: current.file };
      }
      const passed = results.filter(({ state }) => state === 'passed').length;
      return passed === 0 && current === null
        ? { verdict: 'uncovered', by: '' }
        : { verdict: 'survived', by: `${passed} files` };
    }
  }

  /** The first difference between the program and the oracle, or null. */
  async #difference(copy: SourceCopy): Promise<string | null> {
    const temporary = path.join(copy.folder, 'temporary');
    mkdirSync(temporary, { recursive: true });
    const child = spawn('nice', ['-n', '10', process.execPath, ORACLE, String(COMBINATIONS)], {
      cwd: copy.folder,
      // What it leaves is removed with the copy.
      env: { ...process.env, TMPDIR: temporary },
      stdio: ['ignore', 'pipe', 'ignore'],
      detached: true,
    });
    let output = '';
    child.stdout.setEncoding('utf8').on('data', (text: string) => {
      output += text;
    });
    let isLate = false;
    const kill = (): void => {
      try {
        process.kill(-child.pid!, 'SIGKILL');
      } catch {}
    };
    const timer = setTimeout(() => {
      isLate = true;
      kill();
    }, MOST_COMBINATIONS_MS);
    const code = await new Promise<number | null>((resolve, reject) => {
      child.on('error', reject);
      child.on('close', resolve);
    });
    clearTimeout(timer);
    kill();
    // Combinations that all passed before the end of the time found nothing.
    if (isLate || code === 0) return null;
    return output.trim().split('\n').at(-1) || `ended with ${code}`;
  }

  async #byCombinations(copy: SourceCopy, mutant: Mutant): Promise<string | null> {
    if (this.#mode === 'quick' || !this.#tests.reaches(ORACLE, mutant.file)) return null;
    this.#oracleWorks ??= (async () => {
      const unchanged = await SourceCopy.create();
      try {
        return (await this.#difference(unchanged)) === null;
      } finally {
        await unchanged.remove();
      }
    })();
    return (await this.#oracleWorks) ? this.#difference(copy) : null;
  }

  async try(copy: SourceCopy, mutant: Mutant): Promise<MutantResult> {
    const began = Date.now();
    const found = await copy.withText(
      mutant.file,
      (source) => mutated(source, mutant),
      async (): Promise<Omit<MutantResult, 'mutant' | 'seconds'>> => {
        const first = await this.#byTests(copy, mutant);
        if (first.verdict === 'killed' || first.verdict === 'timeout') return first;
        // Nothing runs it there either.
        if (first.verdict === 'uncovered') return first;
        const difference = await this.#byCombinations(copy, mutant);
        return difference === null ? first : { verdict: 'killed', by: `combinations: ${difference}` };
      },
    );
    return { mutant, ...found, seconds: Math.round((Date.now() - began) / 1000) };
  }
}

const oneLine = (text: string): string => {
  const words = text.replaceAll(/\s+/g, ' ');
  return words.length > 100 ? `${words.slice(0, 97)}...` : words;
};
export const showMutant = ({ file, line, before, after }: Mutant): string =>
  `${file}:${line}  ${oneLine(before)} → ${oneLine(after)}`;

/** Tries each mutant; `onResult` gets each result at once, and `earlier` results say which tests to try first. */
export async function tryMutants(
  mutants: readonly Mutant[],
  mode: Mode,
  onResult: (result: MutantResult) => void,
  earlier: readonly MutantResult[] = [],
  isThorough = false,
): Promise<MutantResult[]> {
  const campaign = new Campaign(mode, await CoveringTests.open(mode), isThorough);
  for (const result of earlier) campaign.learn(result);
  const left = [...mutants];
  const results: MutantResult[] = [];
  await Promise.all(
    Array.from({ length: Math.min(COPIES, left.length) }, async () => {
      const copy = await SourceCopy.create();
      try {
        for (let mutant = left.shift(); mutant !== undefined; mutant = left.shift()) {
          const result = await campaign.try(copy, mutant);
          results.push(result);
          campaign.learn(result);
          onResult(result);
        }
      } finally {
        await copy.remove();
      }
    }),
  );
  return results;
}

/** A row for each folder and one for all. */
export function tableOf(results: readonly MutantResult[]): Record<string, Record<Verdict | 'mutants', number>> {
  const table: Record<string, Record<Verdict | 'mutants', number>> = {};
  const ordered = results.toSorted((a, b) => (a.mutant.file < b.mutant.file ? -1 : 1));
  for (const { mutant, verdict } of ordered) {
    for (const name of [folderOf(mutant.file), 'all']) {
      table[name] ??= { mutants: 0, killed: 0, timeout: 0, survived: 0, uncovered: 0 };
      table[name].mutants++;
      table[name][verdict]++;
    }
  }
  const { all, ...folders } = table;
  return all ? { ...folders, all } : {};
}

export function report(results: readonly MutantResult[]): void {
  console.table(tableOf(results));
  const undetected = results.filter(({ verdict }) => verdict === 'survived' || verdict === 'uncovered');
  for (const { mutant, verdict } of undetected) console.log(`${verdict}: ${showMutant(mutant)}`);
}

/** The mutants that earlier results list as undetected. */
function undetectedOf(file: string): Mutant[] {
  return jsonLinesOf<MutantResult>(file)
    .filter(({ verdict }) => verdict === 'survived' || verdict === 'uncovered')
    .map(({ mutant }) => mutant)
    .filter(({ file: source, start, end, before }) => readFileSync(source, 'utf8').slice(start, end) === before);
}

async function main(): Promise<void> {
  const text = { type: 'string' } as const;
  const options = {
    count: text,
    each: text,
    seed: text,
    only: { ...text, multiple: true },
    mode: text,
    out: text,
    again: text,
  } as const;
  const { values } = parseArgs({ options });
  const seed = Number(values.seed ?? Date.now() % 2 ** 31);
  const size =
    values.each === undefined ? { count: Number(values.count ?? 100), seed } : { each: Number(values.each), seed };
  const mode = values.mode ?? 'check';
  if (mode !== 'quick' && mode !== 'check') throw new Error('--mode takes quick or check');
  const strata = (values.only ?? ['']).map((regex) => sample(allMutants(new RegExp(regex)), size));
  // A campaign that is stopped early has tried mutants of every stratum.
  const mixed = Array.from({ length: Math.max(...strata.map((s) => s.length)) }, (_, i) =>
    strata.flatMap((stratum) => stratum.slice(i, i + 1)),
  ).flat();
  const mutants = values.again === undefined ? [...new Set(mixed)] : undetectedOf(values.again);
  const earlier = values.out === undefined ? [] : jsonLinesOf<MutantResult>(values.out);
  const done = new Set(earlier.map(({ mutant }) => JSON.stringify(mutant)));
  const left = mutants.filter((mutant) => !done.has(JSON.stringify(mutant)));
  console.log(`${left.length} mutants, seed ${seed}`);
  const onResult = (result: MutantResult): void => {
    if (values.out !== undefined) appendFileSync(values.out, `${JSON.stringify(result)}\n`);
    console.log(`${result.verdict} (${result.seconds} s): ${showMutant(result.mutant)} — ${oneLine(result.by)}`);
  };
  const known = [...earlier, ...(values.again === undefined ? [] : jsonLinesOf<MutantResult>(values.again))];
  const results = await tryMutants(left, mode, onResult, known, values.again !== undefined);
  report([...earlier, ...results]);
}

if (import.meta.main) await main();
