// Counts the answers in a topic by record, as a reader who sees only committed ones does.
import type { KafkaCluster } from '../../../support/kafka/cluster.ts';
import { eachRecord } from '../../../support/kafka/topics.ts';

export interface Tally {
  /** Records without an answer. */
  lost: number;
  /** Answers too many. */
  doubled: number;
  /** Answers that stand before the answer to an earlier record of the same partition. */
  disordered: number;
}

/** Compares what was answered with what was asked, record by record. */
export async function countAnswers(
  cluster: KafkaCluster,
  input: string,
  output: string,
  records: number,
): Promise<Tally> {
  const asked = new Uint32Array(records);
  const answered = new Uint32Array(records);
  const newest = new Map<string, number>();
  let disordered = 0;
  await eachRecord(cluster, input, (message) => {
    asked[Number(message.key!.toString())]!++;
  });
  await eachRecord(cluster, output, (message, partition) => {
    const { id, p, n } = JSON.parse(message.value!.toString()) as { id: number; p: number; n: number };
    if (message.key!.toString() !== String(id) || message.headers!.id!.toString() !== String(id)) {
      throw new Error(`record ${id} lost its key or headers`);
    }
    const from = `${p}>${partition}`;
    const before = newest.get(from) ?? -1;
    // A doubled answer is counted as such, not as one out of order.
    if (answered[id]!++ === 0 && n < before) disordered++;
    newest.set(from, Math.max(before, n));
  });
  let lost = 0;
  let doubled = 0;
  for (let id = 0; id < records; id++) {
    if (asked[id] === 0) throw new Error(`record ${id} never was in the topic`);
    lost += Math.max(0, asked[id]! - answered[id]!);
    doubled += Math.max(0, answered[id]! - asked[id]!);
  }
  return { lost, doubled, disordered };
}
