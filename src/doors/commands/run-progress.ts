// Follows a run to its end: reports progress and the estimated duration, and handles signals.
import { endsAlone, isEndless } from '../../connectors/connectors.ts';
import { inBackground } from '../../core/async.ts';
import { startInterval, stopTimer } from '../../core/clock.ts';
import { SluiceError } from '../../core/errors.ts';
import type { ExplainedProgress } from '../../core/explained-work.ts';
import { type Log, named, words } from '../../core/log.ts';
import { clock, count, Progress } from '../../monitor/progress.ts';
import type { RunningPipeline, RunResult } from '../../runs/context.ts';
import type { RunSpec } from '../../runs/spec.ts';
import type { RunLog } from './run-log.ts';

const LOOK_MS = 500;
/** Only runs that take at least this many seconds get an estimate. */
const LONG_SECONDS = 10;

/**
 * Logs the estimated duration of a run with interpretation, once its first rows were measured. Users can thus cancel
 * the run early. `out`: stream for a person; if null, only the log gets the estimate.
 */
export function tellEstimate(
  running: RunningPipeline,
  { out, log }: { out: NodeJS.WriteStream | null; log: Log | null },
): { stop(): void } {
  const timer = startInterval(() => {
    const explained = running.progress().explained;
    if (!explained || explained.seconds === null) return;
    stopTimer(timer);
    if (explained.seconds < LONG_SECONDS) return;
    const said = estimateText(explained);
    out?.write(`${out.isTTY ? '\r\x1b[K' : ''}sluice: ${said}\n`);
    const { totalRows: rows, seconds } = explained;
    const fields = { rows, evaluations_per_row: evaluationsPerRow(explained), seconds: Math.round(seconds) };
    log?.('info', 'interpretation_estimated', words`${named(said)}`, fields);
  }, LOOK_MS);
  timer.unref();
  return { stop: () => stopTimer(timer) };
}

const evaluationsPerRow = ({ rows, evaluations }: ExplainedProgress): number =>
  rows > 0 ? Math.round(evaluations / rows) : 0;

/** Example: `interpreting 5,000 rows takes about 3:20 (25,501 evaluations per row, limited by max_evaluations)` */
export function estimateText(explained: ExplainedProgress): string {
  const asked = evaluationsPerRow(explained);
  const why = asked === 0 ? '' : ` (${count(asked)} evaluations per row, limited by max_evaluations)`;
  return `interpreting ${count(explained.totalRows)} rows takes about ${clock(explained.seconds ?? 0)}${why}`;
}

/**
 * Waits for the end of a run. A signal stops a run from a topic gracefully, and cancels any other run.
 * @throws SluiceError any error that ends the run; cancelled: a signal ended a run that would have ended by itself
 */
export async function awaitEnd(
  spec: RunSpec,
  running: RunningPipeline,
  options: { stopMs?: number | undefined; quiet?: boolean | undefined },
  { signal, seconds, lines }: { signal: AbortSignal; seconds: () => number; lines: RunLog },
): Promise<RunResult | null> {
  const topic = isEndless(spec.source);
  const stop = () => {
    if (topic) {
      const says = words`stopping: work in progress may finish within ${options.stopMs ?? 0} ms`;
      lines.log('info', 'run_stopping', says);
    }
    inBackground('stopping a run', () => running.stop(options.stopMs ?? 0));
  };
  signal.addEventListener('abort', stop, { once: true });
  if (signal.aborted) stop();
  const shown = options.quiet ? null : topic || lines.json ? lines.progress(running, seconds) : fileProgress(running);
  const long = spec.score.interpretation !== 'none' && !topic && !options.quiet;
  const estimate = long
    ? tellEstimate(running, lines.json ? { out: null, log: lines.log } : { out: process.stderr, log: null })
    : null;
  const result = async (): Promise<RunResult | null> => {
    try {
      return await running.done;
    } catch (error) {
      if (!signal.aborted || (error as Partial<SluiceError>).code !== 'cancelled') throw error;
      if (!topic) throw signal.reason;
      return null;
    }
  };
  try {
    const ended = await result();
    const isStopped = signal.aborted && (signal.reason as Partial<SluiceError>).code === 'cancelled';
    if (topic && isStopped && endsAlone(spec.source)) throw beforeTheEnd(signal.reason);
    return ended;
  } finally {
    estimate?.stop();
    shown?.stop();
  }
}

/** An orchestrator must not take a stopped run for one that has read its topics to their end. */
const beforeTheEnd = (reason: Error): SluiceError => {
  const says = `${reason.message} before the topics were read to their end; the next run continues there`;
  return new SluiceError('cancelled', says, { cause: reason });
};

function fileProgress(running: RunningPipeline): { stop(): void } {
  return new Progress(process.stderr, () => {
    const { counts, bytesRead, totalBytes, explained } = running.progress();
    return { rows: counts.rows, rejected: counts.rejected, bytesRead, totalBytes, explained };
  });
}
