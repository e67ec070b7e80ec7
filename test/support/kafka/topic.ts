// `npm run kafka:topic -- NAME [PARTITIONS]`: creates a topic on the broker of `npm run kafka:up`.
import { openKafkajs } from '../../../src/connectors/kafka/kafkajs/connect.ts';

const [name, partitions = '1'] = process.argv.slice(2);
if (!name) {
  console.error('usage: npm run kafka:topic -- NAME [PARTITIONS]');
  process.exit(2);
}
const admin = openKafkajs({ brokers: [`127.0.0.1:${process.env.KAFKA_PORT ?? 9092}`] }).kafka.admin();
await admin.connect();
const created = await admin.createTopics({ topics: [{ topic: name, numPartitions: Number(partitions) }] });
console.error(created ? `created ${name} with ${partitions} partitions` : `${name} is there already`);
await admin.disconnect();
