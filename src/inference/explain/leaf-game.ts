// The games of leaves, whose players are the columns on the path to the leaf. Contains the solvers of a game, and the
// paths, segments and weights of leaves.
import type { Ensemble } from '../trees/ensemble.ts';
import type { Branch, Tree } from '../trees/grow.ts';
import type { Slot, Truth } from '../trees/slots.ts';

/**
 * For each player of a leaf, writes its contribution per unit of the leaf's weight to `out[0..d-1]`. Returns false if
 * all are zero.
 */
export type LeafGameSolver = (games: TreeLeaves, leaf: number, mask: number, out: Float64Array) => boolean;

/** The games of all leaves of a tree. An object for each leaf would take several times the memory of these arrays. */
export interface TreeLeaves {
  /** Index of each leaf's first player in the arrays with an entry for each player of each leaf. */
  readonly leafFirst: Int32Array;
  /** Players: the columns on the path, ascending. */
  readonly leafColumn: Int32Array;
  /**
   * For each player: a product over its branches on the path. The factor of a branch is the share of its training rows
   * that took the direction of the path. Only path-dependent games have shares.
   */
  readonly leafShares: Float64Array;
  /** Only interventional games have a background. */
  background: LeafMasks;
}

/** Number of players of a leaf. */
export const playersOf = ({ leafFirst }: TreeLeaves, leaf: number): number => leafFirst[leaf + 1]! - leafFirst[leaf]!;

/** The background rows as masks of the players whose conditions they meet, for all leaves of a tree. */
export interface LeafMasks {
  /** Index of each leaf's first mask in `masks` and `shares`. */
  readonly first: Int32Array;
  /** The distinct masks of the background rows at a leaf, ascending, and the share of rows with each mask. */
  readonly masks: Int32Array;
  readonly shares: Float64Array;
  /** Index of each leaf's first word in `meets`. */
  readonly meetsFirst: Int32Array;
  /** For each player of a leaf: the masks that contain the player, as bits in words of 32. */
  readonly meets: Int32Array;
}

// Solvers: the contribution of each player per unit of weight, in the interventional and in the path-dependent game.

const FACTORIALS = Float64Array.from({ length: 32 }, (_, n) => {
  let f = 1;
  for (let i = 2; i <= n; i++) f *= i;
  return f;
});

/** Number of set bits in a 32-bit integer. */
export const bits = (v: number): number => {
  let n = v - ((v >>> 1) & 0x55555555);
  n = (n & 0x33333333) + ((n >>> 2) & 0x33333333);
  return Math.imul((n + (n >>> 4)) & 0x0f0f0f0f, 0x01010101) >>> 24;
};

/**
 * before! · after! / (before + after + 1)!: the share of orders in which `before` players come before a given player
 * and `after` players come after it.
 */
export const shapley = (before: number, after: number): number => WEIGHTS[before * 32 + after]!;
const WEIGHTS = Float64Array.from({ length: 32 * 32 }, (_, i) =>
  (i >>> 5) + (i & 31) > 30 ? 0 : (FACTORIALS[i >>> 5]! * FACTORIALS[i & 31]!) / FACTORIALS[(i >>> 5) + (i & 31) + 1]!,
);

/**
 * The game for one background row z. A mixed row takes the columns of the coalition from x and the other columns from
 * z. The coalition has the value 1 if this row reaches the leaf. For that, the coalition must contain all players that
 * only x satisfies, and none that only z satisfies. A player that both satisfy contributes nothing. The mean over the
 * background is exact interventional SHAP.
 */
export function interventional(games: TreeLeaves, leaf: number, mask: number, out: Float64Array): boolean {
  const d = playersOf(games, leaf);
  const full = 2 ** d - 1;
  const { first, masks, shares, meetsFirst, meets } = games.background;
  const from = first[leaf]!;
  const count = first[leaf + 1]! - from;
  const words = (count + 31) >>> 5;
  const firstWord = meetsFirst[leaf]!;
  out.fill(0, 0, d);
  // A background row matters only if it satisfies every player that x does not satisfy. The number of players that only
  // z satisfies is therefore the same for all rows that matter.
  const lacking = full & ~mask;
  const nz = bits(lacking);
  const whereLost = (nz - 1) * 32;
  let any = false;
  let lost = 0;
  for (let w = 0; w < words; w++) {
    let makeUp = w < words - 1 ? -1 : -1 >>> ((32 - count) & 31);
    for (let s = lacking; s !== 0 && makeUp !== 0; s &= s - 1)
      makeUp &= meets[firstWord + (31 - Math.clz32(s & -s)) * words + w]!;
    for (; makeUp !== 0; makeUp &= makeUp - 1) {
      const i = from + w * 32 + 31 - Math.clz32(makeUp & -makeUp);
      let onlyX = full & ~masks[i]!;
      const nx = bits(onlyX);
      if (nx + nz === 0) continue;
      any = true;
      const share = shares[i]!;
      if (nz > 0) lost += share * WEIGHTS[whereLost + nx]!;
      if (nx === 0) continue;
      const gained = share * WEIGHTS[(nx - 1) * 32 + nz]!;
      for (; onlyX !== 0; onlyX &= onlyX - 1) out[31 - Math.clz32(onlyX & -onlyX)]! += gained;
    }
  }
  if (lost !== 0) for (let s = lacking; s !== 0; s &= s - 1) out[31 - Math.clz32(s & -s)] = -lost;
  return any;
}

