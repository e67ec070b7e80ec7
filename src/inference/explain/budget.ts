// Estimates and limits the cost of interpreting a black-box model, in evaluations of the model per row.
import { SluiceError } from '../../core/errors.ts';

/** Up to this many columns, all subsets are evaluated; with more columns, this would be too expensive. */
export const EXACT_COLUMNS = 12;
/** Up to this many columns, the subsets fit in memory. */
export const MOST_EXACT_COLUMNS = 16;
/** Minimum number of permutation pairs if no limit is configured. */
export const DEFAULT_PAIRS = 400;
/** Minimum number of permutation pairs. Fewer pairs give no standard error. */
const LEAST_PAIRS = 2;

/** Maximum number of evaluations for all subsets. Identical rows are evaluated only once. */
export const evaluationsOfSubsets = (backgroundRows: number, columns: number): number =>
  1 + backgroundRows * (2 ** columns - 1);

/**
 * Maximum number of evaluations for this many pairs. Fewer are needed if the application has values in common with a
 * background row.
 */
export const evaluationsOfPairs = (pairs: number, columns: number): number => 1 + pairs * 2 * (columns - 1);

/** Minimum number of evaluations for interpreting a row of a black-box model. */
export const leastEvaluations = (columns: number): number => evaluationsOfPairs(LEAST_PAIRS, columns);

/** Rounds the number of pairs up so that every background row is used equally often. */
export const wholeRounds = (pairs: number, backgroundRows: number): number =>
  Math.max(1, Math.ceil(pairs / backgroundRows)) * backgroundRows;

/**
 * The largest number of pairs, at most `wanted`, whose evaluations fit `limit`. All background rows are used equally
 * often, unless there are fewer pairs than background rows.
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

/**
 * The indexes of the background rows for this many pairs. The rows are evenly spaced, and each is used equally often.
 */
export function backgroundRowsOf(pairs: number, backgroundRows: number): Int32Array {
  const n = Math.min(pairs, backgroundRows);
  return Int32Array.from({ length: n }, (_, i) => Math.floor(((i + 0.5) * backgroundRows) / n));
}

/** The smaller of two limits; null means unlimited. */
export const tighter = (a: number | null, b: number | null): number | null =>
  a === null ? b : b === null ? a : Math.min(a, b);
