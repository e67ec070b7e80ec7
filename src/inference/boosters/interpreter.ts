// Evaluates a booster row by row, directly from its trees. The code is slow but simple, so that the compiled evaluator
// can be checked against it.
import { SluiceError } from '../../core/errors.ts';
import type { EncodedInput } from '../encode/encoder.ts';
import { ZERO } from '../trees/ensemble.ts';
import { boosterLink } from '../trees/finish.ts';
import type { Booster, BoosterTree } from './booster.ts';

/**
 * Predictions for rows `from` to `to - 1` of the feature matrix, `targets` numbers per row.
 * @throws SluiceError model_failed
 */
export function interpret(
  booster: Booster,
  [input]: readonly EncodedInput[],
  from: number,
  to: number,
): Float32Array | Float64Array {
  const { trees, targets, base, finish } = booster;
  const width = booster.features.length;
  const data = input?.data;
  const expected = booster.compared === 'float32' ? Float32Array : Float64Array;
  if (!(data instanceof expected) || input!.width !== width)
    throw new SluiceError(
      'model_failed',
      `the ${booster.library} model needs a ${booster.compared} matrix of ${width} columns`,
    );
  const double = booster.computed === 'float64';
  const round = double ? (x: number): number => x : Math.fround;
  const link = boosterLink(finish, double);
  const out = double ? new Float64Array((to - from) * targets) : new Float32Array((to - from) * targets);
  const sums = new Float64Array(targets);
  for (let r = from; r < to; r++) {
    const row = data.subarray(r * width, (r + 1) * width);
    for (let t = 0; t < targets; t++) sums[t] = finish.baseFirst ? (base[t] ?? 0) : 0;
    for (const tree of trees) {
      const leaf = leafOf(tree, row);
      if (tree.target !== null) sums[tree.target] = round(sums[tree.target]! + tree.leaves[leaf]!);
      else for (let t = 0; t < targets; t++) sums[t] = round(sums[t]! + tree.leaves[leaf * targets + t]!);
    }
    for (let t = 0; t < targets; t++) {
      if (finish.divisor !== 1 || finish.scale !== 1) sums[t] = round(round(sums[t]! / finish.divisor) * finish.scale);
      if (!finish.baseFirst) sums[t] = round(sums[t]! + (base[t] ?? 0));
    }
    link(sums);
    out.set(sums, (r - from) * targets);
  }
  return out;
}

function leafOf(tree: BoosterTree, row: Float32Array | Float64Array): number {
  if (tree.test.length === 0) return 0;
  let at = 0;
  while (at >= 0) {
    const x = row[tree.feature[at]!]!;
    const passes = Number.isNaN(x) ? tree.missingYes[at] === 1 : holds(tree, at, x);
    at = (passes ? tree.yes : tree.no)[at]!;
  }
  return ~at;
}

function holds(tree: BoosterTree, at: number, x: number): boolean {
  const value = tree.value[at]!;
  const zero = Math.abs(x) <= ZERO;
  switch (tree.test[at]!) {
    case 'LEQ':
      return x <= value;
    case 'LT':
      return x < value;
    case 'GT':
      return x > value;
    case 'LEQ_OR_ZERO':
      return zero || x <= value;
    case 'LEQ_NOT_ZERO':
      return !zero && x <= value;
    case 'CATEGORY':
      return x > value && tree.members.get(at)!.includes(Math.trunc(x));
  }
}
