// The steps between a model's scores and the served output, on rows of scores.
import type { OutputStep } from '../../onnx/traced-model.ts';
import { expf } from '../../trees/float.ts';
import { Unsupported } from '../../trees/unsupported.ts';
import { mlasLogistic } from './mlas.ts';

type Values = Float32Array | Float64Array;
/** Changes `rows` rows of `width` scores in place. */
type Apply = (values: Values, rows: number) => void;

export interface Output {
  /** Scores per row after the last step. */
  width: number;
  double: boolean;
  applies: readonly Apply[];
  /** The column that is served, or null for all. */
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

/** Softmax in the arithmetic of the scores; ONNX Runtime's own exponential differs in the last bits. */
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

/** x / Σ|x|; a row of zeros stays as it is. */
const l1 =
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
