// The walk kernel, for trees with many leaves. The kernel traverses eight trees at once, through nodes of 8 bytes, and
// without branches that the processor could mispredict.

import type { Arena } from '../../wasm/arena.ts';
import { type Local, WasmFunction } from '../../wasm/function.ts';
import type { Ensemble } from './ensemble.ts';
import type { Branch, Tree } from './grow.ts';
import { fold, type Lot, neutral, writeWeights } from './kernel.ts';
import type { Slot, SlotPlan, Truth } from './slots.ts';
import { Unsupported } from './unsupported.ts';

/** Number of trees that are walked at once. The independent loads of several walks keep a core busy. */
export const GROUP = 8;
/**
 * Size of a node in bytes: offset of the state within a row and rank (16 bits each), and the address of its two
 * adjacent children.
 */
const NODE = 8;

/**
 * Columns of states. Most slots need one column. A numeric slot whose NaN can take both directions also needs a column
 * with NaN ranked lowest.
 */
export interface WalkColumns {
  /** Column of a slot in which NaN is the highest state. */
  high(slot: number): number;
  /** Column of a slot in which NaN is state 0, and all other states are one higher. */
  low(slot: number): number;
  /** The decisions so far. Equal tests share a decision. */
  readonly decisions: Map<Truth, Decision>;
}

/** A decision `state ≤ rank` with the indexes of its children. Both children of a leaf are the leaf itself. */
interface WalkNode {
  column: number;
  rank: number;
  yes: number;
  no: number;
  /** Ensemble node of a leaf; -1 for inner nodes. */
  leaf: number;
}

interface WalkTree {
  nodes: readonly WalkNode[];
  root: number;
}

/**
 * Converts a tree to decisions. A test that is not a single range of states becomes several decisions, which share the
 * subtrees.
 */
export function walkNodes(tree: Tree, plan: SlotPlan, columns: WalkColumns): WalkTree {
  const nodes: WalkNode[] = tree.leaves.map((leaf, i) => ({ column: 0, rank: 0xffff, yes: i, no: i, leaf }));
  const entry = new Array<number>(tree.branches.length).fill(0);
  const of = (child: number): number => (child < 0 ? ~child : entry[child]!);
  // Children come after their parents, so the loop runs backwards.
  for (let i = tree.branches.length - 1; i >= 0; i--) {
    const b: Branch = tree.branches[i]!;
    const { at, first, column } = decisionOf(plan.truth(b), plan.slots, columns);
    const yes = of(b.yes);
    const no = of(b.no);
    if (at.length === 1) {
      // The usual case: the test is true (or false) up to one state.
      const [left, right] = first ? [yes, no] : [no, yes];
      entry[i] = nodes.push({ column, rank: at[0]! - 1, yes: left, no: right, leaf: -1 }) - 1;
      continue;
    }
    const build = (from: number, to: number): number => {
      if (from === to) return first !== (from % 2 === 1) ? yes : no;
      const middle = (from + to) >>> 1;
      const left = build(from, middle);
      const right = build(middle + 1, to);
      return nodes.push({ column, rank: at[middle]! - 1, yes: left, no: right, leaf: -1 }) - 1;
    };
    entry[i] = build(0, at.length);
  }
  return { nodes, root: tree.branches.length === 0 ? 0 : entry[0]! };
}

interface Decision {
  /** The states at which the result of the test changes, and the result at state 0. */
  at: readonly number[];
  first: boolean;
  column: number;
}

/**
 * Converts a test to a decision. NaN is the highest or the lowest state, whichever needs fewer changes of the result.
 */
function decisionOf(truth: Truth, slots: readonly Slot[], columns: WalkColumns): Decision {
  let decision = columns.decisions.get(truth);
  if (decision) return decision;
  const { kind, states } = slots[truth.slot]!;
  const numeric = kind === 'number';
  const high = toggles(truth.ranges, 0, states, numeric && truth.missing ? states - 1 : -1);
  const low = numeric ? toggles(truth.ranges, 1, states, truth.missing ? 0 : -1) : high;
  const shorter = low.at.length < high.at.length;
  const column = shorter ? columns.low(truth.slot) : columns.high(truth.slot);
  if (column > 32_767) throw new Unsupported('the trees ask for too many columns');
  decision = { ...(shorter ? low : high), column };
  columns.decisions.set(truth, decision);
  return decision;
}

/**
 * Computes the states at which the result of a test changes, among `states` states; `first` is the result at state 0.
 * All ranges are moved up by `shift`. `missing`: state of NaN if the test is true for NaN, otherwise -1.
 */
function toggles(
  ranges: readonly (readonly [number, number])[],
  shift: number,
  states: number,
  missing: number,
): { first: boolean; at: number[] } {
  const spans = ranges.filter(([from, to]) => from < to).map(([from, to]) => [from + shift, to + shift]);
  if (missing === 0) spans.unshift([0, 1]);
  else if (missing > 0) spans.push([missing, missing + 1]);
  const at: number[] = [];
  for (const [from, to] of spans) {
    if (at.at(-1) === from) at.pop();
    else at.push(from!);
    at.push(to!);
  }
  if (at.at(-1) === states) at.pop();
  const first = at[0] === 0;
  return { first, at: first ? at.slice(1) : at };
}

export const walkKernelName = (lot: Lot): string => `walk${lot.width}`;

/**
 * walk…(rows, states, rowBytes, sums, roots, weights) adds eight trees to the sums of every row. The roots of the trees
 * are at `roots`. The weights of the node at address a are at `weights` + a/8 · size of its weights. A leaf is its own
 * child.
 */
