// Accuracy of probabilities: predicted and observed rates by score decile, and the calibration line.
import { ExactSum, type ScoredOutcomes } from './discrimination.ts';

/** Applications between two score deciles. */
interface CalibrationBin {
  rows: number;
  meanProbability: number;
  /** Fraction of positive outcomes. */
  observedRate: number;
}

export interface Calibration {
  /**
   * Score deciles in ascending order, as in `calibration_curve(strategy="quantile", n_bins=10)` of scikit-learn. There
   * are fewer than ten if many scores are equal.
   */
  deciles: CalibrationBin[];
  /**
   * Expected calibration error: mean absolute difference between predicted and observed rate of the bins, weighted by
   * rows.
   */
  ece: number;
  /**
   * Logistic regression of the outcome on the log-odds of the probability (Cox 1958). Correct probabilities have
   * intercept 0 and slope 1; a slope below 1 means that the probabilities are too extreme. null: there is only one
   * class, all scores are equal, or the scores separate the classes completely.
   */
  intercept: number | null;
  slope: number | null;
}

const BINS = 10;
/** Probabilities are clipped to [CLIP, 1 - CLIP], because 0 and 1 have no log-odds. */
const CLIP = 1e-12;
const MAX_STEPS = 100;
/** Relative step size at which the iteration stops. */
const CONVERGED = 1e-11;

/** Computes the calibration; null: no rows were scored. */
export function calibration(scored: ScoredOutcomes): Calibration | null {
  const rows = scored.positives.length + scored.negatives.length;
  if (rows === 0) return null;
  const deciles = calibrationBins(scored);
  const distance = new ExactSum();
  for (const bin of deciles) distance.add(bin.rows * Math.abs(bin.observedRate - bin.meanProbability));
  return { deciles, ece: distance.value / rows, ...calibrationLine(scored) };
}

function calibrationBins(scored: ScoredOutcomes): CalibrationBin[] {
  const { positives, negatives } = scored;
  const edges = [...innerDeciles(scored), Infinity];
  const bins: CalibrationBin[] = [];
  let [i, j] = [0, 0];
  for (const edge of edges) {
    const sum = new ExactSum();
    const [i0, j0] = [i, j];
    // A score on an edge belongs to the lower bin, as in numpy.searchsorted.
    while (i < positives.length && positives[i]! <= edge) sum.add(positives[i++]!);
    while (j < negatives.length && negatives[j]! <= edge) sum.add(negatives[j++]!);
    const rows = i - i0 + j - j0;
    if (rows > 0) bins.push({ rows, meanProbability: sum.value / rows, observedRate: (i - i0) / rows });
  }
  return bins;
}

/** The nine inner deciles, interpolated exactly as by numpy.percentile (method "linear"). */
function innerDeciles(scored: ScoredOutcomes): number[] {
  const { positives, negatives } = scored;
  const last = positives.length + negatives.length - 1;
  const edges: number[] = [];
  const [p, n] = [positives.length, negatives.length];
  let [i, j] = [0, 0];
  /** The score with a rank (counted from 0). Ranks must be requested in ascending order. */
  const scoreAt = (rank: number): number => {
    for (;;) {
      const positive = j === n || (i < p && positives[i]! <= negatives[j]!);
      if (i + j === rank) return positive ? positives[i]! : negatives[j]!;
      if (positive) i++;
      else j++;
    }
  };
  for (let k = 1; k < BINS; k++) {
    const rank = last * ((k * (1 / BINS) * 100) / 100);
    const below = Math.floor(rank);
    const t = rank - below;
    const a = scoreAt(Math.min(below, last));
    // The position is restored, because the next decile may need the same scores.
    const [i0, j0] = [i, j];
    const b = scoreAt(Math.min(below + 1, last));
    [i, j] = [i0, j0];
    edges.push(t >= 0.5 ? b - (b - a) * (1 - t) : a + (b - a) * t);
  }
  return edges;
}

interface Line {
  intercept: number | null;
  slope: number | null;
}

const NO_LINE: Line = { intercept: null, slope: null };

/** Maximises the log-likelihood with Newton's method. A step that decreases the likelihood is halved. */
function calibrationLine({ positives, negatives }: ScoredOutcomes): Line {
  const [p, n] = [positives.length, negatives.length];
  if (p === 0 || n === 0) return NO_LINE;
  // If a score separates the classes, the likelihood has no maximum.
  if (negatives[n - 1]! <= positives[0]! || positives[p - 1]! <= negatives[0]!) return NO_LINE;
  const ones = positives.map(logOdds);
  const zeros = negatives.map(logOdds);
  let at = { intercept: Math.log(p / n), slope: 0 };
  let best = likelihood(ones, zeros, at);
  for (let steps = 0; steps < MAX_STEPS; steps++) {
    const move = best.step();
    if (move === null) return NO_LINE;
    for (let part = 1; ; part /= 2) {
      const next = { intercept: at.intercept + part * move.intercept, slope: at.slope + part * move.slope };
      const size = part * (Math.abs(move.intercept) + Math.abs(move.slope));
      const reached = likelihood(ones, zeros, next);
      const converged = size < CONVERGED * (1 + Math.abs(next.intercept) + Math.abs(next.slope));
      if (converged) return next;
      if (reached.value >= best.value) {
        [at, best] = [next, reached];
        break;
      }
    }
  }
  return NO_LINE;
}

function logOdds(probability: number): number {
  const p = Math.min(1 - CLIP, Math.max(CLIP, probability));
  return Math.log(p / (1 - p));
}

function likelihood(ones: Float64Array, zeros: Float64Array, at: { intercept: number; slope: number }): Likelihood {
  const sums = new Likelihood();
  for (const x of ones) sums.add(x, 1, at.intercept + at.slope * x);
  for (const x of zeros) sums.add(x, 0, at.intercept + at.slope * x);
  return sums;
}

/** The log-likelihood of a line with its first and second derivatives. */
class Likelihood {
  readonly #value = new ExactSum();
  readonly #g0 = new ExactSum();
  readonly #g1 = new ExactSum();
  #h00 = 0;
  #h01 = 0;
  #h11 = 0;

  get value(): number {
    return this.#value.value;
  }

  /** Adds an outcome. `eta`: the log-odds according to the line. */
  add(x: number, outcome: 0 | 1, eta: number): void {
    const small = Math.exp(-Math.abs(eta));
    const p = eta >= 0 ? 1 / (1 + small) : small / (1 + small);
    const w = p * (1 - p);
    this.#value.add((outcome === 1 ? Math.min(eta, 0) : Math.min(-eta, 0)) - Math.log1p(small));
    this.#g0.add(outcome - p);
    this.#g1.add((outcome - p) * x);
    this.#h00 += w;
    this.#h01 += w * x;
    this.#h11 += w * x * x;
  }

  /** Newton's step; null: the second derivatives cannot be inverted. */
  step(): { intercept: number; slope: number } | null {
    const determinant = this.#h00 * this.#h11 - this.#h01 * this.#h01;
    // All scores are equal, and the determinant is only rounding error.
    if (!(determinant > this.#h00 * this.#h11 * 1e-13)) return null;
    const [g0, g1] = [this.#g0.value, this.#g1.value];
    return {
      intercept: (this.#h11 * g0 - this.#h01 * g1) / determinant,
      slope: (this.#h00 * g1 - this.#h01 * g0) / determinant,
    };
  }
}
