// `npm run bench -- --compare BASE`: this checkout against another commit, both in turn, as ratios.
import { loadavg } from 'node:os';
import path from 'node:path';
import { withBase } from './base.ts';
import { type Contender, sluice } from './contenders.ts';
import { inPairs, type Pair, ratios } from './pairs.ts';
import { applications, CACHE, type Program } from './prepare.ts';
import { type Command, folder, say } from './run.ts';
import { distances, readSample, TOLERANCE } from './verify.ts';

export interface CompareSetting {
  program: Program;
  models: readonly string[];
  rows: number;
  rounds: number;
  cores: number;
}

/** Prints ratios (this checkout ÷ base; below 1 is faster) of pairs of runs. @throws Error when scores differ */
export async function compareWith(base: string, setting: CompareSetting): Promise<void> {
  const { models, rows, rounds, cores } = setting;
  const input = await applications(setting.program, rows);
  const workers = ['--workers', String(cores)];
  const here = sluice(setting.program, 'here', 'this checkout', workers);
  await withBase(base, async ({ program, commit }) => {
    const there = sluice(program, 'base', commit, workers);
    for (const model of models) {
      const pairs = await pairsOf([here, there], { model, input, rows, rounds });
      tell(`${model}, ${rows} rows, ${rounds} rounds, here ÷ ${base} (${commit})`, pairs);
    }
  });
  process.stdout.write(`load average ${loadavg()[0]!.toFixed(2)}\n`);
}

interface Task {
  model: string;
  input: string;
  rows: number;
  rounds: number;
}

/** @throws Error when the two do not score alike */
async function pairsOf(two: readonly [Contender, Contender], { model, input, rows, rounds }: Task): Promise<Pair[]> {
  const file = (c: Contender) => path.join(folder(CACHE, 'outputs'), `compare-${c.name}.ndjson`);
  const commands = two.map((c) => c.command(model, input, file(c))) as [Command, Command];
  return inPairs(commands, rounds, async (round, [a, b]) => {
    say(
      `round ${round + 1}/${rounds}  ${model}: ${two[0].name} ${a.seconds.toFixed(2)} s, ${two[1].name} ${b.seconds.toFixed(2)} s`,
    );
    if (round > 0) return;
    const samples = new Map<string, Float64Array>();
    for (const c of two) samples.set(c.name, await readSample(file(c), rows));
    if (Math.max(...distances(samples).values()) > TOLERANCE / 2)
      throw new Error(`${model}: scores of ${two[0].name} and ${two[1].name} differ`);
  });
}

function tell(title: string, pairs: readonly Pair[]): void {
  process.stdout.write(`${title}:\n`);
  for (const [what, s] of Object.entries(ratios(pairs))) {
    process.stdout.write(
      `  ${what.padEnd(12)} min ${s.min.toFixed(3)}  median ${s.median.toFixed(3)}  max ${s.max.toFixed(3)}\n`,
    );
  }
}
