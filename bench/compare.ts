// `npm run bench -- --compare BASE`: this checkout against another commit, both in turn, as ratios.
import { loadavg } from 'node:os';
import path from 'node:path';
import { withBase } from './base.ts';
import { compareServers } from './compare-servers.ts';
import { type Contender, sluice } from './contenders.ts';
import { inPairs, type Pair, ratios } from './pairs.ts';
import { applications, CACHE, type Program } from './prepare.ts';
import { head } from './rows.ts';
import { type Command, folder, measure, type Spread, say } from './run.ts';
import { distances, readSample, TOLERANCE } from './verify.ts';

export interface CompareSetting {
  program: Program;
  /** Which of score, http and explain. */
  parts: readonly string[];
  models: readonly string[];
  rows: number;
  rounds: number;
  cores: number;
}

/** Rows of a comparison with interpretation. */
const EXPLAINED = 50_000;
/** Models that answer with effects in no time: nothing to compare. */
const LINEAR = new Set(['bench-logistic']);

/** Prints ratios (this checkout ÷ base; below 1 is faster) of pairs of runs. @throws Error when scores differ */
export async function compareWith(base: string, setting: CompareSetting): Promise<void> {
  const { parts, models, rows, rounds, cores } = setting;
  const input = await applications(setting.program, rows);
  const workers = ['--workers', String(cores)];
  const here = sluice(setting.program, 'here', 'this checkout', workers);
  await withBase(base, async ({ program, commit }) => {
    const there = sluice(program, 'base', commit, workers);
    const title = (what: string): string => `${what}, ${rounds} rounds, here ÷ ${base} (${commit})`;
    const few = Math.min(rows, EXPLAINED);
    for (const model of parts.includes('score') ? models : []) {
      tell(title(`${model}, ${rows} rows`), ratios(await pairsOf([here, there], { model, input, rows, rounds })));
    }
    for (const model of parts.includes('explain') ? models.filter((m) => !LINEAR.has(m)) : []) {
      const explaining = [...workers, '--interpretation'];
      const two = [setting.program, program].map((p, i) => sluice(p, i === 0 ? 'here' : 'base', '', explaining));
      const task = { model, input: await head(input, few), rows: few, rounds };
      const pairs = await pairsOf(two as [Contender, Contender], task);
      tell(title(`${model} with interpretation, ${few} rows`), ratios(pairs));
    }
    if (parts.includes('http')) {
      const model = models[0]!;
      const found = await compareServers([setting.program, program], { model, input, rounds });
      for (const [what, spreads] of Object.entries(found)) tell(title(`${model}: ${what}`), spreads);
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
  const commands = two.map((c) => c.command({ model }, input, file(c))) as [Command, Command];
  return inPairs(commands, rounds, measure, async (round, [a, b]) => {
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

function tell(title: string, spreads: Record<string, Spread>): void {
  process.stdout.write(`${title}:\n`);
  for (const [what, s] of Object.entries(spreads)) {
    process.stdout.write(
      `  ${what.padEnd(12)} min ${s.min.toFixed(3)}  median ${s.median.toFixed(3)}  max ${s.max.toFixed(3)}\n`,
    );
  }
}
