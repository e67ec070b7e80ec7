// What the leaves of an ensemble add to the sums: one number a target, however often the file names it.
import type { Ensemble } from '../trees/ensemble.ts';

export interface LeafWeights {
  /** Weights of node i: entries `first[i]`..`first[i + 1]` of target and value. */
  readonly first: Int32Array;
  readonly target: Int32Array;
  /** Scaled as the ensemble aggregates: their sum over the trees is the answer. */
  readonly value: Float64Array;
}

export function leafWeights(e: Ensemble): LeafWeights {
  const scale = e.aggregate === 'AVERAGE' ? 1 / e.roots.length : 1;
  const nodes = e.weightFirst.length;
  const first = new Int32Array(nodes + 1);
  const target = new Int32Array(e.weightTarget.length);
  const value = new Float64Array(e.weightTarget.length);
  let n = 0;
  for (let i = 0; i < nodes; i++) {
    first[i] = n;
    for (let w = e.weightFirst[i]!; w < e.weightFirst[i]! + e.weightCount[i]!; w++) {
      let at = first[i]!;
      while (at < n && target[at] !== e.weightTarget[w]) at++;
      if (at === n) target[n++] = e.weightTarget[w]!;
      value[at]! += e.weightValue[w]! * scale;
    }
  }
  first[nodes] = n;
  return { first, target: target.subarray(0, n), value: value.subarray(0, n) };
}
