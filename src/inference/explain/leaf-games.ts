// Shapley values of a tree ensemble, leaf by leaf. A leaf is a small game whose players are the columns on its path.
// The contribution of a column depends only on which of these columns meet all their conditions in the row. These
// columns form a bit mask. The values of a leaf are therefore looked up by mask, and computed once for each mask that
// occurs. The sum over a group of leaves is looked up by a key of all masks (group-games.ts), so that a row needs few
// lookups per tree.
//
// Sources: Lundberg et al., "From local explanations to global understanding with explainable AI for trees", Nature
// Machine Intelligence 2020 (interventional and path-dependent games); masks over leaves as in QuickScorer (Lucchese et
// al. 2015); counting background rows once per mask: Nadel and Wettenstein, "From Decision Trees to Boolean Logic: A
// Fast and Unified SHAP Algorithm" (Woodelf), 2025. The players are columns of the application: all features of a
// column belong to one player.
import type { Ensemble } from '../trees/ensemble.ts';
import type { Branch, Tree } from '../trees/grow.ts';
import type { SlotPlan } from '../trees/slots.ts';
import { NotExplainable } from './explainer.ts';
import {
  GroupAdder,
  type GroupGame,
  groupLeaves,
  type LeafGroup,
  type SlotMasks,
  type StateColumns,
} from './group-games.ts';
import {
  holdsIn,
  type LeafGameSolver,
  type LeafMasks,
  type LeafWeights,
  leafWeights,
  pathsOf,
  playersOf,
  segmentsOf,
  shareOf,
  type TreeLeaves,
} from './leaf-game.ts';
import { LeafPatterns, maskOfPattern, type TreeWalk, walkOf } from './leaf-patterns.ts';
import { IntegerTable, NOTHING, VectorMemo } from './lookup-tables.ts';
import { MemoBudget } from './memo-pool.ts';
import {
  GameSolver,
  type LeafBackground,
  PatternAdder,
  PatternBackground,
  type PatternSolver,
} from './pattern-sums.ts';

// Background rows are counted by mask, so that rows with equal masks need only one computation.

/**
 * The distinct masks of the rows at a leaf, with their counts. The masks are in ascending order, so that sums over them
 * do not depend on the order of the background rows.
 */
function countMasks(
  walk: TreeWalk,
  leaf: number,
  lacking: Int32Array,
  rows: number,
): { masks: Int32Array; patterns: Int32Array; counts: Float64Array } {
  const table = new IntegerTable();
  const found: number[] = [];
  const patterns: number[] = [];
  const counts: number[] = [];
  for (let r = 0; r < rows; r++) {
    const k = table.find(lacking[r]!);
    if (k >= 0) counts[k]!++;
    else {
      table.add(lacking[r]!, found.push(maskOfPattern(walk, leaf, lacking[r]!)) - 1);
      patterns.push(lacking[r]!);
      counts.push(1);
    }
  }
  const order = Int32Array.from(found, (_, k) => k).sort((a, b) => found[a]! - found[b]!);
  return {
    masks: Int32Array.from(order, (k) => found[k]!),
    patterns: Int32Array.from(order, (k) => patterns[k]!),
    counts: Float64Array.from(order, (k) => counts[k]!),
  };
}

/**
 * Joins the masks of all leaves of a tree. With `meets`, also finds for each player the masks that contain it, as
 * ⌈masks / 32⌉ words of bits.
 */
function joinMasks(
  leaves: readonly { columns: number; masks: Int32Array; shares: Float64Array }[],
  withMeets: boolean,
): LeafMasks {
  const first = new Int32Array(leaves.length + 1);
  const meetsFirst = new Int32Array(leaves.length + 1);
  for (const [l, { columns, masks }] of leaves.entries()) {
    first[l + 1] = first[l]! + masks.length;
    meetsFirst[l + 1] = meetsFirst[l]! + (withMeets ? columns * Math.ceil(masks.length / 32) : 0);
  }
  const joined = new Int32Array(first.at(-1)!);
  const shares = new Float64Array(joined.length);
  const meets = new Int32Array(meetsFirst.at(-1)!);
  for (const [l, leaf] of leaves.entries()) {
    joined.set(leaf.masks, first[l]);
    shares.set(leaf.shares, first[l]);
    if (!withMeets) continue;
    const words = Math.ceil(leaf.masks.length / 32);
    for (const [k, mask] of leaf.masks.entries())
      for (let j = 0; j < leaf.columns; j++)
        meets[meetsFirst[l]! + j * words + (k >>> 5)]! |= ((mask >>> j) & 1) << (k & 31);
  }
  return { first, masks: joined, shares, meetsFirst, meets };
}

