// How SIGINT and SIGTERM end a run: the first asks it to stop, the second does not ask.
import { startTimer } from '../../core/clock.ts';
import { SluiceError } from '../../core/errors.ts';
import { type Log, named, words } from '../../core/log.ts';
import { EXIT } from './exit-codes.ts';

/** What ends after the deadline itself: members leave, connections are closed, ms. */
const CLOSING_MS = 8_000;

/**
 * Terminates the process if it has not ended `ms` and some seconds after this call, and reports its activity: an
 * orchestrator would kill it later without a message. Does not keep the process alive.
 */
export function endWithin(ms: number, doing: () => string, log: Log): void {
  const timer = startTimer(() => {
    const held = Object.entries(Object.groupBy(process.getActiveResourcesInfo(), (name) => name));
    const what = named(held.map(([name, all]) => `${all!.length} ${name}`).join(', '));
    const after = (ms + CLOSING_MS) / 1000;
    const says = words`terminated ${after} s after the signal: ${named(doing())} did not end (open: ${what})`;
    log('fatal', 'ended_by_force', says, { seconds: after, open: what });
    process.exit(process.exitCode ?? EXIT.failed);
  }, ms + CLOSING_MS);
  timer.unref();
}

/** Aborted by SIGINT, SIGTERM or `abort`; a second signal ends the process at once. */
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
