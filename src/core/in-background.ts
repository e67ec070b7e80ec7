// Work that nobody waits for: its failures are told and counted, and never end the process.

/** Hears of a failure. `task` is a word of the program, never one of an input. */
export type OnBackgroundFault = (task: string, error: unknown) => void;

const listeners = new Set<OnBackgroundFault>();

/** Hears of every failure from now on; gives what ends that. */
export function onBackgroundFault(listener: OnBackgroundFault): () => void {
  listeners.add(listener);
  return () => {
    listeners.delete(listener);
  };
}

/** Starts work that nobody waits for. It may throw, reject, or be no promise at all. */
export function inBackground(task: string, work: () => unknown): void {
  try {
    Promise.resolve(work()).catch((error: unknown) => tell(task, error));
  } catch (error) {
    tell(task, error);
  }
}

function tell(task: string, error: unknown): void {
  if (listeners.size === 0) process.stderr.write(`sluice: ${task} failed: ${faultLine(error)}\n`);
  for (const listener of listeners) listener(task, error);
}

const FRAMES = 4;

/**
 * An unknown error on one line: its kind, its system code and where it was thrown. Not its message, because that of JSON.parse,
 * for one, quotes what it was given.
 */
export function faultLine(error: unknown): string {
  if (!(error instanceof Error)) return 'something was thrown that is no error';
  const { code, cause } = error as NodeJS.ErrnoException;
  const frames = (error.stack ?? '').split('\n').filter((line) => /^\s+at /.test(line));
  const where = frames.slice(0, FRAMES).map((line) => line.trim().replace(/^at /, ''));
  const from = cause === undefined ? '' : `; because of ${faultLine(cause)}`;
  return `${error.name}${typeof code === 'string' ? ` ${code}` : ''} at ${where.join(' < ')}${from}`;
}
