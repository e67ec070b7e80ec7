// What each player of a leaf adds per unit of weight: the interventional and the path-dependent game.
import type { LeafGame } from './leaf-game.ts';

const FACTORIALS = Float64Array.from({ length: 32 }, (_, n) => {
  let f = 1;
  for (let i = 2; i <= n; i++) f *= i;
  return f;
});

/** How many bits of 32 are set. */
export const bits = (v: number): number => {
  let n = v - ((v >>> 1) & 0x55555555);
  n = (n & 0x33333333) + ((n >>> 2) & 0x33333333);
  return Math.imul((n + (n >>> 4)) & 0x0f0f0f0f, 0x01010101) >>> 24;
};

/** before! · after! / (before + after + 1)!: how often so many players come before one, and so many after it. */
export const shapley = (before: number, after: number): number => WEIGHTS[before * 32 + after]!;
const WEIGHTS = Float64Array.from({ length: 32 * 32 }, (_, i) =>
  (i >>> 5) + (i & 31) > 30 ? 0 : (FACTORIALS[i >>> 5]! * FACTORIALS[i & 31]!) / FACTORIALS[(i >>> 5) + (i & 31) + 1]!,
);

/**
 * The game of one background row z: a coalition plays 1 if the row that takes its columns from x and the others from z
 * reaches the leaf. It does so for coalitions that hold all players only x satisfies and none only z satisfies; a player both
 * satisfy adds nothing. The mean over the background is exact interventional SHAP.
 */
export function interventional(game: LeafGame, mask: number, out: Float64Array): boolean {
  const d = game.players.length;
  const full = 2 ** d - 1;
  const { backgroundMasks, backgroundShares, backgroundMeets } = game;
  const words = (backgroundMasks.length + 31) >>> 5;
  out.fill(0, 0, d);
  // A row that makes up for what x lacks satisfies all of it: how many only z satisfies is the same for each of them.
  const lacking = full & ~mask;
  const nz = bits(lacking);
  const whereLost = (nz - 1) * 32;
  let any = false;
  let lost = 0;
  for (let w = 0; w < words; w++) {
    let makeUp = w < words - 1 ? -1 : -1 >>> ((32 - backgroundMasks.length) & 31);
    for (let s = lacking; s !== 0 && makeUp !== 0; s &= s - 1)
      makeUp &= backgroundMeets[(31 - Math.clz32(s & -s)) * words + w]!;
    for (; makeUp !== 0; makeUp &= makeUp - 1) {
      const i = w * 32 + 31 - Math.clz32(makeUp & -makeUp);
      let onlyX = full & ~backgroundMasks[i]!;
      const nx = bits(onlyX);
      if (nx + nz === 0) continue;
      any = true;
      const share = backgroundShares[i]!;
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
 * The game in which a column outside the coalition goes every way in the shares of the training rows:
 * v(S) = Π over S of (x satisfies p) × Π over the others of p's share. Sums over coalitions by size are the coefficients
 * of Π (share + satisfied·t).
 */
export function pathDependent(game: LeafGame, mask: number, out: Float64Array): boolean {
  const d = game.players.length;
  const { shares } = game;
  let any = false;
  for (let j = 0; j < d; j++) {
    const satisfied = (mask >>> j) & 1;
    const change = satisfied - shares[j]!;
    out[j] = 0;
    if (change === 0) continue;
    poly.fill(0, 0, d);
    poly[0] = 1;
    let size = 0;
    for (let k = 0; k < d; k++) {
      if (k === j) continue;
      const on = (mask >>> k) & 1;
      for (let i = size + 1; i >= 0; i--)
        rest[i] = shares[k]! * (i <= size ? poly[i]! : 0) + (i > 0 ? on * poly[i - 1]! : 0);
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
