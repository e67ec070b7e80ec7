// A decision agrees with the probability that the outputs show.
import { expect, test } from 'vitest';
import { decimalOfFloat32 } from '../../../src/formats/write/number.ts';
import { Interpreter } from '../../../src/inference/evaluate/prediction.ts';
import type { Manifest } from '../../../src/model/package/manifest.ts';
import fc from '../../support/seeded-fast-check.ts';

const withLimits = (...limits: readonly number[]): Interpreter =>
  new Interpreter({
    task: 'binary',
    classes: [0, 1],
    positive_class: 1,
    decisions: limits.map((limit) => ({ name: `from ${limit}`, min_probability: limit })),
  } as unknown as Manifest);

const single = { values: new Float32Array(1) };
const double = { values: new Float64Array(1) };

test('the shown probability reaches the limit exactly if the decision is made, in both precisions', () => {
  const probability = fc.double({ min: 0, max: 1, noNaN: true });
  const few = fc.tuple(probability, fc.integer({ min: 1, max: 9 })).map(([p, digits]) => Number(p.toPrecision(digits)));
  const nearby = fc.integer({ min: -3, max: 3 });
  fc.assert(
    fc.property(fc.oneof(probability, few), nearby, fc.oneof(few, fc.constant(null)), (p, ulps, other) => {
      const bits = new Uint32Array(Float32Array.of(p).buffer);
      bits[0] = Math.min(0x3f800000, Math.max(0, bits[0]! + ulps));
      const value = new Float32Array(bits.buffer)[0]!;
      for (const limit of [p, decimalOfFloat32(value), value, other ?? p]) {
        const interpreter = withLimits(limit);
        const shown = decimalOfFloat32(value);
        expect(interpreter.decision(value, single) !== '', `${value} shown as ${shown}, limit ${limit}`).toBe(
          shown >= limit,
        );
        expect(interpreter.decision(p, double) !== '').toBe(p >= limit);
      }
    }),
    { numRuns: 3_000 },
  );
});

test('a float32 that is shown as 0.7 reaches 0.7, the float32 below it does not', () => {
  const below = Math.fround(0.7) - 2 ** -24;
  const interpreter = withLimits(0.7, 0.2);
  expect(Math.fround(0.7)).toBeLessThan(0.7);
  expect([Math.fround(0.7), below, 0.1].map((p) => interpreter.decision(p, single))).toEqual([
    'from 0.7',
    'from 0.2',
    '',
  ]);
  expect(interpreter.decision(Math.fround(0.7), double)).toBe('from 0.2');
});
