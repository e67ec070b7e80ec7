// Writes records to a topic in order and awaits their acknowledgement.
// This is the plain producer for writing a file to a topic.
import { SluiceError } from '../../core/errors.ts';
import { kafkaClient } from './choose-client.ts';
import type { BatchCompression } from './client/codecs.ts';
import type { KafkaConnection } from './client/connection.ts';
import { kafkaError } from './client/failures.ts';
import type { BatchWriter } from './client/kafka-client.ts';
import type { OutgoingRecord } from './client/records.ts';
import { SendPlanner } from './send-plan.ts';
import { TopicDirectory } from './topic-directory.ts';

interface WriterOptions {
  connection: KafkaConnection;
  topic: string;
  /** The topic for dead letters of records that are too large for `topic` and have an `origin`. */
  deadLetterTopic?: string;
  /** What the records are. A dead letter that is too large for `topic` is truncated. Default: output. */
  as?: 'output' | 'dead_letter';
  /** Default: none. */
  compression?: BatchCompression;
}

/**
 * An idempotent writer: repeated requests do not duplicate records. It has no transactions, so records that were
 * written before a failure remain.
 */
export class TopicWriter implements AsyncDisposable {
  readonly #options: WriterOptions;
  readonly #directory: TopicDirectory;
  readonly #producer: BatchWriter;
  #last: Promise<void> = Promise.resolve();
  #turn = 0;

  private constructor(options: WriterOptions) {
    this.#options = options;
    this.#directory = new TopicDirectory(options.connection);
    this.#producer = kafkaClient().writer({
      connection: options.connection,
      compression: options.compression ?? 'none',
    });
  }

  /** @throws SluiceError kafka_unreachable | kafka_authentication | kafka_topic_missing | kafka_config */
  static async open(options: WriterOptions): Promise<TopicWriter> {
    const writer = new TopicWriter(options);
    try {
      await writer.#directory.connect();
      await writer.#directory.facts(options.topic);
      await writer.#producer.connect();
    } catch (error) {
      await writer.close();
      throw kafkaError(error, `opening the topic ${options.topic} failed`);
    }
    return writer;
  }

  /**
   * Writes records. Resolves when all records are acknowledged. Calls are processed in order. All records without a key
   * of one call go to the same partition; calls rotate through the partitions.
   * @throws SluiceError kafka_record_too_large | kafka_failed | kafka_unreachable | kafka_not_authorized
   */
  write(records: readonly OutgoingRecord[]): Promise<void> {
    this.#last = this.#last.then(() => this.#write(records));
    return this.#last;
  }

  /** Closes the writer. The caller must first await its calls of `write`. Idempotent. */
  async close(): Promise<void> {
    await Promise.all([this.#producer.discard(), this.#directory.close()]);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }

  async #write(records: readonly OutgoingRecord[]): Promise<void> {
    const { topic, compression = 'none', as = 'output' } = this.#options;
    const deadLetterTopic = as === 'dead_letter' ? topic : (this.#options.deadLetterTopic ?? null);
    const directory = this.#directory;
    const planner = new SendPlanner({ directory, compression, outputTopic: topic, deadLetterTopic });
    try {
      const { partitions } = await directory.facts(topic);
      const partition = this.#turn++ % partitions;
      const placed = records.map((r) => (r.key === null && !r.origin && !r.topic ? { partition, ...r } : r));
      await planner.add(placed, as);
      await this.#producer.write(planner.finish().rounds);
    } catch (error) {
      if (error instanceof SluiceError) throw error;
      throw kafkaError(error, `writing to the topic ${topic} failed`);
    }
  }
}
