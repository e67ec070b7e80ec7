// The clock of the process: time of day, monotonic time, timers and sleeps.
// Tests replace the clock to control leases, expiries and timeouts.
import { setTimeout as nodeSleep } from 'node:timers/promises';

/** A timer that `stopTimer` stops. */
export interface Timer {
  /** Allows the process to exit before the timer fires. */
  unref(): unknown;
}

export interface SleepOptions {
  /** If the signal is aborted, the sleep ends and rejects with an AbortError. */
  signal?: AbortSignal | undefined;
  /** false: the process may exit during the sleep. */
  ref?: boolean;
}

/** All times are in milliseconds. */
export interface Clock {
  /** Milliseconds since 1970. The value can decrease, because an operator may set the clock back. */
  epochMs(): number;
  /** Monotonic time; only differences are meaningful. */
  monotonicMs(): number;
  startTimer(work: () => void, ms: number): Timer;
  startInterval(work: () => void, ms: number): Timer;
  stopTimer(timer: Timer | undefined): void;
  sleep(ms: number, options?: SleepOptions): Promise<void>;
}

// The global functions are looked up at each call, so that mocks of them take effect.
const SYSTEM_CLOCK: Clock = {
  epochMs: () => Date.now(),
  monotonicMs: () => performance.now(),
  startTimer: (work, ms) => setTimeout(work, ms),
  startInterval: (work, ms) => setInterval(work, ms),
  stopTimer: (timer) => clearTimeout(timer as NodeJS.Timeout | undefined),
  sleep: (ms, options) => nodeSleep(ms, undefined, options),
};

let clock = SYSTEM_CLOCK;

/** Replaces the clock of this thread. Returns a function that restores the system clock. */
export function replaceClock(replacement: Clock): () => void {
  clock = replacement;
  return () => {
    clock = SYSTEM_CLOCK;
  };
}

/**
 * The current clock, to detect whether it was replaced. Times and timers of one clock are meaningless for another
 * clock.
 */
export const currentClock = (): Clock => clock;
export const epochMs = (): number => clock.epochMs();
export const monotonicMs = (): number => clock.monotonicMs();
export const startTimer = (work: () => void, ms: number): Timer => clock.startTimer(work, ms);
export const startInterval = (work: () => void, ms: number): Timer => clock.startInterval(work, ms);
/** Stops a timer that `startTimer` or `startInterval` returned. */
export const stopTimer = (timer: Timer | undefined): void => clock.stopTimer(timer);
export const sleep = (ms: number, options?: SleepOptions): Promise<void> => clock.sleep(ms, options);
