// Logs the estimated duration of a run with interpretation once its first rows were measured, so that users can cancel it early.
import { startInterval, stopTimer } from '../../core/clock.ts';
import type { ExplainedProgress } from '../../core/explained-work.ts';
import { type Log, named, words } from '../../core/log.ts';
import { clock, count } from '../../monitor/progress.ts';
import type { RunningPipeline } from '../../runs/context.ts';

const LOOK_MS = 500;
/** Shorter runs need no estimate. */
const LONG_SECONDS = 10;

/** `out`: where a person reads it; null: it goes to the log alone, as it does anyway where that is read by machines. */
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

/** `interpretation of 5,000 rows takes about 3:20 (25,501 evaluations a row; --max-evaluations bounds them)` */
export function estimateText(explained: ExplainedProgress): string {
  const asked = evaluationsPerRow(explained);
  const why = asked === 0 ? '' : ` (${count(asked)} evaluations per row, limited by max_evaluations)`;
  return `interpreting ${count(explained.totalRows)} rows takes about ${clock(explained.seconds ?? 0)}${why}`;
}
