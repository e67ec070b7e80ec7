// The native evaluator: opens a compiled model (trees or linear) in this thread, without ONNX Runtime.
import type { EncodedInput } from '../../encode/encoder.ts';
import type { Feature, LinearHead, Trace } from '../../onnx/traced-model.ts';
import { finisher } from '../../trees/finish.ts';
import { TreeMachine } from '../../trees/machine.ts';
import {
  CategoryKeys,
  type CategorySlot,
  categorySlot,
  categoryValues,
  type NumberSlot,
  type Slot,
} from '../../trees/slots.ts';
import { Unsupported } from '../../trees/unsupported.ts';
import type { Evaluator, Scores } from '../evaluator.ts';
import { compositionHead } from './composition-head.ts';
import { CAPACITY, type Fill, type Head, type InputShape, numberFill, stateFill } from './feature-source.ts';
import type { ForestPlan, NativePlan } from './native-plan.ts';
import { outputOf, sigmoid, softmax } from './output.ts';

// Linear models: float32 dot products in the order in which MLAS adds. The zeros of one-hot groups are skipped.

type Values = Float32Array | Float64Array;
/**
 * Adds the contribution of some features to the sums; the sum of a row for a target is at `sums[target * capacity +
 * row]`.
 */
type Add = (sums: Values, rows: number) => void;

/** MLAS adds up at most this many products before it adds their sum to the result. */
const BLOCK = 1_024;

/** @throws Unsupported */
function linearHead(trace: Trace, shapes: readonly InputShape[], capacity: number): Head {
  const { head, features } = trace;
  if (head.kind !== 'linear') throw new Unsupported('the model is not linear');
  const double = head.type === 'float64';
  if (double !== (trace.type === 'float64')) throw new Unsupported('features and coefficients of different types');
  if (features.length > BLOCK) throw new Unsupported(`a linear model of more than ${BLOCK} features`);
  const make = (n: number): Values => (double ? new Float64Array(n) : new Float32Array(n));
  const { targets } = head;
  const sums = make(targets * capacity);
  const fills: Fill[] = [];
  const adds: Add[] = [];
  const slots: Slot[] = [];
  const keys = new CategoryKeys();
  const states = new Map<CategorySlot, Uint16Array>();
  for (let j = 0; j < features.length; j++) {
    const feature = features[j]!;
    const key = keys.of(feature);
    if (key === null) {
      const column = make(capacity);
      fills.push(numberFill(feature, shapes, column));
      adds.push(addNumber(column, weightsOf(head, j, features.length), capacity));
      slots.push({ kind: 'number', source: feature.source!, feature, cuts: cutsFor(feature), states: 0 });
      continue;
    }
    if (key.slot < 0) {
      const slot = categorySlot(feature, key, features);
      const column = new Uint16Array(capacity);
      key.slot = slots.push(slot) - 1;
      states.set(slot, column);
      fills.push(stateFill(slot, shapes, column, 0, 1));
    }
    // Consecutive features of the same slot share one lookup.
    const slot = slots[key.slot] as CategorySlot;
    let end = j + 1;
    while (end < features.length && keys.of(features[end]!) === key) end++;
    adds.push(addCategory(head, slot, states.get(slot)!, features, j, end, capacity));
    j = end - 1;
  }
  const width = head.secondClass ? 2 : targets;
  const after = postTransform(head, width, double);
  return {
    width,
    double,
    capacity,
    slots,
    description: `linear, ${features.length} features`,
    score(inputs, from, to, out) {
      const rows = to - from;
      for (const fill of fills) fill(inputs, from, to);
      for (let t = 0; t < targets; t++) sums.fill(0, t * capacity, t * capacity + rows);
      for (const add of adds) add(sums, rows);
      for (let t = 0; t < targets; t++) {
        const intercept = head.intercepts[t]!;
        for (let r = 0; r < rows; r++) out[r * width + width - targets + t] = sums[t * capacity + r]! + intercept;
      }
      if (head.secondClass) for (let r = 0; r < rows; r++) out[r * 2] = 1 - out[r * 2 + 1]!;
      after(out, rows);
    },
  };
}

function weightsOf(head: LinearHead, j: number, width: number): number[] {
  return Array.from({ length: head.targets }, (_, t) => head.coefficients[t * width + j]!);
}

/**
 * The fused multiply-add of MLAS rounds once, after adding the product. Storing the result to a Float32Array has the
 * same effect.
 */
function addNumber(column: Values, weights: readonly number[], capacity: number): Add {
  return (sums, rows) => {
    for (const [t, w] of weights.entries()) {
      const o = t * capacity;
      for (let r = 0; r < rows; r++) sums[o + r] = sums[o + r]! + column[r]! * w;
    }
  };
}

function addCategory(
  head: LinearHead,
  slot: CategorySlot,
  states: Uint16Array,
  features: readonly Feature[],
  from: number,
  to: number,
  capacity: number,
): Add {
  const values = features.slice(from, to).map((f) => categoryValues(slot, f));
  // products[state]: the non-zero entries of the state in feature order, with their value and feature.
  const products = Array.from({ length: slot.states }, (_, s) =>
    values.flatMap((v, i) => (v[s] === 0 ? [] : [{ value: v[s]!, feature: from + i }])),
  );
  const most = Math.max(...products.map((p) => p.length));
  // terms[k]: the k-th product of each state, by target and state. Where a state has fewer products, 0 is added, which
  // has no effect.
  const terms = Array.from({ length: most }, (_, k) =>
    Array.from({ length: head.targets }, (_, t) =>
      Float64Array.from(products, (p) =>
        p[k] ? p[k].value * head.coefficients[t * features.length + p[k].feature]! : 0,
      ),
    ),
  );
  return (sums, rows) => {
    for (const byTarget of terms) {
      for (const [t, term] of byTarget.entries()) {
        const o = t * capacity;
        for (let r = 0; r < rows; r++) sums[o + r] = sums[o + r]! + term[states[r]!]!;
      }
    }
  };
}

