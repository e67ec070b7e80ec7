// The work of an interpretation depends on the shape of the model, never on the values of an application.
import { expect, test } from 'vitest';
import { newBatch } from '../../../src/core/batch.ts';
import { Random } from '../../../src/core/random.ts';
import { encodeRows } from '../../../src/inference/encode/encode-rows.ts';
import { openOnnxRuntime } from '../../../src/inference/evaluate/onnxruntime.ts';
import { Interpreter } from '../../../src/inference/evaluate/prediction.ts';
import { createExplainer } from '../../../src/inference/explain/choose-explainer.ts';
import { exactExplainer } from '../../../src/inference/explain/coalitions.ts';
import { INEXACT } from '../../../src/inference/explain/explainer.ts';
import { Interpretations } from '../../../src/inference/explain/interpretation.ts';
import { LogisticGames, logisticOf, wavesFor } from '../../../src/inference/explain/logistic-games.ts';
import { placesOf, scoreBackground } from '../../../src/inference/explain/scored-background.ts';
import { servable } from '../../../src/inference/onnx/servable.ts';
import { readChecked } from '../../../src/inference/trees/ensemble.ts';
import type { Manifest } from '../../../src/model/package/manifest.ts';
import { explainZoo } from '../../support/explain.ts';
import { assertBounded, EXTREMES, extremesOf } from '../../support/extreme-values.ts';
import { manifestFor } from '../../support/forest.ts';
import { buildOnnx } from '../../support/onnx-build.ts';
import { readRows, zooModels } from '../../support/zoo.ts';

const random = new Random();

test.each([[12], [23], [60]])('%i terms of any size take bounded work, and add up where they are exact', (n) => {
  random.seed(38, n);
  const ordinary = new LogisticGames(n);
  ordinary.add(
    0.3,
    Float64Array.from({ length: n }, () => random.uniform() - 0.5),
    1,
    new Float64Array(n),
  );
  let exact = 0;
  const sizes = [1e-38, 5e-324, 1e3, 1e5, 1e8, 1e10, 1e38, 1e300];
  for (const size of sizes) {
    for (const large of [1, 2, 5, n >> 1, n]) {
      const terms = Float64Array.from({ length: n }, (_, j) => (random.uniform() - 0.5) * (j < large ? size : 1));
      const games = new LogisticGames(n);
      const got = new Float64Array(n);
      games.add(0.3, terms, 1, got);
      expect(games.work).toBeLessThan(40 * ordinary.work);
      if (got.some(Number.isNaN)) continue;
      exact++;
      const sum = got.reduce((s, v) => s + v, logisticOf(0.3));
      expect(Math.abs(sum - logisticOf(terms.reduce((s, t) => s + t, 0.3)))).toBeLessThan(1e-9);
    }
  }
  // One value far beyond the others is exact for any number of columns.
  expect(exact).toBeGreaterThan(sizes.length * 2);
});

test('terms beyond saturation have the values of the definition, alone, together and where they cancel out', () => {
  const n = 11;
  const cases = [[1e10], [-1e38], [1e5, -1e5], [1e9, 1e9, -2e9], [1e38, 1e20, -1e10, 900], [800, -790, 400, -410, 60]];
  for (const [k, large] of cases.entries()) {
    random.seed(39, k);
    const terms = Float64Array.from({ length: n }, (_, j) => large[j] ?? (random.uniform() - 0.5) * 4);
    const got = new Float64Array(n);
    new LogisticGames(n).add(-0.7, terms, 2, got);
    const want = byDefinition(-0.7, terms);
    for (let j = 0; j < n; j++) expect(Math.abs(got[j]! - 2 * want[j]!)).toBeLessThan(1e-9);
  }
});

test('terms that are not finite give no values, at once', () => {
  for (const term of [Number.NaN, Infinity, -Infinity, 1.7e308]) {
    const games = new LogisticGames(20);
    const got = new Float64Array(20);
    games.add(0, new Float64Array(20).fill(term), 1, got);
    expect(got.every(Number.isNaN)).toBe(true);
    expect(games.work).toBeLessThan(1000);
  }
});

test('a model whose ordinary margins are large keeps its series, up to a limit', () => {
  expect(wavesFor(10)).toBe(1024);
  expect(wavesFor(5000)).toBeGreaterThan(5000);
  expect(wavesFor(1e38)).toBe(16_384);
});

const ROWS_OF_BACKGROUND = 3;

