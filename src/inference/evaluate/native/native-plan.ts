// Native evaluation, planned: a model traced and compiled to plain data. Threads that open a plan load nothing of this.
import type { OnnxModel } from '../../onnx/graph.ts';
import { traceModel } from '../../onnx/trace.ts';
import type { OutputStep, Trace } from '../../onnx/traced-model.ts';
import type { Kernel } from '../../trees/machine.ts';
import { Unsupported } from '../../trees/unsupported.ts';
import { type ForestPlan, planForest } from './forest-plan.ts';
import { CAPACITY } from './head.ts';
import type { InputShape } from './source.ts';

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
