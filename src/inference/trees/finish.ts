// Converts sums to scores exactly like ONNX Runtime (base values, averages, post-transforms, the second class) or like
// the training libraries. Source: onnxruntime/core/providers/cpu/ml/tree_ensemble_aggregator.h and ml_common.h.
import type { BoosterFinish, BoosterLink, Ensemble } from './ensemble.ts';
import { expf, logistic, logisticOfMagnitude, probit } from './float.ts';
import { Unsupported } from './unsupported.ts';

/** Writes `targets` scores for each of `rows` rows. The sums have `stride` entries per target. */
type Finish = (
  sums: Float32Array | Float64Array,
  stride: number,
  rows: number,
  out: Float32Array | Float64Array,
) => void;

type PostTransform = (values: Float64Array) => void;
const f = Math.fround;

function softmax(values: Float64Array): void {
  let top = -3.4028234663852886e38;
  for (const v of values) if (f(v) > top) top = f(v);
  let sum = 0;
  for (let i = 0; i < values.length; i++) {
    values[i] = expf(f(f(values[i]!) - top));
    sum = f(sum + values[i]!);
  }
  for (let i = 0; i < values.length; i++) values[i] = f(values[i]! / sum);
}

/** ONNX Runtime's SOFTMAX_ZERO: values near zero stay near zero and do not contribute to the sum. */
function softmaxZero(values: Float64Array, round: (x: number) => number): void {
  let top = -3.4028234663852886e38;
  for (const v of values) if (f(v) > top) top = f(v);
  const scale = expf(-top);
  let sum = 0;
  for (let i = 0; i < values.length; i++) {
    const v = f(values[i]!);
    if (v > f(1e-7) || v < -f(1e-7)) {
      values[i] = expf(f(v - top));
      sum = f(sum + values[i]!);
    } else values[i] = round(values[i]! * scale);
  }
  for (let i = 0; i < values.length; i++) values[i] = round(values[i]! / sum);
}

/** The post-transform for two or more values. */
function postTransform(e: Finishing): PostTransform {
  const round = e.double ? (x: number): number => x : f;
  switch (e.postTransform) {
    case 'NONE':
      return () => {};
    case 'LOGISTIC':
      return (values) => {
        for (let i = 0; i < values.length; i++) values[i] = logistic(f(values[i]!));
      };
    case 'PROBIT':
      return (values) => {
        for (let i = 0; i < values.length; i++) values[i] = probit(f(values[i]!));
      };
    case 'SOFTMAX':
      return softmax;
    case 'SOFTMAX_ZERO':
      return (values) => softmaxZero(values, round);
  }
}

/**
 * For each target, whether every row has a weight for it. ONNX Runtime treats a target without any weight as absent.
 * @throws Unsupported if that depends on the row and affects the scores
 */
function weighted(e: Ensemble, leavesOf: readonly (readonly number[])[]): boolean[] {
  const always = new Array<boolean>(e.targets).fill(false);
  const ever = new Array<boolean>(e.targets).fill(false);
  const counts = new Int32Array(e.targets);
  for (const leaves of leavesOf) {
    counts.fill(0);
    for (const leaf of leaves) {
      const first = e.weightFirst[leaf]!;
      for (let w = first; w < first + e.weightCount[leaf]!; w++) counts[e.weightTarget[w]!]!++;
    }
    for (let t = 0; t < e.targets; t++) {
      always[t] ||= counts[t] === leaves.length;
      ever[t] ||= counts[t]! > 0;
    }
  }
  if (always.some((a, t) => a !== ever[t])) throw new Unsupported('some leaves have no weight for a target');
  return always;
}

/** Everything on which the conversion from sums to scores depends, as plain data. */
export interface Finishing
  extends Pick<
    Ensemble,
    'kind' | 'booster' | 'double' | 'targets' | 'aggregate' | 'postTransform' | 'base' | 'allPositive' | 'named'
  > {
  trees: number;
  /** Whether each target has weights. */
  has: readonly boolean[];
}

/**
 * @param leavesOf the leaves of every tree, as nodes of the ensemble
 * @throws Unsupported
 */
export function finishing(e: Ensemble, leavesOf: readonly (readonly number[])[]): Finishing {
  const { kind, double, targets, aggregate, postTransform, base, allPositive, named } = e;
  const trees = leavesOf.length;
  const all = { kind, double, targets, aggregate, postTransform, base: [...base], allPositive, named, trees };
  if (e.booster) return { ...all, booster: e.booster, has: [] };
  return { ...all, has: weighted(e, leavesOf) };
}

/** @throws Unsupported */
export function finisher(e: Finishing): Finish {
  const { has } = e;
  if (e.booster) return boosterFinisher(e, e.booster);
  if (e.targets === 1) return single(e, has[0]!);
  if (e.kind === 'classifier' && e.targets === 2 && !has[1] && e.base.length < 2) return binary(e);
  const n = e.trees;
  const round = e.double ? (x: number): number => x : f;
  const base = baseOf(e, has);
  const transform = postTransform(e);
  const values = new Float64Array(e.targets);
  const mirrored = e.kind === 'classifier' && e.targets === 2 && has[1]! && e.base.length === 2;
  // Classes with a base value are present even if they have no weight.
  const there = has.map((h, t) => h || (e.kind === 'classifier' && e.targets > 2 && t < e.base.length));
  return (sums, stride, rows, out) => {
    for (let r = 0; r < rows; r++) {
      for (let t = 0; t < e.targets; t++) {
        let v = has[t] ? sums[t * stride + r]! : 0;
        if (e.aggregate === 'AVERAGE') v = round(v / n);
        values[t] = there[t] ? round(v + base[t]!) : 0;
      }
      if (mirrored) {
        values[1] = round(e.base[1]! + (has[0] ? sums[r]! : 0));
        values[0] = has[0] ? -values[1] : 0;
      }
      transform(values);
      for (let t = 0; t < e.targets; t++) out[r * e.targets + t] = values[t]!;
    }
  };
}

