// AUC, KS, Brier score and calibration are those of scikit-learn.
import { execFileSync } from 'node:child_process';
import { describe, expect, test } from 'vitest';
import { calibration } from '../../src/outcomes/calibration.ts';
import { brierScore, discrimination, ExactSum, type ScoredOutcomes } from '../../src/outcomes/discrimination.ts';
import fc from '../support/seeded-fast-check.ts';
import { checkTestNeeding } from '../support/tools.ts';
import { type Expected, expectedCases, REFERENCE, scoredOf } from './cases.ts';

const CLOSE = 1e-12;
/** What two ways of solving the same equations may differ by. */
const SOLVED = 1e-8;

function close(actual: number | null, wanted: number, tolerance = CLOSE): void {
  expect(actual).not.toBe(null);
  expect(Math.abs(actual! - wanted)).toBeLessThanOrEqual(tolerance);
}

test.each(expectedCases().map((c) => [c.name, c] as const))('%s: as scikit-learn has it', (_, wanted) => {
  const scored = scoredOf(wanted);
  expect(scored.positives).toHaveLength(wanted.positives);
  const { auc, ks } = discrimination(scored);
  close(auc, wanted.auc);
  close(ks, wanted.ks);
  close(brierScore(scored), wanted.brier);
  const found = calibration(scored)!;
  close(found.ece, wanted.ece);
  expect(found.deciles.map((b) => b.rows)).toEqual(wanted.bins.map(([rows]) => rows));
  for (const [i, [, mean, rate]] of wanted.bins.entries()) {
    close(found.deciles[i]!.meanProbability, mean);
    close(found.deciles[i]!.observedRate, rate);
  }
  if (wanted.line) {
    close(found.intercept, wanted.line[0], SOLVED);
    close(found.slope, wanted.line[1], SOLVED);
  }
});

checkTestNeeding(['Python 3 with scikit-learn'], 'the expected figures are those of the scikit-learn at hand', () => {
  const now = JSON.parse(execFileSync('python3', [REFERENCE], { encoding: 'utf8' })) as Expected[];
  const committed = expectedCases();
  expect(now).toHaveLength(committed.length);
  for (const [i, wanted] of committed.entries()) {
    for (const figure of ['auc', 'ks', 'brier', 'ece'] as const) close(now[i]![figure], wanted[figure]);
    expect(now[i]!.bins.map(([rows]) => rows)).toEqual(wanted.bins.map(([rows]) => rows));
  }
});

const of = (positives: number[], negatives: number[]): ScoredOutcomes => ({
  positives: Float64Array.from(positives).sort(),
  negatives: Float64Array.from(negatives).sort(),
});

/** Few values, so that ties are the rule. */
const scores = fc.array(
  fc.integer({ min: 0, max: 12 }).map((n) => n / 12),
  { maxLength: 40 },
);

test('AUC is the share of pairs in order, KS the largest distance of the shares at or above a score', () => {
  fc.assert(
    fc.property(scores, scores, (positives, negatives) => {
      const { auc, ks } = discrimination(of(positives, negatives));
      if (positives.length === 0 || negatives.length === 0) return auc === null && ks === null;
      const pairs = positives.flatMap((p) => negatives.map((n) => (p > n ? 1 : p === n ? 0.5 : 0) as number));
      close(auc, pairs.reduce((a, b) => a + b, 0) / pairs.length);
      const share = (list: number[], at: number) => list.filter((s) => s >= at).length / list.length;
      close(ks, Math.max(0, ...[...positives, ...negatives].map((at) => share(positives, at) - share(negatives, at))));
      return true;
    }),
  );
});

test('deciles hold every row once, in ascending order', () => {
  fc.assert(
    fc.property(scores, scores, (positives, negatives) => {
      const rows = positives.length + negatives.length;
      const found = calibration(of(positives, negatives));
      if (rows === 0) return found === null;
      expect(found!.deciles.length).toBeLessThanOrEqual(10);
      expect(found!.deciles.reduce((n, b) => n + b.rows, 0)).toBe(rows);
      const observed = found!.deciles.reduce((n, b) => n + b.rows * b.observedRate, 0);
      expect(Math.abs(observed - positives.length)).toBeLessThan(1e-9);
      const means = found!.deciles.map((b) => b.meanProbability);
      expect(means).toEqual(means.toSorted((a, b) => a - b));
      return true;
    }),
  );
});

describe('there is no line', () => {
  test.each<[string, number[], number[]]>([
    ['of one class', [0.2, 0.7], []],
    ['where all scores are the same', [0.5, 0.5], [0.5, 0.5, 0.5]],
    ['where a score separates the classes', [0.7, 0.8], [0.1, 0.2]],
    ['where it does so the other way round', [0.1, 0.2], [0.7, 0.8]],
    ['where they only touch', [0.5, 0.8], [0.1, 0.5]],
  ])('%s', (_, positives, negatives) => {
    const { intercept, slope, ece } = calibration(of(positives, negatives))!;
    expect([intercept, slope]).toEqual([null, null]);
    expect(Number.isFinite(ece)).toBe(true);
  });
});

test('probabilities of 0 and 1 that were wrong have a line all the same', () => {
  const { intercept, slope } = calibration(of([0, 1, 1, 1, 0.6], [0, 0, 0, 1, 0.4]))!;
  expect(Number.isFinite(intercept)).toBe(true);
  expect(slope).toBeGreaterThan(0);
});

test('a sum keeps what plain addition loses', () => {
  const sum = new ExactSum();
  for (const x of [1, 1e100, 1, -1e100]) sum.add(x);
  expect(sum.value).toBe(2);
});
