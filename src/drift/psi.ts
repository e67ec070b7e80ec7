// The population stability index of two distributions over the same bins, empty bins filled as Evidently fills them.

/** PSI from here on means that the distribution has shifted: the usual threshold in credit scoring. */
export const SHIFTED = 0.2;

/** Share of a bin that is empty. */
const EMPTY_SHARE = 0.0001;

/** Shares of counts, empty bins filled; null: there is nothing to take a share of. */
function sharesOf(counts: ArrayLike<number>): number[] | null {
  let sum = 0;
  let least = Infinity;
  for (let b = 0; b < counts.length; b++) {
    sum += counts[b]!;
    if (counts[b]! > 0) least = Math.min(least, counts[b]!);
  }
  if (sum === 0) return null;
  const filler = least / sum <= EMPTY_SHARE ? least / sum / 1e6 : EMPTY_SHARE;
  return Array.from(counts, (n) => (n === 0 ? filler : n / sum));
}

/**
 * Σ (reference − current) · ln(reference ÷ current) over the shares of the bins. A bin that is empty in both is left out. null where
 * one of both is empty altogether.
 */
export function psi(reference: ArrayLike<number>, current: ArrayLike<number>): number | null {
  const before = sharesOf(reference);
  const now = sharesOf(current);
  if (!before || !now) return null;
  let sum = 0;
  for (const [b, share] of before.entries()) {
    if (reference[b] !== 0 || current[b] !== 0) sum += (share - now[b]!) * Math.log(share / now[b]!);
  }
  return sum;
}
