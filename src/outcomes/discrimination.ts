// How well scores separate outcomes: AUC, KS and Brier score, as scikit-learn computes them.

// Sums of millions of numbers with correct last digits: the rounding errors are summed as well (Neumaier).

/** Neumaier's compensated summation (ZAMM 54, 1974). */
export class ExactSum {
  #sum = 0;
  #rest = 0;

  add(x: number): void {
    const sum = this.#sum + x;
    this.#rest += Math.abs(this.#sum) >= Math.abs(x) ? this.#sum - sum + x : x - sum + this.#sum;
    this.#sum = sum;
  }

  get value(): number {
    return this.#sum + this.#rest;
  }
}

/** Probabilities of the positive class by what came out, each in ascending order. */
export interface ScoredOutcomes {
  readonly positives: Float64Array;
  readonly negatives: Float64Array;
}

export interface Discrimination {
  /** `roc_auc_score`: the share of pairs of a positive and a negative that are in order, ties half; null: one class only. */
  auc: number | null;
  /** Largest distance between the shares of positives and negatives at or above a score: max(tpr − fpr) of `roc_curve`; null: one class only. */
  ks: number | null;
}

/** Exact: pairs are counted in whole numbers, which hold up to 6·10⁷ rows of each class. */
export function discrimination({ positives, negatives }: ScoredOutcomes): Discrimination {
  const [p, n] = [positives.length, negatives.length];
  if (p === 0 || n === 0) return { auc: null, ks: null };
  /** Twice the pairs in order. */
  let twice = 0;
  let ks = 0;
  // From the highest score down: i positives and j negatives are above it.
  for (let i = 0, j = 0; i < p || j < n; ) {
    const a = i < p ? positives[p - 1 - i]! : -Infinity;
    const b = j < n ? negatives[n - 1 - j]! : -Infinity;
    const score = Math.max(a, b);
    const [i0, j0] = [i, j];
    while (i < p && positives[p - 1 - i] === score) i++;
    while (j < n && negatives[n - 1 - j] === score) j++;
    twice += (i - i0) * (2 * (n - j) + (j - j0));
    ks = Math.max(ks, i / p - j / n);
  }
  return { auc: twice / 2 / p / n, ks };
}

/** Mean square of probability − outcome: `brier_score_loss`. null without rows. */
export function brierScore({ positives, negatives }: ScoredOutcomes): number | null {
  const rows = positives.length + negatives.length;
  if (rows === 0) return null;
  const sum = new ExactSum();
  for (const probability of positives) sum.add((1 - probability) ** 2);
  for (const probability of negatives) sum.add(probability ** 2);
  return sum.value / rows;
}
