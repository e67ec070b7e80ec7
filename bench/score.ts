// Files through all contenders in turn: whole processes, interleaved, so that what disturbs the machine disturbs all.
import { rmSync } from 'node:fs';
import { loadavg } from 'node:os';
import path from 'node:path';
import { type Contender, contenders } from './contenders.ts';
import type { Ideal } from './ideal.ts';
import { applications, CACHE, NODE, nameOf, type Program } from './prepare.ts';
import { folder, measure, run, type Spread, say, spread, type Usage, warn } from './run.ts';
import { distances, readSample, TOLERANCE } from './verify.ts';

export interface ScoreResult {
  rows: number;
  rounds: number;
  /** Load average of the last minute before each round. */
  load: number[];
  models: ModelResult[];
}

export interface ModelResult {
  model: string;
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
  python: string | null;
  models: readonly string[];
  rows: number;
  rounds: number;
  cores: number;
  /** Hears what there is after each round: on a busy machine a run may be ended before its time. */
  onRound: (result: ScoreResult) => Promise<void>;
}

/** @throws Error when a contender fails or its probabilities are not those of the others */
export async function benchScore(setting: Setting): Promise<void> {
  const { program, rows, rounds, cores } = setting;
  const input = await applications(program, rows);
  const outputs = folder(CACHE, 'outputs');
  const list = contenders(program, setting.python, cores);
  const usages = new Map<string, Usage[]>();
  const ideals = new Map<string, Ideal[]>();
  const differences = new Map<string, number>();
  const load: number[] = [];
  for (let round = 0; round < rounds; round++) {
    load.push(loadavg()[0]!);
    for (const model of setting.models) {
      const taking = list.filter((c) => c.takes(model));
      const samples = new Map<string, Float64Array>();
      const first = fileOf(outputs, model, taking[0]!);
      // Another order each round, so that nobody always runs after the same neighbour.
      for (let i = 0; i < taking.length; i++) {
        const c = taking[(i + round) % taking.length]!;
        const output = fileOf(outputs, model, c);
        rmSync(output, { force: true });
        const usage = await measure(c.command(model, input, output));
        const key = `${model} ${c.name}`;
        usages.set(key, [...(usages.get(key) ?? []), usage]);
        say(
          `round ${round + 1}/${rounds}  ${model}  ${c.name}: ${usage.seconds.toFixed(2)} s, ` +
            `CPU ${(usage.userSeconds + usage.systemSeconds).toFixed(2)} s, ${Math.round(usage.peakBytes / 1e6)} MB`,
        );
        if (round === 0) samples.set(c.name, await readSample(output, rows));
        if (output !== first) rmSync(output);
      }
      ideals.set(model, [...(ideals.get(model) ?? []), await ideal(model, input, first, cores)]);
      for (const [name, distance] of distances(samples)) differences.set(`${model} ${name}`, distance);
      const wrong = [...samples.keys()].filter((name) => differences.get(`${model} ${name}`)! > TOLERANCE);
      if (wrong.length > 0) {
        const found = wrong.map((name) => `${name} by ${differences.get(`${model} ${name}`)}`);
        throw new Error(`${model}: probabilities differ from those of the others: ${found.join(', ')}`);
      }
    }
    await setting.onRound(resultSoFar(round + 1));
  }
  if (setting.python === null) warn('no Python: only contenders in Node were measured');

  function resultSoFar(done: number): ScoreResult {
    const models = setting.models.map(
      (model): ModelResult => ({
        model,
        name: nameOf(model),
        contenders: list
          .filter((c) => c.takes(model))
          .map((c) => resultOf(c, usages.get(`${model} ${c.name}`)!, differences.get(`${model} ${c.name}`)!)),
        ideal: idealOf(ideals.get(model)!),
      }),
    );
    return { rows, rounds: done, load, models };
  }
}

const fileOf = (outputs: string, model: string, c: Contender): string =>
  path.join(outputs, `${model}-${c.name.replaceAll(/[^a-z0-9]+/gi, '-')}.ndjson`);

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
