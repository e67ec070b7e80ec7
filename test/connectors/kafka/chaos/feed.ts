// Records at a steady rate, over broken brokers and new partitions: each says which it is.
import { setTimeout as sleep } from 'node:timers/promises';
import type { Message } from 'kafkajs';
import type { KafkaCluster } from '../../../support/kafka/cluster.ts';
import { PATIENCE_MS } from '../../../support/patience.ts';

/** Puts the records into the topic, spread over `ms`; record n of partition p says so. */
export async function feed(
  cluster: KafkaCluster,
  topic: string,
  applications: readonly object[],
  records: number,
  ms: number,
  partitions: () => number,
): Promise<void> {
  const producer = cluster.client().producer({
    idempotent: true,
    maxInFlightRequests: 1,
    metadataMaxAge: 1_000,
    retry: { retries: 200, maxRetryTime: 500 },
  });
  await producer.connect();
  const sequence = Array<number>(partitions()).fill(0);
  const began = performance.now();
  try {
    for (let id = 0; id < records; ) {
      const due = Math.min(records, Math.ceil((records * (performance.now() - began + 50)) / ms));
      const messages = sequence.map((): Message[] => []);
      for (; id < due; id++) {
        const partition = id % sequence.length;
        const value = JSON.stringify({
          ...applications[id % applications.length],
          id,
          p: partition,
          n: sequence[partition]!++,
        });
        messages[partition]!.push({ key: String(id), value, partition, headers: { id: String(id) } });
      }
      // One partition a request: kafkajs forgets some of several when a leader moves in between.
      for (const some of messages) {
        // The same producer again: the broker knows the records it has by their sequence.
        while (some.length > 0) {
          const sent = await producer.send({ topic, messages: some }).catch((error: Error) => error);
          if (!(sent instanceof Error)) break;
          if (performance.now() > began + ms + PATIENCE_MS) throw sent;
          await sleep(200);
        }
      }
      if (partitions() > sequence.length) {
        // New partitions get their share when this producer has heard of them.
        await sleep(1_500);
        while (sequence.length < partitions()) sequence.push(0);
      }
      await sleep(50);
    }
  } finally {
    await producer.disconnect();
  }
}
