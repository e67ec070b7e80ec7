// Discrimination of scores: AUC, KS and Brier score, defined as in scikit-learn.

// Computes precise sums of millions of numbers by summing the rounding errors separately: Neumaier's compensated
// summation (ZAMM 54, 1974).
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

/** Probabilities of the positive class, separately for positive and negative outcomes. Each list is ascending. */
export interface ScoredOutcomes {
  readonly positives: Float64Array;
  readonly negatives: Float64Array;
}

export interface Discrimination {
  /**
   * `roc_auc_score`: fraction of the pairs of a positive and a negative outcome that are ranked correctly; ties count
   * half. null: there is only one class.
   */
  auc: number | null;
  /**
   * Largest difference between the fraction of positives and the fraction of negatives at or above a score: max(tpr −
   * fpr) of `roc_curve`. null: there is only one class.
   */
  ks: number | null;
}

/** Computes AUC and KS. They are exact, because pairs are counted in integers. Valid up to 6·10⁷ rows per class. */
export function discrimination({ positives, negatives }: ScoredOutcomes): Discrimination {
  const [p, n] = [positives.length, negatives.length];
  if (p === 0 || n === 0) return { auc: null, ks: null };
  /** Twice the number of correctly ranked pairs. */
  let twice = 0;
  let ks = 0;
  // Scores are visited in descending order. i positives and j negatives have a higher score.
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

/** `brier_score_loss`: mean of (probability − outcome)². null: no rows were scored. */
export function brierScore({ positives, negatives }: ScoredOutcomes): number | null {
  const rows = positives.length + negatives.length;
  if (rows === 0) return null;
  const sum = new ExactSum();
  for (const probability of positives) sum.add((1 - probability) ** 2);
  for (const probability of negatives) sum.add(probability ** 2);
  return sum.value / rows;
}
