// Code for both tree kernels: the order of additions, and adding the weights of a leaf to the sums.

import type { Local, WasmFunction } from '../../wasm/function.ts';
import type { Aggregate, Ensemble } from './ensemble.ts';
import type { Tree } from './grow.ts';
import { Unsupported } from './unsupported.ts';

/**
 * Trees that add to the same targets. The trees of a target stay in file order, because ONNX Runtime adds them in this
 * order.
 */
export interface Lot {
  /** First target. A lot with several targets contains all targets. */
  target: number;
  /** Number of targets for which the leaves of the lot have weights: one, or all. */
  width: number;
  trees: readonly Tree[];
}

/** Maximum number of weights that a kernel holds in registers. */
const MAX_WIDTH = 32;

/** @throws Unsupported */
export function lotsOf(e: Ensemble, trees: readonly Tree[]): Lot[] {
  const targetOf = trees.map((t) => targetsOf(e, t));
  if (e.targets > 1 && targetOf.includes(-1)) {
    if (e.targets > MAX_WIDTH) throw new Unsupported(`leaves with weights for ${e.targets} targets`);
    return [{ target: 0, width: e.targets, trees }];
  }
  const lots: Lot[] = [];
  for (let target = 0; target < e.targets; target++) {
    const own = trees.filter((_, i) => targetOf[i] === target);
    if (own.length > 0) lots.push({ target, width: 1, trees: own });
  }
  return lots;
}

/**
 * The target of all weights in a tree; 0 if the tree has no weights, -1 if it has weights for several targets.
 * @throws Unsupported
 */
function targetsOf(e: Ensemble, tree: Tree): number {
  let only = -1;
  let several = false;
  for (const leaf of tree.leaves) {
    const first = e.weightFirst[leaf]!;
    const end = first + e.weightCount[leaf]!;
    for (let w = first; w < end; w++) {
      const target = e.weightTarget[w]!;
      if (w > first && e.weightTarget.subarray(first, w).includes(target)) throw new Unsupported('a leaf has two weights for one target'); // biome-ignore format: one line
      several ||= only >= 0 && only !== target;
      only = target;
    }
  }
  return several ? -1 : Math.max(0, only);
}

/**
 * Value of an absent weight, and initial value of the sums. For MIN and MAX, ONNX Runtime starts with the first weight.
 */
export const neutral = (aggregate: Aggregate): number =>
  aggregate === 'MIN' ? Infinity : aggregate === 'MAX' ? -Infinity : 0;

/**
 * Writes the weights of a leaf for the targets of its lot to `out`, from index `at` on. These entries must contain
 * neutral values.
 */
export function writeWeights(e: Ensemble, lot: Lot, leaf: number, out: Float32Array | Float64Array, at: number): void {
  const first = e.weightFirst[leaf]!;
  for (let w = first; w < first + e.weightCount[leaf]!; w++)
    out[at + e.weightTarget[w]! - lot.target] = e.weightValue[w]!;
}

/**
 * Emits code that takes the number pushed by `load` and adds it to `sum`, or combines both by MIN or MAX. `scratch`: a
 * local variable of the same type.
 */
export function fold(f: WasmFunction, e: Ensemble, sum: Local, scratch: Local, load: () => void): void {
  const real = e.double ? 'f64' : 'f32';
  if (e.aggregate === 'SUM' || e.aggregate === 'AVERAGE') {
    f.get(sum);
    load();
    f.op(`${real}.add`).set(sum);
    return;
  }
  load();
  f.tee(scratch)
    .get(sum, scratch, sum)
    .op(`${real}.${e.aggregate === 'MIN' ? 'lt' : 'gt'}`, 'select')
    .set(sum);
}
