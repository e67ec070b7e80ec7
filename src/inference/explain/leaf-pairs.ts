// What two columns make together: Shapley interaction indices of a tree ensemble against the background, leaf by leaf.
//
// Source: Lundberg et al., "From local explanations to global understanding with explainable AI for trees", Nature Machine
// Intelligence 2020 (SHAP interaction values), with the interventional game of fills.ts in place of the path-dependent one.
// A SHAP interaction value Φij = Φji is half of what stands here; the main effect Φii of a column is its effect less the
// halves of all its pairs, so that a row of Φ adds up to the effect of its column.
import { bits, shapley } from './fills.ts';
import type { StateColumns } from './group-games.ts';
import type { LeafGame, LeafGames, TreeGame } from './leaf-games.ts';
import { NOTHING, VectorMemo } from './vector-memo.ts';

/** What is looked up takes so much memory, in bytes; what has no room is computed again. */
const PAIR_MEMO_BYTES = 64 * 1024 * 1024;

/** Pairs of n players. */
export const pairCount = (n: number): number => (n * (n - 1)) / 2;

/** Where pair (i, j), i < j, of n players stands: (0, 1), (0, 2), …, (1, 2), … */
export const pairIndex = (i: number, j: number, n: number): number => (i * (2 * n - i - 1)) / 2 + (j - i - 1);

const gained = new Float64Array(32);

/**
 * Fills `out` with the interaction index of every pair of players of a leaf, per unit of its weight, in the order of
 * pairIndex; false: nothing. For one background row let `a` players be satisfied by x alone and `b` by the row alone: a
 * coalition plays 1 if it holds all of the first and none of the second. Then two of the first make (a−2)!·b!/(a+b−1)!,
 * two of the second a!·(b−2)!/(a+b−1)!, and one of each −(a−1)!·(b−1)!/(a+b−1)!; a player both satisfy makes nothing.
 */
export function interventionalPairs(game: LeafGame, mask: number, out: Float64Array): boolean {
  const d = game.players.length;
  const full = 2 ** d - 1;
  const { backgroundMasks, backgroundShares } = game;
  out.fill(0, 0, pairCount(d));
  gained.fill(0, 0, d);
  // As for effects: every row that makes up for what x lacks satisfies all of it, so b is the same for each of them.
  const b = d - bits(mask);
  let any = false;
  let lost = 0;
  for (let k = 0; k < backgroundMasks.length; k++) {
    const other = backgroundMasks[k]!;
    if ((mask | other) !== full) continue;
    const onlyX = full & ~other;
    const a = bits(onlyX);
    if (a + b < 2) continue;
    any = true;
    const share = backgroundShares[k]!;
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

/** Pairs with a player that x does not satisfy. */
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

/** Interactions of the rows of an ensemble whose games know their background. */
export class LeafPairs {
  readonly #games: LeafGames;
  readonly #columns: number;
  /** By leaf, in the order of `eachLeaf`. */
  readonly #memos: VectorMemo[] = [];
  readonly #budget: { left: number };
  readonly #scratch = new Float64Array(pairCount(32));

  /** `memoBytes`: what may be kept to be looked up; answers do not depend on it. */
  constructor(games: LeafGames, columns: number, memoBytes = PAIR_MEMO_BYTES) {
    this.#games = games;
    this.#columns = columns;
    this.#budget = { left: memoBytes };
  }

  /** Adds the interaction indices of one row to `out`: targets × pairs of columns, in the order of pairIndex. */
  add(rows: StateColumns, row: number, out: Float64Array): void {
    let n = 0;
    this.#games.eachLeaf(rows, row, (tree, leaf, mask) => this.#addLeaf(n++, tree, leaf, mask, out));
  }

  #addLeaf(n: number, t: TreeGame, leaf: number, mask: number, out: Float64Array): void {
    const game = t.games[leaf]!;
    const d = game.players.length;
    if (d < 2) return;
    const width = pairCount(d);
    this.#memos[n] ??= new VectorMemo(width, 2 ** d, this.#budget);
    const memo = this.#memos[n]!;
    let from = memo.find(mask);
    let { values } = memo;
    if (from === NOTHING) return;
    if (from < 0) {
      if (!interventionalPairs(game, mask, this.#scratch)) {
        memo.keepNothing(mask);
        return;
      }
      memo.keep(mask, this.#scratch, 0);
      values = this.#scratch;
      from = 0;
    }
    const pairs = pairCount(this.#columns);
    const { target, value } = this.#games.weights;
    for (let w = t.weightFirst[leaf]!; w < t.weightEnd[leaf]!; w++) {
      const to = target[w]! * pairs;
      for (let i = 0, k = from; i < d; i++)
        for (let j = i + 1; j < d; j++, k++)
          out[to + pairIndex(game.players[i]!, game.players[j]!, this.#columns)]! += value[w]! * values[k]!;
    }
  }
}
