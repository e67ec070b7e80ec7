// kafkajs as the house's Kafka client.
import type { KafkaClient } from '../client/kafka-client.ts';
import { KafkajsAdmin } from './kafkajs-admin.ts';
import { KafkajsMember } from './kafkajs-member.ts';
import { KafkajsScanner } from './kafkajs-scanner.ts';
import { KafkajsWriter } from './kafkajs-writer.ts';

export const kafkajsClient: KafkaClient = {
  name: 'kafkajs',
  cooperative: false,
  paced: false,
  admin: (connection) => new KafkajsAdmin(connection),
  member: (options, events) => new KafkajsMember(options, events),
  writer: (settings) => new KafkajsWriter(settings),
  scanner: (connection) => new KafkajsScanner(connection),
};
