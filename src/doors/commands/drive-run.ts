// Drives a run from the command line, whatever its source: signals, progress, metrics, summary and exit code.
import { endsAlone, isEndless } from '../../connectors/connectors.ts';
import { monotonicMs } from '../../core/clock.ts';
import { asSluiceError, type SluiceError } from '../../core/errors.ts';
import { Probe } from '../../inference/sandbox/probe.ts';
import type { OpenedLog } from '../../monitor/open-log.ts';
import { openTracer } from '../../monitor/otlp-tracer.ts';
import { type RunContext, type RunningPipeline, type RunResult, rejectedInAll } from '../../runs/context.ts';
import { followDeadline } from '../../runs/deadline.ts';
import { RunFindings } from '../../runs/gate.ts';
import type { RunSpec } from '../../runs/spec.ts';
import { startRun } from '../../runs/start-run.ts';
import { driftOfRun, summaryOf, summaryText } from '../../runs/summary.ts';
import { EXIT, exitCodeOf } from './exit-codes.ts';
import { contextFor } from './run-context.ts';
import { openRunFiles } from './run-files.ts';
import { runLog } from './run-log.ts';
import { type MetricsOptions, metricsFor, openMetrics, writeRunMetrics } from './run-metrics.ts';
import { awaitEnd } from './run-progress.ts';
import { endWithin, signalled, whenProgramEnds } from './signals.ts';

/** Maximum time in ms, beyond that of `endWithin`, for closing everything after the end of a run from a topic. */
const CLOSING_PATIENCE_MS = 60_000;

interface DriveOptions extends MetricsOptions {
  /** Name of the pipeline, used as a label of metrics. */
  name: string;
  registry?: string | undefined;
  /** Maximum time in ms to finish work in progress after SIGTERM. */
  stopMs?: number | undefined;
  json?: boolean | undefined;
  quiet?: boolean | undefined;
  /** The log. If absent, messages are printed for a person, and uncaught errors end the process. */
  logged?: OpenedLog | undefined;
}

/** Prints a message for the person at the command line. */
export const say = (text: string): void => {
  process.stderr.write(`sluice: ${text}\n`);
};

/** Runs until the end and returns the exit code. @throws SluiceError any error that ends the run */
export async function driveRun(spec: RunSpec, options: DriveOptions): Promise<number> {
  // Starts the process that compares evaluators now, while the model is being resolved.
  if (spec.score.evaluator !== 'onnxruntime') Probe.prepare();
  const metrics = await metricsFor(spec, options);
  const tracer = options.logged ? await openTracer({ env: process.env, log: options.logged.log }) : null;
  const lines = runLog(spec, { ...options, tracer }, metrics);
  const { log } = lines;
  const findings = new RunFindings(spec.report !== undefined || spec.run_records !== undefined);
  const context = { ...(await contextFor(spec, { ...options, log, tracer }, metrics)), findings };
  const state: { running: RunningPipeline | null } = { running: null };
  const deadline = followDeadline(spec, context, () => state.running?.progress() ?? null);
  const server = await openMetrics(metrics, { ...options, log }, { spec, context, running: () => state.running });
  const { signal, dispose, abort } = signalled();
  const unhear = lines.survive(abort);
  let doing = 'the run';
  const work = () => doing;
  signal.addEventListener('abort', () => endWithin(options.stopMs ?? 0, 'the signal', work, log), { once: true });
  const began = monotonicMs();
  const seconds = () => (monotonicMs() - began) / 1000;
  const files = await openRunFiles(spec, { name: options.name, log, running: () => state.running, seconds });
  let result: RunResult | null = null;
  let exitCode: number = EXIT.failed;
  let ended: SluiceError | null = null;
  try {
    const running = await startRun(spec, context);
    state.running = running;
    lines.started();
    result = await awaitEnd(spec, running, options, { signal, seconds, lines });
    if (lines.lost) throw lines.lost;
    // Rows that an earlier run rejected count too, or a repeated run that skips their input would hide them.
    const hasRejected = rejectedInAll(context.account.totals, result) > 0;
    exitCode = hasRejected && endsAlone(spec.source) ? EXIT.rejected : EXIT.done;
    return exitCode;
  } catch (error) {
    ended = asSluiceError(error, 'internal_error');
    result ??= state.running?.published?.() ?? null;
    exitCode = exitCodeOf(ended);
    throw error;
  } finally {
    dispose();
    const slackSeconds = deadline.end();
    doing = 'close source and sink';
    // The client of a broker has many connections and timers. One that it forgets would keep the process alive.
    const closesAlone = isEndless(spec.source) && !signal.aborted;
    const closing = closesAlone ? endWithin(CLOSING_PATIENCE_MS, 'the end of the run', work, log) : null;
    await state.running?.stop(options.stopMs ?? 0);
    Probe.dismiss();
    tellSummary(spec, { ...options, quiet: options.quiet || lines.json }, context, result, seconds());
    const { totals: rows } = context.account;
    lines.ended({ counts: rows, stopped: findings.stoppedRows, result, seconds: seconds(), failure: ended });
    await files.leave({ counts: rows, findings, result, exitCode, error: ended });
    doing = 'stop the workers';
    await context.close();
    doing = 'the metrics server';
    await server?.close();
    doing = 'the process';
    unhear();
    await tracer?.close();
    const end = {
      pipeline: options.name,
      exitCode,
      success: isSuccess(exitCode),
      seconds: seconds(),
      rows,
      slackSeconds,
    };
    // If the command line is invalid, the path for metrics may name an unrelated file, so nothing is written to it.
    if (metrics && exitCode !== EXIT.usage)
      await writeRunMetrics(metrics, end, { ...options, log }, state.running !== null);
    closing?.cancel();
    if (closing) whenProgramEnds(() => endWithin(0, 'the end of the run', work, log));
  }
}

/** Prints the summary even if the run failed, because its counts are valid. */
function tellSummary(
  spec: RunSpec,
  options: DriveOptions,
  { account, findings }: RunContext & { findings: RunFindings },
  result: RunResult | null,
  seconds: number,
): void {
  const { totals } = account;
  const found = findings.inputs;
  const stopped = found.some(({ gate }) => gate?.verdict === 'stopped');
  const failed = result === null && !isEndless(spec.source);
  if (failed && totals.rows === 0 && !(stopped && options.json)) return;
  if (options.json) {
    const text = `${JSON.stringify(summaryOf(spec, totals, result, seconds, driftOfRun(account, findings), found))}\n`;
    (spec.sink.type === 'stdio' ? process.stderr : process.stdout).write(text);
  } else if (!options.quiet && !isEndless(spec.source)) {
    const width = process.stderr.isTTY ? (process.stderr.columns ?? 80) : null;
    process.stderr.write(summaryText(spec, totals, result, seconds, driftOfRun(account, findings), found, width));
  }
}

const isSuccess = (exitCode: number): boolean => exitCode === EXIT.done || exitCode === EXIT.rejected;
