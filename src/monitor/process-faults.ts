// Handles uncaught errors: logs and counts them, and keeps the process running if the state of the process is known.
// Also logs and counts failures of background tasks.
import { onBackgroundFault } from '../core/async.ts';
import { faultFields, faultOf, fixedWord, type Log, named, type Word, words } from '../core/log.ts';

export type FaultKind = 'unhandled_rejection' | 'uncaught_exception';

interface FaultEvents {
  log: Log;
  count: (kind: FaultKind) => void;
  /**
   * Called once, when an exception has interrupted running code. The process should finish its work if it can, and then
   * exit.
   */
  onLost: (error: unknown) => void;
}

/**
 * Listens for uncaught errors until the returned function is called. An unhandled rejection does not end the process,
 * because it does not affect other work. An exception thrown in a callback has interrupted that callback. The process
 * survives such an exception only if the operating system caused it (a socket, a file), because no other work was
 * running then.
 */
export function hearFaults({ log, count, onLost }: FaultEvents): () => void {
  let lost = false;
  const tell = (kind: FaultKind, error: unknown, fatal: boolean): void => {
    count(kind);
    const says = words`${fixedWord(kind === 'unhandled_rejection' ? 'unhandled rejection' : 'uncaught exception')}: ${faultOf(error)}`;
    log(fatal ? 'fatal' : 'error', 'process_fault', says, { fault: fixedWord(kind), ...faultFields(error) });
  };
  const onRejection = (reason: unknown): void => tell('unhandled_rejection', reason, false);
  const onException = (error: unknown): void => {
    const fatal = !isOfTheSystem(error);
    tell('uncaught_exception', error, fatal);
    if (!fatal || lost) return;
    lost = true;
    onLost(error);
  };
  const onWarning = ({ name, code }: Error & { code?: string }): void =>
    log('warn', 'process_warning', words`Node.js warning: ${named(name)}`, { kind: named(code ?? name) });
  process.on('unhandledRejection', onRejection);
  process.on('uncaughtException', onException);
  // Otherwise, Node would print warnings as lines of their own, which programs that read the log cannot parse.
  const printing = process.rawListeners('warning') as (() => void)[];
  process.removeAllListeners('warning');
  process.on('warning', onWarning);
  return () => {
    process.off('unhandledRejection', onRejection);
    process.off('uncaughtException', onException);
    process.off('warning', onWarning);
    for (const listener of printing) process.on('warning', listener);
  };
}

/** Logs and counts failures of background tasks until the returned function is called. */
export const hearBackgroundFaults = (log: Log, count: (task: Word) => void): (() => void) =>
  onBackgroundFault((task, error) => {
    count(task);
    log('error', 'background_failed', words`background task failed (${task}): ${faultOf(error)}`, {
      task,
      ...faultFields(error),
    });
  });

/** Whether a system call failed, such as a write with `ENOSPC`. */
const isOfTheSystem = (error: unknown): boolean => {
  const { code, syscall } = (error ?? {}) as NodeJS.ErrnoException;
  return error instanceof Error && typeof syscall === 'string' && /^E[A-Z0-9]+$/.test(code ?? '');
};
