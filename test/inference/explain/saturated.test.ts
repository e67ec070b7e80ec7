// Reasons are told by the margin: a probability so near 0 or 1 that it does not move has the same reasons as one in between.
import { expect, test } from 'vitest';
import { newBatch } from '../../../src/core/batch.ts';
import { Random } from '../../../src/core/random.ts';
import { encodeRows } from '../../../src/inference/encode/encode-rows.ts';
import { openOnnxRuntime } from '../../../src/inference/evaluate/onnxruntime.ts';
import { createExplainer } from '../../../src/inference/explain/choose-explainer.ts';
import { Interpretations } from '../../../src/inference/explain/interpretation.ts';
import { servable } from '../../../src/inference/onnx/servable.ts';
import { readChecked } from '../../../src/inference/trees/ensemble.ts';
import type { Manifest } from '../../../src/model/package/manifest.ts';
import { manifestFor } from '../../support/forest.ts';
import { buildOnnx } from '../../support/onnx-build.ts';

const WEIGHTS = [1.5, -0.75, 0.5, -1.25, 1, 0.25];
const NAMES = WEIGHTS.map((_, k) => `c${k}`);
const ROWS = 64;

/** A logistic model whose margins are `scale` times, and then `shift` more than, those of its weights. */
async function reasonsOf(scale: number, shift: number): Promise<{ reasons: string[][]; probabilities: number[] }> {
  const bytes = buildOnnx({
    nodes: [
      { op: 'Gemm', inputs: ['x', 'w', 'b'], outputs: ['margin'] },
      { op: 'Sigmoid', inputs: ['margin'], outputs: ['scores'] },
    ],
    constants: [
      { name: 'w', type: 'float32', dims: [WEIGHTS.length, 1], values: WEIGHTS.map((w) => w * scale) },
      { name: 'b', type: 'float32', dims: [1], values: [shift] },
    ],
    inputs: [{ name: 'x', type: 'float32', shape: [null, WEIGHTS.length] }],
    outputs: [{ name: 'scores', type: 'float32', shape: [null, 1] }],
  });
  const manifest: Manifest = {
    ...manifestFor([{ name: 'x', type: 'float32', columns: NAMES }], 1),
    task: 'binary',
    classes: [0, 1],
    positive_class: 1,
    onnx: { file: 'model.onnx', sha256: '0'.repeat(64), probabilities: 'scores' },
  };
  const evaluator = await openOnnxRuntime(servable(readChecked(bytes)), manifest);
  const random = new Random();
  random.seed(7, 0);
  // Eighths, so that sums are exact at every scale.
  const rows = (n: number) =>
    Array.from({ length: n }, () => NAMES.map(() => String(Math.round(random.uniform() * 32 - 16) / 8)));
  const order = NAMES.map((_, k) => k);
  const background = encodeRows(manifest, rows(31), order);
  const chosen = await createExplainer({ bytes, manifest, evaluator, background, covers: null });
  expect([chosen.explainer.method, chosen.explainer.space]).toEqual(['linear', 'log_odds']);
  const interpretations = new Interpretations(chosen, manifest, evaluator, background);
  const { inputs } = encodeRows(manifest, rows(ROWS), order);
  const scored = await evaluator.score(inputs, ROWS);
  const scores = { ...scored, values: scored.values.slice() };
  const batch = { ...newBatch([], ROWS), rows: ROWS };
  const found = await interpretations.of(batch, inputs, scores, {
    effects: true,
    reasons: true,
    top: null,
    below: null,
  });
  expect(found.inexact).toBe(0);
  await evaluator.close();
  return {
    reasons: found.reasons.map((list) => list.map((r) => r.code)),
    probabilities: [...scores.values].map(Number),
  };
}

test('the reasons of a row are the same wherever its probability lies', async () => {
  const between = await reasonsOf(1, 0);
  expect(between.reasons.filter((list) => list.length > 0).length).toBeGreaterThan(ROWS / 2);
  for (const [scale, shift, saturated] of [
    [1, 64, 1],
    [16, 1024, 1],
    [16, -2048, 0],
  ] as const) {
    const there = await reasonsOf(scale, shift);
    expect(new Set(there.probabilities)).toEqual(new Set([saturated]));
    expect(there.reasons).toEqual(between.reasons);
  }
});
