// Checks the topics of a pipeline at the brokers before anything is read: partitions, and the retention of answers.

import { connectionOf } from '../../connectors/kafka/connection-settings.ts';
import { decidePartitioning } from '../../connectors/kafka/output-partitions.ts';
import { TopicDirectory, type TopicFacts } from '../../connectors/kafka/topic-directory.ts';
import { topicsOf } from '../../connectors/kafka/topics.ts';
import { fixedWord, named, type Word, words } from '../../core/log.ts';
import type { Pipeline } from '../../pipeline/pipeline-schema.ts';
import { type TopicsRead, topicsRead } from './topic-source.ts';

interface CheckedTopic {
  role: string;
  topic: string;
  partitions: number;
  maxBatchBytes: number;
}

interface CheckedTopics {
  /** The topics of the source first. */
  topics: CheckedTopic[];
  /** Warnings for operators. */
  notices: Word[];
}

type Ends = Pick<Pipeline, 'source' | 'sink' | 'dead_letter'>;

/**
 * `more`: further checks over the same connection.
 * @throws SluiceError kafka_topic_missing | kafka_partitions_differ | kafka_unreachable | kafka_authentication | kafka_not_authorized
 */
export async function checkTopics(
  pipeline: Ends & Pick<Pipeline, 'kafka'>,
  more: (directory: TopicDirectory, reads: readonly string[]) => Promise<void> = async () => {},
): Promise<CheckedTopics> {
  const { source, sink, dead_letter: letters } = pipeline;
  const directory = new TopicDirectory(connectionOf(pipeline.kafka));
  try {
    await directory.connect();
    const read =
      source.type === 'kafka' ? await topicsRead({ ...pipeline, source }, directory) : { topics: [], own: [] };
    const topics: CheckedTopic[] = [];
    for (const [role, topic] of [
      ...read.topics.map((topic) => ['source', topic] as const),
      ...(sink.type === 'kafka' ? topicsOf(sink).map((topic) => ['sink', topic] as const) : []),
      ...(letters?.type === 'kafka' ? [['dead letters', letters.topic] as const] : []),
      ...(letters?.type === 'kafka' && letters.retry ? [['retries', letters.retry.topic] as const] : []),
    ]) {
      const { partitions, maxBatchBytes } = await directory.facts(topic);
      topics.push({ role, topic, partitions, maxBatchBytes });
    }
    const notices = patternNotices(pipeline, read);
    for (const topic of read.topics) {
      if (sink.type !== 'kafka') continue;
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

/** Warnings about topics that a pattern leaves out, or that it matches none. */
export function patternNotices({ source }: Pick<Pipeline, 'source'>, { topics, own }: TopicsRead): Word[] {
  if (source.type !== 'kafka' || source.topic_pattern === undefined) return [];
  const notices = own.map(
    (topic) => words`the topic ${named(topic)} matches topic_pattern and is left out, because the pipeline writes it`,
  );
  return topics.length > 0 ? notices : [...notices, words`no topic matches topic_pattern now`];
}

/** Warnings about output topics that keep answers for a shorter time than `topic` keeps its records. */
export async function retentionNotices(
  { source, sink }: Ends,
  topic: string,
  factsOf: (topic: string) => Promise<TopicFacts>,
): Promise<Word[]> {
  if (source.type !== 'kafka' || sink.type !== 'kafka' || sink.timestamp !== 'input') return [];
  const { retentionMs: kept } = (await factsOf(topic)).times;
  const notices: Word[] = [];
  for (const output of topicsOf(sink)) {
    const { times, settingsKnown } = await factsOf(output);
    if (!settingsKnown) {
      notices.push(
        words`the settings of ${named(output)} may not be read (DESCRIBE_CONFIGS): its retention is taken to be ${spanOf(times.retentionMs)}, the default of brokers`,
      );
    }
    if (times.maxAgeMs >= kept || times.retentionMs >= kept) continue;
    notices.push(
      words`${named(output)} removes records ${spanOf(times.retentionMs)} after the time they have, earlier than ${named(topic)}: predictions for applications older than ${spanOf(times.maxAgeMs)} get the time of now; with timestamp: now all of them do`,
    );
  }
  return notices;
}

/** A duration in the largest unit of which it has two. */
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
