// Log events of a run: start, progress, end, and uncaught errors.

import { randomUUID } from 'node:crypto';
import { isEndless } from '../../connectors/connectors.ts';
import { startInterval, stopTimer } from '../../core/clock.ts';
import type { SluiceError } from '../../core/errors.ts';
import { fixedWord, type Log, type LogFields, named, withFields, words } from '../../core/log.ts';
import { parseTraceparent, type Tracer, traceFields } from '../../core/tracing.ts';
import type { RunCounts } from '../../engine/counts.ts';
import type { Metrics } from '../../monitor/metrics.ts';
import { counted, type OpenedLog, textLog } from '../../monitor/open-log.ts';
import { hearBackgroundFaults, hearFaults } from '../../monitor/process-faults.ts';
import { count } from '../../monitor/progress.ts';
import type { RunningPipeline, RunResult } from '../../runs/context.ts';
import type { RunSpec } from '../../runs/spec.ts';
import { equation, rate } from '../../runs/summary.ts';

const PROGRESS_MS = 10_000;

interface RunEnd {
  /** Counts of the rows in published outputs. */
  counts: Readonly<RunCounts>;
  /** Number of rows in inputs that the gate stopped. */
  stopped: number;
  result: RunResult | null;
  seconds: number;
  /** The error that ended the run; null if it succeeded. */
  failure: SluiceError | null;
}

export interface RunLog {
  /** Log that adds the run id and the name of the pipeline to each line. */
  readonly log: Log;
  /** Whether the log format is JSON. */
  readonly json: boolean;
  /** The uncaught exception that made the state of the process unknown; null if there was none. */
  readonly lost: Error | null;
  started(): void;
  /** Logs the progress every ten seconds, and once more at `stop`. */
  progress(running: RunningPipeline, seconds: () => number): { stop(): void };
  /** Logs the end of the run. */
  ended(end: RunEnd): void;
  /**
   * Keeps the process alive after uncaught errors, until the returned function is called. `abort` stops the run
   * gracefully.
   */
  survive(abort: (reason: Error) => void): () => void;
}

export function runLog(
  { model, source, sink }: RunSpec,
  { name, logged, tracer }: { name: string; logged?: OpenedLog | undefined; tracer: Tracer | null },
  metrics: Metrics | null,
): RunLog {
  const json = logged?.json ?? false;
  // The parent trace comes from the environment, as with the tools of OpenTelemetry.
  const parent = parseTraceparent(process.env.TRACEPARENT);
  const span = tracer?.begin(words`run`, { kind: 'internal', parent }) ?? null;
  const trace = traceFields(span?.context ?? parent);
  const fixed = { run_id: named(randomUUID()), pipeline: named(name), ...trace };
  const opened = withFields(logged?.log ?? textLog(), fixed);
  const log = metrics ? counted(opened, metrics) : opened;
  // The caller logs the error that ends the run, so the caller's log must have the fields of the run.
  if (logged) logged.log = log;
  let lost: Error | null = null;
  return {
    log,
    json,
    get lost() {
      return lost;
    },
    started() {
      const ends = { source: fixedWord(source.type), sink: fixedWord(sink.type) };
      if (json)
        log('info', 'run_started', words`${named(name)} is running with ${named(model)}`, {
          model: named(model),
          ...ends,
        });
    },
    progress(running, seconds) {
      const tell = () => {
        const { counts, lag, bytesRead, totalBytes } = running.progress();
        const speed = words`${named(count(rate(counts.rows, seconds())))} rows/s`;
        const behind = lag === null ? words`` : words`, lag ${named(count(lag))}`;
        const fields = { ...countsOf(counts), lag, bytes_read: bytesRead, bytes_total: totalBytes };
        log('info', 'run_progress', words`${named(equation(counts))}, ${speed}${behind}`, fields);
      };
      const timer = startInterval(tell, PROGRESS_MS);
      timer.unref();
      return {
        stop() {
          stopTimer(timer);
          if (isEndless(source)) tell();
        },
      };
    },
    ended({ counts, stopped, result, seconds, failure }) {
      const bytes = { bytes_read: result?.bytesRead, bytes_written: result?.bytesWritten };
      const code = failure === null ? {} : { code: failure.code };
      const nothing = failure !== null && counts.rows === 0 && !isEndless(source);
      const published = nothing ? 'nothing was published' : equation(counts);
      const outcome = stopped === 0 ? published : `${published}; ${count(stopped)} rows read were stopped by the gate`;
      const fields = { ...countsOf(counts), ...bytes, seconds: Math.round(seconds * 1000) / 1000, ...code };
      span?.end({ ...fixed, ...fields }, lost ?? undefined);
      if (json) log(failure === null ? 'info' : 'error', 'run_finished', named(outcome), fields);
    },
    survive(abort) {
      if (!logged) return () => {};
      const unhear = hearBackgroundFaults(log, (task) => metrics?.background.inc({ task }));
      const off = hearFaults({
        log,
        count: (kind) => metrics?.processFaults.inc({ kind }),
        onLost: (error) => {
          lost = error as Error;
          abort(lost);
        },
      });
      return () => {
        off();
        unhear();
      };
    },
  };
}

const countsOf = ({ rows, scored, rejected, skipped }: Readonly<RunCounts>): LogFields => ({
  rows,
  scored,
  rejected,
  ...(skipped === undefined ? {} : { skipped }),
});
