// A compiled tree ensemble as a scorer: inputs → regions and states of the machine → sums → scores.
import type { EncodedInput } from '../../encode/encoder.ts';
import { finisher } from '../../trees/finish.ts';
import { TreeMachine } from '../../trees/machine.ts';
import type { NumberSlot } from '../../trees/slots.ts';
import type { ForestPlan } from './forest-plan.ts';
import type { Head } from './head.ts';
import { type Fill, type InputShape, numberFill, stateFill } from './source.ts';

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
