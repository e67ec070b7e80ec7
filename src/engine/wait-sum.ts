// How long something has waited, all in all: asks whether something is to be done about it each time it was so long again.
import { monotonicMs, startTimer, stopTimer, type Timer } from '../core/clock.ts';

const EVERY_MS = 300;

export class WaitSum {
  readonly #ask: () => unknown;
  readonly #everyMs: number;
  #waitedMs = 0;
  /** When it began to wait, in ms of the monotonic clock; null while nothing waits. */
  #since: number | null = null;
  #timer: Timer | undefined;
  #over = false;

  /** `ask` returns something true if it needs to be asked no more. */
  constructor(ask: () => unknown, everyMs = EVERY_MS) {
    this.#ask = ask;
    this.#everyMs = everyMs;
  }

  /** Says whether something waits from now on. */
  waits(something: boolean): void {
    if (this.#over || something === (this.#since !== null)) return;
    if (something) {
      this.#since = monotonicMs();
      // What it waits for may be long in coming: it must not have to come to notice.
      this.#timer = startTimer(() => this.#long(), Math.max(0, this.#everyMs - this.#waitedMs));
    } else {
      stopTimer(this.#timer);
      this.#waitedMs += monotonicMs() - this.#since!;
      this.#since = null;
      if (this.#waitedMs >= this.#everyMs) this.#long();
    }
  }

  /** It will not ask any more. Idempotent. */
  stop(): void {
    this.#over = true;
    stopTimer(this.#timer);
  }

  #long(): void {
    if (this.#ask()) {
      this.stop();
      return;
    }
    this.#waitedMs = 0;
    if (this.#since === null) return;
    this.#since = null;
    this.waits(true);
  }
}
