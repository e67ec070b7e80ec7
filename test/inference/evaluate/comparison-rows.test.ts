// Evaluators are compared on rows that have every kind of value: one that is never drawn is one on which they may differ.
import { expect, test } from 'vitest';
import { ComparisonRows } from '../../../src/inference/evaluate/native/comparison-rows.ts';
import { above, below } from '../../../src/inference/trees/float.ts';
import type { Slot } from '../../../src/inference/trees/slots.ts';
import type { InputSpec, Manifest } from '../../../src/model/package/manifest.ts';
import { manifestFor } from '../../support/forest.ts';

const ROWS = 4000;
const CUTS = [0.25, 7];

const numberSlot: Slot = {
  kind: 'number',
  source: { input: 'x', column: 0, type: 'float32' },
  feature: {} as Extract<Slot, { kind: 'number' }>['feature'],
  cuts: Float64Array.from(CUTS),
  states: 4,
};
const categorySlot: Slot = {
  kind: 'category',
  source: { input: 'x', column: 0, type: 'float32' },
  before: [],
  categories: new Map([['red', 0], ['blue', 1]]),
  whole: false,
  states: 3,
}; // biome-ignore format: one table

function drawn(type: InputSpec['type'], slot: Slot, change: Partial<Manifest['columns'][number]> = {}): unknown[] {
  const manifest = manifestFor([{ name: 'x', type, columns: ['a', 'other'] }], 1);
  manifest.columns = manifest.columns.map((column) => ({ ...column, ...change }) as Manifest['columns'][number]);
  const [input] = new ComparisonRows(manifest, [slot], ROWS).next();
  return Array.from({ length: ROWS }, (_, row) => input!.data[row * 2]);
}

/** How many of the values are of a kind, which has to be some hundredths of them unless it is rare. */
const share = (values: readonly unknown[], is: (x: number) => boolean): number =>
  values.filter((x) => is(Number(x))).length / values.length;

test.each([
  ['float32', false],
  ['float64', true],
] as const)('%s: thresholds, their neighbours, missing, whole, in between, and far away', (type, double) => {
  const values = drawn(type, numberSlot);
  for (const cut of CUTS) {
    expect(share(values, (x) => x === cut)).toBeGreaterThan(0.1);
    expect(share(values, (x) => x === below(cut, double))).toBeGreaterThan(0.03);
    expect(share(values, (x) => x === above(cut, double))).toBeGreaterThan(0.03);
  }
  expect(share(values, Number.isNaN)).toBeGreaterThan(0.05);
  expect(share(values, (x) => Number.isInteger(x) && Math.abs(x) < 10 && x !== 7)).toBeGreaterThan(0.05);
  expect(share(values, (x) => x > 0.26 && x < 6.9 && !Number.isInteger(x))).toBeGreaterThan(0.05);
  expect(share(values, (x) => Math.abs(x) > 1e20)).toBeGreaterThan(0.005);
  // 1e39 is infinite as a float32.
  const beyond = double ? 1e39 : Infinity;
  expect(share(values, (x) => x === beyond)).toBeGreaterThan(0);
  expect(share(values, (x) => x === -beyond)).toBeGreaterThan(0);
});

test('where no number may be missing there is no NaN', () => {
  expect(share(drawn('float32', numberSlot, { missing: { as: -1 } } as never), Number.isNaN)).toBe(0);
});

test.each(['int64', 'int32'] as const)('%s: whole numbers at and next to the thresholds', (type) => {
  const values = drawn(type, numberSlot);
  for (const x of [-1, 0, 1, 6, 7, 8]) expect(share(values, (v) => v === x)).toBeGreaterThan(0.01);
  expect(share(values, (x) => Number.isInteger(x) && Math.abs(x) < 2 ** 31)).toBe(1);
});

test('bool: both', () => {
  const values = drawn('bool', numberSlot);
  expect(share(values, (x) => x === 1)).toBeGreaterThan(0.4);
  expect(share(values, (x) => x === 0)).toBeGreaterThan(0.4);
});

test('texts: each category, some that are unknown, and none', () => {
  const values = drawn('string', categorySlot);
  const count = (is: (text: string) => boolean): number => values.filter((x) => is(x as string)).length / ROWS;
  for (const category of ['red', 'blue']) expect(count((x) => x === category)).toBeGreaterThan(0.3);
  expect(count((x) => x.startsWith('unknown '))).toBeGreaterThan(0.05);
  expect(count((x) => x === '')).toBeGreaterThan(0.02);
});

test('each batch has rows of its own, and a seed repeats all of them', () => {
  const manifest = manifestFor([{ name: 'x', type: 'float64', columns: ['a'] }], 1);
  const batches = () => {
    const rows = new ComparisonRows(manifest, [numberSlot], 40, 5);
    return [1, 2].map(() => Array.from(rows.next()[0]!.data as Float64Array));
  };
  const [first, second] = batches();
  expect(batches()).toEqual([first, second]);
  expect(second).not.toEqual(first);
});
