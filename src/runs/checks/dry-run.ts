// `run --dry-run`: checks everything that a pipeline needs and scores ten applications, without writing or committing
// anything.

import { connectorOf, isEndless } from '../../connectors/connectors.ts';
import { topicsWritten } from '../../connectors/kafka/topics.ts';
import { STDIO } from '../../connectors/stdio/stdio-connector.ts';
import { assertExplainable } from '../../engine/stream-spec.ts';
import type { Pipeline } from '../../pipeline/pipeline-schema.ts';
import type { RunContext } from '../context.ts';
import { checkDelivery, interpretationOf } from '../spec.ts';

/** Logs its findings, one line each. @throws SluiceError if the run would fail */
export async function dryRun(pipeline: Pipeline, context: RunContext, log: (line: string) => void): Promise<void> {
  await checkDelivery(pipeline);
  const host = await context.host();
  const hosted = await host.use(pipeline.model);
  log(
    `model ${pipeline.model} is ${hosted.model.ref}, sha256 ${hosted.model.manifest.onnx.sha256.slice(0, 12)}…, ${hosted.pool.evaluator}`,
  );
  hosted.release();
  const interpretation = interpretationOf(pipeline);
  if (interpretation) assertExplainable(hosted.model, interpretation);
  const { source } = pipeline;
  // Kafka is loaded only if the pipeline uses it.
  const topics = () => import('../topics/topic-dry-run.ts');
  if (isEndless(source)) await (await topics()).dryRunOfTopic(pipeline, context, log);
  else {
    if (topicsWritten(pipeline).length > 0) await (await topics()).describeTopics(pipeline, log);
    const name = connectorOf(source).nameOf(source);
    log(`source: ${name === STDIO ? 'standard input' : name} (not read)`);
  }
  log('nothing was written or committed');
}
