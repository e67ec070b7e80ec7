// For runs on the command line: creates the services that all parts of a run share (registry, models, row counts).
import type { Log } from '../../core/log.ts';
import type { Tracer } from '../../core/tracing.ts';
import type { ModelHost } from '../../engine/model-host.ts';
import type { Metrics } from '../../monitor/metrics.ts';
import { textLog } from '../../monitor/open-log.ts';
import { RunAccount } from '../../runs/account.ts';
import type { RunContext } from '../../runs/context.ts';
import type { RunSpec } from '../../runs/spec.ts';
import { openRegistry } from './open-registry.ts';

interface DrivenContext extends RunContext {
  close(): Promise<void>;
}

interface ContextOptions {
  /** Name of the pipeline, used as a label of metrics. */
  name: string;
  registry?: string | undefined;
  /** File to which the metrics are written at the end of the run, in the Prometheus text format. */
  metricsFile?: string | undefined;
  log?: Log;
  tracer?: Tracer | null;
}

/** Creates the shared services of a run. */
export async function contextFor(
  spec: Pick<
    RunSpec,
    'score' | 'report' | 'require_lock' | 'require_signature' | 'require_signer' | 'require_approval'
  >,
  { name, registry: address, metricsFile, log = textLog(), tracer = null }: ContextOptions,
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
      ...(metricsFile === undefined ? [] : [{ name: metricsFile, role: 'the metrics file' }]),
      ...(spec.report === undefined ? [] : [{ name: spec.report, role: 'the report' }]),
    ],
    log,
    tracer,
    close: async () => (await host)?.close(),
  };
}
