// Exact Shapley values of a logistic function of a sum: by all subsets, and by the series that serves many columns.
import { expect, test } from 'vitest';
import { Random } from '../../../src/core/random.ts';
import { LogisticGames, logisticOf } from '../../../src/inference/explain/logistic-games.ts';

/** By the definition. */
function brute(start: number, terms: Float64Array): Float64Array {
  const n = terms.length;
  const value = (set: number): number => {
    let sum = start;
    for (let j = 0; j < n; j++) if ((set >>> j) & 1) sum += terms[j]!;
    return logisticOf(sum);
  };
  const values = Float64Array.from({ length: 2 ** n }, (_, set) => value(set));
  const factorial = [1];
  for (let k = 1; k <= n; k++) factorial.push(factorial[k - 1]! * k);
  const effects = new Float64Array(n);
  for (let set = 0; set < 2 ** n; set++) {
    const size = [...set.toString(2)].filter((b) => b === '1').length;
    const weight = (factorial[size]! * factorial[n - size - 1]!) / factorial[n]!;
    for (let j = 0; j < n; j++) {
      if (((set >>> j) & 1) === 0) effects[j]! += weight * (values[set | (1 << j)]! - values[set]!);
    }
  }
  return effects;
}

test.each([
  ['all subsets', 1, 9],
  ['the series', 10, 12],
])('%s: as the definition says, however large the terms', (_name, least, most) => {
  const random = new Random();
  random.seed(46, least);
  for (let n = least; n <= most; n++) {
    for (const size of [0.01, 1, 5, 60]) {
      const terms = Float64Array.from({ length: n }, () => (random.uniform() - 0.5) * 2 * size);
      const start = (random.uniform() - 0.5) * 4 * size;
      const got = new Float64Array(n);
      new LogisticGames(n).add(start, terms, 1, got);
      const want = brute(start, terms);
      for (let j = 0; j < n; j++) expect(Math.abs(got[j]! - want[j]!)).toBeLessThan(1e-9);
    }
  }
});

test('of 40 players: they add up, equal terms are worth the same, and no term is worth nothing', () => {
  const random = new Random();
  random.seed(46, 40);
  for (const size of [0.1, 1, 10]) {
    const terms = Float64Array.from({ length: 40 }, () => (random.uniform() - 0.5) * size);
    terms[7] = terms[31]!;
    terms[3] = 0;
    const got = new Float64Array(40);
    new LogisticGames(40).add(0.3, terms, 1, got);
    const total = terms.reduce((n, t) => n + t, 0.3);
    expect(got.reduce((n, v) => n + v, 0)).toBeCloseTo(logisticOf(total) - logisticOf(0.3), 9);
    expect(got[3]).toBe(0);
    expect(got[7]).toBeCloseTo(got[31]!, 12);
  }
});
