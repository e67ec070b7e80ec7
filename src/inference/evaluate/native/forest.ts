// A traced tree ensemble as a scorer: inputs → regions and states of the machine → sums → scores. Compiled to plain data.
import type { EncodedInput } from '../../encode/encoder.ts';
import type { Trace } from '../../onnx/traced-model.ts';
import { readEnsemble } from '../../trees/ensemble.ts';
import { type Finishing, finisher, finishing } from '../../trees/finish.ts';
import { growTrees, type Tree, Unsupported } from '../../trees/grow.ts';
import { compileMachine, type Kernel, type MachineImage, type NumberPlace, TreeMachine } from '../../trees/machine.ts';
import { type NumberSlot, numberState, planSlots, type Slot } from '../../trees/slots.ts';
import type { Head } from './head.ts';
import { type Fill, type InputShape, inputOf, numberFill, plain, stateFill } from './source.ts';

/** A compiled tree ensemble and the way to it from the inputs: plain data. */
export interface ForestPlan {
  readonly kind: 'trees';
  readonly trees: number;
  readonly slots: readonly Slot[];
  /** Inputs that are copied whole: input and its region. */
  readonly shared: readonly (readonly [input: number, region: number])[];
  /** Number slots with a region of their own: slot and region. */
  readonly own: readonly (readonly [slot: number, region: number])[];
  readonly image: MachineImage;
  readonly finishing: Finishing;
}

/** @throws Unsupported | SluiceError model_invalid */
export function planForest(trace: Trace, shapes: readonly InputShape[], capacity: number, kernel?: Kernel): ForestPlan {
  if (trace.head.kind !== 'trees') throw new Unsupported('the model is no tree ensemble');
  const file = readEnsemble(trace.head.node);
  const double = trace.type === 'float64';
  const e = double ? { ...file, double } : file;
  if (e.features > trace.features.length) throw new Unsupported('the trees ask for features the input does not have');
  // ONNX Runtime takes double attributes with double inputs only.
  if (file.double && !double) throw new Unsupported('double thresholds for float features');
  // ONNX Runtime truncates a number before it looks it up in a large set, the standard does not.
  if (e.members.size > 0) throw new Unsupported('set tests of ai.onnx.ml 5');
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

/** @throws Unsupported */
export function forestHead(plan: ForestPlan, shapes: readonly InputShape[]): Head {
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
    double: false,
    capacity: image.capacity,
    slots,
    description: `${plan.trees} trees, ${image.kernel}, ${Math.ceil(machine.bytes / 1024)} KiB`,
    score(inputs: readonly EncodedInput[], from, to, out) {
      for (const fill of fills) fill(inputs, from, to);
      machine.run(to - from);
      finish(machine.sums, machine.capacity, to - from, out as Float32Array);
    },
  };
}

/** Copies whole rows of an input: a block move, or single moves where that is cheaper than the call. */
function copy(input: number, width: number, out: Float32Array | Float64Array): Fill {
  return (inputs, from, to) => {
    const data = inputs[input]!.data as Float32Array;
    const [start, end] = [from * width, to * width];
    if (end - start > 64) out.set(data.subarray(start, end));
    else for (let i = start; i < end; i++) out[i - start] = data[i]!;
  };
}
