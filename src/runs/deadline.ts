// Warns early if a run will miss its deadline.
import { connectorOf } from '../connectors/connectors.ts';
import { epochMs, startInterval, stopTimer } from '../core/clock.ts';
import { SluiceError } from '../core/errors.ts';
import { type Log, named, words } from '../core/log.ts';
import { localTime, momentOf } from '../core/time-of-day.ts';
import { clock } from '../monitor/progress.ts';
import type { RunContext, RunProgress } from './context.ts';
import type { RunSpec } from './spec.ts';

/** No estimate is made before this time, because the first seconds are spent starting workers. */
const EARLIEST_MS = 10_000;

/** @throws SluiceError usage */
export function deadlineOf(text: string, now = epochMs()): number {
  const at = momentOf(text, now);
  if (at !== null) return at;
  throw new SluiceError('usage', 'a deadline must be a time of day (06:00) or a date and time (2026-11-23T06:00)');
}

interface DeadlineWatchOptions {
  /** ms since 1970. */
  deadline: number;
  began: number;
  log: Log;
}

/** Compares the estimated end with the deadline. Call `look` during the run; it logs only when the verdict changes. */
export class DeadlineWatch {
  readonly #options: DeadlineWatchOptions;
  #late = false;

  constructor(options: DeadlineWatchOptions) {
    this.#options = options;
  }

  /** Returns the seconds between the estimated end and the deadline; negative if the run will be late. */
  look({ bytesRead, totalBytes }: Pick<RunProgress, 'bytesRead' | 'totalBytes'>, now = epochMs()): number {
    const { deadline, began, log } = this.#options;
    const spent = now - began;
    const part = totalBytes === null || totalBytes === 0 ? 0 : Math.min(1, bytesRead / totalBytes);
    // Without an estimate, the run is assumed to end now.
    const left = part === 0 || spent < EARLIEST_MS ? 0 : (spent / part) * (1 - part);
    const slack = (deadline - now - left) / 1000;
    const by = named(clock(Math.abs(slack)));
    const at = named(localTime(deadline));
    const fields = { slack_seconds: Math.round(slack) };
    if (slack < 0 && !this.#late)
      log(
        'warn',
        'deadline_at_risk',
        words`the run will be late: estimated end ${by} after its deadline, ${at}`,
        fields,
      );
    else if (slack >= 0 && this.#late)
      log(
        'info',
        'deadline_safe',
        words`the run is on schedule again: estimated end ${by} before its deadline, ${at}`,
        fields,
      );
    this.#late = slack < 0;
    return slack;
  }

  /** Returns the seconds between the actual end and the deadline. Logs a warning if the run was late. */
  end(now = epochMs()): number {
    const { deadline, log } = this.#options;
    const slack = (deadline - now) / 1000;
    const says = words`the run was late: it ended ${named(clock(Math.abs(slack)))} after its deadline, ${named(localTime(deadline))}`;
    if (slack < 0) log('warn', 'deadline_missed', says, { slack_seconds: Math.round(slack) });
    return slack;
  }
}

const EVERY_MS = 5_000;

/**
 * Watches the deadline of a run. `end` stops watching and returns the seconds left until the deadline, or null if the
 * run has no deadline.
 * @throws SluiceError usage
 */
export function followDeadline(
  spec: Pick<RunSpec, 'deadline' | 'source'>,
  { metrics, name, log }: Pick<RunContext, 'metrics' | 'name' | 'log'>,
  progress: () => RunProgress | null,
): { end(): number | null } {
  if (spec.deadline === undefined) return { end: () => null };
  if (connectorOf(spec.source).capabilities.reads !== 'bytes') {
    throw new SluiceError('usage', 'a deadline is supported for files and standard input only');
  }
  const began = epochMs();
  const watch = new DeadlineWatch({ deadline: deadlineOf(spec.deadline, began), began, log });
  const look = (): void => {
    const { bytesRead, totalBytes, explained } = progress() ?? { bytesRead: 0, totalBytes: null, explained: null };
    // Computing effects can take most of the time. In that case, the bytes read are a poor measure of progress.
    const done = explained ? { bytesRead: explained.share, totalBytes: 1 } : { bytesRead, totalBytes };
    metrics?.runSlack.set({ pipeline: name }, watch.look(done));
  };
  look();
  const timer = startInterval(look, EVERY_MS);
  timer.unref();
  return {
    end: () => {
      stopTimer(timer);
      return watch.end();
    },
  };
}
