// What a column contributes to a linear model is the sum of coefficient × value over the features made of it, and of no other column.

import { expect, test } from 'vitest';
import { Contributions } from '../../../src/inference/explain/linear.ts';
import type { Feature, LinearHead } from '../../../src/inference/onnx/traced-model.ts';
import fc from '../../support/seeded-fast-check.ts';

const WORDS = ['yes', 'no', 'maybe'];
const TARGETS = 2;
const SHAPES = [
  { name: 's', type: 'string', width: 2 },
  { name: 'x', type: 'float64', width: 1 },
] as const;
/** The columns of the package: the number first. */
const PLACES = [[{ input: 1, at: 0 }], [{ input: 0, at: 0 }], [{ input: 0, at: 1 }]];

// Two columns with the same categories, interleaved, and the number twice.
const words = WORDS.flatMap((category) =>
  [0, 1].map(
    (column): Feature => ({
      source: { input: 's', column, type: 'string' },
      steps: [{ op: 'equals', type: 'float32', category }],
      constant: 0,
      type: 'float32',
    }),
  ),
);
const number: Feature = { source: { input: 'x', column: 0, type: 'float64' }, steps: [], constant: 0, type: 'float64' };
const FEATURES = [number, ...words, number];

const coefficient = fc.integer({ min: -8, max: 8 });
const row = fc.record({
  first: fc.constantFrom(...WORDS, 'never', ''),
  second: fc.constantFrom(...WORDS, 'never', ''),
  x: fc.integer({ min: -9, max: 9 }),
});

test('two columns with the same categories, and a number that is used twice', () => {
  const width = FEATURES.length;
  const coefficients = fc.array(coefficient, { minLength: width * TARGETS, maxLength: width * TARGETS });
  fc.assert(
    fc.property(coefficients, fc.array(row, { minLength: 1, maxLength: 4 }), (own, rows) => {
      const head = { kind: 'linear', coefficients: own, intercepts: [3, -5], targets: TARGETS, type: 'float64' };
      const contributions = new Contributions(head as unknown as LinearHead, FEATURES, SHAPES, PLACES);
      const inputs = [
        { name: 's', type: 'string', width: 2, data: rows.flatMap(({ first, second }) => [first, second]) },
        { name: 'x', type: 'float64', width: 1, data: Float64Array.from(rows, ({ x }) => x) },
      ] as const;
      for (const [r, { first, second, x }] of rows.entries()) {
        contributions.read(inputs, r);
        const expected = [0, 1].flatMap((target) => {
          const of = (feature: number): number => own[target * width + feature]!;
          const word = (text: string, column: number): number =>
            WORDS.includes(text) ? of(1 + WORDS.indexOf(text) * 2 + column) : 0;
          return [(of(0) + of(width - 1)) * x + 0, word(first, 0), word(second, 1)];
        });
        expect([...contributions.values].map((v) => v + 0)).toEqual(expected);
        const sum = (target: number): number => expected.slice(target * 3, target * 3 + 3).reduce((a, b) => a + b, 0);
        expect([...contributions.sums()]).toEqual([3 + sum(0), -5 + sum(1)]);
      }
    }),
  );
});
