// Whether the outcome bears out what a registration has in some place, or only something else would fit better there.
import { isOfClass, logisticLine, logOddsOf, type Predictions } from './fit-loss.ts';

/** Share of a part's information that has to be left beside the predictions as a whole. */
const LITTLE = 0.02;

/**
 * Score test of how much of a part of the given predictions the outcome wants (Rao 1948): the part is what they lose with `without`
 * in their place. In standard errors: below 0 the outcome wants less of it; a model that was trained on it is at 0 or above. null:
 * there is little but the part.
 */
export function borneOut(
  task: 'binary' | 'multiclass' | 'regression',
  given: Predictions,
  without: Predictions,
  truth: Float64Array,
): number | null {
  let [score, information, all] = [0, 0, 0];
  for (let c = 0; c < given.width; c++) {
    const at = ({ values, width }: Predictions) => Float64Array.from(truth, (_, r) => values[r * width + c]!);
    const link = task === 'regression' ? (v: number) => v : logOddsOf;
    const x = at(given).map(link);
    const part = at(without).map((v, r) => x[r]! - link(v));
    const { errors, weights } =
      task === 'regression' ? linearErrors(x, truth) : logisticErrors(x, isOfClass(given.width, truth, c));
    const left = residualOf(part, x, weights);
    for (let r = 0; r < left.length; r++) {
      score += errors[r]! * left[r]!;
      information += weights[r]! * left[r]! ** 2;
      all += weights[r]! * part[r]! ** 2;
    }
  }
  return information > LITTLE * all && information > 0 ? score / Math.sqrt(information) : null;
}

interface Errors {
  readonly errors: Float64Array;
  readonly weights: Float64Array;
}

function logisticErrors(x: Float64Array, y: Float64Array): Errors {
  const { intercept, slope } = logisticLine(x, y);
  const p = x.map((v) => 1 / (1 + Math.exp(-intercept - slope * v)));
  return { errors: p.map((q, r) => y[r]! - q), weights: p.map((q) => q * (1 - q)) };
}

function linearErrors(x: Float64Array, y: Float64Array): Errors {
  const raw = residualOf(y, x, new Float64Array(x.length).fill(1));
  const variance = raw.reduce((a, e) => a + e * e, 0) / raw.length;
  return { errors: raw.map((e) => e / variance), weights: new Float64Array(x.length).fill(1 / variance) };
}

/** What is left of v beside a line in x, weighted. */
function residualOf(v: Float64Array, x: Float64Array, weights: Float64Array): Float64Array {
  let [w, wx, wv] = [0, 0, 0];
  for (let r = 0; r < v.length; r++) {
    w += weights[r]!;
    wx += weights[r]! * x[r]!;
    wv += weights[r]! * v[r]!;
  }
  const [mx, mv] = [wx / w, wv / w];
  let [xx, xv] = [0, 0];
  for (let r = 0; r < v.length; r++) {
    xx += weights[r]! * (x[r]! - mx) ** 2;
    xv += weights[r]! * (x[r]! - mx) * (v[r]! - mv);
  }
  const slope = xx > 0 ? xv / xx : 0;
  return v.map((value, r) => value - mv - slope * (x[r]! - mx));
}
