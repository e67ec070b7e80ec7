// How SIGINT and SIGTERM end a run: the first asks it to stop, the second does not ask.
import { SluiceError } from '../../core/errors.ts';
import { EXIT } from './exit-codes.ts';

/** Aborted by SIGINT or SIGTERM; a second signal ends the process at once. */
export function signalled(): { signal: AbortSignal; dispose: () => void } {
  const controller = new AbortController();
  const onSignal = (name: NodeJS.Signals) => {
    if (controller.signal.aborted) process.exit(EXIT.failed);
    controller.abort(new SluiceError('cancelled', `stopped by ${name}`));
  };
  process.on('SIGINT', onSignal);
  process.on('SIGTERM', onSignal);
  return {
    signal: controller.signal,
    dispose: () => {
      process.off('SIGINT', onSignal);
      process.off('SIGTERM', onSignal);
    },
  };
}
