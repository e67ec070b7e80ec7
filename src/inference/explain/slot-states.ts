// The state of every slot of a row: the numbers that decide each test of an ensemble.
import type { EncodedInput } from '../encode/encoder.ts';
import { type Fill, type InputShape, numberFill, stateFill } from '../evaluate/native/source.ts';
import { type NumberSlot, numberState, type Slot } from '../trees/slots.ts';

export class SlotStates {
  readonly #reads: readonly ((inputs: readonly EncodedInput[], row: number) => number)[];

  /** @throws Unsupported where the trace and the package disagree */
  constructor(slots: readonly Slot[], shapes: readonly InputShape[], double: boolean) {
    this.#reads = slots.map((slot) => {
      if (slot.kind === 'category') {
        const out = new Uint16Array(1);
        const fill = stateFill(slot, shapes, out, 0, 1);
        return one(fill, () => out[0]!);
      }
      const out = double ? new Float64Array(1) : new Float32Array(1);
      const fill = numberFill(slot.feature, shapes, out);
      return one(fill, () => numberState(slot as NumberSlot, out[0]!));
    });
  }

  /** Puts the state of every slot of row `row` at `to + slot × stride`. */
  readInto(inputs: readonly EncodedInput[], row: number, states: Int32Array, to: number, stride: number): void {
    const reads = this.#reads;
    for (let s = 0; s < reads.length; s++) states[to + s * stride] = reads[s]!(inputs, row);
  }
}

const one = (fill: Fill, get: () => number) => (inputs: readonly EncodedInput[], row: number) => {
  fill(inputs, row, row + 1);
  return get();
};
