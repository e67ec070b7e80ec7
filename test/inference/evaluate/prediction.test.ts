// What becomes of scores: probabilities, points of a scorecard and decisions, against numbers worked out by hand.

import { expect, test } from 'vitest';
import { Interpreter } from '../../../src/inference/evaluate/prediction.ts';
import type { Manifest } from '../../../src/model/package/manifest.ts';
import { manifestFor } from '../../support/forest.ts';
import fc from '../../support/seeded-fast-check.ts';

const binary = (change: Partial<Manifest> = {}): Manifest => ({
  ...manifestFor([{ name: 'x', type: 'float32', columns: ['a'] }], 1),
  task: 'binary',
  classes: ['bad', 'good'],
  positive_class: 'good',
  ...change,
});
/** 600 points at odds of 20 to 1, and 40 more where they double. */
const scorecard = { base_points: 600, base_odds: 20, points_to_double_odds: 40 };
const probabilityAt = (odds: number): number => odds / (1 + odds);

test.each([
  [20, 600],
  [40, 640],
  [80, 680],
  [10, 560],
  // 600 − 40 · log2(20) is 427.12.
  [1, 427],
  [0.5, 387],
])('odds of %s to 1 have %s points', (odds, points) => {
  expect(new Interpreter(binary({ scorecard })).points(probabilityAt(odds))).toBe(points);
});

test('points are finite where a probability is 0 or 1, and never fall as it grows', () => {
  const { points } = Interpreter.prototype;
  const card = new Interpreter(binary({ scorecard }));
  const [least, most] = [0, 1].map((p) => points.call(card, p)) as [number, number];
  expect([least, most].every(Number.isSafeInteger)).toBe(true);
  const unit = fc.double({ min: 0, max: 1, noNaN: true });
  fc.assert(
    fc.property(unit, unit, (p, q) => {
      const [low, high] = [card.points(Math.min(p, q)), card.points(Math.max(p, q))];
      expect(low).toBeLessThanOrEqual(high);
      expect([low >= least, high <= most]).toEqual([true, true]);
    }),
  );
});

test.each([
  ['of the second of two classes', {}, Float64Array.of(0.25, 0.75, 0.9, 0.1), 2, [0.75, 0.1]],
  ['of the first of two classes', { positive_class: 'bad' }, Float64Array.of(0.25, 0.75, 0.9, 0.1), 2, [0.25, 0.9]],
  ['of the only output', {}, Float64Array.of(0.25, 0.75), 1, [0.25, 0.75]],
  ['the rest where the only output is the other class', { positive_class: 'bad' }, Float64Array.of(0.25, 0.75), 1, [0.75, 0.25]],
])('a probability: %s', (_, change, values, width, expected) => {
  const interpreter = new Interpreter(binary(change as Partial<Manifest>));
  const scores = { values, width } as Parameters<Interpreter['probability']>[0];
  expect(expected.map((_, r) => interpreter.probability(scores, r))).toEqual(expected);
  const out = new Float32Array(expected.length + 1).fill(9);
  interpreter.probabilities(scores, expected.length, out);
  expect([...out]).toEqual([...expected.map(Math.fround), 9]);
}); // biome-ignore format: a table

test('a row with one score that is no finite number is not served, and the next one is', () => {
  const interpreter = new Interpreter(binary());
  const values = Float64Array.of(0.5, 0.5, 0.5, Number.NaN, Infinity, 0.5, 0.5, 0.5);
  const scores = { values, width: 2 } as Parameters<Interpreter['finite']>[0];
  expect([0, 1, 2, 3].map((r) => interpreter.finite(scores, r))).toEqual([true, false, false, true]);
});
