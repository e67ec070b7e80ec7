// Models of every kind, registered by each side into a registry of its own: what `model add` makes of a file must be the same, too.
import { cpSync, existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { ROOT } from '../prepare.ts';
import { type Case, commandLine, type Seen, type Side } from './side.ts';

const ZOO = path.join(ROOT, 'test', 'zoo');

/** One of each way a score is made and written. */
export const ZOO_MODELS: readonly string[] = [
  'lightgbm-pipeline',
  'lightgbm-multiclass',
  'catboost-string-labels',
  'skl-forest-multiclass',
  'skl-logistic-zipmap',
  'skl-mlp',
  'skl-scorecard-points',
  'xgboost-regressor',
];

interface Described {
  outcome: string;
  positive_class?: string | number;
  tolerance: number;
  register: {
    columns: string[];
    encoding?: string;
    inputs?: Record<string, { missing?: unknown; false?: unknown; true?: unknown }>;
  };
}

/** Registers the fixtures by copying, the zoo by `model add`. */
export function* registerCases(): Iterable<Case> {
  for (const model of ZOO_MODELS) {
    yield { name: `model add ${model}`, always: true, see: (side) => add(side, model) };
  }
}

async function add(side: Side, model: string): Promise<Seen> {
  const registry = path.join(side.folder, 'models');
  if (!existsSync(registry)) {
    cpSync(path.join(ROOT, 'test', 'fixtures', 'packages'), registry, { recursive: true });
    cpSync(path.join(ZOO, 'data', 'dirty.csv'), path.join(side.folder, 'dirty.csv'));
    mkdirSync(path.join(side.folder, 'zoo'));
  }
  const described = JSON.parse(readFileSync(path.join(ZOO, 'models', model, 'model.json'), 'utf8')) as Described;
  const training = path.join(ZOO, 'data', 'train.csv');
  const header = readFileSync(training, 'utf8').split('\n', 1)[0]!.split(',');
  const ignored = header.filter((h) => !described.register.columns.includes(h) && h !== described.outcome);
  const { positive_class: positive } = described;
  const seen = await commandLine(side, `model add ${model}`, {
    args: [
      ...['model', 'add', path.join(ZOO, 'models', model, 'model.onnx'), '--registry', '../models', '--id', model],
      ...[
        '--training-data',
        training,
        '--outcome',
        described.outcome,
        '--encoding',
        encodingFile(side, model, described),
      ],
      ...(ignored.length > 0 ? ['--ignore', ignored.join(',')] : []),
      ...(positive === undefined ? [] : ['--positive-class', String(positive)]),
    ],
  });
  const folder = path.join(registry, model, '1');
  for (const name of existsSync(folder) ? readdirSync(folder) : []) {
    seen.set(name, steady(readFileSync(path.join(folder, name))));
  }
  seen.set('standard output', Buffer.from(''));
  return seen;
}

function encodingFile(side: Side, model: string, { register }: Described): string {
  if (register.encoding) return path.join(ZOO, 'models', model, register.encoding);
  const inputs = Object.entries(register.inputs ?? {});
  const file = path.join(side.folder, 'zoo', `${model}.json`);
  const missing = inputs.flatMap(([c, i]) => (i.missing === undefined ? [] : [[c, i.missing]]));
  const booleans = inputs.flatMap(([c, i]) => (i.true === undefined ? [] : [[c, [i.false, i.true]]]));
  writeFileSync(file, JSON.stringify({ missing: Object.fromEntries(missing), booleans: Object.fromEntries(booleans) }));
  return file;
}

/** Without the time of day and what was measured on the spot. */
export const steady = (bytes: Buffer): Buffer =>
  bytes.includes(0)
    ? bytes
    : Buffer.from(
        bytes
          .toString()
          .replaceAll(/\d{4}-\d\d-\d\dT[\d:.]+Z/g, 'TIME')
          .replaceAll(/(Sluice |"sluice": ?")\d+\.\d+\.\d+/g, '$1VERSION')
          .replaceAll(/("rowsPerSecond"|"loadMs"|"memoryBytes"): [\d.e-]+/g, '$1: MEASURED')
          .replace(/^\| (speed|memory) \|.*$/gm, '| $1 | MEASURED |')
          // In a lock: of what holds measures.
          .replaceAll(/^[0-9a-f]{64}(?= {2}report\.(?:json|md)$)/gm, 'SUM'),
      );
