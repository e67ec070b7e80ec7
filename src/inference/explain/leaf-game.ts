// The game that a leaf is: the columns on its path are the players.

/** Fills `out[0..d-1]` with what each player of a leaf adds per unit of its weight; false: nothing. */
export type LeafGameSolver = (leaf: LeafGame, mask: number, out: Float64Array) => boolean;

export interface LeafGame {
  /** Players on the path: columns. */
  readonly players: Int32Array;
  /** Conditions of player j on the path, by branch: the share of the branch's cover that goes the leaf's way. */
  readonly shares: Float64Array;
  /** Interventional: masks of the background rows, ascending, and the share of the rows that have each. */
  backgroundMasks: Int32Array;
  backgroundShares: Float64Array;
  /** By player: the masks that have its bit, as bits of so many words of 32. */
  backgroundMeets: Int32Array;
}
