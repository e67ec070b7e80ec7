// A clock for tests: time passes when the test moves it, so that a lease of an hour ends at once and never early.
import { setImmediate as turn } from 'node:timers/promises';
import { onTestFinished } from 'vitest';
import { type Clock, replaceClock, type SleepOptions, type Timer } from '../../src/core/clock.ts';

interface OwnTimer extends Timer {
  due: number;
  work: () => void;
  /** Of an interval: after so many ms it fires again. */
  everyMs: number | null;
}

/** Turns of the event loop in which whatever a timer started can start timers of its own. */
const TURNS_AFTER_TIMER = 5;

export class ControlledClock implements Clock {
  readonly #epochAtStart = Date.now();
  // Whole: sums of fractions would miss the moment at which a timer is due.
  readonly #monotonicAtStart = Math.floor(performance.now());
  readonly #timers = new Set<OwnTimer>();
  /** By how much this clock is ahead of the system's; of a stopped clock, how far it was moved. */
  #movedMs = 0;
  #runs: boolean;
  #alarm: NodeJS.Timeout | undefined;
  /** Timers started so far: something that waits without working starts few. */
  started = 0;

  /** `runs`: real time passes too, for tests in which sockets and processes take part. */
  constructor({ runs = false } = {}) {
    this.#runs = runs;
  }

  epochMs(): number {
    return this.#epochAtStart + Math.floor(this.#passedMs());
  }

  monotonicMs(): number {
    return this.#monotonicAtStart + this.#passedMs();
  }

  startTimer(work: () => void, ms: number): Timer {
    return this.#start(work, ms, null);
  }

  startInterval(work: () => void, ms: number): Timer {
    return this.#start(work, ms, Math.max(1, ms));
  }

  stopTimer(timer: Timer | undefined): void {
    if (timer === undefined) return;
    // The system clock started it before this clock replaced it.
    if (!this.#timers.delete(timer as OwnTimer)) clearTimeout(timer as NodeJS.Timeout);
    this.#setAlarm();
  }

  sleep(ms: number, { signal }: SleepOptions = {}): Promise<void> {
    const { promise, resolve, reject } = Promise.withResolvers<void>();
    const abort = () =>
      reject(new DOMException('The operation was aborted', { name: 'AbortError', cause: signal?.reason }));
    if (signal?.aborted) abort();
    else {
      const timer = this.startTimer(resolve, ms);
      const onAbort = () => {
        this.stopTimer(timer);
        abort();
      };
      signal?.addEventListener('abort', onAbort, { once: true });
      const forget = () => signal?.removeEventListener('abort', onAbort);
      promise.then(forget, forget);
    }
    return promise;
  }

  /** Moves the time on and fires the timers that are due by then, in their order. */
  async advance(ms: number): Promise<void> {
    const end = this.#movedMs + ms;
    for (;;) {
      const next = this.#next();
      const step = next === null ? Infinity : Math.max(0, next.due - this.monotonicMs());
      if (this.#movedMs + step > end) break;
      this.#movedMs += step;
      this.#fire(next!);
      for (let i = 0; i < TURNS_AFTER_TIMER; i++) await turn();
    }
    this.#movedMs = Math.max(this.#movedMs, end);
    this.#setAlarm();
  }

  /** Time passes while the process computes or is stopped: timers that came due meanwhile fire afterwards, intervals once. */
  async stall(ms: number): Promise<void> {
    this.#movedMs += ms;
    await this.advance(0);
  }

  /** Timers and sleeps under way. */
  get timers(): number {
    return this.#timers.size;
  }

  /** From now on real time passes, so that whatever is still asleep can end. */
  release(): void {
    if (this.#runs) return;
    this.#movedMs -= performance.now() - this.#monotonicAtStart;
    this.#runs = true;
    this.#setAlarm();
  }

  #passedMs(): number {
    return this.#movedMs + (this.#runs ? performance.now() - this.#monotonicAtStart : 0);
  }

  #start(work: () => void, ms: number, everyMs: number | null): Timer {
    const timer: OwnTimer = { due: this.monotonicMs() + Math.max(1, ms), work, everyMs, unref: () => timer };
    this.#timers.add(timer);
    this.started++;
    this.#setAlarm();
    return timer;
  }

  #next(): OwnTimer | null {
    let next: OwnTimer | null = null;
    for (const timer of this.#timers) if (next === null || timer.due < next.due) next = timer;
    return next;
  }

  #fire(timer: OwnTimer): void {
    if (timer.everyMs === null) this.#timers.delete(timer);
    else timer.due = this.monotonicMs() + timer.everyMs;
    timer.work();
  }

  #setAlarm(): void {
    clearTimeout(this.#alarm);
    const next = this.#runs ? this.#next() : null;
    if (next === null) return;
    this.#alarm = setTimeout(
      () => {
        const late = this.#next();
        if (late !== null && late.due <= this.monotonicMs()) this.#fire(late);
        this.#setAlarm();
      },
      Math.max(0, next.due - this.monotonicMs()),
    );
    // Intervals of a service that was never stopped must not keep the process of the test file alive.
    this.#alarm.unref();
  }
}

/** Replaces the clock of the product until the current test has ended. */
export function controlClock(options?: { runs?: boolean }): ControlledClock {
  const clock = new ControlledClock(options);
  const restore = replaceClock(clock);
  onTestFinished(() => {
    restore();
    clock.release();
  });
  return clock;
}
