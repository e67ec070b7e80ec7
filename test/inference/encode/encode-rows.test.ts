// Rows of texts become what the model takes; a rejected row has its reason, and becomes a copy of a valid one.
import { expect, test } from 'vitest';
import { encodeRows, readRows, sampleApplication } from '../../../src/inference/encode/encode-rows.ts';
import type { Manifest } from '../../../src/model/package/manifest.ts';
import { manifestFor } from '../../support/forest.ts';

const manifest: Manifest = manifestFor(
  [
    { name: 'x', type: 'float32', columns: ['a', 'b'] },
    { name: 's', type: 'string', columns: ['word', 'place'] },
  ],
  1,
);
manifest.columns = [
  { name: 'a', kind: 'number' },
  { name: 'b', kind: 'number' },
  { name: 'word', kind: 'category' } as Manifest['columns'][number],
  { name: 'place', kind: 'category' } as Manifest['columns'][number],
];
/** Columns of the rows in another order than those of the manifest. */
const FIELDS = [2, 0, 1, 3];

const ROWS = [
  ['x', 'red', '7', 'A'],
  ['2', 'red', '1', 'B'],
  ['3', 'blue', '4', 'C'],
  ['y', 'blue', 'z', 'D'],
  ['5', 'red', '1,5', 'E'],
];

test('rejected rows have the first reason, once', () => {
  const { batch, rejected } = readRows(manifest, ROWS, FIELDS);
  expect([...rejected]).toEqual([
    [0, { column: 'b', code: 'bad_number' }],
    [3, { column: 'a', code: 'bad_number' }],
    [4, { column: 'a', code: 'bad_number' }],
  ]);
  expect([...batch.rejected.subarray(0, ROWS.length)]).toEqual([1, 0, 0, 1, 1]);
  expect(batch.rejections.map(({ index, code, column }) => [index, code, column])).toEqual(
    [...rejected].map(([index, { code, column }]) => [index, code, column]),
  );
});

test('rejected rows are copies of the first valid one', () => {
  const { inputs, rows, rejected } = encodeRows(manifest, ROWS, FIELDS);
  expect([rows, rejected.size]).toEqual([5, 3]);
  const [numbers, words] = inputs.map(({ data }) => Array.from(data as ArrayLike<unknown>));
  expect(numbers!.slice(0, 10)).toEqual([1, 2, 1, 2, 4, 3, 1, 2, 1, 2]);
  expect(words!.slice(0, 10)).toEqual(['red', 'B', 'red', 'B', 'blue', 'C', 'red', 'B', 'red', 'B']);
});

test('without a valid row nothing is encoded', () => {
  const { rejected, inputs } = encodeRows(manifest, [ROWS[0]!, ROWS[3]!], FIELDS);
  expect(rejected.size).toBe(2);
  expect(Array.from(inputs[0]!.data as Float32Array).every((x) => x === 0)).toBe(true);
});

test.each([
  [3629.5299999999997, undefined, 3629.53],
  [0.123456789, undefined, 0.1235],
  [0.0000123456, undefined, 0.00001235],
  [-45.678912, undefined, -45.68],
  [36, undefined, 36],
  [12345678901, undefined, 12345678901],
  [0.99999, { max: 0.99999 }, 0.99999],
  [0.00012345, { min: 0.00012345 }, 0.00012345],
  [1e300, undefined, 1e300],
])('the number %s of a sample, in the range %o, is shown as %s', (quantile, range, expected) => {
  const column = { name: 'a', kind: 'number', ...(range ? { range } : {}) };
  const baseline = { rows: 10, columns: { a: { edges: [quantile], counts: [5, 5], missing: 0 } } };
  const manifest = { columns: [column, { name: 'b', kind: 'category', codes: { '0230': 1 } }], baseline };
  expect(sampleApplication(manifest as unknown as Manifest)).toEqual({ a: expected, b: '0230' });
});
