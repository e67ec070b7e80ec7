// The walk for trees with many leaves: eight trees at once through nodes of 16 bytes, without a branch to mispredict.
import type { Arena } from './arena.ts';
import type { Ensemble } from './ensemble.ts';
import { type Branch, type Tree, Unsupported } from './grow.ts';
import { fold, type Lot, leafWeights, neutral } from './kernel.ts';
import type { Slot, Truth } from './slots.ts';
import { WasmFunction } from './wasm.ts';

/** Trees that are walked at once: enough independent loads to keep a core busy. */
export const GROUP = 8;
const NODE = 16;

/** Columns of states: most slots need one; numeric ones whose NaN goes both ways are also ranked with NaN lowest. */
export interface WalkColumns {
  /** Column of a slot with NaN as the highest state. */
  high(slot: number): number;
  /** Column of a slot with NaN as state 0 and the others one up. */
  low(slot: number): number;
}

/** A decision `state ≤ rank`; children as indices. A leaf goes to itself. */
interface WalkNode {
  column: number;
  rank: number;
  yes: number;
  no: number;
  /** Node of the ensemble; -1 for inner nodes. */
  leaf: number;
}

/** A tree as decisions: a test that is not one range of states becomes several. Root first, then level by level. */
export function walkNodes(
  tree: Tree,
  truths: ReadonlyMap<object, Truth>,
  slots: readonly Slot[],
  columns: WalkColumns,
): WalkNode[] {
  const nodes: WalkNode[] = tree.leaves.map((leaf, i) => ({ column: 0, rank: 0xffff, yes: i, no: i, leaf }));
  const entry = new Array<number>(tree.branches.length).fill(0);
  const of = (child: number): number => (child < 0 ? ~child : entry[child]!);
  // Children stand after their parents.
  for (let i = tree.branches.length - 1; i >= 0; i--) {
    const b: Branch = tree.branches[i]!;
    const truth = truths.get(b)!;
    const numeric = slots[truth.slot]!.kind === 'number';
    const end = slots[truth.slot]!.states;
    const high = toggles(truth.ranges, 0, end, numeric && truth.missing ? end - 1 : -1);
    const low = numeric ? toggles(truth.ranges, 1, end, truth.missing ? 0 : -1) : high;
    const [chosen, column] =
      low.at.length < high.at.length ? [low, columns.low(truth.slot)] : [high, columns.high(truth.slot)];
    const [yes, no] = [of(b.yes), of(b.no)];
    const build = (from: number, to: number): number => {
      if (from === to) return chosen.first !== (from % 2 === 1) ? yes : no;
      const middle = (from + to) >>> 1;
      const left = build(from, middle);
      const right = build(middle + 1, to);
      return nodes.push({ column, rank: chosen.at[middle]! - 1, yes: left, no: right, leaf: -1 }) - 1;
    };
    entry[i] = build(0, chosen.at.length);
  }
  return levels(nodes, tree.branches.length === 0 ? 0 : entry[0]!);
}

/**
 * Where a truth changes along `states` states: `first` is its value at state 0. Ranges are moved up by `shift`; `missing`
 * is the state of NaN where the test is true for it, or -1.
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

/** Nodes in the order of their distance from the root: the first levels of a tree share cache lines. */
function levels(nodes: readonly WalkNode[], root: number): WalkNode[] {
  const order = [root];
  const place = new Map([[root, 0]]);
  for (let i = 0; i < order.length; i++) {
    for (const child of [nodes[order[i]!]!.yes, nodes[order[i]!]!.no]) {
      if (!place.has(child)) place.set(child, order.push(child) - 1);
    }
  }
  return order.map((i) => ({ ...nodes[i]!, yes: place.get(nodes[i]!.yes)!, no: place.get(nodes[i]!.no)! }));
}

export const walkKernelName = (lot: Lot): string => `walk${lot.width}`;

