// Preprocessing inside the graph: traced to feature programs, and scored with the bits of ONNX Runtime.
import { readFile } from 'node:fs/promises';
import { expect, test } from 'vitest';
import { ComparisonRows } from '../../../src/inference/evaluate/native/comparison-rows.ts';
import { openNative } from '../../../src/inference/evaluate/native/native-evaluator.ts';
import { planNative } from '../../../src/inference/evaluate/native/native-plan.ts';
import { openOnnxRuntime } from '../../../src/inference/evaluate/onnxruntime.ts';
import { readOnnx } from '../../../src/inference/onnx/graph.ts';
import { servable } from '../../../src/inference/onnx/servable.ts';
import { traceModel } from '../../../src/inference/onnx/trace.ts';
import { evaluateFeature } from '../../../src/inference/onnx/traced-model.ts';
import { readChecked } from '../../../src/inference/trees/ensemble.ts';
import type { Kernel } from '../../../src/inference/trees/machine.ts';
import { loadPackage } from '../../../src/model/package/load-package.ts';
import type { InputSpec, Manifest } from '../../../src/model/package/manifest.ts';
import { type ForestSpec, forestNode, manifestFor } from '../../support/forest.ts';
import {
  type AttributeValue,
  buildOnnx,
  type GraphSpec,
  type NodeSpec,
  type TensorSpec,
  type ValueSpec,
} from '../../support/onnx-build.ts';

const INPUTS: ValueSpec[] = [
  { name: 'a', type: 'float32', shape: [null, 3] },
  { name: 's', type: 'string', shape: [null, 2] },
  { name: 'k', type: 'int64', shape: [null, 1] },
  { name: 'b', type: 'bool', shape: [null, 1] },
  { name: 'dd', type: 'float64', shape: [null, 2] },
];
const manifest: Manifest = manifestFor(
  INPUTS.map(
    (i): InputSpec => ({
      name: i.name,
      type: i.type,
      columns: Array.from({ length: i.shape[1]! }, (_, c) => `${i.name}${c}`),
    }),
  ),
  2,
);

const ml = (op: string, inputs: string[], output: string, attributes: Record<string, AttributeValue>): NodeSpec => ({
  op,
  domain: 'ai.onnx.ml',
  inputs,
  outputs: [output],
  attributes,
});
const node = (
  op: string,
  inputs: string[],
  output: string,
  attributes: Record<string, AttributeValue> = {},
): NodeSpec => ({ op, inputs, outputs: [output], attributes });
const list = (
  name: string,
  type: TensorSpec['type'],
  values: number[],
  dims = [values.length],
): TensorSpec & { name: string } => ({ name, type, dims, values });
const concat = (inputs: string[]): NodeSpec => node('Concat', inputs, 'x', { axis: { i: 1 } });

