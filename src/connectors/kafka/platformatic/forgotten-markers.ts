// A broker that is restarted may call a transaction ended that was decided before, and write no markers to its partitions (4.3.1: its log
// has PrepareCommit, CompleteCommit and nothing else; leaders it does not know yet seem to pass for partitions that were deleted). Records
// and offsets then hang: readers stop before them for good, and what the next transaction of the same producer becomes, they become too.
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

/** The result of the last transaction of this id: committed or not; null: it is open, none exists, or the broker does not know. */
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

/** Partitions that readers of committed records cannot read to their end; those of others' open transactions are among them. */
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
      // The next writer is notified.
      if (!(error instanceof Refusal) || isPassing(error)) throw error;
    }
  }
  return found;
}

/** Whether one of these offsets of the group is in an open transaction. */
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