export function walkKernel(lot: Lot, e: Ensemble, sumStride: number): WasmFunction {
  const real = e.double ? 'f64' : 'f32';
  const size = e.double ? 8 : 4;
  const f = new WasmFunction(walkKernelName(lot), {
    rows: 'i32',
    states: 'i32',
    rowBytes: 'i32',
    sums: 'i32',
    roots: 'i32',
    weights: 'i32',
  });
  const { rows, states, rowBytes, sums, roots, weights } = f.params;
  const at = Array.from({ length: GROUP }, (_, i) => f.local('i32', `at${i}`));
  const { node, moved } = f.locals('i32', 'node', 'moved');
  const acc = Array.from({ length: lot.width }, (_, k) => f.local(real, `sum${k}`));
  const spare = f.local(real, 'spare');
  /** Pushes the address of the child that the row takes. */
  const step = (c: Local): void => {
    f.get(states, c).memory('i32.load16_u').op('i32.add').memory('i32.load16_u').get(c).memory('i32.load16_u', 2);
    f.op('i32.gt_u').i32(3).op('i32.shl').get(c).memory('i32.load', 4).op('i32.add');
  };
  f.repeat(
    () => {
      for (const [i, c] of at.entries()) f.get(roots).memory('i32.load', i * 4).set(c); // biome-ignore format: one line
      f.repeat(
        () => {
          for (const c of at) {
            step(c);
            f.set(c);
          }
          f.i32(0).set(moved);
          for (const c of at) {
            f.get(moved, c);
            step(c);
            f.tee(c).op('i32.xor', 'i32.or').set(moved);
          }
        },
        () => f.get(moved),
      );
      for (const [k, a] of acc.entries()) f.get(sums).memory(`${real}.load`, k * sumStride).set(a); // biome-ignore format: one line
      for (const c of at) {
        f.get(c)
          .i32(3)
          .op('i32.shr_u')
          .i32(lot.width * size)
          .op('i32.mul')
          .get(weights)
          .op('i32.add')
          .set(node);
        for (const [k, a] of acc.entries()) fold(f, e, a, spare, () => f.get(node).memory(`${real}.load`, k * size));
      }
      for (const [k, a] of acc.entries()) f.get(sums, a).memory(`${real}.store`, k * sumStride);
      f.get(states, rowBytes).op('i32.add').set(states).bump(sums, size).bump(rows, -1);
    },
    () => f.get(rows),
  );
  return f.end();
}

/**
 * Places the nodes of all trees in a lot. Returns the arguments `roots` and `weights` for each group of eight trees.
 */
export function placeWalk(
  arena: Arena,
  lot: Lot,
  e: Ensemble,
  forest: readonly WalkTree[],
): { roots: number; weights: number }[] {
  const size = (e.double ? 8 : 4) * lot.width;
  // A tree with a single leaf and no weights, which fills up the last group.
  const filler: WalkTree = { nodes: [{ column: 0, rank: 0xffff, yes: 0, no: 0, leaf: -2 }], root: 0 };
  const groups: { roots: number; weights: number }[] = [];
  for (let from = 0; from < forest.length; from += GROUP) {
    const trees = Array.from({ length: GROUP }, (_, i) => pairs(forest[from + i] ?? filler));
    const count = trees.reduce((n, t) => n + t.node.length, 0);
    const nodesAt = arena.take(count * NODE, (memory, start) => {
      let at = start;
      for (const { tree, node, children } of trees) {
        const words = new Uint32Array(memory, at, node.length * 2);
        for (const [i, n] of node.entries()) {
          const { column, rank } = tree.nodes[n]!;
          words[i * 2] = (column * 2) | (rank << 16);
          words[i * 2 + 1] = at + children[i]! * NODE;
        }
        at += node.length * NODE;
      }
    });
    const weightsAt = arena.take(count * size, (memory, at) => {
      const weights = e.double
        ? new Float64Array(memory, at, count * lot.width)
        : new Float32Array(memory, at, count * lot.width);
      weights.fill(neutral(e.aggregate));
      let o = 0;
      for (const { tree, node } of trees) {
        for (const n of node) {
          const { leaf } = tree.nodes[n]!;
          if (leaf >= 0) writeWeights(e, lot, leaf, weights, o);
          o += lot.width;
        }
      }
    });
    const roots = arena.take(GROUP * 4, (memory, at) => {
      const addresses = new Int32Array(memory, at, GROUP);
      let next = nodesAt;
      for (const [i, t] of trees.entries()) {
        addresses[i] = next;
        next += t.node.length * NODE;
      }
    });
    groups.push({ roots, weights: weightsAt - (nodesAt / NODE) * size });
  }
  return groups;
}

/**
 * Lays out a tree level by level, with siblings next to each other. A shared subtree is stored once; only its root is
 * copied. Entry i is a copy of `node[i]`. The children of entry i are the entries `children[i]` (yes) and `children[i]
 * + 1` (no).
 */
function pairs(tree: WalkTree): { tree: WalkTree; node: number[]; children: number[] } {
  // The root takes two entries, so that pairs of siblings begin at even indexes.
  const node = [tree.root, tree.root];
  const children: number[] = [];
  const placed = new Int32Array(tree.nodes.length).fill(-1);
  for (let i = 0; i < node.length; i++) {
    const n = node[i]!;
    const { yes, no, leaf } = tree.nodes[n]!;
    if (leaf !== -1) {
      children.push(i);
      continue;
    }
    if (placed[n]! < 0) placed[n] = node.push(yes, no) - 2;
    children.push(placed[n]!);
  }
  return { tree, node, children };
}
