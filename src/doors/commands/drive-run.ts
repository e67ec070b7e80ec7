// Drives a run from the command line, whatever its spec came from: signals, progress, metrics, summary and exit code.
import { isEndless } from '../../connectors/connectors.ts';
import { inBackground } from '../../core/async.ts';
import { epochMs, monotonicMs } from '../../core/clock.ts';
import { asSluiceError, type SluiceError } from '../../core/errors.ts';
import { type Log, named, words } from '../../core/log.ts';
import type { Tracer } from '../../core/tracing.ts';
import type { ModelHost } from '../../engine/model-host.ts';
import { Probe } from '../../inference/sandbox/probe.ts';
import type { RunEnd } from '../../monitor/left-metrics.ts';
import type { Metrics } from '../../monitor/metrics.ts';
import type { MetricsServer } from '../../monitor/metrics-server.ts';
import { type OpenedLog, textLog } from '../../monitor/open-log.ts';
import { openTracer } from '../../monitor/otlp-tracer.ts';
import { Progress } from '../../monitor/progress.ts';
import { RunAccount } from '../../runs/account.ts';
import type { RunContext, RunningPipeline, RunResult } from '../../runs/context.ts';
import { followDeadline } from '../../runs/deadline.ts';
import { RunFindings } from '../../runs/gate.ts';
import type { RunSpec } from '../../runs/spec.ts';
import { startRun } from '../../runs/start-run.ts';
import { summaryOf, summaryText } from '../../runs/summary.ts';
import { EXIT, exitCodeOf } from './exit-codes.ts';
import type { leaveReport } from './leave-report.ts';
import { openRegistry } from './open-registry.ts';
import { type RunLog, runLog } from './run-log.ts';
import { endWithin, signalled } from './signals.ts';
import { tellEstimate } from './tell-estimate.ts';

interface DriveOptions {
  /** Of the pipeline; a label of metrics. */
  name: string;
  registry?: string | undefined;
  metricsPort?: number | undefined;
  metricsHost?: string | undefined;
  /** File for the metrics after the run, in the text format of Prometheus. */
  metricsFile?: string | undefined;
  /** Push gateway at which they are left. */
  pushGateway?: string | undefined;
  /** Time for work in progress after SIGTERM, ms. */
  stopMs?: number | undefined;
  json?: boolean | undefined;
  quiet?: boolean | undefined;
  /** Absent: messages for a person, and uncaught errors end the process. */
  logged?: OpenedLog | undefined;
}

/** Prints a message for the person at the command line. */
export const say = (text: string): void => {
  process.stderr.write(`sluice: ${text}\n`);
};

