// Averages of logistic functions of linear models are traced: their effects are those that all subsets give, without asking the model.
import path from 'node:path';
import { expect, test } from 'vitest';
import { encodeRows } from '../../../src/inference/encode/encode-rows.ts';
import { openOnnxRuntime } from '../../../src/inference/evaluate/onnxruntime.ts';
import { Interpreter } from '../../../src/inference/evaluate/prediction.ts';
import { createExplainer } from '../../../src/inference/explain/choose-explainer.ts';
import { exactExplainer } from '../../../src/inference/explain/coalitions.ts';
import { placesOf, scoreBackground } from '../../../src/inference/explain/scored-background.ts';
import { servable } from '../../../src/inference/onnx/servable.ts';
import { readChecked } from '../../../src/inference/trees/ensemble.ts';
import { NO_ENCODING } from '../../../src/onboarding/encoding-file.ts';
import { proposePackage } from '../../../src/onboarding/register.ts';
import { checkTest } from '../../support/tiers.ts';

const FIXTURES = path.resolve('test/fixtures/asked');

const exact = async (name: string, positiveClass: string): Promise<void> => {
  const { manifest, files } = await proposePackage({
    modelFile: path.join(FIXTURES, `${name}.onnx`),
    trainingFile: path.join(FIXTURES, 'train.csv'),
    id: name,
    version: 1,
    outcome: 'ok',
    positiveClass,
    ignore: [],
    encoding: NO_ENCODING,
    tolerance: 1e-6,
    benchMs: 10,
  });
  expect(manifest.explain).toMatchObject({ method: 'linear', space: 'probability' });
  const bytes = files.get('model.onnx') as Uint8Array;
  const evaluator = await openOnnxRuntime(servable(readChecked(bytes)), manifest);
  const [header, ...rows] = (files.get('background.csv') as string)
    .trimEnd()
    .split('\n')
    .map((l) => l.split(','));
  const encode = (part: string[][]) =>
    encodeRows(
      manifest,
      part,
      manifest.columns.map((c) => header!.indexOf(c.name)),
    );
  const background = encode(rows.slice(0, 20));
  const { explainer } = await createExplainer({ bytes, manifest, evaluator, background, covers: null });
  const brute = exactExplainer({
    evaluator,
    interpreter: new Interpreter(manifest),
    places: placesOf(manifest.columns, manifest.inputs),
    background: await scoreBackground(evaluator, background.inputs, background.rows),
  });
  expect(explainer.questions).toBe(0);
  expect(Math.abs(explainer.base[0]! - brute.base[0]!)).toBeLessThan(1e-6);
  const { inputs } = encode(rows.slice(30, 40));
  const ten = Array.from({ length: 10 }, (_, i) => i);
  const got = await explainer.explain(inputs, ten);
  const want = await brute.explain(inputs, ten);
  for (const [k, v] of got.values.entries()) expect(Math.abs(v - want.values[k]!)).toBeLessThan(1e-6);
};

test('voting-logistic', () => exact('voting-logistic', '1'));
for (const [name, positiveClass] of [
  ['calibrated-linear-svm', '1'],
  ['bagging-logistic', '1'],
  ['bagging-logistic', '0'],
] as const) {
  checkTest(`${name}, class ${positiveClass}`, () => exact(name, positiveClass));
}
