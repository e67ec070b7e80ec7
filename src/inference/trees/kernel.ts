// Code shared by both tree kernels: the order of additions, and adding a leaf's weights to the sums.

import type { Local, WasmFunction } from '../../wasm/function.ts';
import type { Aggregate, Ensemble } from './ensemble.ts';
import type { Tree } from './grow.ts';
import { Unsupported } from './unsupported.ts';

/** Trees that add to the same targets. Within a target, trees keep the file order, in which ONNX Runtime adds them. */
export interface Lot {
  /** First target; a lot with several targets contains all of them. */
  target: number;
  /** Number of targets for which leaves of the lot have weights: 1 or all. */
  width: number;
  trees: readonly Tree[];
}

/** Maximum weights that a kernel keeps in registers. */
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

/** The target of all weights of a tree; 0 if it has no weights, -1 if there are several targets. @throws Unsupported */
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

/** Value of an absent weight, and initial value of sums. ONNX Runtime starts MIN and MAX with the first weight. */
export const neutral = (aggregate: Aggregate): number =>
  aggregate === 'MIN' ? Infinity : aggregate === 'MAX' ? -Infinity : 0;

/** Writes the weights of a leaf for the targets of its lot to `out` from `at`, which must contain neutral values. */
export function writeWeights(e: Ensemble, lot: Lot, leaf: number, out: Float32Array | Float64Array, at: number): void {
  const first = e.weightFirst[leaf]!;
  for (let w = first; w < first + e.weightCount[leaf]!; w++)
    out[at + e.weightTarget[w]! - lot.target] = e.weightValue[w]!;
}

/**
 * Emits code that adds the number pushed by `load` to `sum`, or combines them by MIN or MAX. `scratch` is a local of
 * the same type.
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
