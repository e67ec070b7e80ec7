// What an interpretation costs is known before it is asked for: no more evaluations than foretold, none uncounted, and less when limited.
import { describe, expect, test } from 'vitest';
import { Random } from '../../../src/core/random.ts';
import type { Evaluator } from '../../../src/inference/evaluate/evaluator.ts';
import {
  backgroundRowsOf,
  evaluationsOfPairs,
  leastEvaluations,
  pairsWithin,
} from '../../../src/inference/explain/budget.ts';
import { createExplainer } from '../../../src/inference/explain/choose-explainer.ts';
import { type Explained, explainZoo } from '../../support/explain.ts';
import { readRows, zooModels } from '../../support/zoo.ts';

const rows = [...readRows('data/clean.csv').slice(0, 3), ...readRows('data/dirty.csv').slice(0, 2)];
const ALL = [0, 1, 2, 3, 4];

let known: Promise<Explained> | null = null;
const mlp = (): Promise<Explained> => {
  known ??= explainZoo(zooModels().find((m) => m.name === 'skl-mlp')!);
  return known;
};

/** The same model, and how many rows it was asked for. */
async function counted({ manifest, evaluator, encode }: Explained, explain = {}) {
  let asked = 0;
  const counting: Evaluator = {
    ...evaluator,
    score: (inputs, n) => {
      asked += n;
      return evaluator.score(inputs, n);
    },
  };
  const chosen = await createExplainer({
    bytes: new Uint8Array(),
    manifest: { ...manifest, explain: { ...manifest.explain, ...explain } },
    evaluator: counting,
    background: encode(readRows('data/background.csv')),
    covers: null,
  });
  return { ...chosen, take: () => asked, reset: () => (asked = 0) };
}

describe('evaluations', () => {
  const random = new Random();
  const some = (most: number) => 1 + Math.floor(random.uniform() * most);

  test('as many pairs as fit, and not one more; every row of the background that is used is used equally often', () => {
    random.seed(20, 6);
    for (let n = 0; n < 2000; n++) {
      const [columns, background, wanted] = [some(30), some(300), some(5000)];
      const limit = leastEvaluations(columns) + some(50_000) - 1;
      const pairs = pairsWithin(limit, columns, wanted, background);
      expect(pairs).toBeLessThanOrEqual(wanted);
      expect(evaluationsOfPairs(pairs, columns)).toBeLessThanOrEqual(limit);
      if (pairs < wanted) {
        const next = pairs < background ? pairs + 1 : pairs + background;
        expect(columns === 1 || evaluationsOfPairs(next, columns) > limit).toBe(true);
        expect(pairs < background || pairs % background === 0).toBe(true);
      }
      const used = backgroundRowsOf(pairs, background);
      expect(new Set(used).size).toBe(Math.min(pairs, background));
      expect(used.every((z) => z >= 0 && z < background)).toBe(true);
    }
  });

  test('with fewer than the least there is no interpretation, and the error names it', () => {
    expect(leastEvaluations(8)).toBe(29);
    expect(() => pairsWithin(28, 8, 400, 100)).toThrow(
      expect.objectContaining({ code: 'interpretation_over_budget', extra: { limit: 28, least: 29 } }),
    );
  });
});

describe('a model that has to be asked', () => {
  test.each([
    ['all subsets', null, 'exact'],
    ['all pairs', 25_500, 'sampling'],
    ['some', 1500, 'sampling'],
    ['the least', 29, 'sampling'],
  ] as const)(
    '%s: it is asked as often as is told, row by row, and not more often than foretold',
    async (_name, limit, method) => {
      const x = await mlp();
      const { within, take, reset } = await counted(x);
      const explainer = within(limit);
      expect(explainer.method).toBe(method);
      expect(explainer.questions).toBeLessThanOrEqual(limit ?? 25_501);
      reset();
      const { inputs } = x.encode(rows);
      const told: [number, number][] = [];
      const { values, evaluations, margins, errors } = await explainer.explain(inputs, ALL, (r, e) => {
        told.push([r, e]);
      });
      expect(evaluations).toBe(take());
      expect(evaluations).toBeLessThanOrEqual(explainer.questions * ALL.length);
      // The shares of rows come to the rows only if what a row takes was known before it was asked for.
      expect(told.reduce((n, [, e]) => n + e, 0)).toBe(evaluations);
      expect(told.reduce((n, [r]) => n + r, 0)).toBeCloseTo(ALL.length, 9);
      const columns = x.manifest.columns.length;
      for (const i of ALL) {
        const sum = values.subarray(i * columns, (i + 1) * columns).reduce((n, v) => n + v, explainer.base[0]!);
        expect(Math.abs(sum - margins[i]!)).toBeLessThan(1e-9);
        if (method === 'sampling') expect(errors![i]).toBeGreaterThan(0);
      }
    },
  );

  test('the limit of the package holds whatever is asked for, and the smaller one wins', async () => {
    const x = await mlp();
    const { explainer, within } = await counted(x, { max_evaluations: 2000 });
    expect(explainer).toMatchObject({ method: 'sampling', questions: evaluationsOfPairs(100, 8) });
    expect(within(1_000_000)).toBe(explainer);
    expect(within(500).questions).toBe(evaluationsOfPairs(35, 8));
    expect(() => within(20)).toThrow(expect.objectContaining({ code: 'interpretation_over_budget' }));
  });

  test('effects of a limited budget are within five standard errors of the exact ones', async () => {
    const x = await mlp();
    const { inputs } = x.encode(rows);
    const want = (await x.within(null).explain(inputs, ALL)).values.slice();
    for (const limit of [300, 1500, 12_000]) {
      const { values, errors } = await x.within(limit).explain(inputs, ALL);
      const columns = x.manifest.columns.length;
      values.forEach((v, k) => {
        expect(Math.abs(v - want[k]!)).toBeLessThanOrEqual(5 * errors![Math.floor(k / columns)]! + 1e-6);
      });
    }
  });
});
