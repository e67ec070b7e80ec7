// Batches into topics by a producer of kafkajs: in one transaction with offsets, or in order of safety without one.
import type { Message, Producer, RecordMetadata, TopicMessages, Transaction } from 'kafkajs';
import { monotonicMs, sleep } from '../../core/clock.ts';
import { SluiceError } from '../../core/errors.ts';
import { within } from '../../core/within.ts';
import { reasonOf } from '../client/failures.ts';
import type {
  BatchWriter,
  OffsetsToCommit,
  PlannedBatch,
  PlannedRecord,
  Rounds,
  WriterSettings,
} from '../client/kafka-client.ts';
import { type KafkajsHandle, openKafkajs } from './connect.ts';
import { kafkajsError } from './kafkajs-error.ts';
import { COMPRESSION_TYPES } from './register-codecs.ts';
import { memberOfOffsets } from './repairs.ts';

/** Wait for an abort after a failure, ms: the next fence aborts anyway. */
const ABORT_PATIENCE_MS = 5_000;
/** Longest wait for the transaction before to be finished, ms. */
const CONCURRENT_MS = 5_000;
const CONCURRENT_PAUSE_MS = 10;
/** Wait for kafkajs to end its connections, ms: what is open then is cut. */
const CLOSING_MS = 1_000;

export class KafkajsWriter implements BatchWriter {
  readonly #handle: KafkajsHandle;
  readonly #producer: Producer;
  readonly #compression: number;
  #discarded: Promise<void> | null = null;

  /** @throws SluiceError kafka_config */
  constructor({ connection, transactionalId, transactionTimeoutMs, compression }: WriterSettings) {
    this.#compression = COMPRESSION_TYPES[compression];
    this.#handle = openKafkajs(connection);
    this.#producer = this.#handle.kafka.producer({
      idempotent: true,
      maxInFlightRequests: 1,
      allowAutoTopicCreation: false,
      metadataMaxAge: 30_000,
      transactionTimeout: transactionTimeoutMs,
      ...(transactionalId === null ? {} : { transactionalId }),
    });
  }

  async connect(): Promise<void> {
    await coded('connecting a producer failed', () => this.#producer.connect());
  }

  /** `connect` alone does not fence: the request goes out with the first transaction. */
  async fence(): Promise<void> {
    await coded('fencing older producers failed', async () => {
      const transaction = await this.#producer.transaction();
      await transaction.abort();
    });
  }

  async writeTransaction(rounds: Rounds, offsets: OffsetsToCommit | null): Promise<void> {
    await coded('writing a transaction failed', async () => {
      const transaction = await this.#producer.transaction();
      try {
        await this.#send(transaction, rounds);
        if (offsets) await sendOffsets(transaction, offsets);
        await transaction.commit();
      } catch (error) {
        await abort(transaction);
        throw error;
      }
    });
  }

  async write(rounds: Rounds): Promise<void> {
    await coded('writing failed', () => this.#send(this.#producer, rounds));
  }

  discard(): Promise<void> {
    this.#discarded ??= this.#close();
    return this.#discarded;
  }

  async #close(): Promise<void> {
    await within(
      this.#producer.disconnect().catch(() => {}),
      CLOSING_MS,
    );
    this.#handle.destroy();
  }

  async #send(to: Pick<Transaction | Producer, 'sendBatch'>, rounds: Rounds): Promise<void> {
    for (const round of rounds) {
      const acks = await to.sendBatch({ acks: -1, compression: this.#compression, topicMessages: byTopic(round) });
      checkAcknowledged(round, acks);
    }
  }
}

async function coded<T>(during: string, work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    throw kafkajsError(error, during);
  }
}

/** The records of a round, a list a topic, each with its partition. */
function byTopic(round: readonly PlannedBatch[]): TopicMessages[] {
  const topics = new Map<string, Message[]>();
  for (const { topic, partition, records } of round) {
    const messages = topics.get(topic) ?? [];
    topics.set(topic, messages);
    for (const record of records) messages.push(messageOf(record, partition));
  }
  return [...topics].map(([topic, messages]) => ({ topic, messages }));
}

const messageOf = ({ key, value, headers, timestamp }: PlannedRecord, partition: number): Message => ({
  key,
  value,
  partition,
  ...(headers ? { headers: headers as Record<string, Buffer | Buffer[]> } : {}),
  ...(timestamp === undefined ? {} : { timestamp: String(timestamp) }),
});

async function sendOffsets(transaction: Transaction, { group, topic, next, member }: OffsetsToCommit): Promise<void> {
  const partitions = [...next].map(([partition, offset]) => ({ partition, offset: String(offset) }));
  const topics = [{ topic, partitions }];
  if (member) memberOfOffsets.set(topics, member);
  const end = monotonicMs() + CONCURRENT_MS;
  for (;;) {
    try {
      return await transaction.sendOffsets({ consumerGroupId: group, topics });
    } catch (error) {
      // The transaction before is still being finished; kafkajs waits for that where records come first, and not here.
      if (reasonOf(error) !== 'CONCURRENT_TRANSACTIONS' || monotonicMs() > end) throw error;
    }
    await sleep(CONCURRENT_PAUSE_MS);
  }
}

/**
 * kafkajs silently leaves out partitions its metadata does not know, and those whose leader moved while it repeated a
 * request: what was not acknowledged was not sent.
 */
function checkAcknowledged(round: readonly PlannedBatch[], acks: readonly RecordMetadata[]): void {
  const missing = new Set(round.map((b) => `${b.topic}/${b.partition}`));
  for (const { topicName, partition, errorCode } of acks) {
    if (errorCode === 0) missing.delete(`${topicName}/${partition}`);
  }
  if (missing.size > 0) throw new SluiceError('kafka_failed', `not acknowledged: ${[...missing].join(', ')}`);
}

async function abort(transaction: Transaction): Promise<void> {
  if (transaction.isActive())
    await within(
      transaction.abort().catch(() => {}),
      ABORT_PATIENCE_MS,
    );
}
