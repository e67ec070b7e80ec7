// Selects the strongest pairwise interactions of each application.
import type { EncodedInput } from '../encode/encoder.ts';
import type { Explainer, OnExplained } from './explainer.ts';
import { pairCount } from './leaf-pairs.ts';

/** Number of rows between two checks for cancellation; each row takes milliseconds. */
const ROWS_AT_ONCE = 64;
/** Maximum number of interaction values in memory at a time. */
const NUMBERS_AT_ONCE = 512 * 1024;

/**
 * Pairs with a non-zero interaction, the strongest first; equally strong pairs are in column order. The arrays have
 * positions × outputs × `most` entries.
 */
export interface StrongestPairs {
  readonly most: number;
  /** Number of pairs: positions × outputs. */
  readonly counts: Int32Array;
  /** Columns of each pair. In the package, column `first` comes before column `second`. */
  readonly first: Int32Array;
  readonly second: Int32Array;
  /** Shapley interaction indices, in the space of the effects. */
  readonly effects: Float64Array;
}

interface AskedPairs {
  explainer: Explainer;
  inputs: readonly EncodedInput[];
  /** The rows, as positions in the inputs. */
  rows: readonly number[];
  columns: number;
  /** Maximum number of pairs per row and output. */
  most: number;
}

/**
 * Selects pairs with an explainer that supports interactions. The explainer does not report progress on interactions,
 * so this function calls `onExplained`.
 */
export async function strongestPairs(
  { explainer, inputs, rows, columns, most: asked }: AskedPairs,
  onExplained?: OnExplained,
): Promise<StrongestPairs> {
  const all = pairCount(columns);
  const most = Math.min(asked, all);
  const { outputs } = explainer;
  const found = {
    most,
    counts: new Int32Array(rows.length * outputs),
    first: new Int32Array(rows.length * outputs * most),
    second: new Int32Array(rows.length * outputs * most),
    effects: new Float64Array(rows.length * outputs * most),
  };
  const atOnce = Math.max(1, Math.min(ROWS_AT_ONCE, Math.floor(NUMBERS_AT_ONCE / (1 + outputs * all))));
  for (let from = 0; from < rows.length; from += atOnce) {
    const part = rows.slice(from, from + atOnce);
    const values = explainer.interactions!(inputs, part);
    for (let k = 0; k < part.length * outputs; k++) {
      select(values.subarray(k * all, (k + 1) * all), columns, from * outputs + k, found);
    }
    await onExplained?.(part.length, 0);
  }
  return found;
}

/** Stores the pairs with the strongest interactions in the entries of position `at`. */
function select(values: Float64Array, columns: number, at: number, found: StrongestPairs): void {
  const { most, counts, first, second, effects } = found;
  const begin = at * most;
  let count = 0;
  for (let i = 0, pair = 0; i < columns; i++) {
    for (let j = i + 1; j < columns; j++, pair++) {
      const effect = values[pair]!;
      const size = Math.abs(effect);
      if (!(size > 0) || (count === most && size <= Math.abs(effects[begin + most - 1]!))) continue;
      let to = begin + (count < most ? count++ : most - 1);
      for (; to > begin && Math.abs(effects[to - 1]!) < size; to--) {
        effects[to] = effects[to - 1]!;
        first[to] = first[to - 1]!;
        second[to] = second[to - 1]!;
      }
      effects[to] = effect;
      first[to] = i;
      second[to] = j;
    }
  }
  counts[at] = count;
}
