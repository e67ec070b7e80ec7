// Detects transactions that a restarted broker ended without writing markers to their partitions.
// Observed with 4.3.1, whose log then has only PrepareCommit and CompleteCommit; it seems to treat leaders that it does
// not know yet as deleted partitions. The records and offsets hang: readers stop before them forever, and they take
// over the outcome of the same producer's next transaction.
import { type BrokerCluster, offsetsOf } from './broker-cluster.ts';
import type { BrokerConnection } from './broker-connection.ts';
import { hasMoved, isPassing, Refusal, refusedAs } from './broker-failures.ts';
import { apiVersionsV3, describeTransactionsV0, offsetFetchV7 } from './kafka-protocol.ts';

const DESCRIBE_TRANSACTIONS = 65;
const DECISIONS: Readonly<Record<string, boolean>> = {
  PrepareCommit: true,
  CompleteCommit: true,
  PrepareAbort: false,
  CompleteAbort: false,
};

/**
 * Whether the last transaction of this ID was committed; null: it is open, none exists, or the broker has no record of
 * it.
 */
export async function lastDecision(broker: BrokerConnection, transactionalId: string): Promise<boolean | null> {
  const { apiKeys } = await broker.call(apiVersionsV3.api, ['sluice', '1']);
  if (!apiKeys.some((a) => a.apiKey === DESCRIBE_TRANSACTIONS)) return null;
  try {
    const { transactionStates } = await broker.call(describeTransactionsV0.api, [[transactionalId]]);
    return DECISIONS[transactionStates[0]?.transactionState ?? ''] ?? null;
  } catch (error) {
    if (!(error instanceof Refusal) || isPassing(error)) throw error;
    return null;
  }
}

/**
 * Partitions that readers of committed records cannot read to the end, including those with open transactions of other
 * producers.
 */
export async function unfinished(cluster: BrokerCluster, topics: readonly string[]): Promise<Map<string, number[]>> {
  const found = new Map<string, number[]>();
  for (const topic of new Set(topics)) {
    try {
      const stable = await offsetsOf(cluster, topic, 1);
      const ends = await offsetsOf(cluster, topic, 0);
      const open = [...ends].filter(([partition, { high }]) => (stable.get(partition)?.high ?? high) < high);
      if (open.length > 0)
        found.set(
          topic,
          open.map(([partition]) => partition),
        );
    } catch (error) {
      // A permanent refusal is left for the next write to this topic to report.
      if (!(error instanceof Refusal) || isPassing(error)) throw error;
    }
  }
  return found;
}

/** Whether an open transaction contains one of these offsets of the group. */
export async function isPending(
  cluster: BrokerCluster,
  { group, topic, partitions }: { group: string; topic: string; partitions: readonly number[] | null },
): Promise<boolean> {
  const asked = partitions ?? [...(await cluster.layout(topic)).leaders.keys()];
  const broker = await cluster.coordinator('group', group);
  const groups = [{ groupId: group, topics: [{ name: topic, partitionIndexes: [...asked] }] }];
  try {
    await broker.call(offsetFetchV7.api, [groups, true]);
    return false;
  } catch (error) {
    if (refusedAs(error, 'UNSTABLE_OFFSET_COMMIT')) return true;
    if (hasMoved(error)) cluster.forgetCoordinator('group', group);
    throw error;
  }
}
