// A table through Spark, in pairs: `mapInArrow` that gives its batches back, and the same with `sluice score` in between.
import { loadavg } from 'node:os';
import path from 'node:path';
import { tableOf } from './formats.ts';
import { type Program, REGISTRY } from './prepare.ts';
import { run, type Spread, say, spread } from './run.ts';

export interface SparkResult {
  rows: number;
  partitions: number;
  rounds: number;
  load: number;
  /** Wall, of the whole query. */
  plain: Spread;
  scored: Spread;
  /** Within pairs. */
  ratio: Spread;
}

export interface SparkSetting {
  program: Program;
  /** With pyspark. */
  spark: string;
  /** With what writes tables. */
  python: string;
  model: string;
  rows: number;
  rounds: number;
}

interface Answer {
  rows: number;
  partitions: number;
  pairs: { plain: number; scored: number }[];
}

/** @throws Error when a query fails */
export async function benchSpark({ program, spark, python, model, rows, rounds }: SparkSetting): Promise<SparkResult> {
  const load = loadavg()[0]!;
  const table = await tableOf(program, python, rows, 'parquet');
  const script = path.join(import.meta.dirname, 'spark_pairs.py');
  const args = [spark, '-W', 'ignore', script, table, model, String(rounds), ...program.sluice];
  const answer = JSON.parse(await run({ args, env: { SLUICE_REGISTRY: REGISTRY } })) as Answer;
  const { pairs, partitions } = answer;
  if (answer.rows !== rows) throw new Error(`Spark read ${answer.rows} rows of ${rows}`);
  const of = (seconds: (pair: Answer['pairs'][number]) => number): Spread => spread(pairs.map(seconds));
  const result = {
    rows,
    partitions,
    rounds,
    load,
    plain: of(({ plain }) => plain),
    scored: of(({ scored }) => scored),
    ratio: of(({ plain, scored }) => scored / plain),
  };
  say(`Spark: ${result.plain.median.toFixed(2)} s, with Sluice ${result.scored.median.toFixed(2)} s`);
  return result;
}
