// Shapley values of a tree ensemble, leaf by leaf. A leaf is a small game of the columns on its path: what a column adds
// depends only on which of these columns meet all their conditions in the row, a mask of bits. So the values of a leaf
// are looked up under the mask, and computed once for each mask that occurs (memo).
//
// Sources: Lundberg et al., "From local explanations to global understanding with explainable AI for trees", Nature
// Machine Intelligence 2020 (interventional and path-dependent games); masks over leaves as in QuickScorer (Lucchese et
// al. 2015). Players are columns of the application: all features made of one column move together.
import type { Ensemble } from '../trees/ensemble.ts';
import type { Branch, Tree } from '../trees/grow.ts';
import type { SlotPlan } from '../trees/slots.ts';
import { NotExplainable } from './explainer.ts';

/** Fills `out[0..d-1]` with what each player of a leaf adds per unit of its weight; false: nothing. */
export type LeafGameSolver = (leaf: LeafGame, mask: number, out: Float64Array) => boolean;

export interface LeafGame {
  /** Players on the path: columns. */
  readonly players: Int32Array;
  /** Conditions of player j on the path, by branch: the share of the branch's cover that goes the leaf's way. */
  readonly shares: Float64Array;
  /** Interventional: masks of the background rows and how many have each. */
  backgroundMasks: Int32Array;
  backgroundCounts: Float64Array;
}

/** A tree cut into what a row asks of it. Words are 32 leaves. */
interface TreeGame {
  /** Slots in use and, for each, the segment every state falls into and the leaf masks of every segment. */
  slots: Int32Array;
  segments: readonly Uint16Array[];
  masks: readonly Int32Array[];
  /** Player of each slot, as a number within the tree. */
  slotPlayer: Int32Array;
  players: number;
  words: number;
  leaves: number;
  /** First entry of each leaf in the flat arrays. */
  leafFirst: Int32Array;
  /** Flat: player within the tree, and column. */
  leafPlayer: Int32Array;
  leafColumn: Int32Array;
  /** First entry of each leaf in the memo table; -1: its memo is a map. */
  memoFirst: Int32Array;
  memoMaps: (Map<number, number> | null)[];
  games: LeafGame[];
  weightFirst: Int32Array;
  weightEnd: Int32Array;
}

/** Up to this many players the memo is an array indexed by mask. */
const ARRAY_PLAYERS = 10;
/** A mask is a signed 32-bit integer. */
const MAX_PLAYERS = 30;
/** Memoized numbers, 8 bytes each; beyond this they are recomputed. */
const MAX_MEMO = 6_000_000;
const MAX_TABLE_BYTES = 256 * 1024 * 1024;
const UNKNOWN = -1;
const NOTHING = -2;

export class LeafGames {
  readonly #trees: TreeGame[];
  readonly #targets: number;
  readonly #scale: number;
  readonly #weightTarget: Int32Array;
  readonly #weightValue: Float64Array;
  readonly #solve: LeafGameSolver;
  readonly #table: Int32Array;
  #pool = new Float64Array(1 << 16);
  #used = 0;
  readonly #scratch: Float64Array;
  readonly #rowMasks: Int32Array;

