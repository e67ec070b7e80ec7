// Promises with a timeout or an abort signal, fire-and-forget work, and long work that yields to the event loop.
import { setImmediate as nextTurn } from 'node:timers/promises';
import { startTimer, stopTimer } from './clock.ts';
import { faultOf, fixedWord, type Literal, type Word } from './log.ts';

// Fire-and-forget work: failures are logged and counted but never crash the process.

/** Hears of a failure. `task` is a word of the program, never one of an input. */
type OnBackgroundFault = (task: Word, error: unknown) => void;

const listeners = new Set<OnBackgroundFault>();

/** Hears of every failure from now on; gives what ends that. */
export function onBackgroundFault(listener: OnBackgroundFault): () => void {
  listeners.add(listener);
  return () => {
    listeners.delete(listener);
  };
}

/** Starts a background task. It may throw, reject, or return no promise at all. */
export function inBackground<const T extends string>(task: Literal<T>, work: () => unknown): void {
  const name = fixedWord(task);
  try {
    Promise.resolve(work()).catch((error: unknown) => tell(name, error));
  } catch (error) {
    tell(name, error);
  }
}

function tell(task: Word, error: unknown): void {
  if (listeners.size === 0) process.stderr.write(`sluice: ${task} failed: ${faultOf(error)}\n`);
  for (const listener of listeners) listener(task, error);
}

/** Whether `work` ended within `ms`; what it rejects with passes through. */
export async function within(work: Promise<unknown>, ms: number): Promise<boolean> {
  const { promise, resolve } = Promise.withResolvers<boolean>();
  const timer = startTimer(() => resolve(false), ms);
  try {
    return await Promise.race([work.then(() => true), promise]);
  } finally {
    stopTimer(timer);
  }
}

/** What `work` gives, or null as soon as `signal` is aborted; the work then continues, and its error is dropped. Leaves no listener behind. */
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

/** Work of a step, milliseconds. */
const STEP_MS = 10;

export class EventLoopTurns {
  #began = performance.now();

  /** Call it after each small piece of work: lets others work once a step took its time. */
  async pass(): Promise<void> {
    if (performance.now() - this.#began < STEP_MS) return;
    await nextTurn();
    this.#began = performance.now();
  }
}