/** A tree in the form that games evaluate. A word has bits for 32 leaves. */
export interface TreeGame extends SlotMasks, TreeLeaves {
  /** Player of each slot, as an index into the players of the tree. */
  readonly slotPlayer: Int32Array;
  readonly players: number;
  readonly leaves: number;
  /** For each player of each leaf: its index within the tree. */
  readonly leafPlayer: Int32Array;
  /** For each leaf: cached values, by mask. */
  readonly leafMemos: readonly VectorMemo[];
  readonly weightFirst: Int32Array;
  readonly weightEnd: Int32Array;
  readonly walk: TreeWalk;
}

/** A group with the data for adding up its leaves. */
interface TreeGroup extends GroupGame {
  readonly tree: TreeGame;
  /** Positions of the leaves' entries in the vector of the first target, from leafFirst[first] on. */
  readonly leafAt: Int32Array;
}

/** Maximum number of players of a leaf, because a mask is a signed 32-bit integer. */
const MAX_PLAYERS = 30;
/** Maximum memory of the lookup tables in bytes; one half for groups, one half for leaves. */
const MEMO_BYTES = 128 * 1024 * 1024;
/** Maximum total width of the vectors of all groups. In larger ensembles, leaves are added up one by one. */
const MOST_GROUPED = 40_000;
const MAX_TABLE_BYTES = 256 * 1024 * 1024;

/** Before the background is known, and for path-dependent games. */
const NO_MASKS: LeafMasks = {
  first: new Int32Array(0),
  masks: new Int32Array(0),
  shares: new Float64Array(0),
  meetsFirst: new Int32Array(0),
  meets: new Int32Array(0),
};

export class LeafGames {
  readonly #trees: readonly TreeGame[];
  /** Groups in tree order. */
  readonly #groups: readonly TreeGroup[];
  readonly #adder: GroupAdder<TreeGroup>;
  readonly #patterns = new LeafPatterns();
  readonly #leafAdder = new PatternAdder();
  /** Whether leaves are added up one by one, because the vectors of groups would not fit into memory. */
  readonly #alone: boolean;
  /** Solver of each tree. */
  readonly #solvers: PatternSolver[];
  readonly #weights: LeafWeights;
  readonly #solve: LeafGameSolver;
  readonly #pathDependent: boolean;
  readonly #scratch = new Float64Array(MAX_PLAYERS);
  /** For each player of a tree: the leaves whose conditions on the player are met by the row. */
  readonly #rowMasks: Int32Array;

