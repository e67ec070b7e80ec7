// The explainer alone, floats ready in memory, one thread: effects of as many applications as there is time for, its preparation
// included.
//   node explainer.ts MODEL INPUT.csv ROWS CPU_SECONDS [BATCH_ROWS] [interactions]

import { readBackground } from '../src/engine/explaining.ts';
import { chooseEvaluator } from '../src/inference/evaluate/choose-evaluator.ts';
import { createExplainer } from '../src/inference/explain/choose-explainer.ts';
import { pairCount } from '../src/inference/explain/leaf-pairs.ts';
import { readModelBytes } from '../src/model/package/model-package.ts';
import { matrixOf } from './matrix.ts';
import { openModel } from './models.ts';

export interface Explained {
  name: string;
  rows: number;
  cpuSeconds: number;
  seconds: number;
  /** Of the package, in its order. */
  columns?: string[];
  /** Of the first applications, to compare; with `interactions`, those of pairs of columns. */
  effects: number[][];
}

const BATCH = 512;
const COMPARED = 100;

const [reference, input, most, limit, batch = String(BATCH), what = ''] = process.argv.slice(2) as string[] &
  [string, string, string, string];
const model = await openModel(reference);
const matrix = await matrixOf(model, input);
const bytes = await readModelBytes(model);
const { manifest } = model;
const { evaluator } = await chooseEvaluator(bytes, manifest, 'auto');
const { background, covers } = await readBackground(model);
const began = performance.now();
const before = process.cpuUsage();
const { explainer } = await createExplainer({ bytes, manifest, evaluator, background, covers });
const { name, type, columns } = manifest.inputs[0]!;
const width = columns!.length;
const total = Math.min(Number(most), matrix.length / width);
const names = manifest.columns.map((c) => c.name);
const effects: number[][] = [];

async function explain(from: number): Promise<number> {
  const n = Math.min(Number(batch), total - from);
  const data = matrix.slice(from * width, (from + n) * width);
  const rows = Array.from({ length: n }, (_, i) => i);
  if (what === 'interactions') {
    const pairs = pairCount(names.length);
    const values = explainer.interactions!([{ name, type, width, data }], rows);
    for (let r = 0; r < n && effects.length < COMPARED; r++)
      effects.push([...values.subarray(r * pairs, (r + 1) * pairs)]);
    return n;
  }
  const { values } = await explainer.explain([{ name, type, width, data }], rows);
  // Effects are in the order of the package's columns; they are compared in that of the matrix.
  for (let r = 0; r < n && effects.length < COMPARED; r++) {
    effects.push(columns!.map((c) => values[r * names.length + names.indexOf(c)]!));
  }
  return n;
}

const used = (): number => {
  const { user, system } = process.cpuUsage(before);
  return (user + system) / 1e6;
};
let rows = 0;
while (rows < total && used() < Number(limit)) rows += await explain(rows);
const result: Explained = {
  name: `sluice, the explainer alone (${explainer.method}${what === '' ? '' : `, ${what}`})`,
  columns: names,
  rows,
  cpuSeconds: used(),
  seconds: (performance.now() - began) / 1000,
  effects,
};
process.stdout.write(JSON.stringify(result));
