// Plans native evaluation: traces a model and compiles it to plain data. Threads that open a plan do not load this
// file.

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

// Tree ensembles: positions of the inputs, the compiled machine, and the conversion of sums to scores.

/** A compiled tree ensemble and the mapping of its inputs, as plain data. */
export interface ForestPlan {
  readonly kind: 'trees';
  readonly trees: number;
  readonly slots: readonly Slot[];
  /** Inputs that are copied as a whole, each with its region of memory. */
  readonly shared: readonly (readonly [input: number, region: number])[];
  /** Number slots that have a region of their own. */
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
  // ONNX Runtime accepts double attributes only if the inputs are double, too.
  if (file.double && !double && !file.booster) throw new Unsupported('double thresholds for float features');
  // ONNX Runtime truncates a number before looking the number up in a large set, which contradicts the standard.
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

/** Maximum number of models in a composition. */
const MAX_PARTS = 2_000;

/** Plans a graph that combines several models. `reason`: why the graph is not a single model. @throws Unsupported */
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

/** Number of scores per row of a traced model. */
const scoresOf = ({ head }: Trace): number =>
  head.kind === 'trees' ? readEnsemble(head.node).targets : head.secondClass ? 2 : head.targets;

const planPart = (trace: Trace, shapes: readonly InputShape[], kernel?: Kernel): PartPlan =>
  trace.head.kind === 'trees' ? planForest(trace, shapes, CAPACITY, kernel) : { kind: 'linear', trace };

/**
 * A model compiled for native evaluation. A plan is plain data, so that one process can compile it and threads of other
 * processes can open it. A plan is valid only for the release that compiled it.
 */
export interface NativePlan {
  readonly shapes: readonly InputShape[];
  readonly head: PartPlan | CompositionPlan;
  readonly output: readonly OutputStep[];
}

/**
 * Compiles the graph that computes `output`. `shapes`: shapes of the inputs, in order.
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
