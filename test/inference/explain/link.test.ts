// A link turns margins into answers row by row: what lies beside the margins of a row does not matter.
import { expect, test } from 'vitest';
import { applyLink, distance } from '../../../src/inference/explain/link.ts';

const GUARD = 9;

function answers(
  kind: Parameters<typeof applyLink>[0],
  margins: readonly number[],
  at: number,
  outputs: number,
): number[] {
  const out = new Float64Array(outputs + 1).fill(GUARD);
  applyLink(kind, Float64Array.from(margins), at, outputs, out);
  expect(out[outputs]).toBe(GUARD);
  return [...out.subarray(0, outputs)];
}

test('softmax: of the margins of the row alone, at the end of all margins and in the middle', () => {
  const sum = 1 + Math.E + Math.E ** 2;
  for (const [margins, at] of [
    [[0, 1, 2], 0],
    [[1e6, 0, 1, 2], 1],
    [[1e6, 0, 1, 2, 1e6], 1],
    [[-1e6, 700, 701, 702, Number.NaN], 1],
  ] as const) {
    const got = answers('softmax', margins, at, 3);
    for (const [k, x] of got.entries()) expect(x).toBeCloseTo(Math.E ** k / sum, 12);
  }
});

test('logistic and identity: one by one', () => {
  expect(answers('logistic', [0, Math.log(3), 5], 0, 2)).toEqual([0.5, expect.closeTo(0.75, 12)]);
  expect(answers('logistic', [1000, -1000], 0, 2)).toEqual([1, 0]);
  expect(answers('identity', [7, -0.5, 3], 1, 1)).toEqual([-0.5]);
});

test('a distance is absolute up to 1, and relative beyond', () => {
  const of = (a: number[], b: number[]) => distance(Float64Array.from(a), Float64Array.from(b));
  expect(of([0.5, 1], [0.25, 1])).toBe(0.25);
  expect(of([110, 1], [100, 1])).toBeCloseTo(0.1, 12);
  expect(of([-110, 1], [-100, 1])).toBeCloseTo(0.1, 12);
  expect(of([], [])).toBe(0);
});