  /**
   * `playerOf[slot]`: the column a slot depends on. `cover`: node of the ensemble → training rows, for path-dependent games.
   * @throws NotExplainable when a path has too many columns or tables get too large
   */
  constructor(
    e: Ensemble,
    trees: readonly Tree[],
    plan: SlotPlan,
    playerOf: readonly number[],
    solve: LeafGameSolver,
    cover: ((node: number) => number) | null,
  ) {
    if (e.aggregate !== 'SUM' && e.aggregate !== 'AVERAGE')
      throw new NotExplainable(`trees are aggregated by ${e.aggregate}`);
    this.#targets = e.targets;
    this.#scale = e.aggregate === 'AVERAGE' ? 1 / trees.length : 1;
    this.#weightTarget = e.weightTarget;
    this.#weightValue = e.weightValue;
    this.#solve = solve;
    let bytes = 0;
    let memo = 0;
    this.#trees = trees.map((t) => {
      const game = cut(e, t, plan, playerOf, cover);
      game.memoFirst.forEach((first, leaf) => {
        if (first < 0) return;
        game.memoFirst[leaf] = memo;
        memo += 1 << (game.leafFirst[leaf + 1]! - game.leafFirst[leaf]!);
      });
      bytes += game.segments.reduce((n, s) => n + s.byteLength, 0) + game.masks.reduce((n, m) => n + m.byteLength, 0);
      if (bytes + memo * 4 > MAX_TABLE_BYTES) throw new NotExplainable('the ensemble is too large for exact effects');
      return game;
    });
    this.#table = new Int32Array(memo).fill(UNKNOWN);
    this.#scratch = new Float64Array(MAX_PLAYERS);
    this.#rowMasks = new Int32Array(this.#trees.reduce((n, t) => Math.max(n, t.players * t.words), 0));
  }

  /** Every leaf with the masks of a row: for setting games up. `visit(leaf game, mask, weights from, weights end)`. */
  visit(states: Int32Array, visit: (game: LeafGame, mask: number, from: number, end: number) => void): void {
    for (const t of this.#trees) {
      this.#masksOf(t, states, 0);
      for (let l = 0; l < t.leaves; l++) visit(t.games[l]!, this.#maskOf(t, l), t.weightFirst[l]!, t.weightEnd[l]!);
    }
  }

  /** Weight entries of the ensemble, scaled: target and value. */
  weight(i: number): { target: number; value: number } {
    return { target: this.#weightTarget[i]!, value: this.#weightValue[i]! * this.#scale };
  }

  /**
   * Adds the effects of `rows` rows to `effects` (rows × targets × columns) and the leaves they reach to `margins` (rows ×
   * targets). Tree by tree, so that what is looked up for one tree stays in the cache for all rows.
   */
  add(
    states: Int32Array,
    slots: number,
    rows: number,
    columns: number,
    effects: Float64Array,
    margins: Float64Array,
  ): void {
    for (const t of this.#trees) {
      for (let r = 0; r < rows; r++) this.#addTree(t, states, r * slots, columns, effects, margins, r);
    }
  }

  #addTree(
    t: TreeGame,
    states: Int32Array,
    at: number,
    columns: number,
    effects: Float64Array,
    margins: Float64Array,
    row: number,
  ): void {
    const scale = this.#scale;
    const weightTarget = this.#weightTarget;
    const weightValue = this.#weightValue;
    const M = this.#rowMasks;
    const table = this.#table;
    const targets = this.#targets;
    this.#masksOf(t, states, at);
    const { words, leaves, leafFirst, leafPlayer, leafColumn, memoFirst, weightFirst, weightEnd } = t;
    for (let l = 0; l < leaves; l++) {
      const word = l >>> 5;
      const bit = l & 31;
      const first = leafFirst[l]!;
      const end = leafFirst[l + 1]!;
      let mask = 0;
      for (let j = first; j < end; j++) mask |= ((M[leafPlayer[j]! * words + word]! >>> bit) & 1) << (j - first);
      const w0 = weightFirst[l]!;
      const w1 = weightEnd[l]!;
      if (mask === (1 << (end - first)) - 1) {
        for (let w = w0; w < w1; w++) margins[row * targets + weightTarget[w]!]! += weightValue[w]! * scale;
      }
      const memo = memoFirst[l]!;
      let from = memo >= 0 ? table[memo + mask]! : UNKNOWN;
      if (from === UNKNOWN) from = this.#lookUp(t, l, mask);
      if (from === NOTHING) continue;
      const values = from === UNKNOWN ? this.#scratch : this.#pool;
      if (from === UNKNOWN) from = 0;
      for (let w = w0; w < w1; w++) {
        const value = weightValue[w]! * scale;
        const o = (row * targets + weightTarget[w]!) * columns;
        for (let j = first, k = from; j < end; j++, k++) effects[o + leafColumn[j]!]! += value * values[k]!;
      }
    }
  }

  /** Position in the pool, NOTHING, or UNKNOWN when the values are in the scratch array only. */
  #lookUp(t: TreeGame, leaf: number, mask: number): number {
    const map = t.memoMaps[leaf];
    const known = map?.get(mask);
    if (known !== undefined) return known;
    const d = t.leafFirst[leaf + 1]! - t.leafFirst[leaf]!;
    const scratch = this.#scratch;
    const any = this.#solve(t.games[leaf]!, mask, scratch);
    let at = NOTHING;
    if (any) {
      if (this.#used + d > MAX_MEMO) return UNKNOWN;
      if (this.#used + d > this.#pool.length) {
        const larger = new Float64Array(Math.min(MAX_MEMO, this.#pool.length * 2));
        larger.set(this.#pool);
        this.#pool = larger;
      }
      at = this.#used;
      this.#pool.set(scratch.subarray(0, d), at);
      this.#used += d;
    }
    if (map) {
      if (map.size < 100_000) map.set(mask, at);
    } else this.#table[t.memoFirst[leaf]! + mask] = at;
    return at;
  }

  /** Per player of the tree: the leaves whose conditions on it the row meets. */
  #masksOf(t: TreeGame, states: Int32Array, at: number): void {
    const M = this.#rowMasks;
    const { words, slots, segments, masks, slotPlayer } = t;
    M.fill(-1, 0, t.players * words);
    for (let s = 0; s < slots.length; s++) {
      const segment = segments[s]![states[at + slots[s]!]!]! * words;
      const mask = masks[s]!;
      const p = slotPlayer[s]! * words;
      for (let w = 0; w < words; w++) M[p + w]! &= mask[segment + w]!;
    }
  }

  #maskOf(t: TreeGame, l: number): number {
    let mask = 0;
    for (let j = t.leafFirst[l]!, k = 0; j < t.leafFirst[l + 1]!; j++, k++) {
      mask |= ((this.#rowMasks[t.leafPlayer[j]! * t.words + (l >>> 5)]! >>> (l & 31)) & 1) << k;
    }
    return mask;
  }
}

function cut(
  e: Ensemble,
  t: Tree,
  plan: SlotPlan,
  playerOf: readonly number[],
  cover: ((node: number) => number) | null,
): TreeGame {
  const leaves = t.leaves.length;
  const words = Math.ceil(leaves / 32);
  const truths = new Map(t.branches.map((b) => [b, plan.truth(b)] as const));
  const slots = [...new Set([...truths.values()].map((x) => x.slot))].sort((a, b) => a - b);
  const columns = [...new Set(slots.map((s) => playerOf[s]!))].sort((a, b) => a - b);
  const segments: Uint16Array[] = [];
  const masks: Int32Array[] = [];
  for (const s of slots) {
    const { segment, mask } = segmentsOf(
      t.branches.filter((b) => truths.get(b)!.slot === s),
      truths,
      plan.slots[s]!.states,
      plan.slots[s]!.kind === 'number',
      words,
    );
    segments.push(segment);
    masks.push(mask);
  }
  const leafFirst = new Int32Array(leaves + 1);
  const leafPlayer: number[] = [];
  const leafColumn: number[] = [];
  const memoFirst = new Int32Array(leaves);
  const memoMaps: (Map<number, number> | null)[] = [];
  const games: LeafGame[] = [];
  pathsOf(t, (leaf, path) => {
    const shares = new Map<number, number>();
    for (const { branch, yes } of path) {
      const player = playerOf[truths.get(branch)!.slot]!;
      shares.set(player, (shares.get(player) ?? 1) * (cover ? shareOf(e, branch, yes, cover) : 1));
    }
    const players = [...shares.keys()].sort((a, b) => a - b);
    if (players.length > MAX_PLAYERS) throw new NotExplainable(`a path has more than ${MAX_PLAYERS} columns`);
    for (const p of players) {
      leafPlayer.push(columns.indexOf(p));
      leafColumn.push(p);
    }
    leafFirst[leaf + 1] = leafPlayer.length;
    memoFirst[leaf] = players.length <= ARRAY_PLAYERS ? 0 : -1;
    memoMaps.push(players.length <= ARRAY_PLAYERS ? null : new Map());
    games.push({
      players: Int32Array.from(players),
      shares: Float64Array.from(players, (p) => shares.get(p)!),
      backgroundMasks: new Int32Array(0),
      backgroundCounts: new Float64Array(0),
    });
  });
  return {
    slots: Int32Array.from(slots),
    segments,
    masks,
    slotPlayer: Int32Array.from(slots, (s) => columns.indexOf(playerOf[s]!)),
    players: columns.length,
    words,
    leaves,
    leafFirst,
    leafPlayer: Int32Array.from(leafPlayer),
    leafColumn: Int32Array.from(leafColumn),
    memoFirst,
    memoMaps,
    games,
    weightFirst: Int32Array.from(t.leaves, (n) => e.weightFirst[n]!),
    weightEnd: Int32Array.from(t.leaves, (n) => e.weightFirst[n]! + e.weightCount[n]!),
  };
}

/** Masks of the leaves that stay reachable, for every state of a slot; states with the same masks share a segment. */
function segmentsOf(
  branches: readonly Branch[],
  truths: ReadonlyMap<Branch, ReturnType<SlotPlan['truth']>>,
  states: number,
  number: boolean,
  words: number,
): { segment: Uint16Array; mask: Int32Array } {
  // Where a test changes its answer a segment begins; within one all states are alike.
  const starts = new Set([0, ...(number ? [states - 1] : [])]);
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
      const truth = truths.get(b)!;
      const holds =
        number && from === states - 1 ? truth.missing : truth.ranges.some(([a, end]) => from >= a && from < end);
      const [a, end] = holds ? [b.middle, b.end] : [b.first, b.middle];
      for (let l = a; l < end; l++) mask[i * words + (l >>> 5)]! &= ~(1 << (l & 31));
    }
  });
  return { segment, mask };
}

interface Turn {
  branch: Branch;
  yes: boolean;
}

/** Every leaf with the branches above it, leaves in order. */
function pathsOf(t: Tree, leaf: (leaf: number, path: readonly Turn[]) => void): void {
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

/** The share of the training rows at a branch that went this way; 0 where nobody did. */
function shareOf(e: Ensemble, b: Branch, yes: boolean, cover: (node: number) => number): number {
  const went = b.nodes.reduce((n, node) => n + cover(e.onTrue[node]!), 0);
  const stayed = cover(e.onFalse[b.nodes.at(-1)!]!);
  const total = went + stayed;
  return total > 0 ? (yes ? went : stayed) / total : 0;
}
