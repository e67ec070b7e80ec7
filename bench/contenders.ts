// Who takes part in scoring a file, and how each is called. All read the same CSV and write NDJSON with row, prediction
// and probability.
import path from 'node:path';
import { BUNDLED, MODELS, NODE, PEERS, type Program, REGISTRY } from './prepare.ts';
import type { Command } from './run.ts';

export interface Contender {
  name: string;
  /** What it is, for the page. */
  what: string;
  takes: (model: string) => boolean;
  command: (model: string, input: string, output: string) => Command;
}

const all = (): boolean => true;
/** The peers do not know the package of the bundled model: it is measured alone, where nothing else is there. */
const trained = (model: string): boolean => model !== BUNDLED;

export function sluice(program: Program, name: string, what: string, options: readonly string[]): Contender {
  return {
    name,
    what,
    takes: all,
    command: (model, input, output) => ({
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
    what: `what one writes first (\`bench/naive.ts\`): rows as objects, batches of 1,000, JSON.stringify a row${how}`,
    takes,
    command: (model, input, output) => ({
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

function peer(python: string, name: string, what: string, call: string, takes = trained): Contender {
  return {
    name,
    what,
    takes,
    command: (model, input, output) => ({
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
        MODELS,
        '--input',
        input,
        '--output',
        output,
      ],
    }),
  };
}

/** The first is what all others are related to. */
export function contenders(program: Program, python: string | null, cores: number): Contender[] {
  const list = [
    sluice(program, 'sluice', `\`sluice score\`, ${cores} workers`, ['--workers', String(cores)]),
    sluice(program, 'sluice, 1 worker', 'the same with one worker', ['--workers', '1']),
    sluice(program, 'sluice, ONNX Runtime', `\`--evaluator onnxruntime\`, ${cores} workers`, [
      '--workers',
      String(cores),
      '--evaluator',
      'onnxruntime',
    ]),
    naive('csv-parse + onnxruntime-node', '', [], trained),
    naive(
      'csv-parse + onnxruntime-node, 1 thread',
      ', ONNX Runtime with one thread, as the reproducible bits of a tree ensemble need it',
      ['1'],
      (model) => model === 'bench-lightgbm',
    ),
  ];
  if (python === null) return list;
  return [
    ...list,
    peer(python, 'polars + onnxruntime', 'lazy CSV scan in batches of 50,000 rows, categories as Enum', 'polars'),
    peer(python, 'pandas + onnxruntime', 'read_csv in chunks of 50,000 rows, categories as Categorical', 'pandas'),
    peer(
      python,
      'DuckDB + onnxruntime',
      'read_csv with types and ENUMs, Arrow batches, COPY … (FORMAT json)',
      'duckdb',
    ),
    peer(
      python,
      'polars + LightGBM',
      'the same reader, LightGBM’s own predictor on all cores',
      'polars-lightgbm',
      (model) => model === 'bench-lightgbm',
    ),
  ];
}
