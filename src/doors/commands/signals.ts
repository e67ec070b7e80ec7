// How a run ends: the first SIGINT or SIGTERM stops it gracefully, the second exits immediately, and a run whose
// process does not exit is terminated.
import { startTimer, stopTimer } from '../../core/clock.ts';
import { SluiceError } from '../../core/errors.ts';
import { type Log, named, words } from '../../core/log.ts';
import { EXIT } from './exit-codes.ts';

/** Additional time in ms for leaving consumer groups and closing connections. */
const CLOSING_MS = 8_000;

/**
 * If the process is still running `ms` plus CLOSING_MS after this call, logs its pending work and terminates it.
 * Otherwise, an orchestrator would kill it later without a message, or a nightly run would never end because a library
 * left a connection or a timer. `since`: the event before the call. The timer does not keep the process alive.
 */
export function endWithin(
  ms: number,
  since: 'the signal' | 'the end of the run',
  doing: () => string,
  log: Log,
): { cancel(): void } {
  const timer = startTimer(() => {
    const held = Object.entries(Object.groupBy(process.getActiveResourcesInfo(), (name) => name));
    const what = named(held.map(([name, all]) => `${all!.length} ${name}`).join(', '));
    const after = (ms + CLOSING_MS) / 1000;
    const says = words`terminated ${after} s after ${named(since)}: ${named(doing())} did not end (open: ${what})`;
    log('fatal', 'ended_by_force', says, { seconds: after, open: what });
    process.exit(process.exitCode ?? EXIT.failed);
  }, ms + CLOSING_MS);
  timer.unref();
  return { cancel: () => stopTimer(timer) };
}

let afterProgram: (() => void) | null = null;

/** `act` is called when the program has done all its work, and only open handles keep its process alive. */
export function whenProgramEnds(act: () => void): void {
  afterProgram = act;
}

export function programEnded(): void {
  afterProgram?.();
}

/** An AbortSignal that SIGINT, SIGTERM or `abort` aborts. A second SIGINT or SIGTERM exits immediately. */
export function signalled(): { signal: AbortSignal; abort: (reason: Error) => void; dispose: () => void } {
  const controller = new AbortController();
  const onSignal = (name: NodeJS.Signals) => {
    if (controller.signal.aborted) process.exit(EXIT.failed);
    controller.abort(new SluiceError('cancelled', `stopped by ${name}`));
  };
  process.on('SIGINT', onSignal);
  process.on('SIGTERM', onSignal);
  return {
    signal: controller.signal,
    abort: (reason) => controller.abort(reason),
    dispose: () => {
      process.off('SIGINT', onSignal);
      process.off('SIGTERM', onSignal);
    },
  };
}
