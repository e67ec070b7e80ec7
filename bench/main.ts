// `npm run bench`: Sluice against what else could do the work, on this machine; writes docs/benchmarks.*.
import '../src/core/no-telemetry.ts';
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { availableParallelism } from 'node:os';
import path from 'node:path';
import { parseArgs } from 'node:util';
import { ODDNESS, type Oddness } from '../src/demo/oddness.ts';
import { COMPARED, compareWith } from './compare.ts';
import type { Case } from './contenders.ts';
import { benchExplain } from './explain.ts';
import { benchFormats } from './formats.ts';
import { benchHttp } from './http.ts';
import { commitOf, machine } from './machine.ts';
import { benchManyModels } from './many-models.ts';
import { type Benchmarks, page } from './page.ts';
import { benchPipeline } from './pipeline.ts';
import { plot } from './plot.ts';
import {
  applications,
  BUNDLED,
  build,
  CACHE,
  compiledTrees,
  environment,
  GERMAN,
  germanModel,
  models,
  REGISTRY,
  ROOT,
} from './prepare.ts';
import { benchProof } from './proof.ts';
import { folder, metersChildren, say, warn } from './run.ts';
import { sameBytes } from './same-bytes/same-bytes.ts';
import { benchScore } from './score.ts';
import { benchSpark } from './spark.ts';
import { typedApplications } from './typed-tables.ts';
import { benchWhere } from './where.ts';

const { values } = parseArgs({
  options: {
    rows: { type: 'string' },
    rounds: { type: 'string' },
    quick: { type: 'boolean', default: false },
    only: { type: 'string' },
    /** Only these models, comma-separated. */
    models: { type: 'string' },
    /** Another commit, or `release` for the last release: ratios of this checkout and that one. */
    compare: { type: 'string' },
    /** Of --compare: the largest ratio of CPU seconds; exit 1 if one is larger. */
    limit: { type: 'string' },
    /** Another commit: what it writes at every door, byte for byte. */
    'same-bytes': { type: 'string' },
    /** Of --same-bytes: only cases whose name holds this. */
    cases: { type: 'string' },
    /** Folder of the three files; default docs, and .cache/bench/quick with --quick. */
    out: { type: 'string' },
    /** What readers of the page should know about this run. */
    note: { type: 'string' },
  },
});
const PARTS = ['score', 'where', 'formats', 'pipeline', 'http', 'many', 'explain', 'proof', 'spark'] as const;
/** The values of --only. */
function chosenFrom<T extends string>(list: readonly T[]): T[] {
  const words = values.only?.split(',') ?? list;
  for (const word of words) {
    if (!(list as readonly string[]).includes(word)) throw new Error(`--only takes ${list.join(', ')}`);
  }
  return words as T[];
}
const only = values.compare === undefined ? chosenFrom(PARTS) : [];
const number = (text: string | undefined, otherwise: number): number => {
  const n = text === undefined ? otherwise : Number(text);
  if (!Number.isInteger(n) || n < 1) throw new Error(`${text} is no whole number from 1`);
  return n;
};
const rows = number(values.rows, values.quick ? 100_000 : 1_000_000);
const rounds = number(values.rounds, values.quick ? 1 : values.compare === undefined ? 3 : 5);
const cores = availableParallelism();
const out = values.out ?? (values.quick ? path.join(CACHE, 'quick') : path.join(ROOT, 'docs'));

folder(REGISTRY);
const commit = await commitOf();
const program = await build(ROOT);
if (values['same-bytes'] !== undefined) {
  process.exit(await sameBytes(values['same-bytes'], { program, only: values.cases ?? '' }));
}
const wanted = values.models?.split(',');
// The bundled model can be compared without Python.
const needsPython = values.compare === undefined || wanted?.every((model) => model === BUNDLED) !== true;
const python = needsPython ? await environment('venv', 'requirements.txt', 'every Python peer') : null;
if (python !== null) await models(program, python);
const hasGerman = values.compare === undefined && python !== null && (await germanModel(program, python));
const compilers =
  values.compare === undefined && python !== null
    ? await environment('compilers', 'requirements-compiled.txt', 'what compiles trees')
    : null;
const compiled = compilers !== null && (await compiledTrees(compilers)) ? compilers : null;
if (!metersChildren) warn('no python3 to measure with: processes are measured by themselves, children do not count');
const scored =
  python === null
    ? [BUNDLED]
    : [
        'bench-lightgbm',
        'bench-forest',
        'bench-logistic',
        'bench-xgboost',
        'bench-catboost',
        ...(hasGerman ? [GERMAN] : []),
      ];
const chosen = wanted ?? scored;

