// From encoded inputs to the numbers and category states of feature programs, a column at a time.
import type { EncodedInput } from '../../model/encoder.ts';
import { applyStep, type Cell, type Feature, type Step } from '../../onnx/feature.ts';
import { Unsupported } from '../../trees/grow.ts';
import type { CategorySlot } from '../../trees/slots.ts';

/** What the native evaluator knows about an input before it sees one. */
export interface InputShape {
  readonly name: string;
  readonly type: EncodedInput['type'];
  readonly width: number;
}

/** Copies rows from..to-1 of its column to wherever it was made to write. */
export type Fill = (inputs: readonly EncodedInput[], from: number, to: number) => void;

/** Number of a source's input among the inputs. @throws Unsupported where the trace and the package disagree */
export function inputOf(
  shapes: readonly InputShape[],
  source: { input: string; column: number; type: string },
): number {
  const at = shapes.findIndex((s) => s.name === source.input);
  const shape = shapes[at];
  if (!shape || shape.type !== source.type || source.column >= shape.width) {
    throw new Unsupported(`input ${source.input} is not as the package says`);
  }
  return at;
}

/**
 * Steps as one function of a number. The common ones are a closure each; a list of general steps goes through the
 * interpreter of feature programs.
 */
function compose(steps: readonly Step[]): ((x: number) => number) | null {
  if (steps.length === 0) return null;
  const [first, second] = steps;
  if (
    steps.length === 2 &&
    first?.op === 'impute' &&
    Number.isNaN(first.replaced) &&
    second?.op === 'scale' &&
    second.from === 'float32'
  ) {
    const { value } = first;
    const { offset, scale } = second;
    return (x) => Math.fround(Math.fround((Number.isNaN(x) ? value : x) - offset) * scale);
  }
  if (steps.length === 1 && first?.op === 'impute' && Number.isNaN(first.replaced)) {
    const { value } = first;
    return (x) => (Number.isNaN(x) ? value : x);
  }
  return (x) => {
    let cell: Cell = x;
    for (const s of steps) cell = applyStep(s, cell);
    return cell as number;
  };
}

/** Steps that change no number of their input's type. */
const effective = (f: Feature): readonly Step[] =>
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
  const run = compose(effective(f));
  if (type === 'int64') {
    return (inputs, from, to) => {
      const data = inputs[at]!.data as BigInt64Array;
      for (let r = from; r < to; r++) {
        const x = Number(data[r * width + column]!);
        out[r - from] = run ? run(x) : x;
      }
    };
  }
  return (inputs, from, to) => {
    const data = inputs[at]!.data as Float32Array;
    if (run) for (let r = from, p = from * width + column; r < to; r++, p += width) out[r - from] = run(data[p]!);
    else for (let r = from, p = from * width + column; r < to; r++, p += width) out[r - from] = data[p]!;
  };
}

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
  const { width } = shapes[at]!;
  if (slot.states > 65_535) throw new Unsupported('too many categories');
  const { categories, before } = slot;
  if (!slot.whole) {
    return (inputs, from, to) => {
      const data = inputs[at]!.data as string[];
      for (let r = from, o = offset; r < to; r++, o += stride) out[o] = categories.get(data[r * width + column]!) ?? 0;
    };
  }
  return (inputs, from, to) => {
    const { data } = inputs[at]!;
    for (let r = from, o = offset; r < to; r++, o += stride) {
      let x: Cell = Number(data[r * width + column]);
      for (const s of before) x = applyStep(s, x);
      out[o] = categories.get(Math.trunc(x as number)) ?? 0;
    }
  };
}
