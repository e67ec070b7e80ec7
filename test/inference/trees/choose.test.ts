// The native evaluator serves only what it was seen to agree on; a verdict spares the others the comparison.
import { readFile } from 'node:fs/promises';
import { expect, test } from 'vitest';
import { chooseEvaluator, compare, type Verdict } from '../../../src/inference/evaluate/choose-evaluator.ts';
import { type NativeEvaluator, openNative } from '../../../src/inference/evaluate/native/native-evaluator.ts';
import { planNative } from '../../../src/inference/evaluate/native/native-plan.ts';
import { openOnnxRuntime } from '../../../src/inference/evaluate/onnxruntime.ts';
import { readOnnx } from '../../../src/inference/onnx/graph.ts';
import { servable } from '../../../src/inference/onnx/servable.ts';
import { readChecked } from '../../../src/inference/trees/ensemble.ts';
import { loadPackage } from '../../../src/model/package/load-package.ts';
import { type ForestSpec, forestFile, forestNode, matrixManifest } from '../../support/forest.ts';
import { buildOnnx } from '../../support/onnx-build.ts';

const spec: ForestSpec = { seed: 11, kind: 'classifier', trees: 30, leaves: 31, features: 6, targets: 2, weights: 'first', modes: ['BRANCH_LEQ'], missing: true, base: 1, post: 'LOGISTIC' }; // biome-ignore format: one line
const manifest = matrixManifest(spec);

test('the bundled model is served natively, with the same bits on ten thousand rows', async () => {
  const folder = 'src/bundled/credit-default/1';
  const { manifest: own } = await loadPackage(folder);
  const bytes = await readFile(`${folder}/model.onnx`);
  const { evaluator, verdict } = await chooseEvaluator(bytes, own);
  expect(evaluator.name).toBe('native');
  expect(verdict).toMatchObject({ engine: 'native', sameBits: true, maxDifference: 0, reason: null });
  expect(verdict.rows).toBeGreaterThanOrEqual(1_024);
  await evaluator.close();
});

test('a verdict spares the comparison, and survives a message between threads', async () => {
  const bytes = forestFile(spec);
  const first = await chooseEvaluator(bytes, manifest);
  const second = await chooseEvaluator(bytes, manifest, 'auto', { verdict: structuredClone(first.verdict) });
  expect(second.evaluator.name).toBe('native');
  expect(second.verdict).toEqual(first.verdict);
});

test('a verdict about another file, or about other inputs, does not count', async () => {
  const { verdict } = await chooseEvaluator(forestFile(spec), manifest);
  const lie: Verdict = { ...verdict, engine: 'onnxruntime', reason: 'of old' };
  const other = await chooseEvaluator(forestFile({ ...spec, seed: 12 }), manifest, 'auto', { verdict: lie });
  expect(other.evaluator.name).toBe('native');
  expect(other.verdict.key).not.toBe(verdict.key);
  const kept = await chooseEvaluator(forestFile(spec), manifest, 'auto', { verdict: lie });
  expect(kept.evaluator.name).toBe('onnxruntime');
  await kept.evaluator.close();
});

test('the policy can ask for either', async () => {
  const general = await chooseEvaluator(forestFile(spec), manifest, 'onnxruntime');
  expect(general.evaluator.name).toBe('onnxruntime');
  await general.evaluator.close();
  const native = await chooseEvaluator(forestFile(spec), manifest, 'native');
  expect(native.evaluator.name).toBe('native');
});

test('what cannot be traced is served by ONNX Runtime, with the reason; or refused where native is asked for', async () => {
  const bytes = buildOnnx({
    nodes: [
      { op: 'Tanh', inputs: ['x'], outputs: ['t'] },
      { ...forestNode(spec), inputs: ['t'] },
    ],
    inputs: [{ name: 'x', type: 'float32', shape: [null, spec.features] }],
    outputs: [{ name: 'scores', type: 'float32', shape: [null, 2] }],
  });
  const { evaluator, verdict } = await chooseEvaluator(bytes, manifest);
  expect(evaluator.name).toBe('onnxruntime');
  expect(verdict).toMatchObject({ engine: 'onnxruntime', reason: 'Tanh in front of the model' });
  await evaluator.close();
  await expect(chooseEvaluator(bytes, manifest, 'native')).rejects.toThrow(/cannot serve the model: Tanh/);
});

test('another exponential is close but not equal, and the verdict says so', async () => {
  const bytes = buildOnnx({
    nodes: [
      { ...forestNode({ ...spec, post: 'NONE' }), outputs: ['label', 'raw'] },
      { op: 'Softmax', inputs: ['raw'], outputs: ['scores'], attributes: { axis: { i: 1 } } },
    ],
    inputs: [{ name: 'x', type: 'float32', shape: [null, spec.features] }],
    outputs: [{ name: 'scores', type: 'float32', shape: [null, 2] }],
  });
  const { verdict } = await chooseEvaluator(bytes, manifest);
  expect(verdict.engine).toBe('native');
  expect(verdict.maxDifference).toBeLessThanOrEqual(1e-6);
  expect(verdict.sameBits).toBe(verdict.reason === null);
});

test('one wrong score in ten thousand rows is a disagreement', async () => {
  const bytes = forestFile(spec);
  const shapes = [{ name: 'x', type: 'float32' as const, width: spec.features }];
  const native = openNative(structuredClone(planNative(readOnnx(bytes), 'scores', shapes)));
  const reference = await openOnnxRuntime(servable(readChecked(bytes)), manifest);
  expect(await compare(native, reference, manifest)).toMatchObject({ agree: true, sameBits: true });
  let calls = 0;
  const wrong: Pick<NativeEvaluator, 'slots' | 'scoreNow'> = {
    slots: native.slots,
    scoreNow(inputs, rows) {
      const scores = native.scoreNow(inputs, rows);
      if (++calls === 2) scores.values[17]! += 0.001;
      return scores;
    },
  };
  const found = await compare(wrong, reference, manifest);
  expect(found).toMatchObject({ agree: false, rows: 1_024, sameBits: false });
  expect(found.reason).toMatch(/differ by 0\.001/);
  await reference.close();
});
