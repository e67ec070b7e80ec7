// Selects the Kafka client: @platformatic/kafka unless SLUICE_KAFKA_CLIENT names another client.
// Only the library of the selected client is loaded.
import { SluiceError } from '../../core/errors.ts';
import type { KafkaClient, TransactionalWriter, TransactionSettings } from './client/kafka-client.ts';

const SETTING = 'SLUICE_KAFKA_CLIENT';
const LIBRARIES: Readonly<Record<string, () => Promise<KafkaClient>>> = {
  platformatic: async () => (await import('./platformatic/platformatic-client.ts')).platformaticClient,
  kafkajs: async () => (await import('./kafkajs/kafkajs-client.ts')).kafkajsClient,
};

const selected = await LIBRARIES[process.env[SETTING] || 'platformatic']?.();

/** The selected client. @throws SluiceError kafka_config if SLUICE_KAFKA_CLIENT names an unknown client */
export function kafkaClient(): KafkaClient {
  if (!selected)
    throw new SluiceError('kafka_config', `${SETTING} must be one of ${Object.keys(LIBRARIES).join(', ')}`);
  return selected;
}

/**
 * For each feature that needs transactions: the subject of its error message, and an alternative to changing the
 * client.
 */
const NEEDS_TRANSACTIONS = {
  delivery: ['delivery: exactly_once needs', ', or set delivery: at_least_once'],
  dead_letters: ['replaying and dropping dead letters need', ''],
} as const;

/** @throws SluiceError kafka_config if the selected client has no transactions */
export function requireTransactions(use: keyof typeof NEEDS_TRANSACTIONS): void {
  const { name, transactionalWriter } = kafkaClient();
  if (transactionalWriter) return;
  const [subject, alternative] = NEEDS_TRANSACTIONS[use];
  throw new SluiceError(
    'kafka_config',
    `${subject} Kafka transactions, which the client ${name} does not have: unset ${SETTING}${alternative}`,
  );
}

/**
 * Opens a writer. Callers must check `requireTransactions` before they connect.
 * @throws SluiceError kafka_config if the selected client has no transactions
 */
export function openTransactionalWriter(settings: TransactionSettings): TransactionalWriter {
  requireTransactions('delivery');
  return kafkaClient().transactionalWriter!(settings);
}
