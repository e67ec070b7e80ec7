// Writing to and reading from topics with bare kafkajs, so that tests do not check the product with itself.
import { setTimeout as sleep } from 'node:timers/promises';
import type { KafkaMessage, Message } from 'kafkajs';
import { PATIENCE_MS } from '../patience.ts';
import type { KafkaCluster } from './cluster.ts';

/** Idempotent and one partition a request: otherwise kafkajs doubles or forgets records when a leader moves. */
export async function produce(cluster: KafkaCluster, topic: string, messages: Message[]): Promise<void> {
  const producer = cluster.client().producer({ idempotent: true, maxInFlightRequests: 1 });
  await producer.connect();
  const large = messages.some((m) => (m.value?.length ?? 0) > 500);
  const step = large ? 100 : 1000;
  for (const some of Map.groupBy(messages, (m) => m.partition).values()) {
    for (let i = 0; i < some.length; i += step) await producer.send({ topic, messages: some.slice(i, i + step) });
  }
  await producer.disconnect();
}

/** More partitions, and until everybody can be told: kafkajs silently drops records for partitions it has not heard of. */
export async function addPartitions(cluster: KafkaCluster, topics: string[], count: number): Promise<void> {
  const admin = await cluster.admin();
  await admin.createPartitions({ topicPartitions: topics.map((topic) => ({ topic, count })) });
  for (const topic of topics) await cluster.accepts(topic, count);
}

/** Deletes the records of partitions before an offset. */
export async function deleteRecords(
  cluster: KafkaCluster,
  topic: string,
  before: readonly { partition: number; offset: string }[],
): Promise<void> {
  const admin = await cluster.admin();
  // kafkajs does not ask for the leaders of a topic that it has not heard of.
  await admin.fetchTopicOffsets(topic);
  await admin.deleteTopicRecords({ topic, partitions: [...before] });
}

/** `count` records: key k<i>, value v<i>, header id; spread over the partitions in turn. */
export const numbered = (count: number, partitions = 1, from = 0): Message[] =>
  Array.from({ length: count }, (_, i) => ({
    key: `k${from + i}`,
    value: `v${from + i}`,
    partition: (from + i) % partitions,
    headers: { id: String(from + i) },
  }));

const LAST = 'test-last-record';

/**
 * Every committed record that is in the topic now. A last record is put into each partition and read up to: a reader of
 * committed records gets there only when every transaction before it is decided, and its markers are written a little
 * after the commit was acknowledged.
 */
export async function eachRecord(
  cluster: KafkaCluster,
  topic: string,
  onRecord: (message: KafkaMessage, partition: number) => void,
): Promise<void> {
  const admin = await cluster.admin();
  const [metadata] = (await admin.fetchTopicMetadata({ topics: [topic] })).topics;
  const open = new Set(metadata!.partitions.map((p) => p.partitionId));
  const id = crypto.randomUUID();
  await produce(
    cluster,
    topic,
    [...open].map((partition) => ({ key: null, value: 'last', partition, headers: { [LAST]: id } })),
  );
  // A fresh broker takes a while until it has a coordinator for groups.
  const retry = { retries: 40, restartOnFailure: async () => true };
  const consumer = cluster.client().consumer({ groupId: `reader-${id}`, maxWaitTimeInMs: 50, retry });
  await consumer.connect();
  await consumer.subscribe({ topics: [topic], fromBeginning: true });
  await consumer.run({
    autoCommit: false,
    eachBatch: async ({ batch }) => {
      for (const message of batch.messages) {
        const last = message.headers?.[LAST]?.toString();
        if (last === undefined) onRecord(message, batch.partition);
        else if (last === id) open.delete(batch.partition);
      }
    },
  });
  for (const end = performance.now() + PATIENCE_MS; open.size > 0 && performance.now() < end; ) await sleep(20);
  await consumer.disconnect();
  if (open.size > 0) throw new Error(`partitions ${[...open]} of ${topic} cannot be read to their end`);
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

/** Sum of the committed offsets of a group. */
export async function committed(cluster: KafkaCluster, group: string, topic: string): Promise<number> {
  const admin = await cluster.admin();
  const [answer] = await admin.fetchOffsets({ groupId: group, topics: [topic] });
  return answer!.partitions.reduce((sum, p) => sum + Math.max(0, Number(p.offset)), 0);
}