/** Runs to the end; returns the exit code. @throws SluiceError what ends the run */
export async function driveRun(spec: RunSpec, options: DriveOptions): Promise<number> {
  // The process that compares evaluators starts while the model is looked up.
  if (spec.score.evaluator !== 'onnxruntime') Probe.prepare();
  const metrics = await metricsFor(spec, options);
  const tracer = options.logged ? await openTracer({ env: process.env, log: options.logged.log }) : null;
  const lines = runLog(spec, { ...options, tracer }, metrics);
  const { log } = lines;
  const findings = new RunFindings(spec.report !== undefined);
  const context = { ...(await contextFor(spec, { ...options, log, tracer }, metrics)), findings };
  const state: { running: RunningPipeline | null } = { running: null };
  const deadline = followDeadline(spec, context, () => state.running?.progress() ?? null);
  const server = await openMetrics(
    metrics,
    { ...options, log },
    () => state.running !== null && (state.running.ready?.() ?? true),
  );
  const { signal, dispose, abort } = signalled();
  const unhear = lines.survive(abort);
  let doing = 'the run';
  signal.addEventListener('abort', () => endWithin(options.stopMs ?? 0, () => doing, log), { once: true });
  const began = monotonicMs();
  const seconds = () => (monotonicMs() - began) / 1000;
  const report = await reportFor(spec, () => state.running, seconds);
  let result: RunResult | null = null;
  let exitCode: number = EXIT.failed;
  let ended: SluiceError | null = null;
  try {
    const running = await startRun(spec, context);
    state.running = running;
    lines.started();
    result = await finished(spec, running, options, { signal, seconds, lines });
    if (lines.lost) throw lines.lost;
    exitCode = context.account.totals.rejected > 0 && !isEndless(spec.source) ? EXIT.rejected : EXIT.done;
    return exitCode;
  } catch (error) {
    ended = asSluiceError(error, 'internal_error');
    exitCode = exitCodeOf(ended);
    throw error;
  } finally {
    dispose();
    const slackSeconds = deadline.end();
    doing = 'leaving source and sink';
    await state.running?.stop(options.stopMs ?? 0);
    Probe.dismiss();
    tellSummary(spec, { ...options, quiet: options.quiet || lines.json }, context, result, seconds());
    lines.ended(context.account.totals, result, seconds());
    await report?.leave({ name: options.name, findings, result, exitCode, error: ended?.message ?? null }, log);
    doing = 'the end of the workers';
    await context.close();
    doing = 'the server of metrics';
    await server?.close();
    doing = 'the process';
    unhear();
    await tracer?.close();
    const { totals: rows } = context.account;
    const end = {
      pipeline: options.name,
      exitCode,
      success: isSuccess(exitCode),
      seconds: seconds(),
      rows,
      slackSeconds,
    };
    // A command line that is wrong may name anything as the file of metrics.
    if (metrics && exitCode !== EXIT.usage) await leave(metrics, end, { ...options, log }, state.running !== null);
  }
}

type LeftReport = Omit<Parameters<typeof leaveReport>[1], 'spec' | 'began' | 'seconds' | 'progress'>;

/** null: none is requested. */
async function reportFor(spec: RunSpec, running: () => RunningPipeline | null, seconds: () => number) {
  const file = spec.report;
  if (file === undefined) return null;
  const { leaveReport, ThroughputWatch } = await import('./leave-report.ts');
  const began = new Date(epochMs());
  const watch = new ThroughputWatch(running, seconds);
  return {
    async leave(run: LeftReport, log: Log): Promise<void> {
      const progress = watch.end();
      // The report of a refused run may be any file.
      if (running() !== null) await leaveReport(file, { ...run, spec, began, seconds: seconds(), progress }, log);
    },
  };
}

/** Waits for the end. A signal asks the run to stop: a topic is left in order, anything else is cancelled. */
async function finished(
  spec: RunSpec,
  running: RunningPipeline,
  options: DriveOptions,
  { signal, seconds, lines }: { signal: AbortSignal; seconds: () => number; lines: RunLog },
): Promise<RunResult | null> {
  const topic = isEndless(spec.source);
  const stop = () => {
    if (topic) {
      const says = words`stopping: what is in hand may finish within ${options.stopMs ?? 0} ms`;
      lines.log('info', 'run_stopping', says);
    }
    inBackground('stopping a run', () => running.stop(options.stopMs ?? 0));
  };
  signal.addEventListener('abort', stop, { once: true });
  if (signal.aborted) stop();
  const told = options.quiet ? null : topic || lines.json ? lines.progress(running, seconds) : fileProgress(running);
  const long = spec.score.interpretation !== 'none' && !topic && !options.quiet;
  const estimate = long
    ? tellEstimate(running, lines.json ? { out: null, log: lines.log } : { out: process.stderr, log: null })
    : null;
  try {
    return await running.done;
  } catch (error) {
    if (!signal.aborted || (error as Partial<SluiceError>).code !== 'cancelled') throw error;
    if (!topic) throw signal.reason;
    return null;
  } finally {
    estimate?.stop();
    told?.stop();
  }
}

function fileProgress(running: RunningPipeline): { stop(): void } {
  return new Progress(process.stderr, () => {
    const { counts, bytesRead, totalBytes, explained } = running.progress();
    return { rows: counts.rows, rejected: counts.rejected, bytesRead, totalBytes, explained };
  });
}

