// Detects transactions that a restarted broker ended without writing markers to their partitions.
// This was observed with Kafka 4.3.1, whose transaction log then has only PrepareCommit and CompleteCommit. The broker
// seems to treat partitions whose leader it does not know yet as deleted. The records and offsets of such a transaction
// hang: readers of committed records stop in front of them, and they get the outcome of the next transaction of the
// same producer.
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
 * Whether the last transaction of this transactional ID was committed. null: the transaction is open, does not exist,
 * or is unknown to the broker.
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
 * The partitions that readers of committed records cannot read to the end. They may also have open transactions of
 * other producers.
 */
export async function unfinished(cluster: BrokerCluster, topics: readonly string[]): Promise<Map<string, number[]>> {
  const found = new Map<string, number[]>();
  for (const topic of new Set(topics)) {
    try {
      const open = [...(await offsetsOf(cluster, topic))].filter(([, { high, end }]) => high < end);
      if (open.length > 0)
        found.set(
          topic,
          open.map(([partition]) => partition),
        );
    } catch (error) {
      // A permanent error is ignored here: the next write to this topic reports it.
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
