// Starts a run with any source and sink. Each kind of run is imported on demand, so that a run of files does not load
// the Kafka client.

import { setFlagsFromString } from 'node:v8';
import { connectorOf } from '../connectors/connectors.ts';
import { SluiceError } from '../core/errors.ts';
import { assertExplainable } from '../engine/stream-spec.ts';
import type { Metrics } from '../monitor/metrics.ts';
import type { FiniteSource } from '../pipeline/pipeline-schema.ts';
import type { RunContext, RunningPipeline } from './context.ts';
import { checkDelivery, interpretationOf, type RunSpec } from './spec.ts';
import type { TopicSpec } from './topics/answer-records.ts';

async function measured(spec: RunSpec, metrics: Metrics): Promise<void> {
  const { measureCertificatesOf, watchOutput } = await import('./measure-ends.ts');
  measureCertificatesOf([spec], metrics);
  // The measurement is never stopped, because it ends with the process.
  watchOutput(spec, metrics);
}

/**
 * Rejects interactions if the model cannot explain pairs of columns. A missing model is not an error here, because a
 * run from a topic waits for its model.
 * @throws SluiceError interpretation_unavailable
 */
async function refuseInteractions(spec: RunSpec, { registry }: RunContext): Promise<void> {
  if (spec.score.interactions === undefined) return;
  const model = await registry.resolve(spec.model).catch(() => null);
  if (model) assertExplainable(model, interpretationOf(spec));
}

/** @throws SluiceError interpretation_unavailable | kafka_* | model_* | input_* | output_* */
export async function startRun(spec: RunSpec, context: RunContext): Promise<RunningPipeline> {
  const { source } = spec;
  tuneGarbageCollector();
  if (context.metrics) await measured(spec, context.metrics);
  const { reads } = connectorOf(source).capabilities;
  if (reads === 'bytes' || reads === 'rows') {
    const { startFileRun } = await import('./file-run.ts');
    return startFileRun({ ...spec, source: source as FiniteSource }, context);
  }
  if (reads === 'requests') {
    throw new SluiceError('usage', `a source of type ${source.type} is served by sluice serve`);
  }
  await checkDelivery(spec);
  await refuseInteractions(spec, context);
  return (await import('./topics/topic-run.ts')).startTopicRun(spec as TopicSpec, context);
}

/**
 * Makes V8 collect garbage earlier. The young generation no longer grows. Otherwise, it would reach 100 MB or more
 * while records stream through, although few objects survive a collection. Between two full collections, the heap grows
 * by at most 80 %, instead of to three or four times the live data. Peak memory falls from 330 to 250 MB at 40,000
 * records per second, and from 250 to 170 MB for 10,000,000 rows of Arrow. No CPU cost was measurable. V8 reads these
 * flags whenever it considers growing the heap; on the command line, they have no effect.
 */
export function tuneGarbageCollector(): void {
  setFlagsFromString('--semi-space-growth-factor=1');
  setFlagsFromString('--heap-growing-percent=80');
}