/** What stands in front of the trees, as exporters write it; every graph leaves its features in `x`. */
const pipelines: Record<string, { nodes: NodeSpec[]; constants?: GraphSpec['constants']; features: number }> = {
  'imputation and scaling': {
    nodes: [
      ml('Imputer', ['a'], 'i', {
        imputed_value_floats: { floats: [1, 0.1, 2] },
        replaced_value_float: { f: Number.NaN },
      }),
      ml('Scaler', ['i'], 'x', { offset: { floats: [0.3, 0.1, -2] }, scale: { floats: [1.7, 0.2, 3] } }),
    ],
    features: 3,
  },
  'imputation of NaN alone': {
    nodes: [
      ml('Imputer', ['a'], 'x', { imputed_value_floats: { floats: [1] }, replaced_value_float: { f: Number.NaN } }),
    ],
    features: 3,
  },
  'imputation of a number': {
    nodes: [
      ml('Imputer', ['a'], 'x', { imputed_value_floats: { floats: [5, 6, 7] }, replaced_value_float: { f: -1 } }),
    ],
    features: 3,
  },
  'imputation written out': {
    nodes: [node('IsNaN', ['a'], 'm'), node('Where', ['m', 'v', 'a'], 'x')],
    constants: [list('v', 'float32', [0.5, 2, 3], [1, 3])],
    features: 3,
  },
  'one-hot text, nested and flattened': {
    nodes: [
      ml('OneHotEncoder', ['s'], 'h', { cats_strings: { strings: ['', 'A', 'B', 'ü\n'] }, zeros: { i: 1 } }),
      node('Reshape', ['h', 'shape'], 'flat'),
      concat(['a', 'flat']),
    ],
    constants: [list('shape', 'int64', [-1, 8])],
    features: 11,
  },
  'one-hot of one text column': {
    nodes: [
      ml('ArrayFeatureExtractor', ['s', 'one'], 's1', {}),
      ml('OneHotEncoder', ['s1'], 'h', { cats_strings: { strings: ['A', 'B', 'C'] }, zeros: { i: 1 } }),
      node('Squeeze', ['h', 'axis'], 'flat'),
      concat(['flat', 'a']),
    ],
    constants: [list('one', 'int64', [1]), list('axis', 'int64', [1])],
    features: 6,
  },
  'one-hot numbers': {
    nodes: [
      ml('OneHotEncoder', ['k'], 'h', { cats_int64s: { ints: [0, 1, 2, -3] }, zeros: { i: 1 } }),
      node('Flatten', ['h'], 'flat', { axis: { i: 1 } }),
      concat(['flat', 'a']),
    ],
    features: 7,
  },
  'text to numbers': {
    nodes: [
      ml('LabelEncoder', ['s'], 'l', {
        keys_strings: { strings: ['A', 'B', 'C'] },
        values_floats: { floats: [0, 1, 2.5] },
        default_float: { f: -1 },
      }),
      concat(['l', 'a']),
    ],
    features: 5,
  },
  'booleans, whole numbers and arithmetic': {
    nodes: [
      node('Cast', ['b'], 'bf', { to: { i: 1 } }),
      node('Cast', ['k'], 'kf', { to: { i: 1 } }),
      node('Sub', ['a', 'mean'], 'c'),
      node('Div', ['c', 'std'], 'd'),
      node('Mul', ['half', 'd'], 'e'),
      node('Add', ['e', 'half'], 'g'),
      concat(['g', 'bf', 'kf']),
    ],
    constants: [
      list('mean', 'float32', [0.1, 0.2, 0.3]),
      list('std', 'float32', [1.5, 0.7, 3], [1, 3]),
      list('half', 'float32', [0.5], [1]),
    ],
    features: 5,
  },
  'double numbers made float': {
    nodes: [node('Cast', ['dd'], 'df', { to: { i: 1 } }), concat(['df', 'a'])],
    features: 5,
  },
  'double numbers scaled': {
    nodes: [
      ml('Scaler', ['dd'], 'df', { offset: { floats: [0.3, 0.1] }, scale: { floats: [1.7, 0.2] } }),
      concat(['df', 'a']),
    ],
    features: 5,
  },
  'double arithmetic before a Cast': {
    nodes: [
      node('Sub', ['dd', 'mean'], 'c'),
      node('Div', ['c', 'std'], 'e'),
      node('Cast', ['e'], 'df', { to: { i: 1 } }),
      concat(['df', 'a']),
    ],
    constants: [list('mean', 'float64', [0.1, 0.2]), list('std', 'float64', [1.5, 0.7])],
    features: 5,
  },
  'whole numbers straight into the trees': {
    nodes: [node('Concat', ['k', 'k'], 'x', { axis: { i: 1 } })],
    features: 2,
  },
  'bins of columns': {
    nodes: [
      ml('Imputer', ['a'], 'i', { imputed_value_floats: { floats: [1] }, replaced_value_float: { f: Number.NaN } }),
      node('Gather', ['i', 'first'], 'i0', { axis: { i: 1 } }),
      node('Less', ['i0', 'edges'], 'lb'),
      node('Cast', ['lb'], 'l', { to: { i: 1 } }),
      node('Greater', ['k', 'whole'], 'gb'),
      node('Cast', ['gb'], 'g', { to: { i: 1 } }),
      node('Greater', ['i', 'each'], 'eb'),
      node('Cast', ['eb'], 'e', { to: { i: 1 } }),
      concat(['l', 'g', 'e']),
    ],
    constants: [
      list('first', 'int64', [0]),
      list('edges', 'float32', [-1, 0.5, 2], [1, 3]),
      list('whole', 'int64', [0, 2]),
      list('each', 'float32', [0, 0.5, 1]),
    ],
    features: 8,
  },
  'columns picked, sliced, clipped and compared': {
    nodes: [
      node('Gather', ['a', 'back'], 'g', { axis: { i: 1 } }),
      node('Slice', ['a', 'from', 'to', 'axis'], 'l'),
      node('Clip', ['l', 'low', 'high'], 'c'),
      ml('Imputer', ['g'], 'gi', { imputed_value_floats: { floats: [1] }, replaced_value_float: { f: Number.NaN } }),
      ml('Binarizer', ['gi'], 'n', { threshold: { f: 0.5 } }),
      node('Unsqueeze', ['c', 'two'], 'u'),
      node('Reshape', ['u', 'shape'], 'w'),
      concat(['n', 'w']),
    ],
    constants: [
      list('back', 'int64', [2, 0, -2]),
      list('from', 'int64', [1]),
      list('to', 'int64', [9]),
      list('axis', 'int64', [1]),
      list('two', 'int64', [2]),
      list('low', 'float32', [-1], []),
      list('high', 'float32', [2], []),
      list('shape', 'int64', [0, -1]),
    ],
    features: 5,
  },
};