/**
 * Base value of every target. A classifier with many classes adds as many base values as there are; other models add
 * all or none.
 */
function baseOf(e: Finishing, has: readonly boolean[]): number[] {
  const base = new Array<number>(e.targets).fill(0);
  const all = e.base.length === e.targets;
  const some = e.kind === 'classifier' && (e.targets > 2 || (e.targets === 2 && has[1] === true));
  if (all || some) for (const [i, b] of e.base.entries()) base[i] = b;
  return base;
}

/** Finishes models with a single target. Of the post-transforms, only PROBIT is applied. */
function single(e: Finishing, has: boolean): Finish {
  if (e.kind === 'classifier' || !has) throw new Unsupported('a classifier of one class');
  const round = e.double ? (x: number): number => x : f;
  const base = e.base[0] ?? 0;
  return (sums, _, rows, out) => {
    for (let r = 0; r < rows; r++) {
      let v = sums[r]!;
      if (e.aggregate === 'AVERAGE') v = round(v / e.trees);
      v = round(v + base);
      out[r] = e.postTransform === 'PROBIT' ? probit(f(v)) : v;
    }
  };
}

/**
 * Finishes models with two classes in which all weights belong to the first target. The sum is the score of the second
 * class.
 */
function binary(e: Finishing): Finish {
  if (e.postTransform === 'PROBIT' || e.named !== 1) throw new Unsupported('two classes in an unusual form');
  const round = e.double ? (x: number): number => x : f;
  const base = e.base[0] ?? 0;
  // Without negative weights and without a transform, the sum is a probability.
  if (e.allPositive && e.postTransform !== 'LOGISTIC') {
    return (sums, _, rows, out) => {
      for (let r = 0; r < rows; r++) {
        const v = round(sums[r]! + base);
        out[r * 2] = round(1 - v);
        out[r * 2 + 1] = v;
      }
    };
  }
  if (e.postTransform === 'LOGISTIC') {
    return (sums, _, rows, out) => {
      for (let r = 0; r < rows; r++) {
        const v = f(round(sums[r]! + base));
        // logistic(-v) and logistic(v) use the same exponential.
        const larger = logisticOfMagnitude(v);
        out[r * 2] = v > 0 ? 1 - larger : larger;
        out[r * 2 + 1] = v < 0 ? 1 - larger : larger;
      }
    };
  }
  return (sums, _, rows, out) => {
    for (let r = 0; r < rows; r++) {
      const v = round(sums[r]! + base);
      out[r * 2] = -v;
      out[r * 2 + 1] = v;
    }
  };
}

/** Predictions of a training library, computed in the precision of the library. */
function boosterFinisher({ targets, base, double }: Finishing, finish: BoosterFinish): Finish {
  const { baseFirst, divisor, scale } = finish;
  const round = double ? (x: number): number => x : f;
  const values = new Float64Array(targets);
  const link = boosterLink(finish, double);
  const plain = divisor === 1 && scale === 1;
  return (sums, stride, rows, out) => {
    for (let r = 0; r < rows; r++) {
      for (let t = 0; t < targets; t++) {
        let v = sums[t * stride + r]!;
        if (!plain) v = round(round(v / divisor) * scale);
        values[t] = baseFirst ? v : round(v + (base[t] ?? 0));
      }
      link(values);
      for (let t = 0; t < targets; t++) out[r * targets + t] = values[t]!;
    }
  };
}

/** Converts the sums of one row to predictions in place. */
export function boosterLink({ link, slope }: Pick<BoosterFinish, 'link' | 'slope'>, double: boolean): PostTransform {
  const each =
    (convert: (x: number) => number): PostTransform =>
    (values) => {
      for (let i = 0; i < values.length; i++) values[i] = convert(values[i]!);
    };
  const links: Record<BoosterLink, () => PostTransform> = {
    identity: () => () => {},
    logistic: () => (double ? each((x) => 1 / (1 + Math.exp(-slope * x))) : each(logisticOfFloat)),
    softmax: () => (double ? softmaxInDouble : softmaxOfFloats),
    exp: () => each(double ? Math.exp : expf),
    log1p_exp: () => each((x) => Math.log1p(Math.exp(x))),
    signed_square: () => each((x) => Math.sign(x) * x * x),
  };
  return links[link]();
}

/** XGBoost's Sigmoid, which limits the argument of the exponential. */
const logisticOfFloat = (x: number): number => f(1 / f(expf(Math.min(-x, f(88.7))) + 1));

function softmaxInDouble(values: Float64Array): void {
  const top = values.reduce((a, b) => Math.max(a, b), -Infinity);
  let sum = 0;
  for (let i = 0; i < values.length; i++) sum += values[i] = Math.exp(values[i]! - top);
  for (let i = 0; i < values.length; i++) values[i]! /= sum;
}

/** XGBoost's Softmax: the exponentials are float32, and their sum is double. */
function softmaxOfFloats(values: Float64Array): void {
  const top = values.reduce((a, b) => Math.max(a, b), -Infinity);
  let sum = 0;
  for (let i = 0; i < values.length; i++) sum += values[i] = expf(f(values[i]! - top));
  for (let i = 0; i < values.length; i++) values[i] = f(values[i]! / f(sum));
}
