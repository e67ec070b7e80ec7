// The topics that a pipeline names.
import type { End } from '../contract/connector.ts';
import type { KafkaDeadLetter, KafkaSink, KafkaSource } from './kafka-options.ts';
import type { TopicDirectory } from './topic-directory.ts';

// The only regular expression that is not a literal, because the operator of a pipeline writes it. It matches topic names only, which have
// at most 249 characters.

/** Matches whole names. @throws SyntaxError */
export const topicPattern = (pattern: string): RegExp => new RegExp(`^(?:${pattern})$`, 'u');

/** The topics that a source names; none for a pattern. */
export const namedTopics = ({ topic, topics }: KafkaSource): readonly string[] =>
  topics ?? (topic === undefined ? [] : [topic]);

/** All topics that predictions may go to. */
export const topicsOf = ({ topic, routes = [] }: KafkaSink): string[] => [
  ...new Set([topic, ...routes.map((r) => r.topic)]),
];

/** The dead-letter topic of a pipeline; null: it has none. */
export const letterTopic = ({ dead_letter: letters }: { dead_letter?: End | undefined }): KafkaDeadLetter | null =>
  letters?.type === 'kafka' ? (letters as KafkaDeadLetter) : null;

/** All topics that a pipeline writes: predictions, dead letters and retries. */
export function topicsWritten(pipeline: { sink: End; dead_letter?: End | undefined }): string[] {
  const letters = letterTopic(pipeline);
  return [
    ...(pipeline.sink.type === 'kafka' ? topicsOf(pipeline.sink as KafkaSink) : []),
    ...(letters ? [letters.topic, ...(letters.retry ? [letters.retry.topic] : [])] : []),
  ];
}

export interface TopicsRead {
  topics: readonly string[];
  /** Topics that match the pattern but are written by the pipeline itself. */
  own: readonly string[];
}

/** The topics the source reads now: the named ones, or the existing ones that match its pattern. @throws SluiceError kafka_* */
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
