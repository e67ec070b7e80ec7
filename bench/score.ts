// Files through all contenders in turn: whole processes, interleaved, so that what disturbs the machine disturbs all.
import { rmSync } from 'node:fs';
import { loadavg } from 'node:os';
import path from 'node:path';
import { type Case, type Contender, contenders, type Pythons } from './contenders.ts';
import type { Ideal } from './ideal.ts';
import { applications, CACHE, GERMAN, germanApplications, NODE, nameOf, type Program } from './prepare.ts';
import { folder, measure, run, type Spread, say, spread, type Usage, warn } from './run.ts';
import { distances, readSample, TOLERANCE } from './verify.ts';

export interface ScoreResult {
  rows: number;
  rounds: number;
  /** Load average of the last minute before each round. */
  load: number[];
  models: ModelResult[];
}

export interface ModelResult extends Case {
  name: string;
  contenders: ContenderResult[];
  ideal: (Omit<Ideal, 'seconds'> & { seconds: Spread }) | null;
}

export interface ContenderResult {
  name: string;
  what: string;
  seconds: Spread;
  cpuSeconds: Spread;
  peakBytes: Spread;
  /** Largest difference of a sampled probability from the middle of all contenders. */
  difference: number;
}

export interface Setting {
  program: Program;
  pythons: Pythons;
  cases: readonly Case[];
  rounds: number;
  cores: number;
  /** Hears what there is after each round: on a busy machine a run may be ended before its time. */
  onRound: (result: ScoreResult) => Promise<void>;
}

/** @throws Error when a contender fails or its probabilities are not those of the others */
export async function benchScore(setting: Setting): Promise<void> {
  const { program, cases, rounds, cores } = setting;
  const list = contenders(program, setting.pythons, cores);
  const taken = cases.map((one) => new Taken(one, list));
  const load: number[] = [];
  const inputOf = ({ model, oddness }: Case, count: number): Promise<string> =>
    model === GERMAN ? germanApplications(setting.pythons.python!, count) : applications(program, count, oddness);
  for (const one of taken) await one.warmUp(await inputOf(one.case, WARM_UP_ROWS));
  for (let round = 0; round < rounds; round++) {
    load.push(loadavg()[0]!);
    for (const one of taken) {
      const input = await inputOf(one.case, one.case.rows);
      await one.round(input, round, `round ${round + 1}/${rounds}`, cores);
    }
    const rows = Math.min(...cases.map((one) => one.rows));
    await setting.onRound({ rows, rounds: round + 1, load, models: taken.map((one) => one.result()) });
  }
  if (setting.pythons.python === null) warn('no Python: only contenders in Node were measured');
}

const WARM_UP_ROWS = 100;

/** What the contenders of one case took so far. */
class Taken {
  private readonly usages = new Map<string, Usage[]>();
  private readonly ideals: Ideal[] = [];
  private differences = new Map<string, number>();
  private readonly taking: readonly Contender[];
  readonly case: Case;

  constructor(one: Case, list: readonly Contender[]) {
    this.case = one;
    this.taking = list.filter((c) => c.takes(one));
  }

  /** What a first run finds out and compiles for all others is not counted, whoever keeps it. */
  async warmUp(input: string): Promise<void> {
    for (const c of this.taking) {
      const output = fileOf(this.case, c);
      await measure(c.command(this.case, input, output));
      rmSync(output);
    }
  }

  /** All of them once, each round in another order, so that nobody always runs after the same neighbour. */
  async round(input: string, round: number, label: string, cores: number): Promise<void> {
    const { taking } = this;
    const samples = new Map<string, Float64Array>();
    const first = fileOf(this.case, taking[0]!);
    for (let i = 0; i < taking.length; i++) {
      const c = taking[(i + round) % taking.length]!;
      const output = fileOf(this.case, c);
      rmSync(output, { force: true });
      const usage = await measure(c.command(this.case, input, output));
      this.usages.set(c.name, [...(this.usages.get(c.name) ?? []), usage]);
      say(
        `${label}  ${titleOf(this.case)}  ${c.name}: ${usage.seconds.toFixed(2)} s, ` +
          `CPU ${(usage.userSeconds + usage.systemSeconds).toFixed(2)} s, ${Math.round(usage.peakBytes / 1e6)} MB`,
      );
      if (round === 0) samples.set(c.name, await readSample(output, this.case.rows));
      if (output !== first) rmSync(output);
    }
    if (round === 0) this.compare(samples);
    // It has all floats in memory.
    if (!this.case.large && this.case.oddness === 'none' && this.case.model !== GERMAN)
      this.ideals.push(await ideal(this.case.model, input, first, cores));
  }

  private compare(samples: ReadonlyMap<string, Float64Array>): void {
    this.differences = distances(samples);
    const wrong = [...this.differences].filter(([, distance]) => distance > TOLERANCE);
    if (wrong.length === 0) return;
    const found = wrong.map(([name, distance]) => `${name} by ${distance}`);
    throw new Error(`${titleOf(this.case)}: probabilities differ from those of the others: ${found.join(', ')}`);
  }

  result(): ModelResult {
    return {
      ...this.case,
      name: titleOf(this.case),
      contenders: this.taking.map((c) => resultOf(c, this.usages.get(c.name)!, this.differences.get(c.name)!)),
      ideal: this.ideals.length === 0 ? null : idealOf(this.ideals),
    };
  }
}

const titleOf = ({ model, rows, oddness, large }: Case): string =>
  nameOf(model) +
  (oddness === 'none' ? '' : `, ${oddness} rows`) +
  (large ? `, ${rows.toLocaleString('en')} rows` : '');

const fileOf = (one: Case, c: Contender): string =>
  path.join(folder(CACHE, 'outputs'), `${one.model}-${one.oddness}-${c.name.replaceAll(/[^a-z0-9]+/gi, '-')}.ndjson`);

async function ideal(model: string, input: string, output: string, cores: number): Promise<Ideal> {
  const script = path.join(import.meta.dirname, 'ideal.ts');
  const args = [NODE, script, model, input, output, String(cores)];
  const result = JSON.parse(await run({ args })) as Ideal;
  say(
    `          ${model}  ideal: ${result.seconds.toFixed(2)} s (${result.evaluator} ${result.evaluateSeconds.toFixed(2)}, ` +
      `read ${result.readSeconds.toFixed(2)}, write ${result.writeSeconds.toFixed(2)})`,
  );
  return result;
}

function idealOf(runs: readonly Ideal[]): ModelResult['ideal'] {
  const middle = [...runs].sort((a, b) => a.seconds - b.seconds)[(runs.length - 1) >> 1]!;
  return { ...middle, seconds: spread(runs.map((r) => r.seconds)) };
}

const resultOf = (c: Contender, usages: readonly Usage[], difference: number): ContenderResult => ({
  name: c.name,
  what: c.what,
  seconds: spread(usages.map((u) => u.seconds)),
  cpuSeconds: spread(usages.map((u) => u.userSeconds + u.systemSeconds)),
  peakBytes: spread(usages.map((u) => u.peakBytes)),
  difference,
});
