// Encoded inputs to numbers and category states of feature programs, one column at a time, and the interface of the heads that use them.
import type { EncodedInput } from '../../encode/encoder.ts';
import { applyStep, type Cell, type Feature, type FeatureStep } from '../../onnx/traced-model.ts';
import type { CategorySlot, Slot } from '../../trees/slots.ts';
import { Unsupported } from '../../trees/unsupported.ts';

/** What the native evaluator knows about an input ahead of time. */
export interface InputShape {
  readonly name: string;
  readonly type: EncodedInput['type'];
  readonly width: number;
}

/** Copies rows from..to-1 of its column to its destination. */
export type Fill = (inputs: readonly EncodedInput[], from: number, to: number) => void;

/** Number of a source's input among the inputs. @throws Unsupported where the trace and the package disagree */
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

/** Steps as one function of a number. */
const compose =
  (steps: readonly FeatureStep[]): ((x: number) => number) =>
  (x) => {
    let cell: Cell = x;
    for (const s of steps) cell = applyStep(s, cell);
    return cell as number;
  };

/** Steps that change no number of their input's type. */
const effective = (f: Feature): readonly FeatureStep[] =>
  f.steps.filter((s, i) => {
    const before = i === 0 ? f.source!.type : f.steps[i - 1]!.type;
    return !(
      s.op === 'cast' &&
      (s.type === before || (s.type === 'float64' && before === 'float32') || before === 'bool')
    );
  });

/** Imputation of NaN alone, or nothing: the column can be used as it is. `undefined`: something else happens. */
export function plain(f: Feature): { imputed: number | null } | undefined {
  const steps = effective(f);
  if (steps.length === 0) return { imputed: null };
  const [only] = steps;
  if (steps.length === 1 && only!.op === 'impute' && Number.isNaN(only!.replaced) && !Number.isNaN(only!.value)) {
    return { imputed: only!.value };
  }
  return undefined;
}

/** Writes the values of a numeric feature to `out`, `stride` entries apart. @throws Unsupported */
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
  // The common ones have a loop each: a call a cell would cost more than the arithmetic.
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

/** Whole numbers from 0 whose states are looked up in a table. */
const MAX_TABLE = 65_536;

/** Writes the states of a category slot to `out[offset]`, `stride` entries apart. @throws Unsupported */
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
    // The sign of a zero may matter to a step.
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

// A head scores what the feature programs give: trees or a linear model.

/** Largest micro-batch; more rows are scored in several. */
export const CAPACITY = 512;

export interface Head {
  /** Scores per row. */
  readonly width: number;
  /** Scores are in double precision. */
  readonly double: boolean;
  /** Rows of the largest micro-batch. */
  readonly capacity: number;
  /** What the model asks of its inputs: comparison rows are drawn from the thresholds and categories. */
  readonly slots: readonly Slot[];
  /** For reports. */
  readonly description: string;
  /** Scores rows from..to-1 (at least one, at most `capacity`) into out[0..]. */
  score(inputs: readonly EncodedInput[], from: number, to: number, out: Float32Array | Float64Array): void;
}
