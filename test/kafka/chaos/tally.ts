// Counts the answers in a topic by record, as a reader who sees only committed ones does.
import { setTimeout as sleep } from 'node:timers/promises';
import type { KafkaCluster } from '../../support/kafka/cluster.ts';

export interface Tally {
  /** Records without an answer. */
  lost: number;
  /** Answers too many. */
  doubled: number;
  /** Answers that stand before the answer to an earlier record of the same partition. */
  disordered: number;
}

/** Reads from the beginning to the end of every partition; the end must not move any more. */
export async function countAnswers(cluster: KafkaCluster, topic: string, records: number): Promise<Tally> {
  const admin = await cluster.admin();
  const ends = new Map((await admin.fetchTopicOffsets(topic)).map((p) => [p.partition, BigInt(p.high)]));
  const answers = new Uint32Array(records);
  const newest = new Map<string, number>();
  let disordered = 0;
  const consumer = cluster.client().consumer({ groupId: `tally-${crypto.randomUUID()}`, maxWaitTimeInMs: 100 });
  await consumer.connect();
  await consumer.subscribe({ topics: [topic], fromBeginning: true });
  consumer.on(consumer.events.END_BATCH_PROCESS, ({ payload }) => {
    if (BigInt(payload.lastOffset) + 1n >= ends.get(payload.partition)!) ends.delete(payload.partition);
  });
  for (const [partition, end] of ends) if (end === 0n) ends.delete(partition);
  await consumer.run({
    autoCommit: false,
    eachBatch: async ({ batch }) => {
      for (const message of batch.messages) {
        const { id, p, n } = JSON.parse(message.value!.toString()) as { id: number; p: number; n: number };
        if (message.key!.toString() !== String(id) || message.headers!.id!.toString() !== String(id)) {
          throw new Error(`record ${id} lost its key or headers`);
        }
        const from = `${p}>${batch.partition}`;
        const before = newest.get(from) ?? -1;
        // A doubled answer is counted as such, not as one out of order.
        if (answers[id]!++ === 0 && n < before) disordered++;
        newest.set(from, Math.max(before, n));
      }
    },
  });
  const end = performance.now() + 60_000;
  while (ends.size > 0 && performance.now() < end) await sleep(50);
  await consumer.disconnect();
  if (ends.size > 0) throw new Error(`partitions ${[...ends.keys()]} of ${topic} cannot be read to their end`);
  let lost = 0;
  let doubled = 0;
  for (const count of answers) {
    if (count === 0) lost++;
    else doubled += count - 1;
  }
  return { lost, doubled, disordered };
}
