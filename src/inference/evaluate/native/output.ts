// Computes the served output from the scores of a model, with the arithmetic of MLAS (the math library of ONNX
// Runtime).
import type { OutputStep } from '../../onnx/traced-model.ts';
import { expf } from '../../trees/float.ts';
import { Unsupported } from '../../trees/unsupported.ts';

const f = Math.fround;
/** a·b + c with a single rounding: the product of two float32 numbers is exact in double precision. */
const fma = (a: number, b: number, c: number): number => f(a * b + c);

const [A9, A7, A5, A3, A1] = [
  4.37031012579801e-11, 1.15627324459942e-7, 6.08574864600143e-5, 8.51377133304701e-3, 2.48287947061529e-1,
].map(f) as [number, number, number, number, number];
const [B10, B8, B6, B4, B2, B0] = [
  6.10247389755681e-13, 5.76102136993427e-9, 6.2910678501704e-6, 1.70198817374094e-3, 1.16817656904453e-1,
  9.9315192102318e-1,
].map(f) as [number, number, number, number, number, number];

/**
 * 1 / (1 + e^-x), as MlasComputeLogistic computes it on processors with fused multiply-add: a rational function with an
 * error below 2e-7. Source: onnxruntime/core/mlas/lib/logistic.cpp.
 */
export function mlasLogistic(x: number): number {
  const v = x < -18 ? -18 : x > 18 ? 18 : x;
  const s = f(v * v);
  let p = fma(s, A9, A7);
  p = fma(p, s, A5);
  p = fma(p, s, A3);
  p = fma(p, s, A1);
  p = f(p * v);
  let q = fma(s, B10, B8);
  q = fma(q, s, B6);
  q = fma(q, s, B4);
  q = fma(q, s, B2);
  q = fma(q, s, B0);
  const y = f(f(p / q) + 0.5);
  return y < 0 ? 0 : y > 1 ? 1 : y;
}

type Values = Float32Array | Float64Array;
/** Modifies `rows` rows of `width` scores in place. */
type Apply = (values: Values, rows: number) => void;

interface Output {
  /** Number of scores per row after the last step. */
  width: number;
  double: boolean;
  applies: readonly Apply[];
  /** The column that is served; null for all columns. */
  column: number | null;
}

/** @throws Unsupported */
export function outputOf(steps: readonly OutputStep[], width: number, double: boolean): Output {
  const applies: Apply[] = [];
  let column: number | null = null;
  for (const s of steps) {
    if (s.op === 'column') {
      if (column !== null || s.column < 0 || s.column >= width)
        throw new Unsupported('columns of columns after the model');
      column = s.column;
    } else if (s.op === 'cast') {
      if (s.type === 'float32' && double) applies.push((v) => v.forEach((x, i) => { v[i] = Math.fround(x); })); // biome-ignore format: one line a step
      if (s.type === 'float64' && !double) throw new Unsupported('a Cast to double after the model');
    } else if (s.op === 'add' || s.op === 'mul') applies.push(affine(s.op, s.by, width));
    else if (s.op === 'sigmoid') applies.push(sigmoid(double, width));
    else if (column !== null) throw new Unsupported(`${s.op} of one column`);
    else applies.push(s.op === 'softmax' ? softmax(double, width) : l1(width));
  }
  return { width: column === null ? width : 1, double, applies, column };
}

const affine =
  (op: 'add' | 'mul', by: number, width: number): Apply =>
  (values, rows) => {
    for (let i = 0; i < rows * width; i++) values[i] = op === 'add' ? values[i]! + by : values[i]! * by;
  };

export const sigmoid =
  (double: boolean, width: number): Apply =>
  (values, rows) => {
    for (let i = 0; i < rows * width; i++)
      values[i] = double ? 1 / (1 + Math.exp(-values[i]!)) : mlasLogistic(values[i]!);
  };

/**
 * Softmax in the precision of the scores. The last bits can differ from ONNX Runtime, which has its own exponential
 * function.
 */
export const softmax =
  (double: boolean, width: number): Apply =>
  (values, rows) => {
    const exp = double ? Math.exp : (x: number): number => expf(Math.fround(x));
    for (let r = 0; r < rows; r++) {
      const o = r * width;
      let top = -Infinity;
      for (let k = 0; k < width; k++) top = Math.max(top, values[o + k]!);
      let sum = 0;
      for (let k = 0; k < width; k++) {
        values[o + k] = exp(values[o + k]! - top);
        sum = double ? sum + values[o + k]! : Math.fround(sum + values[o + k]!);
      }
      for (let k = 0; k < width; k++) values[o + k] = values[o + k]! / sum;
    }
  };

/** x / Σ|x|. A row of zeros is not changed. */
export const l1 =
  (width: number): Apply =>
  (values, rows) => {
    for (let r = 0; r < rows; r++) {
      const o = r * width;
      let sum = 0;
      for (let k = 0; k < width; k++) {
        sum += Math.abs(values[o + k]!);
        if (values instanceof Float32Array) sum = Math.fround(sum);
      }
      if (sum !== 0) for (let k = 0; k < width; k++) values[o + k] = values[o + k]! / sum;
    }
  };
