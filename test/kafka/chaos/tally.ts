// Counts the answers in a topic by record, as a reader who sees only committed ones does.
import type { KafkaCluster } from '../../support/kafka/cluster.ts';
import { eachRecord } from '../../support/kafka/topics.ts';

export interface Tally {
  /** Records without an answer. */
  lost: number;
  /** Answers too many. */
  doubled: number;
  /** Answers that stand before the answer to an earlier record of the same partition. */
  disordered: number;
}

export async function countAnswers(cluster: KafkaCluster, topic: string, records: number): Promise<Tally> {
  const answers = new Uint32Array(records);
  const newest = new Map<string, number>();
  let disordered = 0;
  await eachRecord(cluster, topic, (message, partition) => {
    const { id, p, n } = JSON.parse(message.value!.toString()) as { id: number; p: number; n: number };
    if (message.key!.toString() !== String(id) || message.headers!.id!.toString() !== String(id)) {
      throw new Error(`record ${id} lost its key or headers`);
    }
    const from = `${p}>${partition}`;
    const before = newest.get(from) ?? -1;
    // A doubled answer is counted as such, not as one out of order.
    if (answers[id]!++ === 0 && n < before) disordered++;
    newest.set(from, Math.max(before, n));
  });
  let lost = 0;
  let doubled = 0;
  for (const count of answers) {
    if (count === 0) lost++;
    else doubled += count - 1;
  }
  return { lost, doubled, disordered };
}
