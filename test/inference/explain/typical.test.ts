// The typical value of a column is that of one application of the background, and missing where most have none.
import { expect, test } from 'vitest';
import type { EncodedInput } from '../../../src/inference/encode/encoder.ts';
import { typicalOf } from '../../../src/inference/explain/interpretation.ts';

const input = (cells: number[], width: number): EncodedInput =>
  ({ name: 'X', type: 'float32', data: Float32Array.from(cells), width }) as unknown as EncodedInput;
const PLACE = [{ input: 0, at: 0 }];

test.each([
  ['the median of numbers, not their mean', [1, 9, 3, 1000, 5], 4],
  ['the lower one of two in the middle', [4, 1, 3, 2], 3],
  ['missing where most have none, though some have numbers', [Number.NaN, 7, Number.NaN, 8, Number.NaN], 0],
])('%s', (_name, cells, row) => {
  expect(typicalOf({ inputs: [input(cells, 1)], rows: cells.length }, PLACE, true)).toBe(row);
});

test.each([
  ['of few codes the most frequent one', [0, 1, 1, 0, 1, 1, 0, 0, 1, 0, 1, 2], 1],
  ['of many codes, too: their middle is no category', [5, 4, 9, 3, 9, 2, 8], 2],
])('%s', (_name, cells, row) => {
  expect(typicalOf({ inputs: [input(cells, 1)], rows: cells.length }, PLACE, false)).toBe(row);
});

test('cells of a column that feeds several places are those of one row', () => {
  // Medians place by place would be 2 and 20, which nobody has together.
  const cells = [1, 20, 2, 30, 3, 10];
  const places = [PLACE[0]!, { input: 0, at: 1 }];
  const row = typicalOf({ inputs: [input(cells, 2)], rows: 3 }, places, true);
  expect([cells[row * 2], cells[row * 2 + 1]]).toEqual([2, 30]);
});
