// Checks the topics of a pipeline with the brokers before reading starts: numbers of partitions, and the retention of output topics.

import { fixedWord, named, type Word, words } from '../../core/log.ts';
import type { End } from '../contract/connector.ts';
import { connectionOf } from './connection-settings.ts';
import type { KafkaConfig, KafkaSink, KafkaSource } from './kafka-options.ts';
import { decidePartitioning } from './output-partitions.ts';
import { TopicDirectory, type TopicFacts } from './topic-directory.ts';
import { letterTopic, type TopicsRead, topicsOf, topicsRead } from './topics.ts';

interface CheckedTopic {
  role: string;
  topic: string;
  partitions: number;
  maxBatchBytes: number;
}

interface CheckedTopics {
  /** All topics of the pipeline, starting with the topics of the source. */
  topics: CheckedTopic[];
  /** Warnings for operators. */
  notices: Word[];
}

interface Ends {
  source: End;
  sink: End;
  dead_letter?: End | undefined;
}

const sourceTopics = ({ source }: Pick<Ends, 'source'>): KafkaSource | null =>
  source.type === 'kafka' ? (source as KafkaSource) : null;
const sinkTopics = ({ sink }: Pick<Ends, 'sink'>): KafkaSink | null =>
  sink.type === 'kafka' ? (sink as KafkaSink) : null;

/**
 * Checks the topics of a pipeline. `more` runs further checks with the same connection.
 * @throws SluiceError kafka_topic_missing | kafka_partitions_differ | kafka_unreachable | kafka_authentication |
 * kafka_not_authorized
 */
export async function checkTopics(
  pipeline: Ends & { kafka: KafkaConfig },
  more: (directory: TopicDirectory, reads: readonly string[]) => Promise<void> = async () => {},
): Promise<CheckedTopics> {
  const [source, sink, letters] = [sourceTopics(pipeline), sinkTopics(pipeline), letterTopic(pipeline)];
  const directory = new TopicDirectory(connectionOf(pipeline.kafka));
  try {
    await directory.connect();
    const read = source ? await topicsRead({ ...pipeline, source }, directory) : { topics: [], own: [] };
    const topics: CheckedTopic[] = [];
    for (const [role, topic] of [
      ...read.topics.map((topic) => ['source', topic] as const),
      ...(sink ? topicsOf(sink).map((topic) => ['sink', topic] as const) : []),
      ...(letters ? [['dead letters', letters.topic] as const] : []),
      ...(letters?.retry ? [['retries', letters.retry.topic] as const] : []),
    ]) {
      const { partitions, maxBatchBytes } = await directory.facts(topic);
      topics.push({ role, topic, partitions, maxBatchBytes });
    }
    const notices = patternNotices(pipeline, read);
    for (const topic of read.topics) {
      if (!sink) continue;
      const partitioning = sink.partition ?? null;
      await decidePartitioning({ directory, topic, outputs: topicsOf(sink), partitioning });
      notices.push(...(await retentionNotices(pipeline, topic, (name) => directory.facts(name))));
    }
    await more(directory, read.topics);
    return { topics, notices };
  } finally {
    await directory.close();
  }
}

/** Warnings about topics that match the pattern but are skipped, and about a pattern that matches no topic. */
export function patternNotices(ends: Pick<Ends, 'source'>, { topics, own }: TopicsRead): Word[] {
  if (sourceTopics(ends)?.topic_pattern === undefined) return [];
  const notices = own.map(
    (topic) => words`the topic ${named(topic)} matches topic_pattern and is skipped, because the pipeline writes to it`,
  );
  return topics.length > 0 ? notices : [...notices, words`no topic matches topic_pattern at present`];
}

/** Warnings about output topics with a shorter retention than `topic`. */
export async function retentionNotices(
  ends: Ends,
  topic: string,
  factsOf: (topic: string) => Promise<TopicFacts>,
): Promise<Word[]> {
  const sink = sinkTopics(ends);
  if (!sourceTopics(ends) || sink?.timestamp !== 'input') return [];
  const { retentionMs: kept } = (await factsOf(topic)).times;
  const notices: Word[] = [];
  for (const output of topicsOf(sink)) {
    const { times, settingsKnown } = await factsOf(output);
    if (!settingsKnown) {
      notices.push(
        words`no permission to read the settings of ${named(output)} (DESCRIBE_CONFIGS); assuming the default retention of brokers, ${spanOf(times.retentionMs)}`,
      );
    }
    if (times.maxAgeMs >= kept || times.retentionMs >= kept) continue;
    notices.push(
      words`${named(output)} retains records for ${spanOf(times.retentionMs)}, less than ${named(topic)}: predictions for applications older than ${spanOf(times.maxAgeMs)} get the current time as timestamp (use "timestamp: now" for all)`,
    );
  }
  return notices;
}

/** Formats a duration in the largest unit that it contains at least twice. */
function spanOf(ms: number): Word {
  for (const [unit, size] of [
    ['d', 86_400_000],
    ['h', 3_600_000],
    ['min', 60_000],
    ['s', 1000],
  ] as const) {
    if (ms >= 2 * size) return words`${Math.round((ms / size) * 10) / 10} ${fixedWord(unit)}`;
  }
  return words`${Math.round(ms)} ms`;
}
