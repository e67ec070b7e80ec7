// Reads encoded inputs as numbers and category states of features, column by column. Defines the interface of the heads
// that use the features.
import type { EncodedInput } from '../../encode/encoder.ts';
import { applyStep, type Cell, type Feature, type FeatureStep } from '../../onnx/traced-model.ts';
import type { CategorySlot, Slot } from '../../trees/slots.ts';
import { Unsupported } from '../../trees/unsupported.ts';

/** Shape of an input, which the native evaluator must know in advance. */
export interface InputShape {
  readonly name: string;
  readonly type: EncodedInput['type'];
  readonly width: number;
}

/** Copies rows `from` to `to - 1` of a column to its destination. */
export type Fill = (inputs: readonly EncodedInput[], from: number, to: number) => void;

/** Index of the input that a source reads. @throws Unsupported if trace and package disagree */
export function inputOf(
  shapes: readonly InputShape[],
  source: { input: string; column: number; type: string },
): number {
  const at = shapes.findIndex((s) => s.name === source.input);
  const shape = shapes[at];
  if (!shape || shape.type !== source.type || source.column >= shape.width) {
    throw new Unsupported(`input ${source.input} does not match the package`);
  }
  return at;
}

/** Composes the steps into one function of a number. */
const compose =
  (steps: readonly FeatureStep[]): ((x: number) => number) =>
  (x) => {
    let cell: Cell = x;
    for (const s of steps) cell = applyStep(s, cell);
    return cell as number;
  };

/** The steps of a feature, without steps that never change a value of their input type. */
const effective = (f: Feature): readonly FeatureStep[] =>
  f.steps.filter((s, i) => {
    const before = i === 0 ? f.source!.type : f.steps[i - 1]!.type;
    return !(
      s.op === 'cast' &&
      (s.type === before || (s.type === 'float64' && before === 'float32') || before === 'bool')
    );
  });

/**
 * Whether the column can be used directly: it has no steps, or its only step is the imputation of NaN. Returns the
 * imputed value (null without imputation), or `undefined` if the feature has other steps.
 */
export function plain(f: Feature): { imputed: number | null } | undefined {
  const steps = effective(f);
  if (steps.length === 0) return { imputed: null };
  const [only] = steps;
  if (steps.length === 1 && only!.op === 'impute' && Number.isNaN(only!.replaced) && !Number.isNaN(only!.value)) {
    return { imputed: only!.value };
  }
  return undefined;
}

/** Writes the values of a numeric feature to `out`. @throws Unsupported */
export function numberFill(f: Feature, shapes: readonly InputShape[], out: Float32Array | Float64Array): Fill {
  if (f.source === null) throw new Unsupported('a feature is a constant');
  const at = inputOf(shapes, f.source);
  const { column } = f.source;
  const { width, type } = shapes[at]!;
  if (type === 'string') throw new Unsupported('text enters the model without an encoder');
  const steps = effective(f);
  const run = compose(steps);
  if (type === 'int64') {
    return (inputs, from, to) => {
      const data = inputs[at]!.data as BigInt64Array;
      for (let r = from; r < to; r++) out[r - from] = run(Number(data[r * width + column]!));
    };
  }
  // Common combinations of steps have their own loops, because a function call per value would cost more than the
  // arithmetic.
  const [first, second] = steps;
  const value = first?.op === 'impute' && Number.isNaN(first.replaced) ? first.value : null;
  if (steps.length === 0) {
    return (inputs, from, to) => {
      const data = inputs[at]!.data as Float32Array;
      for (let r = from, p = from * width + column; r < to; r++, p += width) out[r - from] = data[p]!;
    };
  }
  if (steps.length === 1 && value !== null) {
    return (inputs, from, to) => {
      const data = inputs[at]!.data as Float32Array;
      for (let r = from, p = from * width + column; r < to; r++, p += width) {
        const x = data[p]!;
        out[r - from] = Number.isNaN(x) ? value : x;
      }
    };
  }
  if (steps.length === 2 && value !== null && second?.op === 'scale' && second.from === 'float32') {
    const { offset, scale } = second;
    return (inputs, from, to) => {
      const data = inputs[at]!.data as Float32Array;
      for (let r = from, p = from * width + column; r < to; r++, p += width) {
        const x = data[p]!;
        out[r - from] = Math.fround(Math.fround((Number.isNaN(x) ? value : x) - offset) * scale);
      }
    };
  }
  return (inputs, from, to) => {
    const data = inputs[at]!.data as Float32Array;
    for (let r = from, p = from * width + column; r < to; r++, p += width) out[r - from] = run(data[p]!);
  };
}

/** Maximum size of the table that maps integers, from 0 on, to states. */
const MAX_TABLE = 65_536;

/**
 * Writes the states of a category slot to `out`, starting at `offset`, with `stride` entries between two rows.
 * @throws Unsupported
 */
export function stateFill(
  slot: CategorySlot,
  shapes: readonly InputShape[],
  out: Uint16Array,
  offset: number,
  stride: number,
): Fill {
  const at = inputOf(shapes, slot.source);
  const { column } = slot.source;
  const { width, type } = shapes[at]!;
  if (slot.states > 65_535) throw new Unsupported('too many categories');
  const { categories, before } = slot;
  if (!slot.whole) {
    return (inputs, from, to) => {
      const data = inputs[at]!.data as string[];
      for (let r = from, o = offset; r < to; r++, o += stride) out[o] = categories.get(data[r * width + column]!) ?? 0;
    };
  }
  const general = (x: number): number => {
    let cell: Cell = x;
    for (const s of before) cell = applyStep(s, cell);
    return categories.get(Math.trunc(cell as number)) ?? 0;
  };
  const largest = [...categories.keys()].reduce((m: number, c) => Math.max(m, c as number), 0);
  const table = Uint16Array.from({ length: Math.min(MAX_TABLE, largest + 2) }, (_, x) => general(x));
  const ofNaN = general(Number.NaN);
  const stateOf = (x: number): number => {
    const i = x | 0;
    if (i === x && i > 0 && i < table.length) return table[i]!;
    // -0 is not looked up in the table, because a step may depend on the sign of zero.
    if (Object.is(x, 0)) return table[0]!;
    return Number.isNaN(x) ? ofNaN : general(x);
  };
  if (type === 'int64') {
    return (inputs, from, to) => {
      const data = inputs[at]!.data as BigInt64Array;
      for (let r = from, o = offset; r < to; r++, o += stride) out[o] = stateOf(Number(data[r * width + column]!));
    };
  }
  return (inputs, from, to) => {
    const data = inputs[at]!.data as Float32Array;
    for (let r = from, o = offset; r < to; r++, o += stride) out[o] = stateOf(data[r * width + column]!);
  };
}

// A head (trees or a linear model) computes scores from features.

/** Maximum number of rows in a micro-batch. More rows are scored in several micro-batches. */
export const CAPACITY = 512;

export interface Head {
  /** Number of scores per row. */
  readonly width: number;
  /** Whether scores have double precision. */
  readonly double: boolean;
  /** Maximum number of rows in a micro-batch. */
  readonly capacity: number;
  /** Features that the model reads. The comparison rows use their thresholds and categories. */
  readonly slots: readonly Slot[];
  /** Description of the model for reports. */
  readonly description: string;
  /** Scores rows `from` to `to - 1` into `out`, from index 0 on. The number of rows must be from 1 to `capacity`. */
  score(inputs: readonly EncodedInput[], from: number, to: number, out: Float32Array | Float64Array): void;
}
