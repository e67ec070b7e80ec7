// The law of the native evaluator: the bits of ONNX Runtime with one thread, for every ensemble that is compiled.

import { expect, test } from 'vitest';
import { ComparisonRows } from '../../../src/inference/evaluate/native/comparison-rows.ts';
import { openNative } from '../../../src/inference/evaluate/native/native-evaluator.ts';
import { planNative } from '../../../src/inference/evaluate/native/native-plan.ts';
import { openOnnxRuntime } from '../../../src/inference/evaluate/onnxruntime.ts';
import { readOnnx } from '../../../src/inference/onnx/graph.ts';
import { servable } from '../../../src/inference/onnx/servable.ts';
import { readChecked } from '../../../src/inference/trees/ensemble.ts';
import type { Kernel } from '../../../src/inference/trees/machine.ts';
import type { Manifest } from '../../../src/model/package/manifest.ts';
import { type ForestSpec, flatForestFile, forestFile, matrixManifest } from '../../support/forest.ts';
import fc from '../../support/seeded-fast-check.ts';
import { times } from '../../support/tiers.ts';

const PER_CENT = times('per cent of the forests', { quick: 25, check: 50, campaigns: 5_000 });
/** How many forests are tried where `npm run check` tries `check`. */
const forests = (check: number): number => Math.ceil((check * PER_CENT) / 100);

/** Scores the same rows with both; gives the pairs that are not the same number. */
async function differences(bytes: Uint8Array, manifest: Manifest, kernel: Kernel, batches = 2): Promise<string[]> {
  const rows = 144;
  const shapes = manifest.inputs.map((i) => ({ name: i.name, type: i.type, width: i.columns?.length ?? 1 }));
  const native = openNative(structuredClone(planNative(readOnnx(bytes), 'scores', shapes, kernel)));
  const reference = await openOnnxRuntime(servable(readChecked(bytes)), manifest);
  const wrong: string[] = [];
  try {
    const drawn = new ComparisonRows(manifest, native.slots, rows);
    for (let b = 0; b < batches; b++) {
      const inputs = drawn.next();
      const expected = await reference.score(inputs, rows);
      const { values, width } = native.scoreNow(inputs, rows);
      expect(width).toBe(expected.width);
      for (let i = 0; i < rows * width; i++) {
        const [x, y] = [values[i]!, expected.values[i]!];
        if (x !== y && !(Number.isNaN(x) && Number.isNaN(y))) wrong.push(`${i}: ${x} for ${y}`);
      }
      // A row alone is the row among others.
      const one = inputs.map((i) => ({ ...i, data: (i.data as Float32Array).slice(7 * i.width, 8 * i.width) }));
      const all = values.slice(7 * width, 8 * width);
      expect([...native.scoreNow(one, 1).values]).toEqual([...all]);
    }
  } finally {
    await reference.close();
  }
  return wrong;
}

const LEQ = ['BRANCH_LEQ'];
const ALL = ['BRANCH_LEQ', 'BRANCH_LT', 'BRANCH_GTE', 'BRANCH_GT', 'BRANCH_EQ', 'BRANCH_NEQ'];

const spec: fc.Arbitrary<ForestSpec> = fc.record({
  seed: fc.integer({ min: 1, max: 1e9 }),
  kind: fc.constant('classifier' as const),
  trees: fc.integer({ min: 1, max: 45 }),
  leaves: fc.constantFrom(1, 2, 8, 31, 32, 33, 64, 65, 90),
  features: fc.integer({ min: 1, max: 6 }),
  targets: fc.constant(2),
  weights: fc.constant('first' as const),
  modes: fc.oneof(fc.constantFrom(...ALL.map((m) => [m])), fc.constant(ALL), fc.constant(['BRANCH_LEQ', 'BRANCH_EQ'])),
  missing: fc.boolean(),
  base: fc.constantFrom(0, 1),
  post: fc.constantFrom('NONE', 'LOGISTIC', 'SOFTMAX', 'SOFTMAX_ZERO'),
  positive: fc.boolean(),
});

const kernelsOf = (s: ForestSpec): Kernel[] => (s.leaves <= 64 || s.symmetric ? ['quickscorer', 'walk'] : ['walk']);

async function agrees(s: ForestSpec): Promise<void> {
  for (const kernel of kernelsOf(s)) {
    expect(await differences(forestFile(s), matrixManifest(s), kernel), `${kernel} ${JSON.stringify(s)}`).toEqual([]);
  }
}

test('binary classifiers of all modes have the same bits', async () => {
  await fc.assert(fc.asyncProperty(spec, agrees), { numRuns: forests(80) });
});

test('symmetric trees have the same bits', async () => {
  const symmetric = fc.record({
    base: spec,
    leaves: fc.constantFrom(1, 2, 4, 16, 64, 128, 256),
    trees: fc.constantFrom(1, 2, 15, 16, 17, 45, 127, 130),
    regressor: fc.boolean(),
    aggregate: fc.constantFrom('SUM', 'AVERAGE', 'MIN', 'MAX'),
    double: fc.boolean(),
    targets: fc.constantFrom(1, 3),
  });
  await fc.assert(
    fc.asyncProperty(symmetric, async ({ base, regressor, aggregate, targets, ...more }) => {
      const own = { ...base, ...more, symmetric: true };
      if (!regressor) return agrees(own);
      await agrees({ ...own, kind: 'regressor', targets, aggregate, weights: 'all', base: 0, post: 'NONE' });
    }),
    { numRuns: forests(60) },
  );
});