/** Includes failed runs: their counts are valid. */
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
    const text = `${JSON.stringify(summaryOf(spec, totals, result, seconds, account.drift, found))}\n`;
    (spec.sink.type === 'stdio' ? process.stderr : process.stdout).write(text);
  } else if (!options.quiet && !isEndless(spec.source)) {
    process.stderr.write(summaryText(spec, totals, result, seconds, account.drift, found));
  }
}

async function metricsFor(spec: RunSpec, options: DriveOptions): Promise<Metrics | null> {
  const { metricsPort, metricsFile, pushGateway } = options;
  // An error in it must be reported before the run.
  if (pushGateway !== undefined) (await import('./leave-metrics.ts')).gatewayOf(pushGateway);
  const asked = metricsPort !== undefined || metricsFile !== undefined || pushGateway !== undefined;
  const wanted = asked || isEndless(spec.source);
  // Loaded only if metrics are served, because a run of files must not pay for them.
  if (!wanted) return null;
  const { Metrics } = await import('../../monitor/metrics.ts');
  return new Metrics(isEndless(spec.source) ? 'topic_run' : 'batch_run');
}

async function openMetrics(
  metrics: Metrics | null,
  { metricsPort, metricsHost = '127.0.0.1', log }: DriveOptions & { log: Log },
  ready: () => boolean,
): Promise<MetricsServer | null> {
  if (!metrics || metricsPort === undefined) return null;
  const { serveMetrics } = await import('../../monitor/metrics-server.ts');
  const server = await serveMetrics(metrics, metricsHost, metricsPort, ready);
  const address = named(`http://${metricsHost}:${server.port}/metrics`);
  log('info', 'metrics_served', words`metrics on ${address}`, { address });
  return server;
}

const isSuccess = (exitCode: number): boolean => exitCode === EXIT.done || exitCode === EXIT.rejected;

async function leave(
  metrics: Metrics,
  end: RunEnd,
  { metricsFile: file, pushGateway: gateway, log }: DriveOptions & { log: Log },
  begun: boolean,
): Promise<void> {
  if (file === undefined && gateway === undefined) return;
  const { leaveMetrics } = await import('./leave-metrics.ts');
  await leaveMetrics(metrics, end, { file, gateway, begun, log });
}

interface DrivenContext extends RunContext {
  close(): Promise<void>;
}

/** Services of the process for a run. */
export async function contextFor(
  spec: Pick<
    RunSpec,
    'score' | 'report' | 'require_lock' | 'require_signature' | 'require_signer' | 'require_approval'
  >,
  {
    name,
    registry: address,
    metricsFile,
    log = textLog(),
    tracer = null,
  }: Pick<DriveOptions, 'name' | 'registry' | 'metricsFile'> & { log?: Log; tracer?: Tracer | null },
  metrics: Metrics | null,
): Promise<DrivenContext> {
  const registry = await openRegistry(address, {
    log,
    trust: spec,
    onLookup: (outcome) => metrics?.lookups.inc({ outcome }),
  });
  let host: Promise<ModelHost> | null = null;
  const open = async (): Promise<ModelHost> => {
    const [{ ModelHost }, { hostEvents, measureHost }, { tryPackage }, { defaultWorkers }] = await Promise.all([
      import('../../engine/model-host.ts'),
      import('../../engine/host-events.ts'),
      import('../../onboarding/trial.ts'),
      import('../../runs/input-scorer.ts'),
    ]);
    const opened = new ModelHost({
      registry,
      workers: spec.score.workers ?? defaultWorkers(),
      engine: spec.score.evaluator,
      max: 4,
      tryOut: tryPackage,
      ...(metrics ? hostEvents(metrics, log) : {}),
    });
    if (metrics) measureHost(metrics, opened);
    return opened;
  };
  return {
    name,
    registry,
    host: () => {
      host ??= open();
      return host;
    },
    account: new RunAccount(metrics, name),
    metrics,
    beside: [
      ...(metricsFile === undefined ? [] : [{ name: metricsFile, role: 'the file of metrics' }]),
      ...(spec.report === undefined ? [] : [{ name: spec.report, role: 'the report' }]),
    ],
    log,
    tracer,
    close: async () => (await host)?.close(),
  };
}
