// Effects against the training libraries' own values and independent references, column by column, for the whole zoo.
import { existsSync } from 'node:fs';
import path from 'node:path';
import { expect, test } from 'vitest';
import type { Effects } from '../../../src/inference/explain/explainer.ts';
import { type Explained, explainZoo } from '../../support/explain.ts';
import { assertBounded, extremesOf } from '../../support/extreme-values.ts';
import { describeEach } from '../../support/tiers.ts';
import { type Row, readRows, ZOO, type ZooModel, zooModels } from '../../support/zoo.ts';

const rows = [...readRows('data/clean.csv').slice(0, 40), ...readRows('data/dirty.csv').slice(0, 20)];
const models = zooModels().filter((m) => m.expect === 'served' && m.effects);
const has = (m: ZooModel, kind: string) => existsSync(path.join(ZOO, 'models', m.name, `effects-${kind}.csv`));

/** Largest difference from a reference, as a multiple of its tolerance. */
function worst(m: ZooModel, x: Explained, got: Effects, reference: Row[], count: number): number {
  const { abs, rel } = m.effects!.tolerance;
  const names = x.manifest.columns.map((c) => c.name);
  const { outputs, base } = x.explainer;
  expect(reference).toHaveLength(count * outputs);
  let largest = 0;
  reference.forEach((want, line) => {
    const r = Math.floor(line / outputs);
    const o = want.class === undefined ? 0 : x.manifest.classes!.map(String).indexOf(want.class);
    const size = Math.max(...names.map((n) => Math.abs(Number(want[n]))));
    const limit = abs + rel * size;
    largest = Math.max(largest, Math.abs(base[o]! - Number(want.base)) / limit);
    names.forEach((n, c) => {
      const effect = got.values[(r * outputs + o) * names.length + c]!;
      const d = Math.abs(effect - Number(want[n])) / limit;
      if (!(d <= largest)) largest = d;
    });
  });
  return largest;
}

/** base + effects = what the model adds up to, for every row and output. */
function additivity(x: Explained, got: Effects, count: number): number {
  const { outputs, base } = x.explainer;
  const columns = x.manifest.columns.length;
  let largest = 0;
  for (let i = 0; i < count * outputs; i++) {
    let sum = base[i % outputs]!;
    for (let c = 0; c < columns; c++) sum += got.values[i * columns + c]!;
    largest = Math.max(largest, Math.abs(sum - got.margins[i]!) / Math.max(1, Math.abs(got.margins[i]!)));
  }
  return largest;
}

const EXPECTED: Record<string, string> = {
  'skl-mlp': 'exact',
  'skl-calibrated-sigmoid': 'linear',
  'skl-isolation-forest': 'exact',
};

describeEach(models, { quick: 8, check: 16 }, (name, m) => {
  let opened: Promise<Explained> | null = null;
  const explained = (): Promise<Explained> => {
    opened ??= explainZoo(m);
    return opened;
  };

  test('interventional effects', async () => {
    const x = await explained();
    const linear = /logistic|linear|scorecard/.test(name);
    const wanted = EXPECTED[name] ?? (linear ? 'linear' : 'tree_interventional');
    expect([x.explainer.method, x.explainer.space]).toEqual([wanted, m.effects!.space]);
    const slow = wanted === 'exact' || wanted === 'sampling';
    const count = slow ? 2 : rows.length;
    const encoded = x.encode(rows);
    const got = await x.explainer.explain(
      encoded.inputs,
      Array.from({ length: count }, (_, i) => i),
    );
    expect(additivity(x, got, count)).toBeLessThan(1e-9);
    const reference = readRows(`models/${name}/effects-interventional.csv`).slice(0, count * x.explainer.outputs);
    if (wanted === 'sampling') return;
    expect(worst(m, x, got, reference, count)).toBeLessThanOrEqual(1);
  });

  if (has(m, 'brute'))
    test('all subsets of the columns, asked of the library', async () => {
      const x = await explained();
      const picked = [0, 1, 2, 40, 41].slice(0, x.explainer.method === 'exact' ? 2 : 5);
      if (x.explainer.method === 'sampling') return;
      const encoded = x.encode(rows);
      const got = await x.explainer.explain(encoded.inputs, picked);
      const reference = readRows(`models/${name}/effects-brute.csv`).slice(0, picked.length * x.explainer.outputs);
      expect(worst(m, x, got, reference, picked.length)).toBeLessThanOrEqual(1);
    });

  test('the largest, smallest and missing values take no more work than ordinary ones, and have exact effects', async () => {
    const x = await explained();
    await assertBounded(x, extremesOf(rows[0]!, x.manifest));
  });

  if (has(m, 'path'))
    test('path-dependent effects, with the covers of the package', async () => {
      const x = await explainZoo(m, 'tree_path_dependent');
      await assertBounded(x, extremesOf(rows[0]!, x.manifest));
      expect(x.explainer.method).toBe('tree_path_dependent');
      const encoded = x.encode(rows);
      const got = await x.explainer.explain(
        encoded.inputs,
        rows.map((_, i) => i),
      );
      expect(additivity(x, got, rows.length)).toBeLessThan(1e-9);
      expect(worst(m, x, got, readRows(`models/${name}/effects-path.csv`), rows.length)).toBeLessThanOrEqual(1);
    });
});

test('the references are there', () => {
  expect(models.filter((m) => has(m, 'interventional')).length).toBeGreaterThanOrEqual(20);
  expect(models.filter((m) => has(m, 'path')).length).toBeGreaterThanOrEqual(12);
  expect(models.filter((m) => has(m, 'brute')).length).toBeGreaterThanOrEqual(5);
});