const spec = (features: number, seed: number): ForestSpec => ({
  seed,
  kind: 'classifier',
  trees: 25,
  leaves: 20,
  features,
  targets: 2,
  weights: 'first',
  modes: ['BRANCH_LEQ', 'BRANCH_LT', 'BRANCH_GT'],
  missing: true,
  base: 1,
  post: 'LOGISTIC',
});

function file(
  name: string,
  seed: number,
  after: NodeSpec[] = [],
  shape: [null, number] = [null, 2],
  constants: GraphSpec['constants'] = [],
): Uint8Array {
  const { nodes, constants: own, features } = pipelines[name]!;
  const trees = forestNode(spec(features, seed));
  return buildOnnx({
    nodes: [...nodes, after.length > 0 ? { ...trees, outputs: ['label', 'raw'] } : trees, ...after],
    inputs: INPUTS,
    outputs: [
      { name: 'scores', type: 'float32', shape },
      { name: 'label', type: 'int64', shape: [null] },
    ],
    constants: [...(own ?? []), ...constants],
  });
}

async function check(
  bytes: Uint8Array,
  of: Manifest,
  output = 'scores',
  tolerance = 0,
  kernel?: Kernel,
): Promise<void> {
  const shapes = of.inputs.map((i) => ({ name: i.name, type: i.type, width: i.columns?.length ?? 1 }));
  const native = openNative(structuredClone(planNative(readOnnx(bytes), output, shapes, kernel)));
  const reference = await openOnnxRuntime(servable(readChecked(bytes)), of);
  const rows = 480;
  const inputs = new ComparisonRows(of, native.slots, rows).next();
  const expected = await reference.score(inputs, rows);
  const { values, width } = native.scoreNow(inputs, rows);
  await reference.close();
  expect(width).toBe(expected.width);
  const off = Array.from(values, (x, i) => Math.abs(x - expected.values[i]!)).filter((d) => d > tolerance);
  expect(off).toEqual([]);
  expect(new Set(values).size).toBeGreaterThan(1);
}

test.each(Object.keys(pipelines))('%s: the same bits as ONNX Runtime', async (name) => {
  for (const seed of [1, 2, 3]) {
    for (const kernel of ['quickscorer', 'walk'] as const) await check(file(name, seed), manifest, 'scores', 0, kernel);
  }
});

const outputs: [string, NodeSpec[], GraphSpec['constants']][] = [
  ['Identity, Cast and a product with one', [node('Identity', ['raw'], 'r'), node('Cast', ['r'], 'q', { to: { i: 1 } }), node('Mul', ['q', 'c'], 'scores')], [list('c', 'float32', [1], [])]],
  ['a product and a sum', [node('Mul', ['raw', 'c'], 'r'), node('Add', ['r', 'd'], 'scores')], [list('c', 'float32', [0.3], []), list('d', 'float32', [0.7], [])]],
  ['a Normalizer', [ml('Normalizer', ['raw'], 'scores', { norm: { s: 'L1' } })], []],
]; // biome-ignore format: a table
test.each(outputs)('after the trees: %s', async (_, nodes, constants) => {
  await check(file('imputation and scaling', 4, nodes, [null, 2], constants), manifest);
});

