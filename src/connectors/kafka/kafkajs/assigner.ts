// Assigns partitions round robin to members sorted by instance name, so that a member that returns gets its former partitions.
// The partitions of a topic are assigned to the members that read the topic, even if the group leader does not read it.
import type { Assigner, Cluster, PartitionAssigner } from 'kafkajs';
import { sleep } from '../../../core/clock.ts';
import { reasonOf } from '../client/failures.ts';
import kafkajs, { type Membership, type MetadataPool } from './repairs.ts';

/** The name of the built-in assigner of kafkajs, because members of an earlier release may be in the same group. */
const NAME = 'RoundRobinAssigner';
const VERSION = 0;
/**
 * Maximum number of lookups of a topic that only other members read. Lookups are repeated because a broker may not list
 * a new topic yet. Without a result, the topic would stay unassigned.
 */
const LOOKS = 10;
const LOOK_PAUSE_MS = 200;
/**
 * Errors for a topic that was deleted or that this member may not read. They are ignored here: the members that read
 * the topic report the problem.
 */
const NOT_THERE = /^(UNKNOWN_TOPIC_OR_PARTITION|INVALID_TOPIC_EXCEPTION|TOPIC_AUTHORIZATION_FAILED)$/;

interface NamedMember {
  memberId: string;
  groupInstanceId?: string | null;
}

interface ReadingMember extends NamedMember {
  /** Topics that the member reads. */
  topics: readonly string[];
}

/**
 * Creates the assigner of one consumer. `membership` is attached to the assigner, because kafkajs passes no other
 * object to the consumer unchanged.
 */
export const assignerOf =
  (membership: Membership): PartitionAssigner =>
  ({ cluster }: { cluster: Cluster }): Assigner & { membership: Membership } => ({
    name: NAME,
    version: VERSION,
    membership,
    async assign({ members, topics: own }) {
      const reading = members.map((m) => ({ ...m, topics: topicsOfMember(m.memberMetadata, own) }));
      const partitions = new Map<string, readonly number[]>();
      for (const topic of new Set(reading.flatMap((m) => m.topics))) {
        const known = own.includes(topic) ? cluster.findTopicPartitionMetadata(topic) : await lookFor(cluster, topic);
        partitions.set(
          topic,
          known.map((p) => p.partitionId),
        );
      }
      return [...shareOut(reading, partitions)].map(([memberId, assignment]) => ({
        memberId,
        memberAssignment: kafkajs.AssignerProtocol.MemberAssignment.encode({
          version: VERSION,
          assignment,
          userData: Buffer.alloc(0),
        }),
      }));
    },
    protocol: ({ topics }) => ({
      name: NAME,
      metadata: kafkajs.AssignerProtocol.MemberMetadata.encode({ version: VERSION, topics, userData: Buffer.alloc(0) }),
    }),
  });

/**
 * The partitions of each member by topic. The partitions of a topic are assigned round robin to its readers. Members
 * without partitions are omitted.
 */
export function shareOut(
  members: readonly ReadingMember[],
  partitions: ReadonlyMap<string, readonly number[]>,
): Map<string, Record<string, number[]>> {
  const shares = new Map<string, Record<string, number[]>>();
  for (const [topic, all] of [...partitions].sort(([a], [b]) => (a < b ? -1 : 1))) {
    const order = inOrder(members.filter((m) => m.topics.includes(topic)));
    for (const [turn, partition] of all.toSorted((a, b) => a - b).entries()) {
      const member = order[turn % order.length]!;
      const share = shares.get(member) ?? {};
      shares.set(member, share);
      share[topic] ??= [];
      share[topic].push(partition);
    }
  }
  return shares;
}

/**
 * Member IDs: first members with an instance name, sorted by this name; then members without one, sorted by member ID.
 */
export function inOrder(members: readonly NamedMember[]): string[] {
  const rank = ({ memberId, groupInstanceId }: NamedMember) =>
    groupInstanceId ? `0${groupInstanceId}` : `1${memberId}`;
  return [...members].sort((a, b) => (rank(a) < rank(b) ? -1 : 1)).map((m) => m.memberId);
}

/** The topics of a member. A member without metadata reads the same topics as the leader. */
const topicsOfMember = (metadata: Buffer, own: readonly string[]): readonly string[] =>
  kafkajs.AssignerProtocol.MemberMetadata.decode(metadata)?.topics ?? own;

/**
 * Looks up a topic that this member does not read. The metadata request of kafkajs would replace the topic list of the
 * client with the response.
 */
async function lookFor(cluster: Cluster, topic: string): Promise<readonly { partitionId: number }[]> {
  const { brokerPool } = cluster as unknown as { brokerPool: MetadataPool };
  for (let look = 1; ; look++) {
    try {
      const { topicMetadata } = await brokerPool.withBroker(({ broker }) => broker.metadata([topic]));
      return topicMetadata[0]?.partitionMetadata ?? [];
    } catch (error) {
      if (look === LOOKS) {
        if (NOT_THERE.test(reasonOf(error))) return [];
        throw error;
      }
    }
    await sleep(LOOK_PAUSE_MS);
  }
}
