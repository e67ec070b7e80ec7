// Assigns partitions to members in turn, ordered by instance name: a returning member gets the same partitions again.
// Partitions of a topic go to members that read it, whether or not the leader reads it itself.
import type { Assigner, Cluster, PartitionAssigner } from 'kafkajs';
import { sleep } from '../../../core/clock.ts';
import { reasonOf } from '../client/failures.ts';
import kafkajs, { type Membership, type MetadataPool } from './repairs.ts';

/** The name kafkajs's own assigner has, because members of an earlier release may be in the same group. */
const NAME = 'RoundRobinAssigner';
const VERSION = 0;
/** Looks up a topic of other members: a broker that does not know it yet must not leave it unassigned. */
const LOOKS = 10;
const LOOK_PAUSE_MS = 200;
/** Not this member's to read, or gone: its own members say so. */
const NOT_THERE = /^(UNKNOWN_TOPIC_OR_PARTITION|INVALID_TOPIC_EXCEPTION|TOPIC_AUTHORIZATION_FAILED)$/;

interface NamedMember {
  memberId: string;
  groupInstanceId?: string | null;
}

interface ReadingMember extends NamedMember {
  /** Topics it reads. */
  topics: readonly string[];
}

/** Made for one consumer; `membership` hangs on it because assigners are all that kafkajs passes on as it is. */
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

/** The partitions of each member: topic by topic, in turn among its readers. Members without partitions are omitted. */
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

/** Ids of members: those with a name first, by it; the others by the id they were given. */
export function inOrder(members: readonly NamedMember[]): string[] {
  const rank = ({ memberId, groupInstanceId }: NamedMember) =>
    groupInstanceId ? `0${groupInstanceId}` : `1${memberId}`;
  return [...members].sort((a, b) => (rank(a) < rank(b) ? -1 : 1)).map((m) => m.memberId);
}

/** Without any words of its own a member reads what the leader reads. */
const topicsOfMember = (metadata: Buffer, own: readonly string[]): readonly string[] =>
  kafkajs.AssignerProtocol.MemberMetadata.decode(metadata)?.topics ?? own;

/** Asks a broker for a topic this member does not read: kafkajs's own metadata would take the answer for all there is. */
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
