// The kafka source of a pipeline as options of whoever reads the topic.
import type { KafkaSource } from '../config/pipeline-schema.ts';
import type { KafkaObserver } from '../kafka/observer.ts';
import type { ReadingOptions } from '../kafka/reading-options.ts';
import type { RunContext } from './context.ts';
import { connectionOf } from './kafka-connection.ts';
import { observerOf } from './kafka-metrics.ts';
import { type KafkaPlaces, Teller } from './kafka-words.ts';
import { Movement } from './movement.ts';
import type { RunSpec } from './spec.ts';
import { TopicWatch } from './topic-watch.ts';

/** @throws SluiceError kafka_config */
export const topicSource = (
  { source, score, kafka }: RunSpec & { source: KafkaSource },
  context: RunContext,
): ReadingOptions & { observer: KafkaObserver; movement: Movement } => {
  const movement = new Movement();
  return {
    connection: connectionOf(kafka),
    movement,
    topic: source.topic,
    group: source.group,
    startAt: source.start_at,
    onOffsetLost: source.on_offset_lost,
    untilCaughtUp: source.until_caught_up,
    batchRows: score.batch_rows,
    batchWaitMs: score.batch_wait_ms,
    maxInFlightBytes: source.in_flight_bytes,
    fetchBytes: source.fetch_bytes,
    sessionTimeoutMs: kafka.session_timeout_ms,
    instanceId: instanceIdOf(kafka.instance_id, source.topic),
    observer: movement.beside(observerOf(context)),
  };
};

/** What the pipeline touches at its brokers. */
export const kafkaPlacesOf = (
  { source, kafka }: RunSpec & { source: KafkaSource },
  writes: readonly string[],
): KafkaPlaces => ({ brokers: connectionOf(kafka).brokers, group: source.group, reads: source.topic, writes });

/** A watch over them that has begun. */
export function watchOf(
  places: KafkaPlaces,
  { connection }: Pick<ReadingOptions, 'connection'>,
  { log }: RunContext,
): TopicWatch {
  const watch = new TopicWatch({ connection, places, teller: new Teller(log), log });
  watch.start();
  return watch;
}

/** Longest name the brokers take. */
const MAX_INSTANCE_ID = 249;

/**
 * In Kubernetes a container that died comes back in its pod, under the pod's name; with the topic, because pipelines in one pod may share
 * a group. Elsewhere only by configuration, because two members under one name take turns in putting each other out.
 */
export function instanceIdOf(configured: string | undefined, topic: string, env = process.env): string | null {
  if (configured !== undefined) return configured;
  const pod = env.POD_NAME || env.HOSTNAME;
  if (!env.KUBERNETES_SERVICE_HOST || !pod) return null;
  const id = `${pod}.${topic}`;
  return id.length <= MAX_INSTANCE_ID && /^[A-Za-z0-9._-]+$/.test(id) ? id : null;
}

/** Records not yet committed, all partitions together. */
export const totalLag = (lag: ReadonlyMap<number, number>): number => [...lag.values()].reduce((a, b) => a + b, 0);
