// `npm run bench -- --compare BASE`: this checkout against another commit or the last release, both in turn, as ratios.
import { loadavg } from 'node:os';
import path from 'node:path';
import { withBase } from './base.ts';
import { compareServers } from './compare-servers.ts';
import { compareTopics } from './compare-topics.ts';
import { type Contender, sluice } from './contenders.ts';
import { inPairs, type Pair, ratios } from './pairs.ts';
import { applications, CACHE, type Program, ROOT } from './prepare.ts';
import { type Command, folder, measure, run, type Spread, say, warn } from './run.ts';
import { typedApplications } from './typed-tables.ts';
import { distances, readSample, TOLERANCE } from './verify.ts';

/** The kinds of work that are compared. */
export const COMPARED = ['plain', 'real', 'parquet', 'json', 'effects', 'request', 'topic'] as const;
type Compared = (typeof COMPARED)[number];

interface CompareSetting {
  program: Program;
  parts: readonly Compared[];
  models: readonly string[];
  rows: number;
  rounds: number;
  cores: number;
  /** Largest median ratio of CPU seconds; null: any. */
  limit: number | null;
}

/** Rows of a comparison with interpretation. */
const EXPLAINED = 50_000;
/** Models that answer with effects in no time: nothing to compare. */
const LINEAR = new Set(['bench-logistic']);
/** The name of the commit of the last release. */
const RELEASE = 'release';

/**
 * Prints ratios (this checkout ÷ base; below 1 is faster) of pairs of runs. A ratio over the limit is measured again
 * with twice as many rounds, because other work on the machine can cause it.
 * @returns the comparisons whose median ratio of CPU seconds is over the limit both times
 * @throws Error when scores differ
 */
export async function compareWith(base: string, setting: CompareSetting): Promise<string[]> {
  const { parts, models, rounds, limit } = setting;
  const slower: string[] = [];
  await withBase(base === RELEASE ? await lastRelease() : base, async ({ program, commit }) => {
    const both: Both = [setting.program, program];
    const judge = async (
      what: string,
      ratiosOf: (rounds: number) => Promise<Record<string, Spread>>,
    ): Promise<void> => {
      for (const n of [rounds, rounds * 2]) {
        const found = await ratiosOf(n);
        tell(`${what}, ${n} rounds, here ÷ ${base} (${commit})`, found);
        if (limit === null || !((found.CPU?.median ?? 0) > limit)) return;
      }
      slower.push(what);
    };
    for (const model of models) {
      for (const part of parts) {
        if (part === 'request' || part === 'topic' || (part === 'effects' && LINEAR.has(model))) continue;
        const rows = part === 'effects' ? Math.min(setting.rows, EXPLAINED) : setting.rows;
        const input = await inputOf(setting.program, part, rows);
        await judge(`${model}, ${part}, ${rows} rows`, async (n) =>
          ratios(await pairsOf(both, part, { model, input, rows, rounds: n, cores: setting.cores })),
        );
      }
    }
    const model = models[0]!;
    if (parts.includes('request')) {
      const input = await inputOf(setting.program, 'plain', setting.rows);
      await judge(`${model}, one application a request`, async (n) => {
        const found = await compareServers(both, { model, input, rounds: n });
        tell(`${model}, an upload`, found.upload!);
        return found['one application a request']!;
      });
    }
    if (parts.includes('topic')) {
      await judge(`${model}, draining a topic`, async (n) => {
        const found = await compareTopics(both, { model, rows: setting.rows, rounds: n });
        if (found === null) warn('topics are not compared: the broker needs Java and Maven');
        return found ?? {};
      });
    }
  });
  process.stdout.write(`load average ${loadavg()[0]!.toFixed(2)}\n`);
  return slower;
}

type Both = readonly [here: Program, base: Program];

async function lastRelease(): Promise<string> {
  const args = ['git', 'log', '--grep', '^release: [0-9]', '--format=%h', '-1', 'HEAD~1'];
  const commit = (await run({ args, cwd: ROOT })).trim();
  if (commit === '') throw new Error('no release is in the history of this checkout: name a commit');
  return commit;
}

const inputOf = (program: Program, part: Compared, rows: number): Promise<string> =>
  part === 'parquet' || part === 'json'
    ? typedApplications(program, rows, part)
    : applications(program, rows, part === 'real' ? 'real' : 'none');

interface Task {
  model: string;
  input: string;
  rows: number;
  rounds: number;
  cores: number;
}

/** @throws Error when the two do not score alike */
async function pairsOf(both: Both, part: Compared, { model, input, rows, rounds, cores }: Task): Promise<Pair[]> {
  const options = ['--workers', String(cores), ...(part === 'effects' ? ['--interpretation'] : [])];
  const two = both.map((program, i) => sluice(program, ['here', 'base'][i]!, '', options)) as [Contender, Contender];
  const file = (c: Contender) => path.join(folder(CACHE, 'outputs'), `compare-${c.name}.ndjson`);
  const commands = two.map((c) => c.command({ model }, input, file(c))) as [Command, Command];
  // The first run of a model compares its evaluators.
  for (const command of commands) await measure(command);
  return inPairs(commands, rounds, measure, async (round, [a, b]) => {
    say(
      `round ${round + 1}/${rounds}  ${model}, ${part}: here ${a.seconds.toFixed(2)} s, base ${b.seconds.toFixed(2)} s`,
    );
    if (round > 0) return;
    const samples = new Map<string, Float64Array>();
    for (const c of two) samples.set(c.name, await readSample(file(c), rows));
    if (Math.max(...distances(samples).values()) > TOLERANCE / 2)
      throw new Error(`${model}, ${part}: scores of this checkout and the base differ`);
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
