// Where reading a partition starts: at the committed offset, unless there is none or the topic has it no longer.
import { sleep } from '../core/clock.ts';
import { SluiceError } from '../core/errors.ts';
import type { GroupMember } from './client/kafka-client.ts';
import type { TopicDirectory } from './topic-directory.ts';

export interface StartPolicy {
  group: string;
  topic: string;
  /** Where a group without offsets begins. */
  startAt: 'earliest' | 'latest';
  /** When the committed offset is no longer in the topic. */
  onOffsetLost: 'stop' | 'earliest' | 'latest';
  /** Told when reading goes on at `offset` instead of the committed one. */
  onLost?: ((partition: number, offset: bigint) => void) | undefined;
}

export interface Start {
  offset: bigint;
  /** Where the partition ended when it was asked. */
  end: bigint;
}

/** Looks at an end that lies before the committed offset: a new leader may not know better for a moment. */
const SHORT_LOOKS = 5;
const SHORT_LOOK_MS = 1_000;

/**
 * Where `latest` lies is committed at once, and where reading goes on instead of a lost offset: whoever begins again before a first
 * answer must not skip what has come meanwhile, nor tell the same loss twice.
 * @throws SluiceError kafka_offset_lost | kafka_rebalanced (the partition is not the member's any more)
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
    `partition ${partition} of ${topic} has offsets ${low} to ${high}, the group goes on at ${committed}`,
    { extra: { topic, partition, committed: String(committed), low: String(low), high: String(high) } },
  );
}
