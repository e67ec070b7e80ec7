// Partitions to members in turn, in the order of their instance names: whoever comes back gets the same partitions again.
import type { Assigner, Cluster, PartitionAssigner } from 'kafkajs';
import kafkajs, { type Membership } from './repairs.ts';

/** The name kafkajs's own assigner has, because members of an earlier release may be in the same group. */
const NAME = 'RoundRobinAssigner';
const VERSION = 0;

interface NamedMember {
  memberId: string;
  groupInstanceId?: string | null;
}

/** Made for one consumer; `membership` hangs on it because assigners are all that kafkajs passes on as it is. */
export const assignerOf =
  (membership: Membership): PartitionAssigner =>
  ({ cluster }: { cluster: Cluster }): Assigner & { membership: Membership } => ({
    name: NAME,
    version: VERSION,
    membership,
    async assign({ members, topics }) {
      const order = inOrder(members);
      const shares = new Map<string, Record<string, number[]>>();
      let turn = 0;
      for (const topic of topics) {
        const partitions = cluster.findTopicPartitionMetadata(topic).map((p) => p.partitionId);
        for (const partition of partitions.sort((a, b) => a - b)) {
          const member = order[turn++ % order.length]!;
          const share = shares.get(member) ?? {};
          shares.set(member, share);
          share[topic] ??= [];
          share[topic].push(partition);
        }
      }
      return [...shares].map(([memberId, assignment]) => ({
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

/** Ids of members: those with a name first, by it; the others by the id they were given. */
export function inOrder(members: readonly NamedMember[]): string[] {
  const rank = ({ memberId, groupInstanceId }: NamedMember) =>
    groupInstanceId ? `0${groupInstanceId}` : `1${memberId}`;
  return [...members].sort((a, b) => (rank(a) < rank(b) ? -1 : 1)).map((m) => m.memberId);
}
