// Facts about topics: partitions, maximum record size, committed, first and last offsets.
import type { Admin } from 'kafkajs';
import { SluiceError } from '../core/errors.ts';
import { type KafkaConnection, kafkaClient } from './connection.ts';
import { kafkaError } from './failures.ts';
import kafkajs from './kafkajs.ts';
import { BATCH_OVERHEAD } from './record-batch.ts';

/** Default of a broker's message.max.bytes; taken when the setting may not be read. */
const DEFAULT_MAX_MESSAGE_BYTES = 1_048_588;
/** Lower bound of a limit found by trial. */
const MIN_MESSAGE_BYTES = 1024;

export interface TopicFacts {
  partitions: number;
  /** Largest record batch the topic takes, bytes. */
  maxBatchBytes: number;
}

export interface PartitionRange {
  /** Offset of the first record that is still there. */
  low: bigint;
  /** Offset behind the last one. */
  high: bigint;
}

/** One admin connection and a cache of topic facts. `connect` first; `close` is idempotent. */
export class TopicDirectory {
  readonly #connection: KafkaConnection;
  #admin: Promise<Admin> | null = null;
  readonly #facts = new Map<string, TopicFacts>();
  /** Limits found by trial where the broker's answer was not the truth. */
  readonly #lowered = new Map<string, number>();

  constructor(connection: KafkaConnection) {
    this.#connection = connection;
  }

  /** @throws SluiceError kafka_unreachable | kafka_authentication */
  async connect(): Promise<void> {
    await this.#ask(async () => {}).catch((e) => {
      throw kafkaError(e, 'connecting to Kafka failed');
    });
  }

  /** Facts of a topic, from the cache where they were asked for before. @throws SluiceError kafka_topic_missing */
  async facts(topic: string): Promise<TopicFacts> {
    return this.#facts.get(topic) ?? this.#learn(topic);
  }

  /** Asks again for every topic known; true when the number of partitions of one has changed. */
  async refresh(): Promise<boolean> {
    let changed = false;
    for (const [topic, before] of [...this.#facts]) {
      changed = (await this.#learn(topic)).partitions !== before.partitions || changed;
    }
    return changed;
  }

  /** A batch was refused as too large although it should have fitted: asks again, or halves what is believed. */
  async lowerLimit(topic: string): Promise<void> {
    const before = (await this.facts(topic)).maxBatchBytes;
    const { maxBatchBytes } = await this.#learn(topic);
    if (maxBatchBytes < before) return;
    this.#lowered.set(topic, Math.max(MIN_MESSAGE_BYTES, before >> 1));
    await this.#learn(topic);
  }

  /**
   * Offset the group goes on at, null where it has none.
   * @throws SluiceError kafka_failed when the partition is not known: that must not be taken for "none"
   */
  async committed(groupId: string, topic: string, partition: number): Promise<bigint | null> {
    return this.#ask(async (admin) => {
      const [answer] = await admin.fetchOffsets({ groupId, topics: [topic] });
      const found = answer?.partitions.find((p) => p.partition === partition);
      if (!found) throw unknownPartition(topic, partition);
      const offset = BigInt(found.offset);
      return offset < 0n ? null : offset;
    });
  }

  async range(topic: string, partition: number): Promise<PartitionRange> {
    return this.#ask(async (admin) => {
      const found = (await admin.fetchTopicOffsets(topic)).find((o) => o.partition === partition);
      if (!found) throw unknownPartition(topic, partition);
      return { low: BigInt(found.low), high: BigInt(found.high) };
    });
  }

  /** Offset behind the last record of every partition. */
  async ends(topic: string): Promise<ReadonlyMap<number, bigint>> {
    const offsets = await this.#ask((admin) => admin.fetchTopicOffsets(topic));
    return new Map(offsets.map((o) => [o.partition, BigInt(o.high)]));
  }

  async close(): Promise<void> {
    const admin = this.#admin;
    this.#admin = null;
    await admin?.then((a) => a.disconnect()).catch(() => {});
  }

  /** A connection that failed is replaced with the next question: kafkajs never refreshes what an admin knows. */
  async #ask<T>(question: (admin: Admin) => Promise<T>): Promise<T> {
    this.#admin ??= this.#open();
    const asked = this.#admin;
    try {
      return await question(await asked);
    } catch (error) {
      if (this.#admin === asked) await this.close();
      throw error;
    }
  }

  async #open(): Promise<Admin> {
    const admin = kafkaClient(this.#connection).admin();
    await admin.connect();
    return admin;
  }

  async #learn(topic: string): Promise<TopicFacts> {
    try {
      const { topics } = await this.#ask((admin) => admin.fetchTopicMetadata({ topics: [topic] }));
      const partitions = topics[0]?.partitions.length ?? 0;
      if (partitions === 0) throw new SluiceError('kafka_topic_missing', `the topic ${topic} has no partitions`);
      const limit = Math.min(await this.#maxMessageBytes(topic), this.#lowered.get(topic) ?? Infinity);
      const facts = { partitions, maxBatchBytes: limit - BATCH_OVERHEAD };
      this.#facts.set(topic, facts);
      return facts;
    } catch (error) {
      throw kafkaError(error, `asking for the topic ${topic} failed`);
    }
  }

  /** Reading settings needs a permission of its own, which is not asked for. */
  async #maxMessageBytes(topic: string): Promise<number> {
    try {
      const { resources } = await this.#ask((admin) =>
        admin.describeConfigs({
          includeSynonyms: false,
          resources: [{ type: kafkajs.ConfigResourceTypes.TOPIC, name: topic, configNames: ['max.message.bytes'] }],
        }),
      );
      const value = Number(resources[0]?.configEntries.find((e) => e.configName === 'max.message.bytes')?.configValue);
      return value > 0 ? value : DEFAULT_MAX_MESSAGE_BYTES;
    } catch {
      return DEFAULT_MAX_MESSAGE_BYTES;
    }
  }
}

/** Partitions that were just added are unknown to connections that were opened before. */
const unknownPartition = (topic: string, partition: number): SluiceError =>
  new SluiceError('kafka_failed', `partition ${partition} of ${topic} is not known yet`);
