// Pairwise interactions: Shapley interaction indices of a tree ensemble against the background, leaf by leaf.
//
// Source: Lundberg et al., "From local explanations to global understanding with explainable AI for trees", Nature
// Machine Intelligence 2020 (SHAP interaction values). Here, the interventional game of leaf-game.ts replaces the
// path-dependent game. A SHAP interaction value Φij = Φji is half of the index that is computed here. The main effect
// Φii of a column is its effect minus half of the index of each of its pairs. A row of Φ therefore adds up to the
// column's effect.
import type { StateColumns } from './group-games.ts';
import { bits, playersOf, shapley, type TreeLeaves } from './leaf-game.ts';
import type { LeafGames, TreeGame } from './leaf-games.ts';
import { maskOfPattern } from './leaf-patterns.ts';
import { NOTHING, VectorMemo } from './lookup-tables.ts';
import { MemoBudget } from './memo-pool.ts';

/** Maximum memory of the lookup tables in bytes. */
const PAIR_MEMO_BYTES = 64 * 1024 * 1024;

/** Number of pairs of n players. */
export const pairCount = (n: number): number => (n * (n - 1)) / 2;

/** Index of pair (i, j), i < j, of n players: (0, 1), (0, 2), …, (1, 2), … */
export const pairIndex = (i: number, j: number, n: number): number => (i * (2 * n - i - 1)) / 2 + (j - i - 1);

const gained = new Float64Array(32);

/**
 * For all pairs of players of a leaf, writes the interaction index per unit of the leaf's weight to `out`, in the order
 * of pairIndex. Returns false if all are zero. For one background row, let `a` be the number of players satisfied only
 * by x, and `b` the number satisfied only by the background row. A coalition has the value 1 if it contains all of the
 * `a` players and none of the `b` players. Two of the `a` players have the index (a−2)!·b!/(a+b−1)!; two of the `b`
 * players, a!·(b−2)!/(a+b−1)!; and one of each, −(a−1)!·(b−1)!/(a+b−1)!. A player that both rows satisfy has no
 * interactions.
 */
function interventionalPairs(games: TreeLeaves, leaf: number, mask: number, out: Float64Array): boolean {
  const d = playersOf(games, leaf);
  const full = 2 ** d - 1;
  const { first, masks, shares } = games.background;
  out.fill(0, 0, pairCount(d));
  gained.fill(0, 0, d);
  // As for effects, a background row that matters satisfies all players that x does not satisfy. `b` is therefore the
  // same for all rows that matter.
  const b = d - bits(mask);
  let any = false;
  let lost = 0;
  for (let k = first[leaf]!; k < first[leaf + 1]!; k++) {
    const other = masks[k]!;
    if ((mask | other) !== full) continue;
    const onlyX = full & ~other;
    const a = bits(onlyX);
    if (a + b < 2) continue;
    any = true;
    const share = shares[k]!;
    if (b > 1) lost += share * shapley(a, b - 2);
    if (a > 0 && b > 0) addBits(onlyX, share * shapley(a - 1, b - 1));
    if (a > 1) addPairsOf(onlyX, d, share * shapley(a - 2, b), out);
  }
  if (any && b > 0) addLacking(mask, d, lost, out);
  return any;
}

function addBits(set: number, value: number): void {
  for (let s = set; s !== 0; s &= s - 1) gained[31 - Math.clz32(s & -s)]! += value;
}

function addPairsOf(set: number, d: number, value: number, out: Float64Array): void {
  for (let s = set; s !== 0; s &= s - 1) {
    const i = 31 - Math.clz32(s & -s);
    for (let u = s & (s - 1); u !== 0; u &= u - 1) out[pairIndex(i, 31 - Math.clz32(u & -u), d)]! += value;
  }
}

