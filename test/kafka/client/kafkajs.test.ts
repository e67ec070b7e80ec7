// kafkajs keeps what the interface of a Kafka client promises.
import { kafkajsClient } from '../../../src/kafka/kafkajs/kafkajs-client.ts';
import { conformance } from './conformance.ts';

conformance(kafkajsClient);
