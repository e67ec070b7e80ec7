// The reading options of the processor and of the plain reader with their defaults, and the start offset of a partition.

import { sleep } from '../../core/clock.ts';
import { SluiceError } from '../../core/errors.ts';
import { kafkaClient } from './choose-client.ts';
import type { KafkaConnection } from './client/connection.ts';
import type { GroupMember, MemberOptions } from './client/kafka-client.ts';
import type { KafkaObserver } from './observer.ts';
import type { BatchLimits } from './partition-buffer.ts';
import type { TopicDirectory } from './topic-directory.ts';

/** An offset with the topic that it belongs to. */
export interface TopicOffset {
  readonly offset: bigint;
  /** null: unknown. */
  readonly topicId: string | null;
}

/** Stores the offsets of partitions instead of the consumer group. */
export interface OffsetKeeper {
  /**
   * The offset at which a partition continues; null: reading it has never started.
   * @throws SluiceError; a non-retryable error ends reading
   */
  committed(partition: number): Promise<TopicOffset | null>;
  /**
   * Called before the first write if reading starts at an offset other than the stored one. Either `stored` is null
   * because the partition was never read, or the topic no longer has the stored offset. `at`: the start offset.
   */
  begin(partition: number, stored: TopicOffset | null, at: TopicOffset): Promise<void>;
  /** Called when reading starts. */
  started(partition: number, at: TopicOffset): void;
}

export interface ReadingOptions {
  connection: KafkaConnection;
  topic: string;
  group: string;
  /** Instance name for static membership, unique within the group. Default: none. */
  instanceId?: string | null;
  /** Time without a heartbeat after which the group removes a member, ms. Default: 30,000. */
  sessionTimeoutMs?: number;
  /** Time between heartbeats, ms. Default: a tenth of the session timeout. */
  heartbeatIntervalMs?: number;
  /** Maximum time that the group waits for a member in a rebalance, ms. Default: 60,000. */
  rebalanceTimeoutMs?: number;
  /** Maximum bytes of one fetch from one partition. Default: 1 MiB. */
  fetchBytes?: number;
  /**
   * Maximum time that a fetch waits for records, ms. A partition that is resumed can be delayed by the same time.
   * Default: 250.
   */
  fetchWaitMs?: number;
  /** Maximum age of metadata, ms. New partitions are detected within this time. Default: 30,000. */
  metadataMaxAgeMs?: number;
  /** Start of a group without committed offsets. Default: earliest. */
  startAt?: 'earliest' | 'latest';
  /** Action if the topic no longer has the committed offset. Default: stop. */
  onOffsetLost?: 'stop' | 'earliest' | 'latest';
  /**
   * End after processing the records that the partitions of this member contained when they were assigned. Default:
   * false.
   */
  untilCaughtUp?: boolean;
  /** Maximum records of a micro-batch. Default: 1024. */
  batchRows?: number;
  /** Maximum time that the first record of a micro-batch waits for further records, ms. Default: 20. */
  batchWaitMs?: number;
  /** Maximum bytes of a micro-batch. Default: 4 MiB. */
  batchBytes?: number;
  /** Delay of processing after the timestamp or the arrival of a record, whichever is earlier, ms. Default: 0. */
  delayMs?: number;
  /**
   * Maximum bytes of records in memory, over all partitions. A partition may exceed its share by one fetch. Default: 32
   * MiB.
   */
  maxInFlightBytes?: number;
}

const DEFAULT_BATCH_WAIT_MS = 20;

export function memberOptionsOf(o: ReadingOptions): MemberOptions {
  const sessionTimeoutMs = o.sessionTimeoutMs ?? 30_000;
  return {
    connection: o.connection,
    topic: o.topic,
    group: o.group,
    instanceId: o.instanceId ?? null,
    sessionTimeoutMs,
    heartbeatIntervalMs: o.heartbeatIntervalMs ?? Math.max(100, Math.floor(sessionTimeoutMs / 10)),
    rebalanceTimeoutMs: o.rebalanceTimeoutMs ?? 60_000,
    fetchBytes: o.fetchBytes ?? 1024 * 1024,
    fetchWaitMs: o.fetchWaitMs ?? 250,
    fetchPaceMs: o.batchWaitMs ?? DEFAULT_BATCH_WAIT_MS,
    metadataMaxAgeMs: o.metadataMaxAgeMs ?? 30_000,
  };
}

