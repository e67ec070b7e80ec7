// Marks committed offsets with the topic that they belong to.
// A member that was suspended can commit an offset of a topic that was deleted and created again in the meantime. The
// mark shows that the offset does not belong to the new topic.
import type { TopicIds } from '../client/kafka-client.ts';
import type { BrokerCluster } from './broker-cluster.ts';

/** Precedes the ID of the cluster, a slash and the ID of the topic in the metadata of a committed offset. */
const PREFIX = 'sluice-topic:';

/** Offsets for a commit request. `note`: text for offsets without a mark. @throws NoConnection | Refusal */
export async function markedOffsets(
  cluster: BrokerCluster,
  offsets: ReadonlyMap<number, bigint>,
  topicIds: TopicIds = new Map(),
  note: string | null = null,
): Promise<
  { partitionIndex: number; committedOffset: bigint; committedLeaderEpoch: number; committedMetadata: string | null }[]
> {
  const known = [...offsets.keys()].some((partition) => topicIds.get(partition));
  const clusterId = known ? await cluster.id() : null;
  return [...offsets].map(([partitionIndex, committedOffset]) => {
    const topicId = topicIds.get(partitionIndex);
    const mark = topicId && clusterId !== null ? `${PREFIX}${clusterId}/${topicId}` : note;
    return { partitionIndex, committedOffset, committedLeaderEpoch: -1, committedMetadata: mark };
  });
}

/**
 * The ID of the topic that a committed offset belongs to. null: unknown, or the offset was copied from another cluster,
 * so that the IDs cannot be compared.
 */
export function markedTopic(metadata: string | null | undefined, clusterId: string | null): string | null {
  const prefix = `${PREFIX}${clusterId}/`;
  return clusterId !== null && metadata?.startsWith(prefix) ? metadata.slice(prefix.length) : null;
}
