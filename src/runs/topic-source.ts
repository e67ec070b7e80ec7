// The kafka source of a pipeline as options of whoever reads the topic.
import type { KafkaSource, Pipeline } from '../config/pipeline-schema.ts';
import { topicPattern } from '../config/topic-pattern.ts';
import type { KafkaConnection } from '../kafka/client/connection.ts';
import type { KafkaObserver } from '../kafka/observer.ts';
import type { ReadingOptions } from '../kafka/reading-options.ts';
import type { TopicDirectory } from '../kafka/topic-directory.ts';
import type { RunContext } from './context.ts';
import { connectionOf } from './kafka-connection.ts';
import { observerOf } from './kafka-metrics.ts';
import { type KafkaPlaces, Teller } from './kafka-words.ts';
import { Movement } from './movement.ts';
import { topicsWritten } from './record-format.ts';
import type { RunSpec } from './spec.ts';
import { TopicWatch } from './topic-watch.ts';

/** Those a source names; of a pattern nobody knows any beforehand. */
export const namedTopics = ({ topic, topics }: KafkaSource): readonly string[] =>
  topics ?? (topic === undefined ? [] : [topic]);

export interface TopicsRead {
  topics: readonly string[];
  /** Topics that match the pattern and are what the pipeline itself writes. */
  own: readonly string[];
}

/** What the source reads now: those it names, or those there are that its pattern matches. @throws SluiceError kafka_* */
export async function topicsRead(
  pipeline: Pick<Pipeline, 'sink' | 'dead_letter'> & { source: KafkaSource },
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

/** `of`: how many topics share the memory. @throws SluiceError kafka_config */
export const topicSource = (
  { source, score, kafka }: RunSpec & { source: KafkaSource },
  context: RunContext,
  topic: string,
  of = 1,
): ReadingOptions & { observer: KafkaObserver; movement: Movement } => {
  const movement = new Movement();
  return {
    connection: connectionOf(kafka),
    movement,
    topic,
    group: source.group,
    startAt: source.start_at,
    onOffsetLost: source.on_offset_lost,
    untilCaughtUp: source.until_caught_up,
    batchRows: score.batch_rows,
    batchWaitMs: score.batch_wait_ms,
    maxInFlightBytes: Math.ceil(source.in_flight_bytes / of),
    fetchBytes: source.fetch_bytes,
    sessionTimeoutMs: kafka.session_timeout_ms,
    instanceId: instanceIdOf(kafka.instance_id, topic, source.topic !== undefined),
    observer: movement.beside(observerOf(context, topic, source.topic !== undefined)),
  };
};

/** What the pipeline touches at its brokers. */
export const kafkaPlacesOf = (
  { source, kafka }: RunSpec & { source: KafkaSource },
  reads: readonly string[],
  writes: readonly string[],
): KafkaPlaces => ({ brokers: connectionOf(kafka).brokers, group: source.group, reads, writes });

/** A watch over them that has begun. */
export function watchOf(places: KafkaPlaces, connection: KafkaConnection, { log }: RunContext): TopicWatch {
  const watch = new TopicWatch({ connection, places, teller: new Teller(log), log });
  watch.start();
  return watch;
}

/** Longest name the brokers take. */
const MAX_INSTANCE_ID = 249;

/**
 * In Kubernetes a container that died comes back in its pod, under the pod's name; with the topic, because pipelines in one pod may share
 * a group, and a pipeline has a member for each of its topics. Elsewhere only by configuration, because two members under one name take turns in putting each other out.
 */
export function instanceIdOf(
  configured: string | undefined,
  topic: string,
  alone: boolean,
  env = process.env,
): string | null {
  if (configured !== undefined) return alone ? configured : `${configured}.${topic}`;
  const pod = env.POD_NAME || env.HOSTNAME;
  if (!env.KUBERNETES_SERVICE_HOST || !pod) return null;
  const id = `${pod}.${topic}`;
  return id.length <= MAX_INSTANCE_ID && /^[A-Za-z0-9._-]+$/.test(id) ? id : null;
}

/** Records not yet committed, all partitions together. */
export const totalLag = (lag: ReadonlyMap<number, number>): number => [...lag.values()].reduce((a, b) => a + b, 0);
