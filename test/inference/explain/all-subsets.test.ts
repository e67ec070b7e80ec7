// The effects of all subsets of columns are those of the closed form, however the background is cut into parts.
import { expect, test } from 'vitest';
import { Random } from '../../../src/core/random.ts';
import { encodeRows } from '../../../src/inference/encode/encode-rows.ts';
import { openOnnxRuntime } from '../../../src/inference/evaluate/onnxruntime.ts';
import { Interpreter } from '../../../src/inference/evaluate/prediction.ts';
import { exactExplainer } from '../../../src/inference/explain/coalitions.ts';
import { placesOf, scoreBackground } from '../../../src/inference/explain/scored-background.ts';
import { servable } from '../../../src/inference/onnx/servable.ts';
import { readChecked } from '../../../src/inference/trees/ensemble.ts';
import { manifestFor } from '../../support/forest.ts';
import { buildOnnx } from '../../support/onnx-build.ts';

// 12 columns have 4,096 subsets, so that 32 rows of the background are asked at once.
test.each([
  [12, 70],
  [12, 32],
  [5, 9],
])('weights and a product of two columns: %i columns, %i rows of background', async (columns, backgroundRows) => {
  const names = Array.from({ length: columns }, (_, k) => `c${k}`);
  const weights = names.map((_, k) => (k - 3) / 4);
  const column = (name: string, values: number[]) => ({ name, type: 'float32', dims: [columns, 1], values }) as const;
  const timesX = (by: string, output: string) => ({ op: 'MatMul', inputs: ['x', by], outputs: [output] });
  const bytes = buildOnnx({
    nodes: [
      ...[timesX('w', 'sum'), timesX('first', 'left'), timesX('second', 'right')],
      { op: 'Mul', inputs: ['left', 'right'], outputs: ['product'] },
      { op: 'Add', inputs: ['sum', 'product'], outputs: ['scores'] },
    ],
    constants: [
      column('w', weights),
      column('first', names.map((_, k) => Number(k === 0))),
      column('second', names.map((_, k) => Number(k === 1))),
    ], // biome-ignore format: one line each
    inputs: [{ name: 'x', type: 'float32', shape: [null, columns] }],
    outputs: [{ name: 'scores', type: 'float32', shape: [null, 1] }],
  });
  const manifest = manifestFor([{ name: 'x', type: 'float32', columns: names }], 1);
  const evaluator = await openOnnxRuntime(servable(readChecked(bytes)), manifest);
  const random = new Random();
  random.seed(backgroundRows, columns);
  // Few values, so that rows have values in common; eighths, so that sums are exact.
  const some = (n: number) =>
    Array.from({ length: n }, () => names.map(() => Math.round(random.uniform() * 6 - 3) / 8));
  const encode = (rows: readonly number[][]) =>
    encodeRows(manifest, rows.map((row) => row.map(String)), names.map((_, k) => k)); // biome-ignore format: one line
  const [background, rows] = [some(backgroundRows), some(2)];
  const encoded = encode(background);
  const explainer = exactExplainer({
    evaluator,
    interpreter: new Interpreter(manifest),
    places: placesOf(manifest.columns, manifest.inputs),
    background: await scoreBackground(evaluator, encoded.inputs, encoded.rows),
  });
  const { values, margins } = await explainer.explain(encode(rows).inputs, [0, 1]);
  const mean = (of: (z: readonly number[]) => number): number => background.reduce((n, z) => n + of(z), 0) / background.length; // biome-ignore format: one line
  for (const [i, x] of rows.entries()) {
    const wanted = x.map((value, c) => {
      const other = c < 2 ? 1 - c : -1;
      return mean((z) => weights[c]! * (value - z[c]!) + (other < 0 ? 0 : ((value - z[c]!) * (x[other]! + z[other]!)) / 2)); // biome-ignore format: one line
    });
    const got = [...values.subarray(i * columns, (i + 1) * columns)];
    expect(got).toEqual(wanted.map((effect) => expect.closeTo(effect, 9)));
    expect(explainer.base[0]! + got.reduce((a, b) => a + b, 0)).toBeCloseTo(margins[i]!, 9);
  }
  await evaluator.close();
});
