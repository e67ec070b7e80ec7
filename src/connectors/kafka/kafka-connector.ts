// Connector for Kafka topics as sources and sinks. The client library is loaded when a topic is opened.
import { TRACE_HEADER } from '../../core/tracing.ts';
import type { Connector, PredictionSink, SinkRun, UploadRun } from '../contract/connector.ts';
import { KAFKA_ENDS, type KafkaConfig, type KafkaSink, type KafkaSource } from './kafka-options.ts';
import type { ValueSettings } from './record-values.ts';

/** The pipeline settings that a topic sink needs. */
export interface WrittenTopicPipeline extends ValueSettings {
  readonly kafka: KafkaConfig;
  readonly sink: { readonly type: string };
  readonly delivery: 'exactly_once' | 'at_least_once';
  readonly transaction_rows: number;
  readonly transaction_timeout_ms: number;
}

export const KAFKA = {
  capabilities: {
    reads: 'records',
    writes: 'records',
    takes: ['bytes', 'rows', 'records', 'requests'],
    transact: true,
    withhold: false,
  },
  page: 'pipelines.md',
  options: KAFKA_ENDS,
  warnings: async (pipeline) => (await import('./kafka-lint.ts')).topicWarnings(pipeline as never),
  lint: async (pipeline, say) => (await import('./kafka-lint.ts')).lintTopics(pipeline as never, say),
  nameOf: (end: KafkaSource | KafkaSink) =>
    'group' in end ? (end.topic ?? end.topics?.join(',') ?? end.topic_pattern!) : end.topic,
  check,
  openSink,
  openUploadSink,
} satisfies Connector;

/**
 * Checks that the client has transactions if delivery depends on them. Loads the client only in this case. A table sink
 * uses database transactions instead.
 * @throws SluiceError kafka_config
 */
async function check({ sink, delivery }: Pick<WrittenTopicPipeline, 'sink' | 'delivery'>): Promise<void> {
  if (sink.type !== 'kafka' || delivery !== 'exactly_once') return;
  (await import('./choose-client.ts')).requireTransactions('delivery');
}

async function openTopic(sink: KafkaSink, pipeline: WrittenTopicPipeline) {
  const [topics, { connectionOf }, { valueEncoder }] = await Promise.all([
    import('./topic-sink.ts'),
    import('./connection-settings.ts'),
    import('./record-values.ts'),
  ]);
  const encode = await valueEncoder(sink, pipeline);
  return { ...topics, settings: { connection: connectionOf(pipeline.kafka), sink, encode } };
}

/** @throws SluiceError kafka_* | schema_registry_unavailable */
async function openSink(sink: KafkaSink, run: SinkRun<WrittenTopicPipeline>): Promise<PredictionSink> {
  const { pipeline, manifest, packageSha256 } = run;
  const { openTopicSink, namedModel, settings } = await openTopic(sink, pipeline);
  return openTopicSink({ ...settings, ...namedModel(manifest, packageSha256) });
}

/** @throws SluiceError kafka_* | schema_registry_unavailable */
async function openUploadSink(sink: KafkaSink, run: UploadRun<WrittenTopicPipeline>): Promise<PredictionSink> {
  const { manifest, packageSha256, pipeline, trace, id, identity, beforeResume } = run;
  const { openTopicSink, openUploadTopicSink, namedModel, settings } = await openTopic(sink, pipeline);
  const { headers: model, members } = namedModel(manifest, packageSha256);
  const headers = { ...model, ...(trace === null ? {} : { [TRACE_HEADER]: Buffer.from(trace) }) };
  if (pipeline.delivery === 'at_least_once') {
    const topic = await openTopicSink({ ...settings, headers, members });
    return { ...topic, commit: () => topic.close(), abort: () => topic.close() };
  }
  return openUploadTopicSink({
    ...settings,
    headers,
    members,
    id,
    identity,
    beforeResume,
    transactionRows: pipeline.transaction_rows,
    transactionTimeoutMs: pipeline.transaction_timeout_ms,
  });
}
