// The native evaluator: a compiled model opened in this thread, without ONNX Runtime.
import type { EncodedInput } from '../../encode/encoder.ts';
import type { Slot } from '../../trees/slots.ts';
import type { Evaluator, Scores } from '../evaluator.ts';
import { forestHead } from './forest.ts';
import { CAPACITY } from './head.ts';
import { linearHead } from './linear-scorer.ts';
import type { NativePlan } from './native-plan.ts';
import { outputOf } from './output.ts';

export interface NativeEvaluator extends Evaluator {
  readonly name: 'native';
  /** What was compiled, for reports. */
  readonly description: string;
  readonly slots: readonly Slot[];
  /** `score`, synchronously. */
  scoreNow(inputs: readonly EncodedInput[], rows: number): Scores;
}

/** @throws Unsupported */
export function openNative({ shapes, head: plan, output }: NativePlan): NativeEvaluator {
  const head = plan.kind === 'trees' ? forestHead(plan, shapes) : linearHead(plan.trace, shapes, CAPACITY);
  const end = outputOf(output, head.width, head.double);
  const make = (n: number): Float32Array | Float64Array => (head.double ? new Float64Array(n) : new Float32Array(n));
  const part = make(head.capacity * head.width);
  let values = make(0);

  const scoreNow = (inputs: readonly EncodedInput[], rows: number): Scores => {
    if (values.length < rows * end.width) values = make(rows * end.width);
    for (let from = 0; from < rows; from += head.capacity) {
      const n = Math.min(head.capacity, rows - from);
      head.score(inputs, from, from + n, part);
      for (const apply of end.applies) apply(part, n);
      const at = from * end.width;
      if (end.column !== null) for (let r = 0; r < n; r++) values[at + r] = part[r * head.width + end.column]!;
      else values.set(part.subarray(0, n * head.width), at);
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
