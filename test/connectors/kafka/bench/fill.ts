// What the benches of topics read: applications of about 500 bytes, a thousand to one partition after the other.
import { someApplications } from '../../../support/kafka/applications.ts';
import type { KafkaCluster } from '../../../support/kafka/cluster.ts';

/** Makes the topic. `records`: in thousands. */
export async function fill(
  cluster: KafkaCluster,
  { name, partitions, records }: { name: string; partitions: number; records: number },
): Promise<string> {
  const topic = await cluster.createTopic(name, partitions);
  const producer = cluster.client().producer();
  await producer.connect();
  const applications = someApplications().map((a) => JSON.stringify(a));
  for (let i = 0; i < records; i += applications.length) {
    const partition = (i / applications.length) % partitions;
    const messages = applications.map((value, j) => ({
      key: String(i + j),
      value,
      headers: { id: String(i + j) },
      partition,
    }));
    await producer.send({ topic, messages });
  }
  await producer.disconnect();
  return topic;
}
