// Plans native evaluation: traces and compiles a model to plain data. Threads that open a plan load no code of this file.

import { traceComposition } from '../../onnx/composition.ts';
import type { OnnxModel } from '../../onnx/graph.ts';
import { traceModel } from '../../onnx/trace.ts';
import { Untraceable } from '../../onnx/trace-columns.ts';
import type { OutputStep, Trace } from '../../onnx/traced-model.ts';
import { readEnsemble } from '../../trees/ensemble.ts';
import { type Finishing, finishing } from '../../trees/finish.ts';
import { growTrees, type Tree } from '../../trees/grow.ts';
import { compileMachine, type Kernel, type MachineImage, type NumberPlace } from '../../trees/machine.ts';
import { numberState, planSlots, type Slot } from '../../trees/slots.ts';
import { Unsupported } from '../../trees/unsupported.ts';
import type { CombinationPlan } from './composition-head.ts';
import { CAPACITY, type InputShape, inputOf, plain } from './feature-source.ts';

// Plans tree ensembles: positions of inputs, the compiled machine, and the conversion of sums to scores.

/** A compiled tree ensemble with the mapping of its inputs, as plain data. */
export interface ForestPlan {
  readonly kind: 'trees';
  readonly trees: number;
  readonly slots: readonly Slot[];
  /** Inputs that are copied whole, with their regions. */
  readonly shared: readonly (readonly [input: number, region: number])[];
  /** Number slots that have their own region. */
  readonly own: readonly (readonly [slot: number, region: number])[];
  readonly image: MachineImage;
  readonly finishing: Finishing;
}

/** @throws Unsupported | SluiceError model_invalid */
function planForest(trace: Trace, shapes: readonly InputShape[], capacity: number, kernel?: Kernel): ForestPlan {
  if (trace.head.kind !== 'trees') throw new Unsupported('the model is not a tree ensemble');
  const file = readEnsemble(trace.head.node);
  const double = trace.type === 'float64';
  const e = double && !file.booster ? { ...file, double } : file;
  if (e.features > trace.features.length) throw new Unsupported('the trees use features that the input does not have');
  // ONNX Runtime accepts double attributes only with double inputs.
  if (file.double && !double && !file.booster) throw new Unsupported('double thresholds for float features');
  // ONNX Runtime truncates a number before it looks it up in a large set; the standard does not.
  if (e.members.size > 0 && !file.booster) throw new Unsupported('set tests of ai.onnx.ml 5');
  if (double && trace.head.node.op === 'TreeEnsemble') throw new Unsupported('scores in double precision');
  const trees: Tree[] = growTrees(e);
  const last = finishing(
    e,
    trees.map((t) => t.leaves),
  );
  const plan = planSlots(trace.features, trees, double);
  const domain = double ? 'float64' : 'float32';

  const regions: number[] = [];
  const shared = new Map<number, number>();
  const own: [slot: number, region: number][] = [];
  const places = plan.slots.map((slot, s): NumberPlace | undefined => {
    if (slot.kind !== 'number') return undefined;
    const input = inputOf(shapes, slot.source);
    const asIs = plain(slot.feature);
    if (asIs === undefined || slot.source.type !== domain) {
      const region = regions.push(1) - 1;
      own.push([s, region]);
      return { region, offset: 0 };
    }
    if (!shared.has(input)) shared.set(input, regions.push(shapes[input]!.width) - 1);
    const missing = asIs.imputed === null ? {} : { missing: numberState(slot, asIs.imputed) };
    return { region: shared.get(input)!, offset: slot.source.column, ...missing };
  });
  const image = compileMachine(e, trees, plan, { double, capacity, regions, places, ...(kernel ? { kernel } : {}) });
  return {
    kind: 'trees',
    trees: trees.length,
    slots: plan.slots,
    shared: [...shared],
    own,
    image,
    finishing: last,
  };
}

type PartPlan = ForestPlan | { readonly kind: 'linear'; readonly trace: Trace };

/** Several models and the steps that combine their scores. */
interface CompositionPlan extends CombinationPlan {
  readonly kind: 'composition';
  readonly parts: readonly PartPlan[];
}

/** Maximum models of a composition. */
const MAX_PARTS = 2_000;

/** Plans a graph that combines several models. `reason`: why it is not a single one. @throws Unsupported */
function planComposition(
  model: OnnxModel,
  output: string,
  shapes: readonly InputShape[],
  reason: string,
): CompositionPlan {
  try {
    const widths = new Map(shapes.map((s) => [s.name, s.width]));
    const { parts, ...combination } = traceComposition(model, output, widths, scoresOf);
    if (parts.length > MAX_PARTS) throw new Unsupported(`${parts.length} models are combined`);
    return { kind: 'composition', ...combination, parts: parts.map((p) => planPart(p, shapes)) };
  } catch (e) {
    if (e instanceof Untraceable) throw new Unsupported(e.message === reason ? reason : `${reason}; ${e.message}`);
    throw e;
  }
}

/** Scores per row of a traced model. */
const scoresOf = ({ head }: Trace): number =>
  head.kind === 'trees' ? readEnsemble(head.node).targets : head.secondClass ? 2 : head.targets;

const planPart = (trace: Trace, shapes: readonly InputShape[], kernel?: Kernel): PartPlan =>
  trace.head.kind === 'trees' ? planForest(trace, shapes, CAPACITY, kernel) : { kind: 'linear', trace };

/**
 * A model compiled for native evaluation. Plain data, so that one process compiles it and threads of others open it.
 * Valid only for the release that compiled it.
 */
export interface NativePlan {
  readonly shapes: readonly InputShape[];
  readonly head: PartPlan | CompositionPlan;
  readonly output: readonly OutputStep[];
}

/**
 * Compiles the graph that computes `output` for inputs of these shapes, in this order.
 * @throws Unsupported with the reason why ONNX Runtime must evaluate the model
 * @throws SluiceError model_invalid for a damaged ensemble
 */
export function planNative(
  model: OnnxModel,
  output: string,
  shapes: readonly InputShape[],
  kernel?: Kernel,
): NativePlan {
  const { trace, reason } = traceModel(model, output, new Map(shapes.map((s) => [s.name, s.width])));
  if (!trace) return { shapes, head: planComposition(model, output, shapes, reason), output: [] };
  return { shapes, head: planPart(trace, shapes, kernel), output: trace.output };
}
