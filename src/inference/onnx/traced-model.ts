// A traced model as plain data: features → head → output steps.
import type { Node } from './graph.ts';

// A feature computes a number that enters the model from one column of one graph input.

/** Types of traced values. The arithmetic of a step uses the type of the step. */
export type RealType = 'float32' | 'float64';
export type FeatureType = RealType | 'int64' | 'int32' | 'bool' | 'string';

export type Cell = number | string;

/** One elementwise operation. `type` is the type of its result. */
export type FeatureStep =
  | { op: 'cast'; type: FeatureType }
  /** Replaces the number `replaced` by `value`. NaN is a missing value. */
  | { op: 'impute'; type: FeatureType; replaced: number; value: number }
  /** Replaces one text by another, such as an imputer's marker of missing values. */
  | { op: 'replace'; type: 'string'; from: string; to: string }
  /** (x - offset) * scale, computed like Scaler of ai.onnx.ml. */
  | { op: 'scale'; type: 'float32'; from: FeatureType; offset: number; scale: number }
  /** x ∘ by; with `swapped`, by ∘ x. */
  | { op: 'add' | 'sub' | 'mul' | 'div'; type: FeatureType; by: number; swapped: boolean }
  /** 1 if x equals the category, otherwise 0. */
  | { op: 'equals'; type: FeatureType; category: Cell }
  /** The entry of `table` for x, or `otherwise` if there is none. */
  | { op: 'map'; type: FeatureType; table: ReadonlyMap<Cell, Cell>; otherwise: Cell }
  /** 1 if x > threshold, otherwise 0. */
  | { op: 'binarize'; type: FeatureType; threshold: number }
  | { op: 'isnan' | 'not'; type: 'bool' }
  /** 1 if x < by (`less`) or x > by (`greater`), otherwise 0. */
  | { op: 'less' | 'greater'; type: 'bool'; by: number }
  /**
   * The index of the largest of several functions of x; if several are equal, the first. Always the first step of its
   * feature.
   */
  | { op: 'argmax'; type: 'int64'; of: readonly Feature[] }
  | { op: 'clip'; type: FeatureType; low: number; high: number };

/** A feature of a model: the column of the application that it reads, and the steps that are applied to the value. */
export interface Feature {
  /** Graph input, and column within that input; null if the feature is a constant. */
  readonly source: { readonly input: string; readonly column: number; readonly type: FeatureType } | null;
  readonly steps: readonly FeatureStep[];
  /** Value of the feature if it is a constant. */
  readonly constant: Cell;
  /** Type of the feature's value. */
  readonly type: FeatureType;
}

export const extend = (f: Feature, step: FeatureStep): Feature => ({
  ...f,
  steps: [...f.steps, step],
  type: step.type,
});

/** Rounds to a value of the type. Integers are truncated, as by a cast in C. */
function rounded(x: number, type: FeatureType): number {
  if (type === 'float32') return Math.fround(x);
  if (type === 'float64') return x;
  if (type === 'bool') return x === 0 ? 0 : 1;
  return Math.trunc(x);
}

function arithmetic(op: 'add' | 'sub' | 'mul' | 'div', a: number, b: number): number {
  if (op === 'add') return a + b;
  if (op === 'sub') return a - b;
  return op === 'mul' ? a * b : a / b;
}

/** Applies one step to one value. A numeric category is compared with the truncated number, as in OneHotEncoder. */
export function applyStep(step: FeatureStep, x: Cell): Cell {
  if (step.op === 'equals') {
    return (typeof step.category === 'number' ? Math.trunc(x as number) === step.category : x === step.category)
      ? 1
      : 0;
  }
  if (step.op === 'replace') return x === step.from ? step.to : x;
  if (step.op === 'map') return step.table.get(x) ?? step.otherwise;
  const n = x as number;
  switch (step.op) {
    case 'cast':
      return step.type === 'string' ? x : rounded(n, step.type);
    case 'impute':
      return n === step.replaced || (Number.isNaN(n) && Number.isNaN(step.replaced)) ? step.value : n;
    case 'scale': {
      const round = step.from === 'float64' ? (v: number) => v : Math.fround;
      return Math.fround(round(round(n) - step.offset) * step.scale);
    }
    case 'binarize':
      return n > step.threshold ? 1 : 0;
    case 'isnan':
      return Number.isNaN(n) ? 1 : 0;
    case 'not':
      return n === 0 ? 1 : 0;
    case 'less':
      return n < step.by ? 1 : 0;
    case 'greater':
      return n > step.by ? 1 : 0;
    case 'argmax': {
      const values = step.of.map((f) => evaluateFeature(f, x) as number);
      return values.reduce((best, v, i) => (v > values[best]! ? i : best), 0);
    }
    case 'clip':
      return Number.isNaN(n) ? n : Math.min(step.high, Math.max(step.low, n));
    default:
      return rounded(step.swapped ? arithmetic(step.op, step.by, n) : arithmetic(step.op, n, step.by), step.type);
  }
}

/** The value of a feature for one value of its source column. */
export function evaluateFeature(f: Feature, x: Cell): Cell {
  if (f.source === null) return f.constant;
  for (const s of f.steps) x = applyStep(s, x);
  return x;
}

/** Steps from the model's scores to the output. */
export type OutputStep =
  | { op: 'sigmoid' | 'softmax' | 'l1'; type: RealType }
  | { op: 'column'; column: number }
  | { op: 'add' | 'mul'; by: number; type: RealType }
  | { op: 'cast'; type: RealType };

export interface LinearHead {
  kind: 'linear';
  /** One coefficient per target and feature, in row-major order: a row per target. */
  coefficients: readonly number[];
  intercepts: readonly number[];
  targets: number;
  type: RealType;
  /**
   * Whether the head is a LinearClassifier with one row of coefficients for two classes. A second column of scores is
   * then added.
   */
  secondClass: boolean;
  postTransform: string;
}
interface TreesHead {
  kind: 'trees';
  node: Node;
}

/** A complete traced model: features → head → output steps. */
export interface Trace {
  /** `features[j]` is feature j of the head. */
  features: readonly Feature[];
  /** Type of the features when they reach the head. */
  type: FeatureType;
  head: TreesHead | LinearHead;
  /** Output steps, in the order in which they are applied. */
  output: readonly OutputStep[];
}
