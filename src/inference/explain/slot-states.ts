// The state of every slot of a row: the numbers that decide each test of an ensemble.
import type { EncodedInput } from '../encode/encoder.ts';
import { type Fill, type InputShape, numberFill, stateFill } from '../evaluate/native/source.ts';
import { type NumberSlot, numberState, type Slot } from '../trees/slots.ts';

export class SlotStates {
  /** `states[slot]` after `read`. */
  readonly states: Int32Array;
  readonly #reads: readonly ((inputs: readonly EncodedInput[], row: number) => number)[];

  /** @throws Unsupported where the trace and the package disagree */
  constructor(slots: readonly Slot[], shapes: readonly InputShape[], double: boolean) {
    this.states = new Int32Array(slots.length);
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

  read(inputs: readonly EncodedInput[], row: number): void {
    for (let s = 0; s < this.#reads.length; s++) this.states[s] = this.#reads[s]!(inputs, row);
  }
}

const one = (fill: Fill, get: () => number) => (inputs: readonly EncodedInput[], row: number) => {
  fill(inputs, row, row + 1);
  return get();
};
