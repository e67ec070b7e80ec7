// The producer of one partition: writes a plan and its offset in one transaction, or in order of safety without one.
import type { Producer, RecordMetadata, Transaction } from 'kafkajs';
import { SluiceError } from '../core/errors.ts';
import { type BatchCompression, COMPRESSION_TYPES } from './codecs.ts';
import { type KafkaConnection, kafkaClient } from './connection.ts';
import { type SendPlan, sendTarget } from './send-plan.ts';

/** Wait for an abort after a failure, ms: the next fence aborts anyway. */
const ABORT_PATIENCE_MS = 5_000;

export interface PartitionProducerOptions {
  connection: KafkaConnection;
  /** null: idempotent, without transactions. */
  transactionalId: string | null;
  transactionTimeoutMs: number;
  compression: BatchCompression;
}

export interface OffsetToCommit {
  group: string;
  topic: string;
  partition: number;
  next: bigint;
}

/** Used for one lease and thrown away after any failure: what kafkajs believes about a failed transaction is no guide. */
export class PartitionProducer {
  readonly #producer: Producer;
  readonly #options: PartitionProducerOptions;

  constructor(options: PartitionProducerOptions) {
    this.#options = options;
    const { connection, transactionalId, transactionTimeoutMs } = options;
    this.#producer = kafkaClient(connection).producer({
      idempotent: true,
      maxInFlightRequests: 1,
      allowAutoTopicCreation: false,
      metadataMaxAge: 30_000,
      transactionTimeout: transactionTimeoutMs,
      ...(transactionalId === null ? {} : { transactionalId }),
    });
  }

  async connect(): Promise<void> {
    await this.#producer.connect();
  }

  /**
   * Refuses every older producer of this transactional id from now on. The broker finishes or aborts what they had open
   * before it answers, so offsets read afterwards are final. `connect` alone does not: the request goes out with the
   * first transaction.
   */
  async fence(): Promise<void> {
    const transaction = await this.#producer.transaction();
    await transaction.abort();
  }

  /** Outputs, dead letters and the offset, all or nothing. After an error the producer must be discarded. */
  async writeTransaction(plan: SendPlan, offset: OffsetToCommit): Promise<void> {
    const transaction = await this.#producer.transaction();
    try {
      await this.#send(transaction, plan);
      await transaction.sendOffsets({
        consumerGroupId: offset.group,
        topics: [{ topic: offset.topic, partitions: [{ partition: offset.partition, offset: String(offset.next) }] }],
      });
      await transaction.commit();
    } catch (error) {
      await abort(transaction);
      throw error;
    }
  }

  /** Without a transaction: resolves when everything is acknowledged by all replicas in sync. */
  async write(plan: SendPlan): Promise<void> {
    await this.#send(this.#producer, plan);
  }

  /** Never throws, and does not wait for a broker that is gone. */
  discard(): Promise<void> {
    return this.#producer.disconnect().catch(() => {});
  }

  async #send(to: Pick<Transaction | Producer, 'sendBatch'>, plan: SendPlan): Promise<void> {
    for (const [i, topicMessages] of plan.rounds.entries()) {
      const acks = await to.sendBatch({
        acks: -1,
        compression: COMPRESSION_TYPES[this.#options.compression],
        topicMessages,
      });
      checkAcknowledged(plan.targets[i]!, acks);
    }
  }
}

/**
 * kafkajs silently leaves out partitions its metadata does not know, and those whose leader moved while it repeated a
 * request: what was not acknowledged was not sent.
 */
function checkAcknowledged(targets: ReadonlySet<string>, acks: readonly RecordMetadata[]): void {
  const missing = new Set(targets);
  for (const { topicName, partition, errorCode } of acks) {
    if (errorCode === 0) missing.delete(sendTarget(topicName, partition));
  }
  if (missing.size > 0) throw new SluiceError('kafka_failed', `not acknowledged: ${[...missing].join(', ')}`);
}

async function abort(transaction: Transaction): Promise<void> {
  if (!transaction.isActive()) return;
  const { promise, resolve } = Promise.withResolvers<void>();
  const timer = setTimeout(resolve, ABORT_PATIENCE_MS);
  await Promise.race([transaction.abort().catch(() => {}), promise]);
  clearTimeout(timer);
}
