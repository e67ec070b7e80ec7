// Work that nobody waits for: its failures are told and counted, and never end the process.
import { faultOf, fixedWord, type Literal, type Word } from './log.ts';

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

/** Starts work that nobody waits for. It may throw, reject, or be no promise at all. */
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