/** Adds the pairs that contain a player not satisfied by x. */
function addLacking(mask: number, d: number, lost: number, out: Float64Array): void {
  for (let i = 0, at = 0; i < d; i++) {
    const met = (mask >>> i) & 1;
    for (let j = i + 1; j < d; j++, at++) {
      const other = (mask >>> j) & 1;
      if (met + other === 2) continue;
      out[at]! += met + other === 0 ? lost : -gained[met ? i : j]!;
    }
  }
}

/** Computes interactions for an ensemble whose games already know their background. */
export class LeafPairs {
  readonly #games: LeafGames;
  readonly #columns: number;
  /** A cache per leaf, in the order of `eachLeaf`. */
  readonly #memos: VectorMemo[] = [];
  /** For each leaf: the indexes of its pairs of players among all pairs of columns. */
  readonly #places: Int32Array[] = [];
  readonly #budget: MemoBudget;
  readonly #scratch = new Float64Array(pairCount(32));

  /** `memoBytes`: maximum memory of lookup tables, without influence on the results. */
  constructor(games: LeafGames, columns: number, memoBytes = PAIR_MEMO_BYTES) {
    this.#games = games;
    this.#columns = columns;
    this.#budget = new MemoBudget(memoBytes, () => {
      for (const memo of this.#memos) memo?.clear();
    });
  }

  /**
   * Adds the interaction indices of the rows to `out`: rows × targets × pairs of columns, in the order of pairIndex.
   * Proceeds leaf by leaf, so that the lookup table of a leaf stays in the CPU cache for all rows.
   */
  add(rows: StateColumns, targets: number, out: Float64Array): void {
    let n = 0;
    this.#games.eachLeaf(rows, (tree, leaf, lacking) =>
      this.#addLeaf(n++, tree, leaf, lacking, rows.rows, targets, out),
    );
  }

  #addLeaf(
    n: number,
    t: TreeGame,
    leaf: number,
    lacking: Int32Array,
    rows: number,
    targets: number,
    out: Float64Array,
  ): void {
    const d = playersOf(t, leaf);
    if (d < 2) return;
    this.#memos[n] ??= new VectorMemo(pairCount(d), 2 ** d, this.#budget);
    this.#places[n] ??= placesOf(t.leafColumn.subarray(t.leafFirst[leaf], t.leafFirst[leaf + 1]), this.#columns);
    const memo = this.#memos[n]!;
    const places = this.#places[n]!;
    const pairs = pairCount(this.#columns);
    const { target, value } = this.#games.weights;
    for (let r = 0; r < rows; r++) {
      const found = memo.find(lacking[r]!);
      const from = found < 0 ? this.#enter(memo, t, leaf, lacking[r]!) : found;
      if (from === NOTHING) continue;
      const values = from < 0 ? this.#scratch : memo.values;
      for (let w = t.weightFirst[leaf]!; w < t.weightEnd[leaf]!; w++)
        addPlaced(values, Math.max(from, 0), places, value[w]!, out, (r * targets + target[w]!) * pairs);
    }
  }

  /**
   * Computes the vector of a pattern and caches it. Returns the position of the vector. If the cache is full, returns a
   * negative number and leaves the vector in `#scratch`.
   */
  #enter(memo: VectorMemo, t: TreeGame, leaf: number, pattern: number): number {
    if (interventionalPairs(t, leaf, maskOfPattern(t.walk, leaf, pattern), this.#scratch))
      return memo.keep(pattern, this.#scratch, 0);
    memo.keepNothing(pattern);
    return NOTHING;
  }
}

function placesOf(players: Int32Array, columns: number): Int32Array {
  const places = new Int32Array(pairCount(players.length));
  for (let i = 0, k = 0; i < players.length; i++)
    for (let j = i + 1; j < players.length; j++, k++) places[k] = pairIndex(players[i]!, players[j]!, columns);
  return places;
}

function addPlaced(
  values: Float64Array,
  from: number,
  places: Int32Array,
  weight: number,
  out: Float64Array,
  to: number,
): void {
  for (let k = 0; k < places.length; k++) out[to + places[k]!]! += weight * values[from + k]!;
}