/** Numbers around which comparison rows should vary: the constants of the steps that impute, scale and compare. */
function cutsFor(feature: Feature): Float64Array {
  const around: number[] = [0, 1];
  for (const s of feature.steps) {
    if (s.op === 'impute') around.push(s.value);
    else if (s.op === 'scale')
      around.push(s.offset, s.offset - 1 / s.scale, s.offset + 1 / s.scale, s.offset + 3 / s.scale);
    else if (s.op === 'sub' || s.op === 'div') around.push(s.by, -s.by, 2 * s.by);
    else if (s.op === 'binarize') around.push(s.threshold);
  }
  return Float64Array.from(around.filter(Number.isFinite)).sort();
}

/** The post-transforms of LinearClassifier. A single score is not transformed. @throws Unsupported */
function postTransform(head: LinearHead, width: number, double: boolean): (values: Values, rows: number) => void {
  if (head.postTransform === 'NONE' || head.targets === 1) {
    if (head.postTransform === 'PROBIT') throw new Unsupported('PROBIT after a linear model');
    return () => {};
  }
  if (head.postTransform === 'LOGISTIC') return sigmoid(double, width);
  if (head.postTransform === 'SOFTMAX') return softmax(double, width);
  throw new Unsupported(`${head.postTransform} after a linear model`);
}

/** @throws Unsupported */
function forestHead(plan: ForestPlan, shapes: readonly InputShape[]): Head {
  const { image, slots } = plan;
  const finish = finisher(plan.finishing);
  const machine = new TreeMachine(image);
  const fills: Fill[] = [
    ...plan.shared.map(([input, region]) => copy(input, shapes[input]!.width, machine.regions[region]!)),
    ...plan.own.map(([slot, region]) =>
      numberFill((slots[slot] as NumberSlot).feature, shapes, machine.regions[region]!),
    ),
    ...slots.flatMap((slot, s) =>
      slot.kind === 'category' ? [stateFill(slot, shapes, machine.states, s, machine.stateWidth)] : [],
    ),
  ];
  return {
    width: image.targets,
    double: plan.finishing.booster !== undefined && image.doubleSums,
    capacity: image.capacity,
    slots,
    description: `${plan.trees} trees, ${image.kernel}, ${Math.ceil(machine.bytes / 1024)} KiB`,
    score(inputs: readonly EncodedInput[], from, to, out) {
      for (const fill of fills) fill(inputs, from, to);
      machine.run(to - from);
      finish(machine.sums, machine.capacity, to - from, out);
    },
  };
}

/** Copies whole rows of an input. Short ranges are copied in a loop, which is faster than a call of `set`. */
function copy(input: number, width: number, out: Float32Array | Float64Array): Fill {
  return (inputs, from, to) => {
    const data = inputs[input]!.data as Float32Array;
    const [start, end] = [from * width, to * width];
    if (end - start > 64) out.set(data.subarray(start, end));
    else for (let i = start; i < end; i++) out[i - start] = data[i]!;
  };
}

export interface NativeEvaluator extends Evaluator {
  readonly name: 'native';
  /** Description of the compiled form, for reports. */
  readonly description: string;
  readonly slots: readonly Slot[];
  /** `score` without a promise. */
  scoreNow(inputs: readonly EncodedInput[], rows: number): Scores;
}

/** @throws Unsupported */
export function openNative({ shapes, head: plan, output }: NativePlan): NativeEvaluator {
  const part = (p: ForestPlan | { readonly trace: Trace }): Head =>
    'trace' in p ? linearHead(p.trace, shapes, CAPACITY) : forestHead(p, shapes);
  const head = plan.kind === 'composition' ? compositionHead(plan.parts.map(part), plan) : part(plan);
  const end = outputOf(output, head.width, head.double);
  const make = (n: number): Float32Array | Float64Array => (head.double ? new Float64Array(n) : new Float32Array(n));
  const block = make(head.capacity * head.width);
  let values = make(0);

  const scoreNow = (inputs: readonly EncodedInput[], rows: number): Scores => {
    if (values.length < rows * end.width) values = make(rows * end.width);
    for (let from = 0; from < rows; from += head.capacity) {
      const n = Math.min(head.capacity, rows - from);
      head.score(inputs, from, from + n, block);
      for (const apply of end.applies) apply(block, n);
      const at = from * end.width;
      if (end.column !== null) for (let r = 0; r < n; r++) values[at + r] = block[r * head.width + end.column]!;
      else values.set(block.subarray(0, n * head.width), at);
    }
    return { values: values.subarray(0, rows * end.width), width: end.width };
  };
  return {
    name: 'native',
    description: head.description,
    slots: head.slots,
    scoreNow,
    score: async (inputs, rows) => scoreNow(inputs, rows),
    close: async () => {},
  };
}
