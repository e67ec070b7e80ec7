// A link turns margins into answers row by row: what lies beside the margins of a row does not matter.
import { expect, test } from 'vitest';
import type { Interpreter } from '../../../src/inference/evaluate/prediction.ts';
import { applyLink, distance, findLink } from '../../../src/inference/explain/link.ts';

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

const logistic = (margin: number): number => 1 / (1 + Math.exp(-margin));
const SUMS = [-100, -3, -1.5, -0.25, 0, 0.125, 0.75, 2, 3.5, 100].map((s) => [s, s / 3 - 1]);
const SHARES = [0, 0.015625, 0.25, 0.5, 0.875, 1].map((s) => [s, 1 - s]);

test.each([
  ['binary', 'log odds', SUMS, ([a]) => [logistic(a!)], 'log_odds', 'logistic', [[1, 0]], [0]],
  ['binary', 'log odds of the other class', SUMS, ([a]) => [logistic(-a!)], 'log_odds', 'logistic', [[-1, 0]], [0]],
  ['binary', 'a difference', SUMS, ([a, b]) => [logistic(b! - a!)], 'log_odds', 'logistic', [[-1, 1]], [0]],
  ['binary', 'calibrated', SUMS.map(([a]) => [a!]), ([a]) => [logistic(0.5 * a! - 1)], 'log_odds', 'logistic', [[0.5]], [-1]],
  ['binary', 'a share', SHARES, ([a]) => [a!], 'probability', 'identity', [[0, -1]], [1]],
  ['binary', 'one share', SHARES.map(([a]) => [a!]), ([a]) => [a!], 'probability', 'identity', [[1]], [0]],
  ['multiclass', 'shares', SHARES, ([a, b]) => [a!, b!], 'probability', 'identity', [[1, 0], [0, 1]], [0, 0]],
  ['multiclass', 'a softmax', SUMS, ([a, b]) => [logistic(a! - b!), logistic(b! - a!)], 'log_odds', 'softmax', [[1, 0], [0, 1]], [0, 0]],
  ['regression', 'a sum', SUMS, ([, b]) => [b!], 'value', 'identity', [[1 / 3, 0]], [-1]],
  ['regression', 'a scaled sum', SHARES, ([a]) => [a! * 40 + 7], 'value', 'identity', [[40, 0]], [7]],
] as [Interpreter['task'], string, number[][], (sums: number[]) => number[], string, string, number[][], number[]][])(
  'the link of %s: %s',
  (task, _, sums, answerOf, space, kind, coefficients, offset) => {
    const rows = sums.map((row) => Float64Array.from(row));
    const link = findLink({ task } as Interpreter, rows, rows.map((row) => Float64Array.from(answerOf([...row]))));
    expect(link).toMatchObject({ space, kind });
    expect(link.coefficients.map((c) => c.map((x) => Number(x.toFixed(9)) + 0))).toEqual(coefficients.map((c) => c.map((x) => Number(x.toFixed(9)))));
    expect(link.offset.map((x) => Number(x.toFixed(9)) + 0)).toEqual(offset);
  },
); // biome-ignore format: a table

test('answers that no link gives', () => {
  const rows = SUMS.map((row) => Float64Array.from(row));
  for (const task of ['binary', 'multiclass', 'regression'] as const) {
    const squares = rows.map((row) => row.map((x) => logistic(x) ** 2));
    const answers = task === 'multiclass' ? squares : squares.map((row) => row.subarray(0, 1));
    expect(() => findLink({ task } as Interpreter, rows, answers)).toThrow('not a known function of the sums');
  }
});
