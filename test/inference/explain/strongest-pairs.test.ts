// The strongest pairs are the head of all pairs sorted by hand, equal ones in the order of the columns, row by row and output by output.

import { expect, test } from 'vitest';
import type { EncodedInput } from '../../../src/inference/encode/encoder.ts';
import type { Explainer } from '../../../src/inference/explain/explainer.ts';
import { pairCount, pairIndex } from '../../../src/inference/explain/leaf-pairs.ts';
import { strongestPairs } from '../../../src/inference/explain/strongest-pairs.ts';
import fc from '../../support/seeded-fast-check.ts';

const cases = fc
  .record({
    columns: fc.integer({ min: 1, max: 6 }),
    outputs: fc.integer({ min: 1, max: 3 }),
    rows: fc.integer({ min: 0, max: 150 }),
    most: fc.integer({ min: 1, max: 20 }),
  })
  .chain((shape) => {
    const count = shape.rows * shape.outputs * pairCount(shape.columns);
    // Few sizes: most are there several times, with both signs.
    const value = fc.constantFrom(0, -0, 0.5, -0.5, 1, -1, 1e-300, 7);
    return fc.record({ shape: fc.constant(shape), values: fc.array(value, { minLength: count, maxLength: count }) });
  });

test('sorted by hand', async () => {
  await fc.assert(
    fc.asyncProperty(cases, async ({ shape: { columns, outputs, rows, most }, values }) => {
      const all = pairCount(columns);
      const interactions = (_inputs: readonly EncodedInput[], of: readonly number[]) =>
        Float64Array.from(of.flatMap((r) => values.slice(r * outputs * all, (r + 1) * outputs * all)));
      const explainer = { outputs, interactions } as unknown as Explainer;
      const heard: number[] = [];
      const asked = { explainer, inputs: [], rows: [...Array(rows).keys()], columns, most };
      const found = await strongestPairs(asked, (n) => void heard.push(n));
      expect(heard.reduce((sum, n) => sum + n, 0)).toBe(rows);
      expect(Math.max(0, ...heard)).toBeLessThanOrEqual(64);
      for (let k = 0; k < rows * outputs; k++) {
        const want: [number, number, number][] = [];
        for (let i = 0; i < columns; i++)
          for (let j = i + 1; j < columns; j++) want.push([i, j, values[k * all + pairIndex(i, j, columns)]!]);
        const strongest = want
          .filter(([, , effect]) => effect !== 0)
          .sort((a, b) => Math.abs(b[2]) - Math.abs(a[2]))
          .slice(0, most);
        const got = Array.from({ length: found.counts[k]! }, (_, n) => {
          const at = k * found.most + n;
          return [found.first[at]!, found.second[at]!, found.effects[at]!];
        });
        expect(got).toEqual(strongest);
      }
    }),
    { numRuns: 60 },
  );
});