/** The average of two logistic models, with an ordinary application and a background of three. */
async function averaged(columns: number) {
  random.seed(40, 1);
  const names = Array.from({ length: columns }, (_, k) => `c${k}`);
  const weights = (j: number) => names.map((_, k) => (((k * 7 + j * 3) % 11) - 5) / 4);
  const bytes = buildOnnx({
    nodes: [
      { op: 'Gemm', inputs: ['x', 'w0', 'b'], outputs: ['m0'] },
      { op: 'Gemm', inputs: ['x', 'w1', 'b'], outputs: ['m1'] },
      { op: 'Sigmoid', inputs: ['m0'], outputs: ['p0'] },
      { op: 'Sigmoid', inputs: ['m1'], outputs: ['p1'] },
      { op: 'Add', inputs: ['p0', 'p1'], outputs: ['sum'] },
      { op: 'Mul', inputs: ['sum', 'half'], outputs: ['scores'] },
    ],
    constants: [
      { name: 'w0', type: 'float32', dims: [columns, 1], values: weights(0) },
      { name: 'w1', type: 'float32', dims: [columns, 1], values: weights(1) },
      { name: 'b', type: 'float32', dims: [1], values: [0.25] },
      { name: 'half', type: 'float32', dims: [1], values: [0.5] },
    ],
    inputs: [{ name: 'x', type: 'float32', shape: [null, columns] }],
    outputs: [{ name: 'scores', type: 'float32', shape: [null, 1] }],
  });
  const manifest: Manifest = {
    ...manifestFor([{ name: 'x', type: 'float32', columns: names }], 1),
    task: 'binary',
    classes: [0, 1],
    positive_class: 1,
    onnx: { file: 'model.onnx', sha256: '0'.repeat(64), probabilities: 'scores' },
  };
  const evaluator = await openOnnxRuntime(servable(readChecked(bytes)), manifest);
  const encode = (rows: string[][]) =>
    encodeRows(
      manifest,
      rows,
      names.map((_, k) => k),
    );
  const some = () => names.map(() => String(Math.round(random.uniform() * 16 - 8) / 8));
  const background = encode(Array.from({ length: ROWS_OF_BACKGROUND }, some));
  const chosen = await createExplainer({ bytes, manifest, evaluator, background, covers: null });
  return { ...chosen, manifest, evaluator, encode, background, ordinary: some() };
}

test('averages of logistic functions: extreme applications are explained as all subsets explain them', async () => {
  const x = await averaged(12);
  expect([x.explainer.method, x.explainer.space, x.explainer.lengthy]).toEqual(['linear', 'probability', true]);
  const rows = EXTREMES.filter((v) => v !== '').map((v) => x.ordinary.with(0, v));
  const { inputs } = x.encode(rows);
  const all = rows.map((_, i) => i);
  const brute = exactExplainer({
    evaluator: x.evaluator,
    interpreter: new Interpreter(x.manifest),
    places: placesOf(x.manifest.columns, x.manifest.inputs),
    background: await scoreBackground(x.evaluator, x.background.inputs, x.background.rows),
  });
  const got = (await x.explainer.explain(inputs, all)).values.slice();
  const want = (await brute.explain(inputs, all)).values;
  for (const [k, v] of got.entries()) expect(Math.abs(v - want[k]!)).toBeLessThan(1e-6);
});

test('an application that cannot be explained exactly keeps its prediction, and its neighbours their effects', async () => {
  const x = await averaged(24);
  const interpretations = new Interpretations(x, x.manifest, x.evaluator, x.background);
  const rows = [x.ordinary, x.ordinary.map((v) => `${v}e9`), x.ordinary.with(3, '3e38')];
  const encoded = x.encode(rows);
  const scored = await x.evaluator.score(encoded.inputs, rows.length);
  const scores = { ...scored, values: scored.values.slice() };
  const spec = { effects: true, reasons: false, top: null, below: null };
  const batch = { ...newBatch([], rows.length), rows: rows.length };
  const found = await interpretations.of(batch, encoded.inputs, scores, spec);
  expect([...found.at]).toEqual([0, INEXACT, 2]);
  expect(found).toMatchObject({ explained: 2, inexact: 1 });
});

test('sampling: as many questions, whatever the values are', async () => {
  const x = await explainZoo(zooModels().find((m) => m.name === 'skl-mlp')!, 'sampling');
  expect(x.explainer.method).toBe('sampling');
  await assertBounded(x, extremesOf(readRows('data/clean.csv')[0]!, x.manifest));
});

function byDefinition(start: number, terms: Float64Array): Float64Array {
  const n = terms.length;
  const sums = Float64Array.of(start);
  const values = Float64Array.from({ length: 2 ** n }, (_, set) => {
    let sum = sums[0]!;
    for (let j = 0; j < n; j++) if ((set >>> j) & 1) sum += terms[j]!;
    return logisticOf(sum);
  });
  const factorial = [1];
  for (let k = 1; k <= n; k++) factorial.push(factorial[k - 1]! * k);
  const effects = new Float64Array(n);
  for (let set = 0; set < 2 ** n; set++) {
    let size = 0;
    for (let s = set; s !== 0; s &= s - 1) size++;
    const weight = (factorial[size]! * factorial[n - size - 1]!) / factorial[n]!;
    for (let j = 0; j < n; j++)
      if (((set >>> j) & 1) === 0) effects[j]! += weight * (values[set | (1 << j)]! - values[set]!);
  }
  return effects;
}
