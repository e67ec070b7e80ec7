// Whether the topics of a pipeline fit together, asked of the brokers before anything is read: partitions, and how long answers are kept.
import type { Pipeline } from '../config/pipeline-schema.ts';
import { decidePartitioning } from '../kafka/output-partitions.ts';
import { TopicDirectory, type TopicFacts } from '../kafka/topic-directory.ts';
import { connectionOf } from './kafka-connection.ts';
import { topicsOf } from './record-format.ts';

export interface CheckedTopic {
  role: string;
  topic: string;
  partitions: number;
  maxBatchBytes: number;
}

type Ends = Pick<Pipeline, 'source' | 'sink' | 'dead_letter'>;

/**
 * `more`: asked over the same connection.
 * @throws SluiceError kafka_topic_missing | kafka_partitions_differ | kafka_unreachable | kafka_authentication | kafka_not_authorized
 */
export async function checkTopics(
  pipeline: Ends & Pick<Pipeline, 'kafka'>,
  more: (directory: TopicDirectory) => Promise<void> = async () => {},
): Promise<{ topics: CheckedTopic[]; words: string[] }> {
  const { source, sink, dead_letter: letters } = pipeline;
  const directory = new TopicDirectory(connectionOf(pipeline.kafka));
  try {
    await directory.connect();
    const topics: CheckedTopic[] = [];
    for (const [role, topic] of [
      ...(source.type === 'kafka' ? [['source', source.topic] as const] : []),
      ...(sink.type === 'kafka' ? topicsOf(sink).map((topic) => ['sink', topic] as const) : []),
      ...(letters?.type === 'kafka' ? [['dead letters', letters.topic] as const] : []),
      ...(letters?.type === 'kafka' && letters.retry ? [['retries', letters.retry.topic] as const] : []),
    ]) {
      const { partitions, maxBatchBytes } = await directory.facts(topic);
      topics.push({ role, topic, partitions, maxBatchBytes });
    }
    if (source.type === 'kafka' && sink.type === 'kafka') {
      const partitioning = sink.partition ?? null;
      await decidePartitioning({ directory, topic: source.topic, outputs: topicsOf(sink), partitioning });
    }
    await more(directory);
    return { topics, words: await timeWords(pipeline, (topic) => directory.facts(topic)) };
  } finally {
    await directory.close();
  }
}

/** What becomes of answers to old records: a line for each topic that does not keep them as long as the source keeps the records. */
export async function timeWords(
  { source, sink }: Ends,
  factsOf: (topic: string) => Promise<TopicFacts>,
): Promise<string[]> {
  if (source.type !== 'kafka' || sink.type !== 'kafka' || sink.timestamp !== 'input') return [];
  const { retentionMs: kept } = (await factsOf(source.topic)).times;
  const words: string[] = [];
  for (const topic of topicsOf(sink)) {
    const { times, settingsKnown } = await factsOf(topic);
    if (!settingsKnown) {
      words.push(
        `the settings of ${topic} may not be read (DESCRIBE_CONFIGS): its retention is taken to be ${spanOf(times.retentionMs)}, the default of brokers`,
      );
    }
    if (times.maxAgeMs >= kept || times.retentionMs >= kept) continue;
    words.push(
      `${topic} removes records ${spanOf(times.retentionMs)} after the time they have, earlier than ${source.topic}: predictions for applications older than ${spanOf(times.maxAgeMs)} get the time of now; with timestamp: now all of them do`,
    );
  }
  return words;
}

/** In the largest unit that leaves a number worth reading. */
function spanOf(ms: number): string {
  for (const [unit, size] of [
    ['d', 86_400_000],
    ['h', 3_600_000],
    ['min', 60_000],
    ['s', 1000],
  ] as const) {
    if (ms >= 2 * size) return `${Math.round((ms / size) * 10) / 10} ${unit}`;
  }
  return `${Math.round(ms)} ms`;
}
