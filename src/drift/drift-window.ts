// Sums over the last while: a ring of equal slots, of which the oldest is forgotten when a new one begins.
import { DriftSum } from './drift-counts.ts';
import type { DriftPlan } from './drift-plan.ts';

interface Slot {
  /** Which stretch of time it is: milliseconds since 1970 divided by its length. */
  stretch: number;
  sum: DriftSum;
}

/** The slot under way counts as one, so that the window reaches back between `slots - 1` and `slots` times the length of a slot. */
export class DriftWindow {
  readonly #plan: DriftPlan;
  readonly #slotMs: number;
  readonly #sketched: boolean;
  readonly #slots: (Slot | null)[];

  constructor(plan: DriftPlan, { slots, slotMs, sketched }: { slots: number; slotMs: number; sketched: boolean }) {
    this.#plan = plan;
    this.#slotMs = slotMs;
    this.#sketched = sketched;
    this.#slots = new Array<Slot | null>(slots).fill(null);
  }

  /** `now`: milliseconds since 1970. */
  add(sum: DriftSum, now: number): void {
    const stretch = Math.floor(now / this.#slotMs);
    const at = stretch % this.#slots.length;
    let slot = this.#slots[at]!;
    if (slot?.stretch !== stretch) {
      slot = { stretch, sum: new DriftSum(this.#plan, { sketched: this.#sketched }) };
      this.#slots[at] = slot;
    }
    slot.sum.merge(sum);
  }

  sum(now: number): DriftSum {
    const sum = new DriftSum(this.#plan, { sketched: this.#sketched });
    const oldest = Math.floor(now / this.#slotMs) - this.#slots.length;
    for (const slot of this.#slots) if (slot && slot.stretch > oldest) sum.merge(slot.sum);
    return sum;
  }
}
