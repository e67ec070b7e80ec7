// @platformatic/kafka behind the interface: its encoding of the protocol, with connections and states of our own.
import type { KafkaClient } from '../client/kafka-client.ts';
import { PlatformaticWriter } from './batch-writer.ts';
import { PlatformaticMember } from './group-member.ts';
import { PlatformaticScanner } from './partition-scanner.ts';
import { PlatformaticAdmin } from './topic-admin.ts';

export const platformaticClient: KafkaClient = {
  name: 'platformatic',
  cooperative: true,
  paced: true,
  admin: (connection) => new PlatformaticAdmin(connection),
  member: (options, events) => new PlatformaticMember(options, events),
  writer: (settings) => new PlatformaticWriter({ ...settings, transactionalId: null, transactionTimeoutMs: 0 }),
  transactionalWriter: (settings) => new PlatformaticWriter(settings),
  scanner: (connection) => new PlatformaticScanner(connection),
};
