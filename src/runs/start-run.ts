// Starts a run of any source and sink. Each kind is imported on demand: a run of files must not load the Kafka client.

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
  // Ends with the process.
  watchOutput(spec, metrics);
}

/**
 * A topic waits for a missing model; a model that cannot explain pairs of columns is an error of the pipeline.
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
 * From now on V8 collects earlier. Its new space does not grow: it would to 100 MB and more while records stream through, although few of
 * them outlive the next collection. And the heap grows by at most 80 % between two whole collections, where V8 would let it have three or
 * four times what lives. In a drain of 40,000 records a second that is a peak of 250 MB instead of 330, for 10,000,000 rows of Arrow 170
 * instead of 250, for no CPU that could be measured. V8 reads the flags whenever it thinks of growing; in its command line they do nothing.
 */
export function tuneGarbageCollector(): void {
  setFlagsFromString('--semi-space-growth-factor=1');
  setFlagsFromString('--heap-growing-percent=80');
}
