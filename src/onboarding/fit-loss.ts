// Measures per row how well predictions fit outcomes, after a calibration line was fitted.
// So models that were trained on reweighted or resampled classes are comparable with calibrated models.

/**
 * Predictions that are compared with outcomes, rows × width: the probability of the positive class, the probability of
 * each class, or the value.
 */
export interface Predictions {
  readonly values: Float64Array;
  readonly width: number;
}

/** Probabilities are clipped to [CLIP, 1 - CLIP]. */
const CLIP = 1e-6;
const STEPS = 25;
/**
 * Weight, in rows, of a prior that pulls the slope to 1. It is needed because perfectly separated classes have no best
 * line.
 */
const PRIOR = 1;

/**
 * The loss of every row. binary: log loss. multiclass: sum over the classes of the log loss of the class against all
 * other classes. regression: squared residual relative to the variance of the outcome. The calibration line of
 * probabilities never decreases, so inverted probabilities are treated as uninformative.
 */
export function fitLosses(
  task: 'binary' | 'multiclass' | 'regression',
  predicted: Predictions,
  truth: Float64Array,
): Float64Array {
  if (task === 'regression') return squaredLosses(predicted.values, truth);
  if (predicted.width === 1) return logLosses(predicted.values, truth);
  const sums = new Float64Array(truth.length);
  for (let c = 0; c < predicted.width; c++) {
    const own = Float64Array.from(truth, (_, r) => predicted.values[r * predicted.width + c]!);
    const losses = logLosses(own, isOfClass(predicted.width, truth, c));
    for (let r = 0; r < sums.length; r++) sums[r]! += losses[r]!;
  }
  return sums;
}

/** 1 for each row whose outcome is class c of `width` classes. If `width` is 1, the outcome itself. */
export const isOfClass = (width: number, truth: Float64Array, c: number): Float64Array =>
  width === 1 ? truth : truth.map((t) => Number(t === c));

/** Mean loss of the best constant prediction, which depends only on the frequencies of the outcomes. */
export function constantLoss(task: 'binary' | 'multiclass' | 'regression', truth: Float64Array): number {
  if (task === 'regression') return 1;
  const shares = [...Map.groupBy(truth, (t) => t).values()].map((rows) => rows.length / truth.length);
  const entropy = (q: number) => -q * Math.log(q) - (1 - q) * Math.log(1 - q);
  return task === 'binary' ? entropy(shares[0]!) : shares.reduce((sum, q) => sum + entropy(q), 0);
}

export const logOddsOf = (p: number): number => {
  const clipped = Math.min(1 - CLIP, Math.max(CLIP, p));
  return Math.log(clipped / (1 - clipped));
};

function logLosses(p: Float64Array, y: Float64Array): Float64Array {
  const x = p.map(logOddsOf);
  const { intercept, slope } = logisticLine(x, y);
  return x.map((v, r) => {
    const eta = intercept + slope * v;
    return softplus(y[r] === 1 ? -eta : eta);
  });
}

/** log(1 + e^v). */
const softplus = (v: number): number => Math.max(v, 0) + Math.log1p(Math.exp(-Math.abs(v)));

interface Line {
  readonly intercept: number;
  readonly slope: number;
}

/** The line of a logistic regression of y on x, computed by Newton's method. Its slope is 0 if it would be negative. */
export function logisticLine(x: Float64Array, y: Float64Array): Line {
  const share = y.reduce((a, b) => a + b, 0) / y.length;
  const level: Line = { intercept: logOddsOf(share), slope: 0 };
  let at: Line = { intercept: 0, slope: 1 };
  let best = penalized(x, y, at);
  for (let step = 0; step < STEPS; step++) {
    const move = newtonStep(x, y, at);
    let part = 1;
    let next = at;
    let loss = best;
    for (; part > 1e-4; part /= 2) {
      next = { intercept: at.intercept + part * move.intercept, slope: at.slope + part * move.slope };
      loss = penalized(x, y, next);
      if (loss <= best) break;
    }
    if (!(best - loss > 1e-9 * y.length)) break;
    [at, best] = [next, loss];
  }
  return at.slope > 0 && Number.isFinite(best) ? at : level;
}

function penalized(x: Float64Array, y: Float64Array, { intercept, slope }: Line): number {
  let sum = (PRIOR / 2) * (slope - 1) ** 2;
  for (let r = 0; r < x.length; r++) {
    const eta = intercept + slope * x[r]!;
    sum += softplus(y[r] === 1 ? -eta : eta);
  }
  return sum;
}

function newtonStep(x: Float64Array, y: Float64Array, { intercept, slope }: Line): Line {
  let [g0, g1, h00, h01, h11] = [0, -PRIOR * (slope - 1), 1e-9, 0, PRIOR];
  for (let r = 0; r < x.length; r++) {
    const v = x[r]!;
    const p = 1 / (1 + Math.exp(-intercept - slope * v));
    const w = p * (1 - p);
    g0 += y[r]! - p;
    g1 += (y[r]! - p) * v;
    h00 += w;
    h01 += w * v;
    h11 += w * v * v;
  }
  const determinant = h00 * h11 - h01 * h01;
  return { intercept: (h11 * g0 - h01 * g1) / determinant, slope: (h00 * g1 - h01 * g0) / determinant };
}

function squaredLosses(x: Float64Array, y: Float64Array): Float64Array {
  const n = x.length;
  const mean = (v: Float64Array) => v.reduce((a, b) => a + b, 0) / n;
  const [mx, my] = [mean(x), mean(y)];
  let [xx, xy, yy] = [0, 0, 0];
  for (let r = 0; r < n; r++) {
    xx += (x[r]! - mx) ** 2;
    xy += (x[r]! - mx) * (y[r]! - my);
    yy += (y[r]! - my) ** 2;
  }
  const slope = xx > 0 ? xy / xx : 0;
  return x.map((v, r) => ((y[r]! - my - slope * (v - mx)) ** 2 * n) / yy);
}

/** The differences between two losses, row by row. */
export interface PairedGain {
  readonly mean: number;
  /** The mean divided by its standard error; 0 if the losses are equal. */
  readonly z: number;
}

export function pairedGain(given: Float64Array, other: Float64Array): PairedGain {
  const n = given.length;
  let sum = 0;
  for (let r = 0; r < n; r++) sum += given[r]! - other[r]!;
  const mean = sum / n;
  let squares = 0;
  for (let r = 0; r < n; r++) squares += (given[r]! - other[r]! - mean) ** 2;
  const error = Math.sqrt(squares / n / n);
  return { mean, z: error > 0 ? mean / error : 0 };
}