const poly = new Float64Array(32);
const rest = new Float64Array(32);

/**
 * The game in which a column outside the coalition takes every direction, in proportion to the training rows. v(S) = Π
 * over p in S of (x satisfies p) × Π over p not in S of (share of p). The sums over coalitions of equal size are the
 * coefficients of Π (share + satisfied·t).
 */
export function pathDependent(games: TreeLeaves, leaf: number, mask: number, out: Float64Array): boolean {
  const d = playersOf(games, leaf);
  const { leafShares } = games;
  const first = games.leafFirst[leaf]!;
  let any = false;
  for (let j = 0; j < d; j++) {
    const satisfied = (mask >>> j) & 1;
    const change = satisfied - leafShares[first + j]!;
    out[j] = 0;
    if (change === 0) continue;
    poly.fill(0, 0, d);
    poly[0] = 1;
    let size = 0;
    for (let k = 0; k < d; k++) {
      if (k === j) continue;
      const on = (mask >>> k) & 1;
      for (let i = size + 1; i >= 0; i--)
        rest[i] = leafShares[first + k]! * (i <= size ? poly[i]! : 0) + (i > 0 ? on * poly[i - 1]! : 0);
      size++;
      for (let i = 0; i <= size; i++) poly[i] = rest[i]!;
    }
    let sum = 0;
    for (let s = 0; s <= size; s++) sum += (poly[s]! * FACTORIALS[s]! * FACTORIALS[d - s - 1]!) / FACTORIALS[d]!;
    out[j] = change * sum;
    any ||= sum !== 0;
  }
  return any;
}

// The path of a leaf: the branches above it.

interface Turn {
  branch: Branch;
  yes: boolean;
}

/** Calls `leaf` for every leaf, in leaf order, with the branches above the leaf. */
export function pathsOf(t: Tree, leaf: (leaf: number, path: readonly Turn[]) => void): void {
  const path: Turn[] = [];
  const walk = (at: number): void => {
    if (at < 0) {
      leaf(~at, path);
      return;
    }
    const branch = t.branches[at]!;
    path.push({ branch, yes: true });
    walk(branch.yes);
    path[path.length - 1] = { branch, yes: false };
    walk(branch.no);
    path.pop();
  };
  walk(t.branches.length > 0 ? 0 : ~0);
}

/** The share of training rows at a branch that took this direction; 0 if no row reached the branch. */
export function shareOf(e: Ensemble, b: Branch, yes: boolean, cover: (node: number) => number): number {
  const went = b.nodes.reduce((n, node) => n + cover(e.onTrue[node]!), 0);
  const stayed = cover(e.onFalse[b.nodes.at(-1)!]!);
  const total = went + stayed;
  return total > 0 ? (yes ? went : stayed) / total : 0;
}

// A segment is a range of states of a slot for which every test of a tree has the same result.

/**
 * For each state of a slot: the mask of the leaves that are still reachable. States with equal masks share a segment.
 */
export function segmentsOf(
  branches: readonly Branch[],
  truths: ReadonlyMap<Branch, Truth>,
  slot: Slot,
  words: number,
): { segment: Uint16Array; mask: Int32Array } {
  const { states } = slot;
  // A segment starts at each state where the result of a test changes; all states in between are equivalent.
  const starts = new Set([0, ...(slot.kind === 'number' ? [states - 1] : [])]);
  for (const b of branches) {
    for (const [from, end] of truths.get(b)!.ranges) {
      starts.add(from);
      if (end < states) starts.add(end);
    }
  }
  const begins = [...starts].filter((s) => s < states).sort((a, b) => a - b);
  const segment = new Uint16Array(states);
  const mask = new Int32Array(begins.length * words).fill(-1);
  begins.forEach((from, i) => {
    segment.fill(i, from, begins[i + 1] ?? states);
    for (const b of branches) {
      const [a, end] = holdsIn(truths.get(b)!, from, slot) ? [b.middle, b.end] : [b.first, b.middle];
      for (let l = a; l < end; l++) mask[i * words + (l >>> 5)]! &= ~(1 << (l & 31));
    }
  });
  return { segment, mask };
}

/** Whether a test is true in a state. The last state of a number slot is the missing value. */
export const holdsIn = ({ missing, ranges }: Truth, state: number, { kind, states }: Slot): boolean =>
  kind === 'number' && state === states - 1 ? missing : ranges.some(([a, end]) => state >= a && state < end);

export interface LeafWeights {
  /** The weights of node i are the entries `first[i]` to `first[i + 1] - 1` of `target` and `value`. */
  readonly first: Int32Array;
  readonly target: Int32Array;
  /** Scaled by the aggregation of the ensemble, so that adding the values over all trees gives the output. */
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
