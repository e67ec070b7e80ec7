// Steps behind a model: the result of a row depends on that row alone, and follows the definition of the ONNX operator.

import { expect, test } from 'vitest';
import { outputOf } from '../../../src/inference/evaluate/native/output.ts';
import type { OutputStep } from '../../../src/inference/onnx/traced-model.ts';
import fc from '../../support/seeded-fast-check.ts';

/** A row → what the step makes of it, in doubles. */
const STEPS: readonly [OutputStep, (row: readonly number[]) => number[]][] = [
  [{ op: 'add', by: 0.75, type: 'float64' }, (row) => row.map((x) => x + 0.75)],
  [{ op: 'mul', by: -3, type: 'float64' }, (row) => row.map((x) => x * -3)],
  [{ op: 'sigmoid', type: 'float64' }, (row) => row.map((x) => 1 / (1 + Math.exp(-x)))],
  [
    { op: 'softmax', type: 'float64' },
    (row) => {
      const sum = row.reduce((total, x) => total + Math.exp(x), 0);
      return row.map((x) => Math.exp(x) / sum);
    },
  ],
  [
    { op: 'l1', type: 'float64' },
    (row) => {
      const sum = row.reduce((total, x) => total + Math.abs(x), 0);
      return sum === 0 ? [...row] : row.map((x) => x / sum);
    },
  ],
];
/** Behind the rows: no step may touch it. */
const GUARD = 123;

for (const [step, expected] of STEPS) {
  test.each([true, false])(`${step.op}: row by row (double: %s)`, (double) => {
    const value = fc.oneof(fc.constantFrom(0, 1, -1), fc.float({ min: -30, max: 30, noNaN: true }));
    const tables = fc.integer({ min: 1, max: 4 }).chain((width) => fc.tuple(fc.constant(width), fc.array(fc.array(value, { minLength: width, maxLength: width }), { maxLength: 9 }))); // biome-ignore format: one line
    fc.assert(
      fc.property(tables, ([width, rows]) => {
        const { applies } = outputOf([step], width, double);
        const cells = [...rows.flat(), ...Array<number>(width + 1).fill(GUARD)];
        const values = double ? Float64Array.from(cells) : Float32Array.from(cells);
        for (const apply of applies) apply(values, rows.length);
        const got = Array.from(values);
        expect(got.slice(rows.length * width)).toEqual(Array<number>(width + 1).fill(GUARD));
        for (const [r, row] of rows.entries()) {
          const wanted = expected(row);
          for (const [k, x] of got.slice(r * width, (r + 1) * width).entries()) {
            expect(Math.abs(x - wanted[k]!)).toBeLessThanOrEqual(
              (double ? 1e-14 : 4e-6) * Math.max(1, Math.abs(wanted[k]!)),
            );
          }
        }
      }),
    );
  });
}

test('a Cast rounds doubles to float32, and cannot go back', () => {
  const { applies } = outputOf([{ op: 'cast', type: 'float32' }], 1, true);
  const values = Float64Array.of(0.1, 1e39, -0.5);
  for (const apply of applies) apply(values, 3);
  expect([...values]).toEqual([Math.fround(0.1), Infinity, -0.5]);
  expect(outputOf([{ op: 'cast', type: 'float32' }], 1, false).applies).toEqual([]);
  expect(() => outputOf([{ op: 'cast', type: 'float64' }], 1, false)).toThrow('Cast');
});

test('one column is served once, and only where there is one', () => {
  const column = (at: number): OutputStep => ({ op: 'column', column: at });
  expect(outputOf([column(2)], 3, false)).toMatchObject({ width: 1, column: 2 });
  expect(outputOf([], 3, false)).toMatchObject({ width: 3, column: null });
  for (const steps of [[column(3)], [column(-1)], [column(0), column(0)]]) {
    expect(() => outputOf(steps, 3, false)).toThrow('columns');
  }
  expect(() => outputOf([column(1), { op: 'softmax', type: 'float32' }], 3, false)).toThrow('softmax');
  expect(outputOf([column(1), { op: 'add', by: 1, type: 'float32' }], 3, false).applies).toHaveLength(1);
});
