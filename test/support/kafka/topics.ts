// Writing to and reading from topics with bare kafkajs, so that tests do not check the product with itself.
import { setTimeout as sleep } from 'node:timers/promises';
import type { KafkaMessage, Message } from 'kafkajs';
import type { KafkaCluster } from './cluster.ts';

const READ_PATIENCE_MS = 60_000;

export async function produce(cluster: KafkaCluster, topic: string, messages: Message[]): Promise<void> {
  const producer = cluster.client().producer();
  await producer.connect();
  for (let i = 0; i < messages.length; i += 1000) {
    await producer.send({ topic, messages: messages.slice(i, i + 1000) });
  }
  await producer.disconnect();
}

/** `count` records: key k<i>, value v<i>, header id; spread over the partitions in turn. */
export const numbered = (count: number, partitions = 1, from = 0): Message[] =>
  Array.from({ length: count }, (_, i) => ({
    key: `k${from + i}`,
    value: `v${from + i}`,
    partition: (from + i) % partitions,
    headers: { id: String(from + i) },
  }));

/** Every committed record from the beginning to the end of every partition; the end must not move any more. */
export async function eachRecord(
  cluster: KafkaCluster,
  topic: string,
  onRecord: (message: KafkaMessage, partition: number) => void,
): Promise<void> {
  const admin = await cluster.admin();
  const ends = new Map((await admin.fetchTopicOffsets(topic)).map((p) => [p.partition, BigInt(p.high)]));
  for (const [partition, end] of ends) if (end === 0n) ends.delete(partition);
  const consumer = cluster.client().consumer({ groupId: `reader-${crypto.randomUUID()}`, maxWaitTimeInMs: 50 });
  await consumer.connect();
  await consumer.subscribe({ topics: [topic], fromBeginning: true });
  consumer.on(consumer.events.END_BATCH_PROCESS, ({ payload }) => {
    if (BigInt(payload.lastOffset) + 1n >= (ends.get(payload.partition) ?? 0n)) ends.delete(payload.partition);
  });
  await consumer.run({
    autoCommit: false,
    eachBatch: async ({ batch }) => {
      for (const message of batch.messages) onRecord(message, batch.partition);
    },
  });
  for (const end = performance.now() + READ_PATIENCE_MS; ends.size > 0 && performance.now() < end; ) await sleep(20);
  await consumer.disconnect();
  if (ends.size > 0) throw new Error(`partitions ${[...ends.keys()]} of ${topic} cannot be read to their end`);
}

export interface SeenRecord {
  partition: number;
  key: string | null;
  value: string | null;
  headers: Record<string, string>;
  timestamp: number;
}

export async function readTopic(cluster: KafkaCluster, topic: string): Promise<SeenRecord[]> {
  const seen: SeenRecord[] = [];
  await eachRecord(cluster, topic, ({ key, value, headers, timestamp }, partition) => {
    seen.push({
      partition,
      key: key?.toString() ?? null,
      value: value?.toString() ?? null,
      headers: Object.fromEntries(Object.entries(headers ?? {}).map(([name, v]) => [name, String(v)])),
      timestamp: Number(timestamp),
    });
  });
  return seen;
}

/** Waits for a condition; fails with `what` after ten seconds. */
export async function until(condition: () => boolean | Promise<boolean>, what: string, ms = 10_000): Promise<void> {
  for (const end = performance.now() + ms; performance.now() < end; await sleep(20)) {
    if (await condition()) return;
  }
  throw new Error(`not within ${ms} ms: ${what}`);
}

/** Sum of the committed offsets of a group. */
export async function committed(cluster: KafkaCluster, group: string, topic: string): Promise<number> {
  const admin = await cluster.admin();
  const [answer] = await admin.fetchOffsets({ groupId: group, topics: [topic] });
  return answer!.partitions.reduce((sum, p) => sum + Math.max(0, Number(p.offset)), 0);
}
