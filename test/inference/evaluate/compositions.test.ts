// Graphs that combine several models (voting, bagging, calibration, AdaBoost) are evaluated natively, within 1e-6 of ONNX Runtime.
import { readFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import { readModel } from '../../../src/inference/boosters/read-model.ts';
import { compare, TOLERANCE } from '../../../src/inference/evaluate/choose-evaluator.ts';
import { openNative } from '../../../src/inference/evaluate/native/native-evaluator.ts';
import { planNative } from '../../../src/inference/evaluate/native/native-plan.ts';
import { openOnnxRuntime } from '../../../src/inference/evaluate/onnxruntime.ts';
import type { OnnxModel } from '../../../src/inference/onnx/graph.ts';
import { servable } from '../../../src/inference/onnx/servable.ts';
import type { InputSpec, Manifest } from '../../../src/model/package/manifest.ts';

/** File → number of models, and whether the bits are those of ONNX Runtime (no exponential after the models). */
const FILES: Readonly<Record<string, [parts: number, sameBits: boolean]>> = {
  'compositions/ada': [10, false],
  'compositions/ada3': [10, false],
  'compositions/bag': [10, true],
  'compositions/cal3': [3, false],
  'compositions/vote': [3, true],
  'asked/bagging-logistic': [5, true],
  'asked/voting-logistic': [3, true],
  'asked/calibrated-linear-svm': [3, false],
  'exports/calib-lr-noens/model': [1, false],
  'exports/voting-forests/model': [2, true],
  'exports/sgd-log/model': [1, true],
  'exports/bagging/model': [6, true],
  'exports/votingreg/model': [3, true],
};

/** A manifest with a column for each number that enters the graph. */
function manifestFor(model: OnnxModel, output: string, classes: number): Manifest {
  const inputs = model.graph.inputs.map((i): InputSpec => {
    if (i.type.kind !== 'tensor') throw new Error(`${i.name} is not a tensor`);
    const width = Number(i.type.shape?.[1] ?? 1);
    const columns = Array.from({ length: width }, (_, k) => `${i.name} ${k}`);
    return { name: i.name, type: i.type.element as InputSpec['type'], columns };
  });
  const columns = inputs.flatMap((i) =>
    i.columns!.map((name) => ({ name, kind: 'number', missing: { as: 'value', value: 0 } }) as const),
  );
  return {
    id: 'm',
    version: 1,
    task: 'multiclass',
    classes: Array.from({ length: classes }, (_, c) => c),
    onnx: { file: 'model.onnx', sha256: '', probabilities: output },
    columns: [...columns],
    inputs,
  };
}

test.each(Object.entries(FILES))('%s', async (file, [parts, sameBits]) => {
  const model = readModel(readFileSync(`test/fixtures/${file}.onnx`));
  const output = model.graph.outputs.at(-1)!.name;
  const { inputs } = manifestFor(model, output, 1);
  const plan = planNative(
    model,
    output,
    inputs.map((i) => ({ name: i.name, type: i.type, width: i.columns!.length })),
  );
  expect(plan.head).toMatchObject({ kind: 'composition' });
  const native = openNative(plan);
  expect(native.description).toContain(parts === 1 ? '1 model combined' : `${parts} models combined`);
  const [width = 1] = plan.head.kind === 'composition' ? [widthOf(plan.head)] : [];
  const manifest = manifestFor(model, output, width);
  const reference = await openOnnxRuntime(servable(model), manifest);
  const found = await compare(native, reference, manifest);
  await reference.close();
  expect(found).toMatchObject({ agree: true, ...(sameBits ? { sameBits } : {}) });
  expect(found.maxDifference).toBeLessThanOrEqual(TOLERANCE);
  expect(found.rows).toBeGreaterThanOrEqual(1024);
});

/** Numbers per row of the result. */
function widthOf(head: {
  steps: readonly { width: number }[];
  parts: readonly unknown[];
  constants: readonly unknown[];
  result: number;
}): number {
  return head.steps[head.result - head.parts.length - head.constants.length]!.width;
}
