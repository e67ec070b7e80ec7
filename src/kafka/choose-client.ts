// Which library speaks to the brokers: @platformatic/kafka's protocol, unless SLUICE_KAFKA_CLIENT names another. Only that one is loaded.
import { SluiceError } from '../core/errors.ts';
import type { KafkaClient } from './client/kafka-client.ts';

const LIBRARIES: Readonly<Record<string, () => Promise<KafkaClient>>> = {
  platformatic: async () => (await import('./platformatic/platformatic-client.ts')).platformaticClient,
  kafkajs: async () => (await import('./kafkajs/kafkajs-client.ts')).kafkajsClient,
};

const chosen = await LIBRARIES[process.env.SLUICE_KAFKA_CLIENT || 'platformatic']?.();

/** @throws SluiceError kafka_config SLUICE_KAFKA_CLIENT names none */
export function kafkaClient(): KafkaClient {
  if (!chosen) throw new SluiceError('kafka_config', `SLUICE_KAFKA_CLIENT is one of ${Object.keys(LIBRARIES)}`);
  return chosen;
}
