// Uncaught errors: logged and counted, and survived as long as the state of the process is known.
import { faultFields, faultOf, fixedWord, type Log, named, words } from '../core/log.ts';

export type FaultKind = 'unhandled_rejection' | 'uncaught_exception';

interface FaultEvents {
  log: Log;
  count: (kind: FaultKind) => void;
  /** An exception left code half done: the process should finish what it can and end. Called once. */
  onLost: (error: unknown) => void;
}

/**
 * Listens until the returned function is called. An unhandled rejection ends nothing, because other work is not
 * affected. An exception thrown out of a callback has interrupted it: only those of the operating system (a socket, a
 * file) are survived, because they are thrown where no other work is running.
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
  // Node prints warnings as lines of its own, which no reader of the log understands.
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

/** Of a call to the operating system, as `ENOSPC` of a write. */
const isOfTheSystem = (error: unknown): boolean => {
  const { code, syscall } = (error ?? {}) as NodeJS.ErrnoException;
  return error instanceof Error && typeof syscall === 'string' && /^E[A-Z0-9]+$/.test(code ?? '');
};
