// What an interpretation costs a model that has to be asked, in evaluations a row, and what fits a limit of them.
import { SluiceError } from '../../core/errors.ts';

/** With more columns than this, asking for all subsets is too expensive. */
export const EXACT_COLUMNS = 12;
/** With more, their subsets do not fit in memory either. */
export const MOST_EXACT_COLUMNS = 16;
/** Least number of pairs of permutations where nothing limits them. */
export const DEFAULT_PAIRS = 400;
/** Fewer give no standard error. */
const LEAST_PAIRS = 2;

/** The most evaluations that all subsets take: rows that come out alike are asked for once. */
export const evaluationsOfSubsets = (backgroundRows: number, columns: number): number =>
  1 + backgroundRows * (2 ** columns - 1);

/** The maximum number of evaluations for this many pairs: fewer if an application shares cells with a background row. */
export const evaluationsOfPairs = (pairs: number, columns: number): number => 1 + pairs * 2 * (columns - 1);

/** The fewest evaluations with which a row of a model that has to be asked is interpreted at all. */
export const leastEvaluations = (columns: number): number => evaluationsOfPairs(LEAST_PAIRS, columns);

/** At least this many pairs, with every background row in equally many. */
export const wholeRounds = (pairs: number, backgroundRows: number): number =>
  Math.max(1, Math.ceil(pairs / backgroundRows)) * backgroundRows;

/**
 * How many pairs, and at most `wanted`, take no more than `limit` evaluations: whole rounds of the background, or a part of one.
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

/** The background rows that this many pairs use, evenly spaced, each equally often. */
export function backgroundRowsOf(pairs: number, backgroundRows: number): Int32Array {
  const n = Math.min(pairs, backgroundRows);
  return Int32Array.from({ length: n }, (_, i) => Math.floor(((i + 0.5) * backgroundRows) / n));
}

/** The smaller of two limits; null: there is none. */
export const tighter = (a: number | null, b: number | null): number | null =>
  a === null ? b : b === null ? a : Math.min(a, b);