  /**
   * `playerOf[slot]`: the column on which a slot depends. `cover`: maps a node of the ensemble to its number of
   * training rows, for path-dependent games. `memoBytes`: maximum memory of lookup tables, without influence on the
   * effects. `mostGrouped`: if the vectors of all groups have more numbers in total, leaves are added up one by one.
   * @throws NotExplainable if a path has too many columns, or if the tables become too large
   */
  constructor(
    e: Ensemble,
    trees: readonly Tree[],
    plan: SlotPlan,
    playerOf: readonly number[],
    solve: LeafGameSolver,
    cover: ((node: number) => number) | null,
    memoBytes = MEMO_BYTES,
    mostGrouped = MOST_GROUPED,
  ) {
    if (e.aggregate !== 'SUM' && e.aggregate !== 'AVERAGE')
      throw new NotExplainable(`trees are aggregated by ${e.aggregate}`);
    this.#weights = leafWeights(e);
    this.#solve = solve;
    this.#pathDependent = cover !== null;
    const leafBudget = new MemoBudget(memoBytes / 2, () => {
      for (const { leafMemos } of this.#trees) for (const memo of leafMemos) memo.clear();
    });
    const groupBudget = new MemoBudget(memoBytes / 2, () => {
      for (const { memo } of this.#groups) memo.clear();
    });
    let bytes = 0;
    const groups: TreeGroup[] = [];
    this.#trees = trees.map((t) => {
      const tree = cut(e, t, plan, playerOf, cover, this.#weights, leafBudget);
      bytes += tree.segments.reduce((n, s) => n + s.byteLength, 0) + tree.masks.reduce((n, m) => n + m.byteLength, 0);
      if (bytes > MAX_TABLE_BYTES) throw new NotExplainable('the ensemble is too large for exact effects');
      for (const g of groupLeaves(tree, t.branches, tree.leaves))
        groups.push(gameOf(g, tree, this.#weights.target, groupBudget));
      return tree;
    });
    this.#groups = groups;
    this.#solvers = this.#trees.map((t) => new GameSolver(t.walk, t, solve));
    this.#alone = groups.reduce((n, g) => n + g.memo.width, 0) > mostGrouped;
    this.#adder = new GroupAdder((g, rows, row, out, at) => this.#fill(g, rows, row, out, at));
    this.#rowMasks = new Int32Array(this.#trees.reduce((n, t) => Math.max(n, t.players * t.words), 0));
  }

  /**
   * Adds the weights of the leaves that the rows reach to `sums` (targets × stride). The result is bit-identical to
   * that of `add`.
   */
  addReached({ states, stride, rows }: StateColumns, sums: Float64Array): void {
    const { target, value } = this.#weights;
    const reached = new Int32Array(rows);
    for (const t of this.#trees) {
      for (let word = 0; word < t.words; word++) {
        reached.fill(word < t.words - 1 ? -1 : -1 >>> (31 - ((t.leaves - 1) & 31)));
        for (let s = 0; s < t.slots.length; s++)
          keepReached(reached, t.segments[s]!, t.masks[s]!, t.words, word, states, t.slots[s]! * stride);
        for (let r = 0; r < rows; r++) {
          if (reached[r] === 0) continue;
          const leaf = word * 32 + 31 - Math.clz32(reached[r]!);
          for (let w = t.weightFirst[leaf]!; w < t.weightEnd[leaf]!; w++) sums[target[w]! * stride + r]! += value[w]!;
        }
      }
    }
  }

  /** Passes the masks of the background rows to all games. Interventional games only; call this method before `add`. */
  setBackground(background: StateColumns): void {
    const { rows } = background;
    for (const [i, t] of this.#trees.entries()) {
      const leaves: (LeafBackground & { masks: Int32Array })[] = [];
      this.#patterns.eachLeaf(t.walk, background, (leaf, lacking) => {
        const { masks, patterns, counts } = countMasks(t.walk, leaf, lacking, rows);
        leaves.push({ columns: playersOf(t, leaf), masks, patterns, shares: counts.map((n) => n / rows) });
      });
      t.background = joinMasks(leaves, !this.#alone);
      if (this.#alone) this.#solvers[i] = new PatternBackground(leaves);
    }
  }

  /** Adds the expected sums over all training or background rows, one number per target. */
  addExpected(sums: Float64Array): void {
    for (const t of this.#trees) {
      for (let l = 0; l < t.leaves; l++) {
        const share = this.#pathDependent
          ? t.leafShares.subarray(t.leafFirst[l], t.leafFirst[l + 1]).reduce((a, b) => a * b, 1)
          : shareMeetingAll(t, l);
        for (let w = t.weightFirst[l]!; w < t.weightEnd[l]!; w++)
          sums[this.#weights.target[w]!]! += this.#weights.value[w]! * share;
      }
    }
  }

  /**
   * Adds the effects of the rows to `effects` (targets × columns × stride: column by column, as for states). Adds the
   * values of the leaves that the rows reach to `sums` (targets × stride). Proceeds group by group, so that the lookup
   * tables of a group stay in the CPU cache for all rows.
   */
  add(rows: StateColumns, columns: number, effects: Float64Array, sums: Float64Array): void {
    if (this.#alone) this.#addLeaves(rows, columns, effects, sums);
    else for (const g of this.#groups) this.#adder.add(g, rows, columns, effects, sums);
  }

  /** As `add`, but adds leaves one by one. */
  #addLeaves(rows: StateColumns, columns: number, effects: Float64Array, sums: Float64Array): void {
    const { stride } = rows;
    const { target, value } = this.#weights;
    const adder = this.#leafAdder;
    for (const [i, { walk, weightFirst, weightEnd }] of this.#trees.entries()) {
      const { leafFirst, column } = walk;
      const solver = this.#solvers[i]!;
      this.#patterns.eachLeaf(walk, rows, (leaf, lacking, n) => {
        adder.find(walk, leaf, lacking, n, solver);
        for (let w = weightFirst[leaf]!; w < weightEnd[leaf]!; w++) {
          const to = target[w]! * columns * stride;
          adder.add(column, leafFirst[leaf]!, leafFirst[leaf + 1]!, value[w]!, effects, to, stride);
          addReachedBy(lacking, n, value[w]!, sums, target[w]! * stride);
        }
      });
    }
  }

  /**
   * Best number of rows per call of `add`. Without caching, work that rows have in common is shared only within one
   * call.
   */
  get chunk(): number {
    return this.#alone ? 4096 : 1024;
  }

  /** Contributions of the leaves to targets. `weightFirst` and `weightEnd` of a tree select the entries. */
  get weights(): LeafWeights {
    return this.#weights;
  }

  /** Visits all leaves of all trees in a fixed order, with the conditions that each row does not meet. */
  eachLeaf(rows: StateColumns, visit: (tree: TreeGame, leaf: number, lacking: Int32Array) => void): void {
    for (const t of this.#trees) this.#patterns.eachLeaf(t.walk, rows, (leaf, lacking) => visit(t, leaf, lacking));
  }

  /**
   * Computes the vector of a row and writes its `memo.width` numbers to `out`, from index `at` on. Returns false if all
   * of them are zero.
   */
  #fill(g: TreeGroup, rows: StateColumns, row: number, out: Float64Array, at: number): boolean {
    const { tree: t, targets, leafAt } = g;
    const { leafFirst, weightFirst, weightEnd } = t;
    out.fill(0, at, at + g.memo.width);
    this.#masksOf(g, rows, row);
    const origin = leafFirst[g.first]!;
    const step = 1 + g.columns.length;
    // In a group with a single leaf, the cache of the group also serves the leaf.
    const alone = g.end - g.first === 1;
    let any = false;
    for (let l = g.first; l < g.end; l++) {
      const first = leafFirst[l]!;
      const end = leafFirst[l + 1]!;
      const mask = this.#maskOf(t, l);
      const met = mask === (1 << (end - first)) - 1;
      const memo = t.leafMemos[l]!;
      let from = alone ? -1 : memo.find(mask);
      let { values } = memo;
      if (from < 0) {
        from = NOTHING;
        if (this.#solve(t, l, mask, this.#scratch)) {
          if (!alone) memo.keep(mask, this.#scratch, 0);
          values = this.#scratch;
        } else if (!alone) memo.keepNothing(mask);
      }
      const nothing = from === NOTHING && values !== this.#scratch;
      if (nothing && !met) continue;
      any = true;
      for (let w = weightFirst[l]!; w < weightEnd[l]!; w++) {
        const value = this.#weights.value[w]!;
        const to = targets.length === 1 ? at : at + targets.indexOf(this.#weights.target[w]!) * step;
        if (met) out[to]! += value;
        if (nothing) continue;
        for (let j = first, k = from; j < end; j++, k++) out[to + leafAt[j - origin]!]! += value * values[k]!;
      }
    }
    return any;
  }

  /**
   * For each player of the tree: computes the leaves of the group whose conditions on the player are met by the row.
   */
  #masksOf({ tree: t, first, end, slots }: TreeGroup, { states, stride }: StateColumns, row: number): void {
    const M = this.#rowMasks;
    const { words, segments, masks, slotPlayer } = t;
    const from = first >>> 5;
    const to = (end - 1) >>> 5;
    for (let p = 0; p < t.players * words; p += words) for (let w = from; w <= to; w++) M[p + w] = -1;
    for (let i = 0; i < slots.length; i++) {
      const s = slots[i]!;
      const segment = segments[s]![states[t.slots[s]! * stride + row]!]! * words;
      const mask = masks[s]!;
      const p = slotPlayer[s]! * words;
      for (let w = from; w <= to; w++) M[p + w]! &= mask[segment + w]!;
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

function gameOf(g: LeafGroup, t: TreeGame, weightTarget: Int32Array, budget: MemoBudget): TreeGroup {
  const entries = t.leafColumn.subarray(t.leafFirst[g.first]!, t.leafFirst[g.end]!);
  const columns = Int32Array.from(new Set(entries)).sort();
  const named = new Set<number>();
  for (let l = g.first; l < g.end; l++)
    for (let w = t.weightFirst[l]!; w < t.weightEnd[l]!; w++) named.add(weightTarget[w]!);
  const targets = Int32Array.from(named).sort();
  return {
    ...g,
    tree: t,
    columns,
    targets,
    leafAt: entries.map((c) => 1 + columns.indexOf(c)),
    memo: new VectorMemo(targets.length * (1 + columns.length), g.keys ?? 0, budget),
  };
}

/** The share of background rows that reach a leaf. Their mask contains all players, so it is the last one. */
function shareMeetingAll(t: TreeGame, leaf: number): number {
  const { first, masks, shares } = t.background;
  const last = first[leaf + 1]! - 1;
  return last >= first[leaf]! && masks[last] === 2 ** playersOf(t, leaf) - 1 ? shares[last]! : 0;
}

/** Adds a leaf's value to the sums of the rows that reach the leaf, because they meet all its conditions. */
function addReachedBy(lacking: Int32Array, rows: number, value: number, sums: Float64Array, to: number): void {
  for (let r = 0; r < rows; r++) if (lacking[r] === 0) sums[to + r]! += value;
}

/** Removes the leaves of a word that become unreachable, row by row. */
function keepReached(
  reached: Int32Array,
  segment: Uint16Array,
  mask: Int32Array,
  words: number,
  word: number,
  states: Int32Array,
  from: number,
): void {
  for (let r = 0; r < reached.length; r++) reached[r]! &= mask[segment[states[from + r]!]! * words + word]!;
}

function cut(
  e: Ensemble,
  t: Tree,
  plan: SlotPlan,
  playerOf: readonly number[],
  cover: ((node: number) => number) | null,
  weights: LeafWeights,
  budget: MemoBudget,
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
      plan.slots[s]!,
      words,
    );
    segments.push(segment);
    masks.push(mask);
  }
  const leafFirst = new Int32Array(leaves + 1);
  const leafPlayer: number[] = [];
  const leafColumn: number[] = [];
  const leafShares: number[] = [];
  const leafMemos: VectorMemo[] = [];
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
      if (cover) leafShares.push(shares.get(p)!);
    }
    leafFirst[leaf + 1] = leafPlayer.length;
    leafMemos.push(new VectorMemo(players.length, 2 ** players.length, budget));
  });
  const segmented = { slots: Int32Array.from(slots), segments };
  const slotOf = (b: Branch): number => truths.get(b)!.slot;
  const walk = walkOf(
    t,
    segmented,
    (b) => slots.indexOf(slotOf(b)),
    (b) => playerOf[slotOf(b)]!,
    (b, state) => holdsIn(truths.get(b)!, state, plan.slots[slotOf(b)]!),
    (leaf) => leafColumn.slice(leafFirst[leaf], leafFirst[leaf + 1]),
  );
  return {
    ...segmented,
    walk,
    masks,
    slotPlayer: Int32Array.from(slots, (s) => columns.indexOf(playerOf[s]!)),
    players: columns.length,
    words,
    leaves,
    leafFirst,
    leafPlayer: Int32Array.from(leafPlayer),
    leafColumn: Int32Array.from(leafColumn),
    leafShares: Float64Array.from(leafShares),
    background: NO_MASKS,
    leafMemos,
    weightFirst: Int32Array.from(t.leaves, (n) => weights.first[n]!),
    weightEnd: Int32Array.from(t.leaves, (n) => weights.first[n + 1]!),
  };
}
