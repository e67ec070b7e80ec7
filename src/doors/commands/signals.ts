// How SIGINT and SIGTERM end a run: the first signal stops the run gracefully, the second exits immediately.
import { startTimer } from '../../core/clock.ts';
import { SluiceError } from '../../core/errors.ts';
import { type Log, named, words } from '../../core/log.ts';
import { EXIT } from './exit-codes.ts';

/** Additional time in ms for leaving consumer groups and closing connections. */
const CLOSING_MS = 8_000;

/**
 * If the process is still running `ms` plus CLOSING_MS after this call, logs its pending work and terminates it.
 * Otherwise, an orchestrator would kill it later without a message. The timer does not keep the process alive.
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
