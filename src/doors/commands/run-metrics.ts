// Metrics of a run on the command line: served at a port, or written to a file or a push gateway. Imported only if
// requested.
import { connectorOf, isEndless } from '../../connectors/connectors.ts';
import { epochMs } from '../../core/clock.ts';
import { type Log, named, words } from '../../core/log.ts';
import type { RunEnd } from '../../monitor/left-metrics.ts';
import type { Metrics } from '../../monitor/metrics.ts';
import type { MetricsServer } from '../../monitor/metrics-server.ts';
import type { RunContext, RunningPipeline } from '../../runs/context.ts';
import type { RunSpec } from '../../runs/spec.ts';

export interface MetricsOptions {
  metricsPort?: number | undefined;
  metricsHost?: string | undefined;
  /** File to which the metrics are written at the end of the run, in the Prometheus text format. */
  metricsFile?: string | undefined;
  /** Push gateway that receives the metrics at the end of the run. */
  pushGateway?: string | undefined;
}

interface DrivenRun {
  spec: RunSpec;
  context: Pick<RunContext, 'name' | 'account'>;
  /** Null if the run has not started. */
  running: () => RunningPipeline | null;
}

export async function metricsFor(spec: RunSpec, options: MetricsOptions): Promise<Metrics | null> {
  const { metricsPort, metricsFile, pushGateway } = options;
  // An invalid address must be reported before the run starts.
  if (pushGateway !== undefined) (await import('./leave-metrics.ts')).gatewayOf(pushGateway);
  const asked = metricsPort !== undefined || metricsFile !== undefined || pushGateway !== undefined;
  const wanted = asked || isEndless(spec.source);
  // Imported only if metrics are needed, so that a run of files stays small.
  if (!wanted) return null;
  const { Metrics } = await import('../../monitor/metrics.ts');
  return new Metrics(isEndless(spec.source) ? 'topic_run' : 'batch_run');
}

export async function openMetrics(
  metrics: Metrics | null,
  { metricsPort, metricsHost = '127.0.0.1', log }: MetricsOptions & { log: Log },
  run: DrivenRun,
): Promise<MetricsServer | null> {
  if (!metrics || metricsPort === undefined) return null;
  const { serveMetrics } = await import('../../monitor/metrics-server.ts');
  const { reportPipeline } = await import('../../monitor/pipeline-report.ts');
  const ready = () => run.running() !== null && (run.running()!.ready?.() ?? true);
  const started = new Date(epochMs()).toISOString();
  const pipelines = () => reportPipeline(metrics, { ...stateOf(run), started }, ready());
  const server = await serveMetrics(metrics, { host: metricsHost, port: metricsPort, ready, pipelines });
  const address = named(`http://${metricsHost}:${server.port}/metrics`);
  log('info', 'metrics_served', words`metrics on ${address}`, { address });
  return server;
}

/** State of the pipeline that this process runs. */
function stateOf({ spec: { source, sink, model }, context: { name, account }, running }: DrivenRun) {
  const { rows, scored, rejected, rejectedByCode } = account.progress;
  const lag = isEndless(source) ? (running()?.progress().lag ?? 0) : null;
  const ends = { source: connectorOf(source).nameOf(source), sink: connectorOf(sink).nameOf(sink) };
  return { name, model, ...ends, lag, rows, scored, rejected, rejectedByCode: { ...rejectedByCode } };
}

export async function writeRunMetrics(
  metrics: Metrics,
  end: RunEnd,
  { metricsFile: file, pushGateway: gateway, log }: MetricsOptions & { log: Log },
  begun: boolean,
): Promise<void> {
  if (file === undefined && gateway === undefined) return;
  const { leaveMetrics } = await import('./leave-metrics.ts');
  await leaveMetrics(metrics, end, { file, gateway, begun, log });
}
