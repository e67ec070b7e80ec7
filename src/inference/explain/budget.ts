// Estimates and limits the cost of interpreting a black-box model, in evaluations per row.
import { SluiceError } from '../../core/errors.ts';

/** With more columns than this, evaluating all subsets is too expensive. */
export const EXACT_COLUMNS = 12;
/** With more columns than this, the subsets do not fit in memory. */
export const MOST_EXACT_COLUMNS = 16;
/** Minimum number of permutation pairs without a limit. */
export const DEFAULT_PAIRS = 400;
/** Minimum number of pairs: fewer give no standard error. */
const LEAST_PAIRS = 2;

/** Maximum evaluations for all subsets; identical rows are evaluated once. */
export const evaluationsOfSubsets = (backgroundRows: number, columns: number): number =>
  1 + backgroundRows * (2 ** columns - 1);

/** Maximum evaluations for this many pairs; fewer if an application has cells in common with a background row. */
export const evaluationsOfPairs = (pairs: number, columns: number): number => 1 + pairs * 2 * (columns - 1);

/** Minimum evaluations for interpreting a row of a black-box model. */
export const leastEvaluations = (columns: number): number => evaluationsOfPairs(LEAST_PAIRS, columns);

/** The number of pairs rounded up so that every background row is used equally often. */
export const wholeRounds = (pairs: number, backgroundRows: number): number =>
  Math.max(1, Math.ceil(pairs / backgroundRows)) * backgroundRows;

/**
 * The largest number of pairs, at most `wanted`, that fits `limit` evaluations: whole rounds of the background rows, or
 * part of one.
 * @throws SluiceError interpretation_over_budget
 */
export function pairsWithin(limit: number, columns: number, wanted: number, backgroundRows: number): number {
  const least = leastEvaluations(columns);
  if (limit < least) throw overBudget(limit, least);
  const most = columns === 1 ? backgroundRows : Math.floor((limit - 1) / (2 * (columns - 1)));
  if (most >= wanted) return wanted;
  return most < backgroundRows ? most : Math.floor(most / backgroundRows) * backgroundRows;
}

export const overBudget = (limit: number, least: number): SluiceError =>
  new SluiceError(
    'interpretation_over_budget',
    `max_evaluations is ${limit}, but an interpretation needs at least ${least} evaluations per row`,
    { extra: { limit, least } },
  );

/** The background rows for this many pairs: evenly spaced, each used equally often. */
export function backgroundRowsOf(pairs: number, backgroundRows: number): Int32Array {
  const n = Math.min(pairs, backgroundRows);
  return Int32Array.from({ length: n }, (_, i) => Math.floor(((i + 0.5) * backgroundRows) / n));
}

/** The smaller of two limits; null: no limit. */
export const tighter = (a: number | null, b: number | null): number | null =>
  a === null ? b : b === null ? a : Math.min(a, b);