export const batchLimitsOf = (o: ReadingOptions): BatchLimits => ({
  batchRows: o.batchRows ?? 1024,
  batchBytes: o.batchBytes ?? 4 * 1024 * 1024,
  // A paced client has already waited for further records when it fetched.
  batchWaitMs: kafkaClient().paced ? 0 : (o.batchWaitMs ?? DEFAULT_BATCH_WAIT_MS),
  delayMs: o.delayMs ?? 0,
});

export const startPolicyOf = (
  { topic, group, startAt, onOffsetLost }: ReadingOptions,
  observer?: Pick<KafkaObserver, 'onOffsetLost'>,
): StartPolicy => ({
  topic,
  group,
  startAt: startAt ?? 'earliest',
  onOffsetLost: onOffsetLost ?? 'stop',
  onLost: (event) => observer?.onOffsetLost?.(event),
});

export interface StartPolicy {
  group: string;
  topic: string;
  /** Start of a group without committed offsets. */
  startAt: 'earliest' | 'latest';
  /** Action if the topic no longer has the committed offset. */
  onOffsetLost: 'stop' | 'earliest' | 'latest';
  /** Called when reading continues at `offset` instead of the committed offset. */
  onLost?: ((event: { partition: number; committed: bigint; offset: bigint }) => void) | undefined;
}

export interface Start extends TopicOffset {
  /** End of the partition at the time of the query, after records of open transactions. */
  end: bigint;
}

/**
 * Maximum number of lookups if the end of the partition is smaller than the committed offset. Several are needed
 * because a new leader may be behind for a short time.
 */
const SHORT_LOOKS = 5;
const SHORT_LOOK_MS = 1_000;

/** Reads what determines the start offset of a partition. */
interface StartQueries extends Pick<TopicDirectory, 'range' | 'topicId'> {
  /** The committed offset; null: none. A different topic ID means that it belongs to an earlier topic. */
  committed(group: string, topic: string, partition: number): Promise<bigint | null | TopicOffset>;
}

/**
 * The start offset of a partition: the committed offset, unless the group has none or the topic no longer has it. If
 * the start is the end of the partition (`latest`) or replaces a lost offset, it is committed immediately. Otherwise a
 * restart before the first answer would skip records or report the loss again.
 *
 * The topic ID is queried first. If the topic is created again at any later time, reading with this ID fails, and the
 * start offset is determined again.
 * @throws SluiceError kafka_offset_lost | kafka_rebalanced (the partition no longer belongs to the member)
 */
export async function startOffset(
  directory: StartQueries,
  policy: StartPolicy,
  partition: number,
  member: Pick<GroupMember, 'commit'>,
): Promise<Start> {
  const { group, topic, startAt, onOffsetLost } = policy;
  let topicId = await directory.topicId(topic);
  const found = await directory.committed(group, topic, partition);
  const { offset: committed, topicId: of } =
    found !== null && typeof found === 'object' ? found : { offset: found, topicId: null };
  const isOther = () => of !== null && topicId !== null && of !== topicId;
  let { low, high, end } = await directory.range(topic, partition);
  for (let look = 1; committed !== null && (isOther() || committed > high) && look < SHORT_LOOKS; look++) {
    await sleep(SHORT_LOOK_MS);
    topicId = await directory.topicId(topic);
    ({ low, high, end } = await directory.range(topic, partition));
  }
  const commit = (offset: bigint) => member.commit(new Map([[partition, offset]]), new Map([[partition, topicId]]));
  if (committed === null) {
    const offset = startAt === 'earliest' ? low : high;
    if (startAt === 'latest') await commit(offset);
    return { offset, end, topicId };
  }
  if (!isOther() && committed >= low && committed <= high) return { offset: committed, end, topicId };
  if (onOffsetLost !== 'stop') {
    const offset = onOffsetLost === 'earliest' ? low : high;
    await commit(offset);
    policy.onLost?.({ partition, committed, offset });
    return { offset, end, topicId };
  }
  throw new SluiceError(
    'kafka_offset_lost',
    isOther()
      ? `the topic ${topic} was deleted and created again: the stored offset ${committed} of partition ${partition} belongs to the earlier topic`
      : `partition ${partition} of ${topic} has offsets ${low} to ${high}, but the committed offset is ${committed}`,
    { extra: { topic, partition, committed: String(committed), low: String(low), high: String(high) } },
  );
}
