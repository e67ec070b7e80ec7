// A traced linear model as a scorer: float32 dot products in the order of MLAS, zeros of one-hot groups skipped.
import type { Feature } from '../../onnx/feature.ts';
import type { LinearHead, Trace } from '../../onnx/traced-model.ts';
import { CategoryKeys, type CategorySlot, categorySlot, categoryValues, type Slot } from '../../trees/slots.ts';
import { Unsupported } from '../../trees/unsupported.ts';
import type { Head } from './head.ts';
import { sigmoid, softmax } from './output.ts';
import { type Fill, type InputShape, numberFill, stateFill } from './source.ts';

type Values = Float32Array | Float64Array;
/** Adds what some features contribute to `sums[target * capacity + row]`. */
type Add = (sums: Values, rows: number) => void;

/** MLAS sums up to this many products before it adds them to the result. */
const BLOCK = 1_024;

/** @throws Unsupported */
export function linearHead(trace: Trace, shapes: readonly InputShape[], capacity: number): Head {
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
    // A run of features of one slot: one look-up.
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

/** Storing to a Float32Array rounds product and sum at once: the fused multiply-add that MLAS uses. */
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
  // products[state]: value and feature of what is not zero, in the order of the features.
  const products = Array.from({ length: slot.states }, (_, s) =>
    values.flatMap((v, i) => (v[s] === 0 ? [] : [{ value: v[s]!, feature: from + i }])),
  );
  const most = Math.max(...products.map((p) => p.length));
  // terms[k]: by target and state, the k-th product of a state; adding 0 changes nothing.
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

/** Numbers around which comparison rows should vary: what the steps impute, scale and compare with. */
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

/** LinearClassifier's own transforms; a single column only gets its second class. @throws Unsupported */
function postTransform(head: LinearHead, width: number, double: boolean): (values: Values, rows: number) => void {
  if (head.postTransform === 'NONE' || head.targets === 1) {
    if (head.postTransform === 'PROBIT') throw new Unsupported('PROBIT after a linear model');
    return () => {};
  }
  if (head.postTransform === 'LOGISTIC') return sigmoid(double, width);
  if (head.postTransform === 'SOFTMAX') return softmax(double, width);
  throw new Unsupported(`${head.postTransform} after a linear model`);
}
