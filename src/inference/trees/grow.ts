// From the node table of an ensemble to trees fit for evaluation: chains of == on one feature become one set split.

import { type Ensemble, EQ, LEAF, MODES, type Mode } from './ensemble.ts';
import { Unsupported } from './unsupported.ts';

/** An inner node. `yes` and `no`: index of a branch, or ~index of a leaf. Leaves of a subtree are numbered in a row. */
export interface Branch {
  feature: number;
  mode: Exclude<Mode, 'LEAF'>;
  value: number;
  /** EQ and MEMBER: the set; else empty. */
  members: readonly number[];
  missingTrue: boolean;
  /** Nodes of the ensemble that this branch represents: one, or a chain of ==. */
  nodes: readonly number[];
  yes: number;
  no: number;
  /** Leaves under `yes` are first..middle-1, those under `no` middle..end-1. */
  first: number;
  middle: number;
  end: number;
}

export interface Tree {
  /** Parents precede their children; the root is first. Empty: the tree is one leaf. */
  branches: readonly Branch[];
  /** Node of the ensemble for every leaf. */
  leaves: readonly number[];
}

/** Shared subtrees are copied; beyond this a tree is left to ONNX Runtime. */
const MAX_LEAVES = 1 << 16;

/** @throws Unsupported */
export function growTrees(e: Ensemble): Tree[] {
  const shapes = e.mode.includes(EQ) ? canonical(e) : null;
  return Array.from(e.roots, (root) => grow(e, root, shapes));
}

function grow(e: Ensemble, root: number, shapes: Int32Array | null): Tree {
  const branches: Branch[] = [];
  const leaves: number[] = [];
  const walk = (i: number): number => {
    if (leaves.length > MAX_LEAVES) throw new Unsupported('a tree has too many leaves');
    if (e.mode[i] === LEAF) return ~(leaves.push(i) - 1);
    const mode = MODES[e.mode[i]!] as Branch['mode'];
    const members = mode === 'EQ' ? [e.value[i]!] : [...(e.members.get(i) ?? [])];
    let missingTrue = e.missingTrue[i] === 1;
    const nodes = [i];
    let no = e.onFalse[i]!;
    const yes = e.onTrue[i]!;
    while (
      shapes &&
      mode === 'EQ' &&
      e.mode[no] === EQ &&
      e.feature[no] === e.feature[i] &&
      shapes[e.onTrue[no]!] === shapes[yes]
    ) {
      members.push(e.value[no]!);
      missingTrue ||= e.missingTrue[no] === 1;
      nodes.push(no);
      no = e.onFalse[no]!;
    }
    const branch: Branch = {
      feature: e.feature[i]!,
      mode,
      value: e.value[i]!,
      members,
      missingTrue,
      nodes,
      yes: 0,
      no: 0,
      first: leaves.length,
      middle: 0,
      end: 0,
    };
    const at = branches.push(branch) - 1;
    branch.yes = walk(yes);
    branch.middle = leaves.length;
    branch.no = walk(no);
    branch.end = leaves.length;
    return at;
  };
  walk(root);
  return { branches, leaves };
}

/** Number of the shape of every subtree: equal numbers are equal subtrees, weights included. */
function canonical(e: Ensemble): Int32Array {
  const shape = new Int32Array(e.mode.length).fill(-1);
  const known = new Map<string, number>();
  for (const root of e.roots) {
    const stack = [root];
    while (stack.length > 0) {
      const i = stack.at(-1)!;
      const [yes, no] = [e.onTrue[i]!, e.onFalse[i]!];
      if (e.mode[i] !== LEAF && (shape[yes]! < 0 || shape[no]! < 0)) {
        if (shape[yes]! < 0) stack.push(yes);
        if (shape[no]! < 0) stack.push(no);
        continue;
      }
      stack.pop();
      const first = e.weightFirst[i]!;
      const key =
        e.mode[i] === LEAF
          ? `leaf ${[...e.weightTarget.subarray(first, first + e.weightCount[i]!)]}|${[...e.weightValue.subarray(first, first + e.weightCount[i]!)]}`
          : [e.mode[i], e.feature[i], e.value[i], e.missingTrue[i], shape[yes], shape[no], e.members.get(i)].join();
      const number = known.get(key) ?? known.size;
      known.set(key, number);
      shape[i] = number;
    }
  }
  return shape;
}