const symmetricForest = (seed: number): ForestSpec => ({ seed, kind: 'classifier', trees: 4, leaves: 16, features: 5, targets: 2, weights: 'first', modes: LEQ, missing: true, symmetric: true, base: 1, post: 'LOGISTIC' }); // biome-ignore format: one line

/** Bits per tree in the rows of the tables. */
function bitsOf(s: ForestSpec): number[] {
  const inputs = [{ name: 'x', type: 'float32', width: s.features }] as const;
  const plan = planNative(readOnnx(forestFile(s)), 'scores', inputs, 'quickscorer');
  const text = JSON.stringify(plan, (key, value) => (key === 'code' || key === 'memory' ? undefined : value));
  return [...new Set(Array.from(text.matchAll(/tile\d+x(\d+)x/g), ([, bits]) => Number(bits)))];
}

test('the table rows of symmetric trees have a byte per tree', () => {
  for (let seed = 1; seed <= 5; seed++) expect(bitsOf(symmetricForest(seed))).toEqual([8]);
});

test.each(['value', 'mode', 'feature', 'missing'] as const)(
  'trees with another %s in one branch have the same bits',
  async (asymmetry) => {
    let masks = 0;
    for (let seed = 1; seed <= 10; seed++) {
      const s = { ...symmetricForest(seed), asymmetry };
      await agrees(s);
      if (bitsOf(s)[0] === 32) masks++;
    }
    // The changed branch may be the only one of its level.
    expect(masks).toBeGreaterThan(3);
  },
);

test('classifiers of many classes have the same bits', async () => {
  const many = fc.record({
    base: spec,
    targets: fc.constantFrom(3, 4, 7),
    weights: fc.constantFrom('all' as const, 'one' as const),
    withBase: fc.boolean(),
    post: fc.constantFrom('NONE', 'LOGISTIC', 'SOFTMAX', 'SOFTMAX_ZERO'),
  });
  await fc.assert(
    fc.asyncProperty(many, async ({ base, targets, weights, withBase, post }) => {
      const trees = Math.max(base.trees, targets);
      await agrees({ ...base, targets, weights, trees, post, base: withBase ? targets : 0, positive: false });
    }),
    { numRuns: forests(40) },
  );
});

test('two classes with weights for both have the same bits', async () => {
  const both = fc.record({
    base: spec,
    count: fc.constantFrom(0, 1, 2),
    post: fc.constantFrom('NONE', 'LOGISTIC', 'SOFTMAX'),
  });
  await fc.assert(
    fc.asyncProperty(both, ({ base, count, post }) => agrees({ ...base, weights: 'all', base: count, post })),
    { numRuns: forests(30) },
  );
});

test('regressors with every aggregation have the same bits', async () => {
  const regressor = fc.record({
    base: spec,
    targets: fc.constantFrom(1, 1, 2, 3),
    aggregate: fc.constantFrom('SUM', 'AVERAGE', 'MIN', 'MAX'),
    count: fc.constantFrom(0, 1),
    post: fc.constantFrom('NONE', 'LOGISTIC'),
  });
  await fc.assert(
    fc.asyncProperty(regressor, ({ base, targets, aggregate, count, post }) =>
      agrees({ ...base, kind: 'regressor', targets, aggregate, weights: 'all', base: count * targets, post }),
    ),
    { numRuns: forests(50) },
  );
});

test('double ensembles have the same bits', async () => {
  await fc.assert(
    fc.asyncProperty(spec, fc.boolean(), fc.boolean(), (s, regressor, floats) =>
      agrees({ ...s, double: true, floats, ...(regressor ? { kind: 'regressor', targets: 1, post: 'NONE' } : {}) }),
    ),
    { numRuns: forests(40) },
  );
});

test.each([33, 64, 65, 128, 255, 300, 1000])('trees of up to %i leaves have the same bits', async (leaves) => {
  const s: ForestSpec = { seed: leaves, kind: 'classifier', trees: 20, leaves, features: 5, targets: 2, weights: 'first', modes: LEQ, missing: true, base: 1, post: 'LOGISTIC' }; // biome-ignore format: one line
  await agrees(s);
});

test('more than 512 rows are cut into micro-batches that share memory', async () => {
  const s: ForestSpec = { seed: 3, kind: 'classifier', trees: 40, leaves: 31, features: 5, targets: 3, weights: 'all', modes: LEQ, missing: true, base: 0, post: 'SOFTMAX' }; // biome-ignore format: one line
  const manifest = matrixManifest(s);
  const bytes = forestFile(s);
  const native = openNative(
    structuredClone(planNative(readOnnx(bytes), 'scores', [{ name: 'x', type: 'float32', width: 5 }])),
  );
  const rows = 1_601;
  const inputs = new ComparisonRows(manifest, native.slots, rows).next();
  const reference = await openOnnxRuntime(servable(readChecked(bytes)), manifest);
  const expected = await reference.score(inputs, rows);
  expect([...native.scoreNow(inputs, rows).values]).toEqual([...expected.values]);
  await reference.close();
});

test('TreeEnsemble of ai.onnx.ml 5 has the same bits', async () => {
  await fc.assert(
    fc.asyncProperty(spec, async (s) => {
      const one: ForestSpec = {
        ...s,
        kind: 'regressor',
        targets: 1,
        base: 0,
        post: 'NONE',
        modes: ALL.filter((m) => m !== 'BRANCH_EQ'),
      };
      const bytes = flatForestFile(one);
      fc.pre(bytes !== null);
      for (const kernel of kernelsOf(one)) expect(await differences(bytes!, matrixManifest(one), kernel)).toEqual([]);
    }),
    { numRuns: forests(40) },
  );
});