/** walk…(rows, states, rowBytes, roots, sums): adds eight trees, whose roots are at `roots`, to the sums of every row. */
export function walkKernel(lot: Lot, e: Ensemble, sumStride: number): WasmFunction {
  const real = e.double ? 'f64' : 'f32';
  const size = e.double ? 8 : 4;
  const inline = lot.width === 1 && !e.double;
  const f = new WasmFunction(walkKernelName(lot), ['i32', 'i32', 'i32', 'i32', 'i32']);
  const [rows, states, rowBytes, roots, sums] = [0, 1, 2, 3, 4] as const;
  const at = Array.from({ length: GROUP }, () => f.local('i32'));
  const starts = Array.from({ length: GROUP }, () => f.local('i32'));
  const [next, moved] = [f.local('i32'), f.local('i32')];
  const acc = Array.from({ length: lot.width }, () => f.local(real));
  const scratch = f.local(real);
  /** Leaves the address of the child that the row goes to on the stack. */
  const step = (c: number): void => {
    f.get(c);
    f.get(states, c).memory('i32.load16_u').op('i32.add').memory('i32.load16_u').get(c).memory('i32.load16_u', 2);
    f.op('i32.gt_u').i32(2).op('i32.shl', 'i32.add').memory('i32.load', 4);
  };
  for (const [i, s] of starts.entries())
    f.get(roots)
      .memory('i32.load', i * 4)
      .set(s);
  f.repeat(
    () => {
      for (const [i, c] of at.entries()) f.get(starts[i]!).set(c);
      f.repeat(
        () => {
          for (const c of at) {
            step(c);
            f.set(c);
          }
          f.i32(0).set(moved);
          for (const c of at) {
            step(c);
            f.tee(next).get(c).op('i32.xor').get(moved).op('i32.or').set(moved).get(next).set(c);
          }
        },
        () => f.get(moved),
      );
      for (const [k, a] of acc.entries())
        f.get(sums)
          .memory(`${real}.load`, k * sumStride)
          .set(a);
      for (const c of at) {
        if (!inline) f.get(c).memory('i32.load', 12).set(next);
        for (const [k, a] of acc.entries()) {
          fold(f, e, a, scratch, () =>
            inline ? f.get(c).memory('f32.load', 12) : f.get(next).memory(`${real}.load`, k * size),
          );
        }
      }
      for (const [k, a] of acc.entries()) f.get(sums, a).memory(`${real}.store`, k * sumStride);
      f.get(states, rowBytes).op('i32.add').set(states).bump(sums, size).bump(rows, -1);
    },
    () => f.get(rows),
  );
  return f;
}

/** Places the nodes of a lot's trees; gives the address of the roots of each group of eight. */
export function placeWalk(arena: Arena, lot: Lot, e: Ensemble, forest: readonly WalkNode[][]): number[] {
  const size = e.double ? 8 : 4;
  const inline = lot.width === 1 && !e.double;
  const groups: number[] = [];
  // A tree of one leaf that adds nothing fills the last group.
  const filler: WalkNode[] = [{ column: 0, rank: 0xffff, yes: 0, no: 0, leaf: -2 }];
  for (let from = 0; from < forest.length; from += GROUP) {
    const trees = Array.from({ length: GROUP }, (_, i) => forest[from + i] ?? filler);
    const bases = trees.map((nodes) => {
      const weights = nodes.map((n) =>
        n.leaf >= 0 ? leafWeights(e, lot, n.leaf) : new Array<number>(lot.width).fill(neutral(e.aggregate)),
      );
      const table = inline ? 0 : placeWeights(arena, weights, e.double);
      return arena.take(nodes.length * NODE, (memory, at) => {
        const view = new DataView(memory, at, nodes.length * NODE);
        for (const [i, n] of nodes.entries()) {
          if (n.column > 32_767) throw new Unsupported('the trees ask for too many columns');
          view.setUint16(i * NODE, n.column * 2, true);
          view.setUint16(i * NODE + 2, n.rank, true);
          view.setUint32(i * NODE + 4, at + n.yes * NODE, true);
          view.setUint32(i * NODE + 8, at + n.no * NODE, true);
          if (inline) view.setFloat32(i * NODE + 12, weights[i]![0]!, true);
          else view.setUint32(i * NODE + 12, table + i * lot.width * size, true);
        }
      });
    });
    groups.push(arena.take(GROUP * 4, (memory, at) => new Int32Array(memory, at, GROUP).set(bases)));
  }
  return groups;
}

function placeWeights(arena: Arena, weights: readonly number[][], double: boolean): number {
  const flat = weights.flat();
  return arena.take(flat.length * (double ? 8 : 4), (memory, at) => {
    if (double) new Float64Array(memory, at, flat.length).set(flat);
    else new Float32Array(memory, at, flat.length).set(flat);
  });
}
