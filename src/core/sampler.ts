// Which of many are told: all of them up to a rate, beyond it one in so many, which says how many it stands for.
import { monotonicMs } from './clock.ts';

export class Sampler {
  readonly #perSecond: number;
  readonly #oneIn: number;
  readonly #now: () => number;
  #second = 0;
  #taken = 0;
  #skipped = 0;

  /** `now`: milliseconds of a clock that never goes back. */
  constructor(perSecond: number, oneIn: number, now = monotonicMs) {
    this.#perSecond = perSecond;
    this.#oneIn = oneIn;
    this.#now = now;
  }

  /** How many this one stands for; 0: it is not told, and the next one that is counts it. */
  take(): number {
    const second = Math.floor(this.#now() / 1000);
    if (second !== this.#second) {
      this.#second = second;
      this.#taken = 0;
    }
    if (this.#taken >= this.#perSecond && this.#skipped + 1 < this.#oneIn) {
      this.#skipped++;
      return 0;
    }
    this.#taken++;
    const standsFor = this.#skipped + 1;
    this.#skipped = 0;
    return standsFor;
  }
}
