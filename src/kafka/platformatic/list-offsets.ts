// First and last offsets of all partitions of a topic, each asked of its leader.
import type { PartitionRange } from '../client/kafka-client.ts';
import type { BrokerCluster } from './broker-cluster.ts';
import { Refusal } from './broker-failures.ts';
import { listOffsetsV5 } from './kafka-protocol.ts';

const EARLIEST = -2n;
const LATEST = -1n;

/** `isolation`: 1 ends at the first open transaction, 0 behind the last record. @throws Refusal | NoConnection */
export async function offsetsOf(
  cluster: BrokerCluster,
  topic: string,
  isolation: 0 | 1,
): Promise<ReadonlyMap<number, PartitionRange>> {
  const { leaders } = await cluster.layout(topic, 0);
  if (leaders.includes(-1)) throw new Refusal('Metadata', ['LEADER_NOT_AVAILABLE']);
  const byLeader = Map.groupBy(leaders.keys(), (partition) => leaders[partition]!);
  const found = new Map<number, { low: bigint; high: bigint }>();
  const ask = async (leader: number, partitions: readonly number[], timestamp: bigint) => {
    const broker = await cluster.node(leader);
    const asked = partitions.map((partitionIndex) => ({ partitionIndex, currentLeaderEpoch: -1, timestamp }));
    const { topics } = await broker.call(listOffsetsV5.api, [-1, isolation, [{ name: topic, partitions: asked }]]);
    for (const p of topics[0]?.partitions ?? []) {
      const range = found.get(p.partitionIndex) ?? { low: 0n, high: 0n };
      found.set(p.partitionIndex, timestamp === EARLIEST ? { ...range, low: p.offset } : { ...range, high: p.offset });
    }
  };
  // The ends are asked for after the beginnings, so a range is never negative.
  for (const timestamp of [EARLIEST, LATEST]) {
    await Promise.all([...byLeader].map(([leader, partitions]) => ask(leader, partitions, timestamp)));
  }
  return new Map([...found].sort(([a], [b]) => a - b));
}
