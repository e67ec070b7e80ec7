// Builds trees for evaluation from the node table of an ensemble. A chain of == tests on one feature becomes a single
// split by a set.

import { type Ensemble, EQ, LEAF, MODES, type Mode } from './ensemble.ts';
import { Unsupported } from './unsupported.ts';

/**
 * An inner node. `yes` and `no` are the index of a branch, or ~index of a leaf. The leaves of a subtree have
 * consecutive numbers.
 */
export interface Branch {
  feature: number;
  mode: Exclude<Mode, 'LEAF'>;
  value: number;
  /** The set of an EQ, MEMBER or CATEGORY test; empty for other modes. */
  members: readonly number[];
  missingTrue: boolean;
  /** The ensemble nodes that this branch represents: a single node, or a chain of == nodes. */
  nodes: readonly number[];
  yes: number;
  no: number;
  /** Leaves `first` to `middle - 1` are under `yes`; leaves `middle` to `end - 1` are under `no`. */
  first: number;
  middle: number;
  end: number;
}

export interface Tree {
  /** The branches; the root comes first, and parents come before their children. Empty if the tree is a single leaf. */
  branches: readonly Branch[];
  /** The ensemble node of every leaf. */
  leaves: readonly number[];
}

/** Maximum number of leaves of a tree, counting the copies of shared subtrees. ONNX Runtime evaluates larger trees. */
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

/** Assigns a number to every subtree. Equal numbers mean equal subtrees, including their weights. */
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