test('one column of the scores', async () => {
  const nodes = [node('Slice', ['raw', 'one', 'two', 'one'], 'scores')];
  const constants = [list('one', 'int64', [1]), list('two', 'int64', [2])];
  await check(file('imputation and scaling', 4, nodes, [null, 1], constants), manifest);
});

test('a feature knows the cell it comes from and what happens to it', () => {
  const { trace } = traceModel(readOnnx(file('one-hot text, nested and flattened', 1)), 'scores');
  expect(trace!.features).toHaveLength(11);
  expect(trace!.features[1]).toMatchObject({ source: { input: 'a', column: 1 }, steps: [] });
  const b = trace!.features[3 + 4 + 2]!;
  expect(b.source).toMatchObject({ input: 's', column: 1 });
  expect([evaluateFeature(b, 'B'), evaluateFeature(b, 'A'), evaluateFeature(b, 'unknown')]).toEqual([1, 0, 0]);
});

test('what is not known is given back as a reason', () => {
  const bytes = buildOnnx({
    nodes: [node('Tanh', ['a'], 'x'), forestNode(spec(3, 1))],
    inputs: INPUTS,
    outputs: [{ name: 'scores', type: 'float32', shape: [null, 2] }],
  });
  expect(traceModel(readOnnx(bytes), 'scores')).toEqual({ trace: null, reason: 'Tanh in front of the model' });
  expect(traceModel(readOnnx(bytes), 'label').reason).toBe('the output is a label');
  expect(traceModel(readOnnx(bytes), 'nothing').reason).toBe('output nothing comes from no node');
});

test.each(['src/bundled/credit-default/1', 'test/fixtures/packages/credit-columns/1'])(
  '%s: within a millionth of ONNX Runtime',
  async (folder) => {
    const { manifest: own } = await loadPackage(folder);
    await check(await readFile(`${folder}/${own.onnx.file}`), own, own.onnx.probabilities as string, 1e-6);
  },
);

const linear: [string, NodeSpec[], GraphSpec['constants']][] = [
  ['LinearClassifier with LOGISTIC', [{ ...ml('LinearClassifier', ['a1'], 'scores', { coefficients: { floats: [0.5, -1, 0.25, -0.5, 1, -0.25] }, intercepts: { floats: [0.1, -0.1] }, classlabels_ints: { ints: [0, 1] }, post_transform: { s: 'LOGISTIC' } }), outputs: ['label', 'scores'] }], []],
  ['LinearClassifier with SOFTMAX', [{ ...ml('LinearClassifier', ['a1'], 'scores', { coefficients: { floats: [0.5, -1, 0.25, -0.5, 1, -0.25] }, intercepts: { floats: [0.1, -0.1] }, classlabels_ints: { ints: [0, 1] }, post_transform: { s: 'SOFTMAX' } }), outputs: ['label', 'scores'] }], []],
  ['MatMul, Add and Softmax', [node('MatMul', ['a1', 'w'], 'm'), node('Add', ['m', 'i'], 'n'), node('Softmax', ['n'], 'scores', { axis: { i: 1 } })], [list('w', 'float32', [1, 2, 3, -1, -2, -3], [3, 2]), list('i', 'float32', [0.5, -0.5])]],
  ['Gemm with transB and Sigmoid', [node('Gemm', ['a1', 'w', 'i'], 'm', { transB: { i: 1 } }), node('Sigmoid', ['m'], 'scores')], [list('w', 'float32', [1, 2, 3, -1, -2, -3], [2, 3]), list('i', 'float32', [0.5, -0.5])]],
]; // biome-ignore format: a table
test.each(linear)('linear: %s', async (_, nodes, constants) => {
  const impute = ml('Imputer', ['a'], 'i0', {
    imputed_value_floats: { floats: [1] },
    replaced_value_float: { f: Number.NaN },
  });
  const scale = ml('Scaler', ['i0'], 'a1', { offset: { floats: [0, 1, 2] }, scale: { floats: [0.1, 0.2, 0.3] } });
  const bytes = buildOnnx({
    nodes: [impute, scale, ...nodes],
    inputs: INPUTS.slice(0, 1),
    outputs: [{ name: 'scores', type: 'float32', shape: [null, 2] }],
    constants: constants ?? [],
  });
  await check(
    bytes,
    { ...manifest, inputs: manifest.inputs.slice(0, 1), columns: manifest.columns.slice(0, 3) },
    'scores',
    1e-6,
  );
});
