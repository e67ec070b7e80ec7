// The same table in every format and many times as large, a table of 100 rows, and what the machine can do at best: whole processes
// in turn, as in score.ts.
import { existsSync, rmSync } from 'node:fs';
import { loadavg } from 'node:os';
import path from 'node:path';
import { type Contender, peer, sluice } from './contenders.ts';
import { type Limits, limitsOf } from './limits.ts';
import { applications, CACHE, PEERS, type Program } from './prepare.ts';
import { type Command, folder, measure, run, type Spread, say, spread, type Usage } from './run.ts';

export interface FormatsResult {
  rounds: number;
  load: number[];
  /** The first of each is what the others are related to. */
  groups: { title: string; rows: number; runs: MeasuredRun[] }[];
  limits: Limits;
}

export interface MeasuredRun {
  name: string;
  seconds: Spread;
  cpuSeconds: Spread;
  peakBytes: Spread;
}

export interface FormatsSetting {
  program: Program;
  python: string;
  /** With lleaves; null: without. */
  compiled: string | null;
  model: string;
  rows: number;
  rounds: number;
  cores: number;
  quick: boolean;
}

interface Run {
  name: string;
  command: Command;
  output: string | null;
}

interface Group {
  title: string;
  rows: number;
  runs: readonly Run[];
}

/** Formats as in the names of files. */
const WAYS: readonly (readonly [from: string, to: string])[] = [
  ['csv', 'ndjson'],
  ['csv', 'csv'],
  ['csv', 'parquet'],
  ['csv', 'arrow'],
  ['ndjson', 'ndjson'],
  ['json', 'json'],
  ['parquet', 'ndjson'],
  ['parquet', 'parquet'],
  ['arrow', 'arrow'],
];
const LARGE_WAYS = WAYS.filter(([from, to]) => from === to && !['json', 'ndjson'].includes(from));
const FEW_ROWS = 100;
/** Ten times as many for the table that must not take more memory. */
const LARGE = 10;

/** @throws Error when a run fails */
export async function benchFormats(setting: FormatsSetting): Promise<FormatsResult> {
  const { program, rows, rounds } = setting;
  const groups = [
    { title: 'Formats', rows, runs: await waysOf(setting, rows, WAYS) },
    ...(setting.quick
      ? []
      : [{ title: 'Large tables', rows: rows * LARGE, runs: await waysOf(setting, rows * LARGE, LARGE_WAYS) }]),
    { title: 'A few rows', rows: FEW_ROWS, runs: await fewOf(setting) },
  ];
  const usages = new Map<Run, Usage[]>();
  const load: number[] = [];
  for (let round = 0; round < rounds; round++) {
    load.push(loadavg()[0]!);
    for (const group of groups) await inTurn(group, round, usages);
  }
  const resultOf = (one: Run): MeasuredRun => {
    const own = usages.get(one)!;
    return {
      name: one.name,
      seconds: spread(own.map((u) => u.seconds)),
      cpuSeconds: spread(own.map((u) => u.userSeconds + u.systemSeconds)),
      peakBytes: spread(own.map((u) => u.peakBytes)),
    };
  };
  const input = await applications(program, rows);
  return {
    rounds,
    load,
    groups: groups.map(({ title, rows, runs }) => ({ title, rows, runs: runs.map(resultOf) })),
    limits: limitsOf(input, path.join(folder(CACHE, 'outputs'), 'limits')),
  };
}

/** All of a group once, each round in another order. */
async function inTurn({ title, rows, runs }: Group, round: number, usages: Map<Run, Usage[]>): Promise<void> {
  for (let i = 0; i < runs.length; i++) {
    const one = runs[(i + round) % runs.length]!;
    const usage = await measure(one.command);
    usages.set(one, [...(usages.get(one) ?? []), usage]);
    if (one.output !== null) rmSync(one.output);
    say(
      `round ${round + 1}  ${title}, ${rows} rows  ${one.name}: ${usage.seconds.toFixed(2)} s, ` +
        `CPU ${(usage.userSeconds + usage.systemSeconds).toFixed(2)} s, ${Math.round(usage.peakBytes / 1e6)} MB`,
    );
  }
}

const outputOf = (name: string, format: string): string =>
  path.join(folder(CACHE, 'outputs'), `formats-${name.replaceAll(/[^a-z0-9]+/gi, '-')}.${format}`);

async function waysOf(
  { program, python, compiled, model, cores }: FormatsSetting,
  rows: number,
  ways: typeof WAYS,
): Promise<Run[]> {
  const runOf = (contender: Contender, input: string, from: string, to: string): Run => {
    const output = outputOf(`${contender.name} ${from}`, to);
    const name = `${contender.name}, ${SPELLED[from]} → ${SPELLED[to]}`;
    return { name, output, command: contender.command({ model }, input, output) };
  };
  const own = sluice(program, 'sluice', '', ['--workers', String(cores), '--no-manifest']);
  const runs: Run[] = [];
  for (const [from, to] of ways) runs.push(runOf(own, await tableOf(program, python, rows, from), from, to));
  if (compiled === null) return runs;
  const lleaves = peer(compiled, 'polars + lleaves', '', 'polars-lleaves', () => true);
  for (const [from, to] of ways.filter(([from]) => from === 'csv' || from === 'parquet')) {
    if (!['ndjson', 'parquet'].includes(to) || (from === 'parquet' && to === 'ndjson')) continue;
    runs.push(runOf(lleaves, await tableOf(program, python, rows, from), from, to));
  }
  return runs;
}

const SPELLED: Readonly<Record<string, string>> = {
  csv: 'CSV',
  ndjson: 'NDJSON',
  json: 'JSON',
  parquet: 'Parquet',
  arrow: 'Arrow',
};

/** The table in another format, made once: with values of their types, in one row group as pandas writes it. */
export async function tableOf(program: Program, python: string, rows: number, format: string): Promise<string> {
  const csv = await applications(program, rows);
  const file = `${csv.slice(0, -'.csv'.length)}.${format}`;
  if (!existsSync(file)) {
    say(`making ${path.basename(file)}`);
    await run({ args: [python, '-W', 'ignore', PEERS, 'table', '--input', csv, '--output', file] });
  }
  return file;
}

async function fewOf({ program, python, compiled, model, cores }: FormatsSetting): Promise<Run[]> {
  const input = await applications(program, FEW_ROWS);
  const contenders = [
    sluice(program, 'sluice', '', ['--workers', String(cores)]),
    peer(python, 'polars + onnxruntime', '', 'polars', () => true),
    ...(compiled === null ? [] : [peer(compiled, 'polars + lleaves', '', 'polars-lleaves', () => true)]),
  ];
  const runs = contenders.map((c): Run => {
    const output = outputOf(`few ${c.name}`, 'ndjson');
    return { name: c.name, output, command: c.command({ model }, input, output) };
  });
  const version: Run = {
    name: '`sluice --version`',
    output: null,
    command: { args: [...program.sluice, '--version'] },
  };
  return [...runs, version];
}
