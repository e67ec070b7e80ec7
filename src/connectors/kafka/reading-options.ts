// Reading options of the processor and the plain reader, with defaults, and the start offset of a partition.

import { sleep } from '../../core/clock.ts';
import { SluiceError } from '../../core/errors.ts';
import { kafkaClient } from './choose-client.ts';
import type { KafkaConnection } from './client/connection.ts';
import type { GroupMember, MemberOptions } from './client/kafka-client.ts';
import type { KafkaObserver } from './observer.ts';
import type { BatchLimits } from './partition-buffer.ts';
import type { TopicDirectory } from './topic-directory.ts';

/** Stores offsets in place of the consumer group. */
export interface OffsetKeeper {
  /**
   * The offset at which a partition continues; null: it was never started. @throws SluiceError a non-retryable one ends
   * reading
   */
  committed(partition: number): Promise<bigint | null>;
  /**
   * Called before anything is written, if the partition starts `at` an offset other than the stored one: it was never
   * started (`stored` null), or the topic no longer has the stored offset.
   */
  begin(partition: number, stored: bigint | null, at: bigint): Promise<void>;
  /** Called when reading starts; the next records begin at `offset`. */
  started(partition: number, offset: bigint): void;
}

export interface ReadingOptions {
  connection: KafkaConnection;
  topic: string;
  group: string;
  /** Instance name for static membership, unique within the group. Default: none. */
  instanceId?: string | null;
  /** The group removes a member that sends no heartbeat for this long, ms. Default 30,000. */
  sessionTimeoutMs?: number;
  /** Default: a tenth of the session timeout. */
  heartbeatIntervalMs?: number;
  /** Longest time the group waits for a member in a rebalance, ms. Default 60,000. */
  rebalanceTimeoutMs?: number;
  /** Maximum bytes of one fetch from one partition. Default 1 MiB. */
  fetchBytes?: number;
  /** Longest time a fetch waits for records, ms. A resumed partition may wait as long. Default 250. */
  fetchWaitMs?: number;
  /** Maximum age of metadata, ms. New partitions are noticed within this time. Default 30,000. */
  metadataMaxAgeMs?: number;
  /** Default: earliest. */
  startAt?: 'earliest' | 'latest';
  /** Default: stop. */
  onOffsetLost?: 'stop' | 'earliest' | 'latest';
  /** Ends after processing everything that this member's partitions contained when it got them. Default: false. */
  untilCaughtUp?: boolean;
  /** Default 1024. */
  batchRows?: number;
  /** Default 20. */
  batchWaitMs?: number;
  /** Default 4 MiB. */
  batchBytes?: number;
  /** A record is processed this long after its timestamp or its arrival, whichever is earlier, ms. Default 0. */
  delayMs?: number;
  /**
   * Maximum bytes of records in memory, over all partitions. Each may exceed its share by one fetch. Default 32 MiB.
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
  // With a paced client, fetching already waited for records.
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
  onLost: (partition, offset) => observer?.onOffsetLost?.({ partition, offset }),
});

export interface StartPolicy {
  group: string;
  topic: string;
  /** Start of a group without committed offsets. */
  startAt: 'earliest' | 'latest';
  /** Action if the topic no longer has the committed offset. */
  onOffsetLost: 'stop' | 'earliest' | 'latest';
  /** Called when reading continues at `offset` instead of the committed one. */
  onLost?: ((partition: number, offset: bigint) => void) | undefined;
}

export interface Start {
  offset: bigint;
  /** End of the partition when it was queried. */
  end: bigint;
}

/** Maximum lookups while the end is before the committed offset, because a new leader may lag for a moment. */
const SHORT_LOOKS = 5;
const SHORT_LOOK_MS = 1_000;

/**
 * The start offset of a partition: the committed offset, unless the group has none or the topic no longer has it. The
 * end (for `latest`) and the replacement of a lost offset are committed at once. Otherwise a restart before the first
 * answer would skip records or report the loss again.
 * @throws SluiceError kafka_offset_lost | kafka_rebalanced (the partition no longer belongs to the member)
 */
export async function startOffset(
  directory: Pick<TopicDirectory, 'committed' | 'range'>,
  policy: StartPolicy,
  partition: number,
  member: Pick<GroupMember, 'commit'>,
): Promise<Start> {
  const { group, topic, startAt, onOffsetLost } = policy;
  const committed = await directory.committed(group, topic, partition);
  let { low, high } = await directory.range(topic, partition);
  for (let look = 1; committed !== null && committed > high && look < SHORT_LOOKS; look++) {
    await sleep(SHORT_LOOK_MS);
    ({ low, high } = await directory.range(topic, partition));
  }
  if (committed === null && startAt === 'latest') await member.commit(new Map([[partition, high]]));
  if (committed === null) return { offset: startAt === 'earliest' ? low : high, end: high };
  if (committed >= low && committed <= high) return { offset: committed, end: high };
  if (onOffsetLost !== 'stop') {
    const offset = onOffsetLost === 'earliest' ? low : high;
    await member.commit(new Map([[partition, offset]]));
    policy.onLost?.(partition, offset);
    return { offset, end: high };
  }
  throw new SluiceError(
    'kafka_offset_lost',
    `partition ${partition} of ${topic} has offsets ${low} to ${high}, but the committed offset is ${committed}`,
    { extra: { topic, partition, committed: String(committed), low: String(low), high: String(high) } },
  );
}
