// The native evaluator: a traced model, compiled, without ONNX Runtime.
import type { EncodedInput } from '../../encode/encoder.ts';
import type { OnnxModel } from '../../onnx/graph.ts';
import { traceModel } from '../../onnx/trace.ts';
import type { OutputStep, Trace } from '../../onnx/traced-model.ts';
import { Unsupported } from '../../trees/grow.ts';
import type { Kernel } from '../../trees/machine.ts';
import type { Slot } from '../../trees/slots.ts';
import type { Evaluator, Scores } from '../evaluator.ts';
import { type ForestPlan, forestHead, planForest } from './forest.ts';
import { linearHead } from './linear-scorer.ts';
import { outputOf } from './output.ts';
import type { InputShape } from './source.ts';

/** Largest micro-batch; more rows are scored in several. */
export const CAPACITY = 512;

export interface NativeEvaluator extends Evaluator {
  readonly name: 'native';
  /** What was compiled, for reports. */
  readonly description: string;
  readonly slots: readonly Slot[];
  /** `score`, synchronously. */
  scoreNow(inputs: readonly EncodedInput[], rows: number): Scores;
}

/**
 * A model compiled for native evaluation: plain data, so that one process compiles it and threads of others open it. Holds
 * for the release that made it.
 */
export interface NativePlan {
  readonly shapes: readonly InputShape[];
  readonly head: ForestPlan | { readonly kind: 'linear'; readonly trace: Trace };
  readonly output: readonly OutputStep[];
}

/**
 * Compiles the graph behind `output` for inputs of the given shapes, in this order.
 * @throws Unsupported with the reason why ONNX Runtime has to do it
 * @throws SluiceError model_invalid for a damaged ensemble
 */
export function planNative(
  model: OnnxModel,
  output: string,
  shapes: readonly InputShape[],
  kernel?: Kernel,
): NativePlan {
  const { trace, reason } = traceModel(model, output, new Map(shapes.map((s) => [s.name, s.width])));
  if (!trace) throw new Unsupported(reason);
  const head =
    trace.head.kind === 'trees' ? planForest(trace, shapes, CAPACITY, kernel) : ({ kind: 'linear', trace } as const);
  return { shapes, head, output: trace.output };
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
