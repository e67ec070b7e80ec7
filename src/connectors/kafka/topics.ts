// The topics that a pipeline names.
import type { End } from '../contract/connector.ts';
import type { KafkaDeadLetter, KafkaSink, KafkaSource } from './kafka-options.ts';

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
