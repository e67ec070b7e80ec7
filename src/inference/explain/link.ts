// The link from a model's inner sums to its outputs. The link is found by comparing sums and outputs on the background,
// not derived from operator names.
import type { Scores } from '../evaluate/evaluator.ts';
import type { Interpreter } from '../evaluate/prediction.ts';
import { NotExplainable, type Space } from './explainer.ts';
import { logisticOf } from './logistic-games.ts';

/** Output o of the model is `link(Σ coefficients[o][t] · sum t + offset[o])`. Softmax uses all outputs together. */
export interface Link {
  space: Space;
  kind: 'logistic' | 'identity' | 'softmax';
  outputs: number;
  coefficients: readonly (readonly number[])[];
  offset: readonly number[];
}

/** Tolerance for rounding errors in float32 sums of some hundred trees; relative for values above 1. */
export const ANSWER_TOLERANCE = 1e-5;

/** The model's outputs: the probability of the positive class, the probability of each class, or the value. */
export function answersOf(interpreter: Interpreter, scores: Scores, r: number, out: Float64Array): void {
  if (interpreter.task === 'multiclass')
    for (let c = 0; c < out.length; c++) out[c] = scores.values[r * scores.width + c]!;
  else out[0] = interpreter.task === 'binary' ? interpreter.probability(scores, r) : interpreter.value(scores, r);
}

/** The outputs for given margins. */
export function applyLink(
  kind: Link['kind'],
  margins: Float64Array,
  at: number,
  outputs: number,
  out: Float64Array,
): void {
  if (kind === 'softmax') {
    let top = -Infinity;
    for (let o = 0; o < outputs; o++) top = Math.max(top, margins[at + o]!);
    let sum = 0;
    for (let o = 0; o < outputs; o++) sum += out[o] = Math.exp(margins[at + o]! - top);
    for (let o = 0; o < outputs; o++) out[o]! /= sum;
  } else
    for (let o = 0; o < outputs; o++) out[o] = kind === 'logistic' ? logisticOf(margins[at + o]!) : margins[at + o]!;
}

/** Largest difference between two lists of outputs; relative for values above 1. */
export function distance(a: Float64Array, b: Float64Array): number {
  let worst = 0;
  for (let o = 0; o < a.length; o++) {
    const d = Math.abs(a[o]! - b[o]!) / Math.max(1, Math.abs(b[o]!));
    if (!(d <= worst)) worst = d;
  }
  return worst;
}

export type LinkFinder = (
  interpreter: Interpreter,
  sums: readonly Float64Array[],
  answers: readonly Float64Array[],
) => Link;

/**
 * Finds the link from rows whose sums and outputs are known.
 * @throws NotExplainable if no link fits
 */
export function findLink(
  interpreter: Interpreter,
  sums: readonly Float64Array[],
  answers: readonly Float64Array[],
): Link {
  const targets = sums[0]!.length;
  const outputs = answers[0]!.length;
  const unit = (t: number, sign = 1): number[] => Array.from({ length: targets }, (_, i) => (i === t ? sign : 0));
  const candidates: Link[] = [];
  const add = (space: Space, kind: Link['kind'], coefficients: number[][], offset: number[]): void => {
    candidates.push({ space, kind, outputs, coefficients, offset });
  };
  if (interpreter.task === 'binary') {
    for (let t = targets - 1; t >= 0; t--) {
      for (const sign of [1, -1]) add('log_odds', 'logistic', [unit(t, sign)], [0]);
      add('probability', 'identity', [unit(t)], [0]);
      add('probability', 'identity', [unit(t, -1)], [1]);
    }
    if (targets === 2) for (const s of [1, -1]) add('log_odds', 'logistic', [[-s, s]], [0]);
    // Sigmoid calibration: the log-odds are a · sum + b.
    const usable = answers.map((_, r) => r).filter((r) => answers[r]![0]! > 0.01 && answers[r]![0]! < 0.99);
    for (let t = targets - 1; t >= 0 && usable.length > 2; t--) {
      const line = lineThrough(
        usable.map((r) => sums[r]![t]!),
        usable.map((r) => Math.log(answers[r]![0]! / (1 - answers[r]![0]!))),
      );
      if (line) add('log_odds', 'logistic', [unit(t, line[0])], [line[1]]);
    }
  } else if (interpreter.task === 'multiclass' && targets === outputs) {
    const each = Array.from({ length: targets }, (_, t) => unit(t));
    add('log_odds', 'softmax', each, new Array<number>(outputs).fill(0));
    add('probability', 'identity', each, new Array<number>(outputs).fill(0));
  } else if (outputs === 1) {
    for (let t = 0; t < targets; t++) {
      add('value', 'identity', [unit(t)], [0]);
      const line = lineThrough(
        sums.map((s) => s[t]!),
        answers.map((a) => a[0]!),
      );
      if (line) add('value', 'identity', [unit(t, line[0])], [line[1]]);
    }
  }
  const margins = new Float64Array(outputs);
  const got = new Float64Array(outputs);
  for (const link of candidates) {
    const fits = sums.every((s, r) => {
      marginsOf(link, s, margins);
      applyLink(link.kind, margins, 0, outputs, got);
      return distance(got, answers[r]!) <= ANSWER_TOLERANCE;
    });
    if (fits) return link;
  }
  throw new NotExplainable('its outputs are not a known function of the sums inside');
}

export function marginsOf(link: Link, sums: Float64Array, out: Float64Array): void {
  link.coefficients.forEach((c, o) => {
    let m = link.offset[o]!;
    for (let t = 0; t < c.length; t++) if (c[t] !== 0) m += c[t]! * sums[t]!;
    out[o] = m;
  });
}

/**
 * The line through the points with the smallest and the largest x. The caller checks whether the line fits the other
 * points.
 */
function lineThrough(x: readonly number[], y: readonly number[]): [number, number] | null {
  const low = x.indexOf(Math.min(...x));
  const high = x.indexOf(Math.max(...x));
  if (x[low] === x[high]) return null;
  const a = (y[high]! - y[low]!) / (x[high]! - x[low]!);
  return Number.isFinite(a) ? [a, y[low]! - a * x[low]!] : null;
}
