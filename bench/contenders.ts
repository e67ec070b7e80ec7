// Who takes part in scoring a file, and how each is called. All read the same CSV and write NDJSON with row, prediction
// and probability.
import path from 'node:path';
import type { Oddness } from '../src/demo/oddness.ts';
import { BUNDLED, filesOf, GERMAN, MODELS, NODE, PEERS, type Program, REGISTRY } from './prepare.ts';
import type { Command } from './run.ts';

/** One table scored with one model by all that take part. */
export interface Case {
  model: string;
  rows: number;
  /** none: missing values only, so that the peers may read categories the fastest way they know. */
  oddness: Oddness;
  /** Far more rows: only the fastest take part. */
  large: boolean;
}

export interface Contender {
  name: string;
  /** What it is, for the page. */
  what: string;
  takes: (one: Case) => boolean;
  command: (one: Pick<Case, 'model'> & Partial<Case>, input: string, output: string) => Command;
}

const all = (): boolean => true;
const isClean = ({ oddness, large }: Case): boolean => oddness === 'none' && !large;
/** The peers do not know the package of the bundled model: it is measured alone. */
const trained = (one: Case): boolean => !NOT_FOR_PEERS.has(one.model) && isClean(one);
/** CatBoost exports a list of dictionaries, which ONNX Runtime does not hand to JavaScript and peers do not write by themselves. */
const NOT_FOR_PEERS = new Set<string>([BUNDLED, 'bench-catboost', GERMAN]);
const only = (model: string) => (one: Case) => one.model === model && isClean(one);

export function sluice(
  program: Program,
  name: string,
  what: string,
  options: readonly string[],
  takes: Contender['takes'] = all,
): Contender {
  return {
    name,
    what,
    takes,
    command: ({ model }, input, output) => ({
      args: [
        ...program.sluice,
        'score',
        input,
        '-m',
        model,
        '-o',
        output,
        '--registry',
        REGISTRY,
        '--quiet',
        ...options,
      ],
    }),
  };
}

function naive(name: string, how: string, options: readonly string[], takes = trained): Contender {
  return {
    name,
    what: `a straightforward program (\`bench/naive.ts\`): rows as objects, batches of 1,000, JSON.stringify a row${how}`,
    takes,
    command: ({ model }, input, output) => ({
      args: [
        NODE,
        path.join(import.meta.dirname, 'naive.ts'),
        path.join(MODELS, `${model}.onnx`),
        path.join(MODELS, 'codes.json'),
        input,
        output,
        ...options,
      ],
    }),
  };
}

export function peer(python: string, name: string, what: string, call: string, takes = trained): Contender {
  return {
    name,
    what,
    takes,
    command: ({ model, oddness = 'none' }, input, output) => ({
      args: [
        python,
        '-W',
        'ignore',
        PEERS,
        'score',
        call,
        '--model',
        model,
        '--models',
        filesOf(model),
        '--input',
        input,
        '--output',
        output,
        ...(oddness === 'none' ? [] : ['--odd']),
      ],
    }),
  };
}

/** Interpreters with the packages of the peers; those of the compilers want an older LLVM, and so a place of their own. */
export interface Pythons {
  python: string | null;
  compiled: string | null;
}

/** The first is what all others are related to. */
export function contenders(program: Program, { python, compiled }: Pythons, cores: number): Contender[] {
  const workers = ['--workers', String(cores)];
  const onnx = [...workers, '--evaluator', 'onnxruntime'];
  const list = [
    sluice(program, 'sluice', `\`sluice score\`, ${cores} workers`, workers),
    sluice(program, 'sluice, 1 worker', 'the same with one worker', ['--workers', '1'], isClean),
    sluice(program, 'sluice, ONNX Runtime', `\`--evaluator onnxruntime\`, ${cores} workers`, onnx, isClean),
    naive('csv-parse + onnxruntime-node', '', []),
    naive(
      'csv-parse + onnxruntime-node, 1 thread',
      ', ONNX Runtime with one thread, as the reproducible bits of a tree ensemble need it',
      ['1'],
      only('bench-lightgbm'),
    ),
  ];
  if (python !== null) list.push(...libraries(python));
  const lightgbm = ({ model }: Case): boolean => model === 'bench-lightgbm' || model === GERMAN;
  if (compiled === null) return list;
  return [
    ...list,
    peer(
      compiled,
      'polars + lleaves',
      'the same reader, LightGBM’s trees compiled by LLVM beforehand, on all cores',
      'polars-lleaves',
      lightgbm,
    ),
    peer(
      compiled,
      'polars + tl2cgen',
      'the same reader, the trees as C compiled by `gcc -O3` beforehand, on all cores',
      'polars-tl2cgen',
      only('bench-lightgbm'),
    ),
  ];
}

function libraries(python: string): Contender[] {
  const own = (name: string, call: string, model: string): Contender =>
    peer(
      python,
      `polars + ${name}`,
      `the same reader, ${name}’s own predictor on all cores`,
      call,
      (one) => one.model === model && !one.large,
    );
  return [
    peer(python, 'polars + onnxruntime', 'lazy CSV scan in batches of 50,000 rows, categories as Enum', 'polars'),
    peer(python, 'pandas + onnxruntime', 'read_csv in chunks of 50,000 rows, categories as Categorical', 'pandas'),
    peer(
      python,
      'DuckDB + onnxruntime',
      'read_csv with types and ENUMs, Arrow batches, COPY … (FORMAT json)',
      'duckdb',
    ),
    own('LightGBM', 'polars-lightgbm', 'bench-lightgbm'),
    own('LightGBM', 'polars-lightgbm', GERMAN),
    own('XGBoost', 'polars-xgboost', 'bench-xgboost'),
    own('CatBoost', 'polars-catboost', 'bench-catboost'),
    own('scikit-learn', 'polars-forest', 'bench-forest'),
    own('scikit-learn', 'polars-logistic', 'bench-logistic'),
  ];
}
