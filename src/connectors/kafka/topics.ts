// Determines which topics a pipeline reads and writes.
import type { End } from '../contract/connector.ts';
import type { KafkaDeadLetter, KafkaSink, KafkaSource } from './kafka-options.ts';
import type { TopicDirectory } from './topic-directory.ts';

// Compiles a topic pattern, which must match whole names. The operator of the pipeline configures the pattern; it is
// only matched against topic names, which have at most 249 characters. @throws SyntaxError

/** Compiles a topic pattern, which must match whole names. @throws SyntaxError */
export const topicPattern = (pattern: string): RegExp => new RegExp(`^(?:${pattern})$`, 'u');

/** The topics that a source lists by name; empty if it has a pattern. */
export const namedTopics = ({ topic, topics }: KafkaSource): readonly string[] =>
  topics ?? (topic === undefined ? [] : [topic]);

/** All topics that may receive predictions. */
export const topicsOf = ({ topic, routes = [] }: KafkaSink): string[] => [
  ...new Set([topic, ...routes.map((r) => r.topic)]),
];

/** The dead-letter topic of a pipeline; null: the pipeline has none. */
export const letterTopic = ({ dead_letter: letters }: { dead_letter?: End | undefined }): KafkaDeadLetter | null =>
  letters?.type === 'kafka' ? (letters as KafkaDeadLetter) : null;

/** All topics to which a pipeline writes predictions, dead letters or retries. */
export function topicsWritten(pipeline: { sink: End; dead_letter?: End | undefined }): string[] {
  const letters = letterTopic(pipeline);
  return [
    ...(pipeline.sink.type === 'kafka' ? topicsOf(pipeline.sink as KafkaSink) : []),
    ...(letters ? [letters.topic, ...(letters.retry ? [letters.retry.topic] : [])] : []),
  ];
}

export interface TopicsRead {
  topics: readonly string[];
  /** Topics that match the pattern but are skipped, because the pipeline writes to them. */
  own: readonly string[];
}

/**
 * The topics that the source reads now: the topics that it lists, or the existing topics that match its pattern.
 * @throws SluiceError kafka_*
 */
export async function topicsRead(
  pipeline: { source: KafkaSource; sink: End; dead_letter?: End | undefined },
  directory: Pick<TopicDirectory, 'topics'>,
): Promise<TopicsRead> {
  const { source } = pipeline;
  const { topic_pattern: pattern } = source;
  if (pattern === undefined) return { topics: namedTopics(source), own: [] };
  const whole = topicPattern(pattern);
  const written = topicsWritten(pipeline);
  const matching = (await directory.topics()).filter((name) => whole.test(name)).toSorted();
  return {
    topics: matching.filter((name) => !written.includes(name)),
    own: matching.filter((name) => written.includes(name)),
  };
}
