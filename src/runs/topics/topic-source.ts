// The Kafka source of a pipeline: its topics, the options of its reader, and the watch that checks its topics.

import type { KafkaConnection } from '../../connectors/kafka/client/connection.ts';
import { connectionOf } from '../../connectors/kafka/connection-settings.ts';
import type { KafkaPlaces } from '../../connectors/kafka/kafka-error-messages.ts';
import type { KafkaSource } from '../../connectors/kafka/kafka-options.ts';
import { Liveness } from '../../connectors/kafka/liveness.ts';
import type { KafkaObserver } from '../../connectors/kafka/observer.ts';
import type { ReadingOptions } from '../../connectors/kafka/reading-options.ts';
import { TopicWatch } from '../../connectors/kafka/topic-watch.ts';
import type { RunContext } from '../context.ts';
import type { RunSpec } from '../spec.ts';
import { observerOf } from './kafka-metrics.ts';

/** The options of a reader. `of`: number of topics that share the memory budget. @throws SluiceError kafka_config */
export const topicSource = (
  { source, score, kafka }: RunSpec & { source: KafkaSource },
  context: RunContext,
  topic: string,
  of = 1,
): ReadingOptions & { observer: KafkaObserver; liveness: Liveness } => {
  const liveness = new Liveness();
  return {
    connection: connectionOf(kafka),
    liveness,
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
    observer: liveness.beside(observerOf(context, topic, source.topic !== undefined)),
  };
};

/** Brokers, group and topics of a pipeline, for messages. */
export const kafkaPlacesOf = (
  { source, kafka }: RunSpec & { source: KafkaSource },
  reads: readonly string[],
  writes: readonly string[],
): KafkaPlaces => ({ brokers: connectionOf(kafka).brokers, group: source.group, reads, writes });

/** Starts a watch over the topics of a run. */
export function watchOf(places: KafkaPlaces, connection: KafkaConnection, { log }: RunContext): TopicWatch {
  const watch = new TopicWatch({ connection, places, log });
  watch.start();
  return watch;
}

/** Maximum length of an instance id that brokers accept. */
const MAX_INSTANCE_ID = 249;

/**
 * The name of a static group member. In Kubernetes, the name combines the pod name, which survives container restarts,
 * with the topic, because pipelines in one pod may share a group. Elsewhere the name must be configured: two members
 * with the same name expel each other in turn.
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

/** Uncommitted records of all partitions. */
export const totalLag = (lag: ReadonlyMap<number, number>): number => [...lag.values()].reduce((a, b) => a + b, 0);