if (values.compare !== undefined) {
  const limit = values.limit === undefined ? null : Number(values.limit);
  const parts = chosenFrom(COMPARED);
  const slower = await compareWith(values.compare, { program, parts, models: chosen, rows, rounds, cores, limit });
  for (const what of slower) process.stdout.write(`over the limit of ${limit}: ${what}\n`);
  if (slower.length > 0) process.exitCode = 1;
} else {
  const before: Partial<Benchmarks> = existsSync(path.join(out, 'benchmarks.json'))
    ? (JSON.parse(readFileSync(path.join(out, 'benchmarks.json'), 'utf8')) as Benchmarks)
    : {};
  const results: Partial<Benchmarks> = { ...before };
  // What was said about parts that are all measured again does not hold any more.
  if (values.note !== undefined) results.note = values.note;
  else if (only.length === PARTS.length) delete results.note;
  const input = await applications(program, rows);
  // Each part says where and when it was measured: parts can be measured again alone.
  const where = (): Promise<Benchmarks['score']['machine']> => machine(python, commit);
  if (only.includes('score')) {
    await benchScore({
      program,
      pythons: { python, compiled },
      cases: casesOf(chosen, rows, values.quick),
      rounds,
      cores,
      onRound: async (result) => {
        results.score = { machine: await where(), ...result };
        write(results);
      },
    });
  }
  if (only.includes('where')) {
    const inputs = [
      { title: 'CSV', file: input },
      { title: 'CSV, real rows', file: await applications(program, rows, 'real') },
      { title: 'Parquet', file: await typedApplications(program, rows, 'parquet') },
    ];
    const result = await benchWhere({ program, model: chosen[0]!, inputs, rows, rounds, cores });
    if (result) results.where = { machine: await where(), ...result };
    write(results);
  }
  if (only.includes('formats') && python !== null) {
    const result = await benchFormats({
      program,
      python,
      compiled,
      model: chosen[0]!,
      rows,
      rounds,
      cores,
      quick: values.quick,
    });
    results.formats = { machine: await where(), ...result };
    write(results);
  }
  if (only.includes('pipeline')) {
    const result = await benchPipeline({ program, input, models: chosen, rows, rounds, cores });
    results.pipeline = { machine: await where(), ...result };
    write(results);
  }
  if (only.includes('http')) {
    const result = await benchHttp({ program, input, rows, rounds, quick: values.quick, trained: python !== null });
    results.http = { machine: await where(), ...result };
    write(results);
  }
  if (only.includes('many')) {
    const result = await benchManyModels({ program, model: chosen[0]!, input, quick: values.quick });
    results.many = { machine: await where(), ...result };
    write(results);
  }
  if (only.includes('explain')) {
    const fasttreeshap = await environment('venv-fasttreeshap', 'requirements-fasttreeshap.txt', 'fasttreeshap');
    const result = await benchExplain({ program, python, fasttreeshap, rounds, quick: values.quick, input, cores });
    results.explain = { machine: await where(), ...result };
    write(results);
  }
  if (only.includes('proof')) {
    const result = await benchProof({ program, input, rows, model: chosen[0]!, rounds, cores });
    results.proof = { machine: await where(), ...result };
    write(results);
  }
  const spark = only.includes('spark') ? await environment('venv-spark', 'requirements-spark.txt', 'Spark') : null;
  if (spark !== null && python !== null) {
    const result = await benchSpark({ program, spark, python, model: chosen[0]!, rows, rounds });
    results.spark = { machine: await where(), ...result };
    write(results);
  }
}

/** Each model on clean and on real rows; the first also on all other kinds, and on ten times as many. */
function casesOf(names: readonly string[], rows: number, quick: boolean): Case[] {
  const caseOf = (model: string, oddness: Oddness): Case => ({ model, rows, oddness, large: false });
  const large = (model: string, oddness: Oddness): Case => ({
    ...caseOf(model, oddness),
    rows: rows * 10,
    large: true,
  });
  return names.flatMap((model, i) => {
    // A public table has its own cells.
    if (model === GERMAN) return [caseOf(model, 'none')];
    if (i > 0) return [caseOf(model, 'none'), caseOf(model, 'real')];
    const all = ODDNESS.map((oddness) => caseOf(model, oddness));
    return quick ? all : [...all, large(model, 'none'), large(model, 'real')];
  });
}

function write(results: Partial<Benchmarks>): void {
  mkdirSync(out, { recursive: true });
  const file = (name: string) => path.join(out, name);
  writeFileSync(file('benchmarks.json'), `${JSON.stringify(results, null, 2)}\n`);
  writeFileSync(file('benchmarks.md'), page(results));
  if (results.score) writeFileSync(file('benchmarks.svg'), plot(results.score));
  say(`→ ${path.relative(process.cwd(), out)}/benchmarks.{md,json,svg}`);
}
