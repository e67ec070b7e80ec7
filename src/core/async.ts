// Helpers for promises with a timeout or an abort signal, for fire-and-forget work, and for long work that yields to the event loop.
import { setImmediate as nextTurn } from 'node:timers/promises';
import { startTimer, stopTimer } from './clock.ts';
import { faultOf, fixedWord, type Literal, type Word } from './log.ts';

// Fire-and-forget work: failures are logged and counted but never crash the process.

/** A listener for failures. `task`: a fixed text of the program, never input data. */
type OnBackgroundFault = (task: Word, error: unknown) => void;

const listeners = new Set<OnBackgroundFault>();

/** Adds a listener for failures. Returns a function that removes the listener. */
export function onBackgroundFault(listener: OnBackgroundFault): () => void {
  listeners.add(listener);
  return () => {
    listeners.delete(listener);
  };
}

/** Starts a background task. The task may throw, reject, or return no promise. */
export function inBackground<const T extends string>(task: Literal<T>, work: () => unknown): void {
  const name = fixedWord(task);
  try {
    Promise.resolve(work()).catch((error: unknown) => tell(name, error));
  } catch (error) {
    tell(name, error);
  }
}

function tell(task: Word, error: unknown): void {
  if (listeners.size === 0) process.stderr.write(`sluice: background task failed (${task}): ${faultOf(error)}\n`);
  for (const listener of listeners) listener(task, error);
}

/** Whether `work` finishes within `ms` milliseconds. Rejects if `work` rejects. */
export async function within(work: Promise<unknown>, ms: number): Promise<boolean> {
  const { promise, resolve } = Promise.withResolvers<boolean>();
  const timer = startTimer(() => resolve(false), ms);
  try {
    return await Promise.race([work.then(() => true), promise]);
  } finally {
    stopTimer(timer);
  }
}

/**
 * Resolves with the result of `work`, or with null as soon as `signal` is aborted. After an abort, `work` continues,
 * and its error is ignored. Removes its listener from `signal` in both cases.
 */
export async function unlessAborted<T>(work: Promise<T>, signal: AbortSignal): Promise<T | null> {
  work.catch(() => {});
  if (signal.aborted) return null;
  const { promise, resolve } = Promise.withResolvers<null>();
  const onAbort = () => resolve(null);
  signal.addEventListener('abort', onAbort, { once: true });
  try {
    return await Promise.race([work, promise]);
  } finally {
    signal.removeEventListener('abort', onAbort);
  }
}

/** Time between yields to the event loop, ms. */
const STEP_MS = 10;

export class EventLoopTurns {
  #began = performance.now();

  /**
   * Must be called after each small piece of work. Yields to the event loop if the last yield was at least STEP_MS ago.
   */
  async pass(): Promise<void> {
    if (performance.now() - this.#began < STEP_MS) return;
    await nextTurn();
    this.#began = performance.now();
  }
}
