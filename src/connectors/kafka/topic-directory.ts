// Queries and caches properties of topics: partitions, settings, offsets, and the record timestamps that a topic accepts.
import { SluiceError } from '../../core/errors.ts';
import { kafkaClient } from './choose-client.ts';
import type { KafkaConnection } from './client/connection.ts';
import type { BrokerFeatures, PartitionRange, TopicAdmin } from './client/kafka-client.ts';
import { BATCH_OVERHEAD } from './client/records.ts';

/** The default value of message.max.bytes, which is assumed if the setting may not be read. */
const DEFAULT_MAX_MESSAGE_BYTES = 1_048_588;
/** Lower bound for a size limit that is determined by trial, bytes. */
const MIN_MESSAGE_BYTES = 1024;

export interface TopicFacts {
  partitions: number;
  /** Maximum size of a record batch that the topic accepts, bytes. */
  maxBatchBytes: number;
  /** The record timestamps that the topic accepts and retains. */
  times: TopicTimes;
  /** false: the settings may not be read, so default values are assumed. */
  settingsKnown: boolean;
}

/** An admin connection with a cache of topic properties. `close` is idempotent. */
export class TopicDirectory {
  readonly #admin: TopicAdmin;
  readonly #facts = new Map<string, TopicFacts>();
  /** Size limits determined by trial, for topics whose reported limit was wrong. */
  readonly #lowered = new Map<string, number>();
  /** Topics that rejected the timestamp of a record, although their settings allowed it or could not be read. */
  readonly #onlyNow = new Set<string>();
  /** The settings that were read last. They stay in use if a later query fails. */
  readonly #settings = new Map<string, ReadonlyMap<string, string>>();

  /** @throws SluiceError kafka_config */
  constructor(connection: KafkaConnection) {
    this.#admin = kafkaClient().admin(connection);
  }

  /** Connects and returns the features of the brokers. @throws SluiceError kafka_unreachable | kafka_authentication */
  async connect(): Promise<BrokerFeatures> {
    return this.#admin.features();
  }

  /** The properties of a topic, from the cache if they are known. @throws SluiceError kafka_topic_missing */
  async facts(topic: string): Promise<TopicFacts> {
    return this.#facts.get(topic) ?? this.learn(topic);
  }

  /** Queries the current properties of a topic. @throws SluiceError kafka_topic_missing */
  async learn(topic: string): Promise<TopicFacts> {
    const partitions = await this.#admin.partitions(topic);
    const settings = await this.#settingsOf(topic);
    const known = Number(settings?.get('max.message.bytes')) || DEFAULT_MAX_MESSAGE_BYTES;
    const limit = Math.min(known, this.#lowered.get(topic) ?? Infinity);
    const times = this.#onlyNow.has(topic) ? ONLY_NOW : topicTimes(settings);
    const facts = { partitions, maxBatchBytes: limit - BATCH_OVERHEAD, times, settingsKnown: settings !== null };
    this.#facts.set(topic, facts);
    return facts;
  }

  /** Names of all topics except internal topics of Kafka. */
  async topics(): Promise<readonly string[]> {
    return (await this.#admin.topics()).filter((topic) => !topic.startsWith('__'));
  }

  /** Queries every known topic again. Returns whether any number of partitions has changed. */
  async refresh(): Promise<boolean> {
    let changed = false;
    for (const [topic, before] of [...this.#facts]) {
      changed = (await this.learn(topic)).partitions !== before.partitions || changed;
    }
    return changed;
  }

  /**
   * Must be called when a topic rejected a batch that should fit. Queries the limit again; if it is unchanged, halves
   * the assumed limit.
   */
  async lowerLimit(topic: string): Promise<void> {
    const before = (await this.facts(topic)).maxBatchBytes;
    const { maxBatchBytes } = await this.learn(topic);
    if (maxBatchBytes < before) return;
    this.#lowered.set(topic, Math.max(MIN_MESSAGE_BYTES, before >> 1));
    await this.learn(topic);
  }

  /**
   * Must be called when a topic rejected a timestamp that should be acceptable. All records for this topic then get the
   * current time.
   */
  async refuseTimes(topic: string): Promise<void> {
    this.#onlyNow.add(topic);
    await this.learn(topic);
  }

  /**
   * Committed offset of the group; null: the group has none.
   * @throws SluiceError kafka_failed if the partition is unknown, which must be distinguished from null
   */
  async committed(group: string, topic: string, partition: number): Promise<bigint | null> {
    const found = (await this.#admin.committed(group, topic, [partition])).get(partition);
    if (found === undefined) throw await this.#unknown(topic, partition);
    return found;
  }

  /** Committed offsets of the group for every partition of the topic. */
  async offsets(group: string, topic: string): Promise<ReadonlyMap<number, bigint | null>> {
    const { partitions } = await this.facts(topic);
    return this.#admin.committed(group, topic, [...Array(partitions).keys()]);
  }

  /** The note that was committed with an offset of the group; null: none. */
  note(group: string, topic: string, partition: number): Promise<string | null> {
    return this.#admin.note(group, topic, partition);
  }

  /** The current ID of the topic; null: topic IDs are not supported. */
  topicId(topic: string): Promise<string | null> {
    return this.#admin.topicId(topic);
  }

  /** First and last offset of every partition. */
  ranges(topic: string): Promise<ReadonlyMap<number, PartitionRange>> {
    return this.#admin.ranges(topic);
  }

  async range(topic: string, partition: number): Promise<PartitionRange> {
    const found = (await this.#admin.ranges(topic)).get(partition);
    if (!found) throw await this.#unknown(topic, partition);
    return found;
  }

  /** Offset after the last record of every partition. */
  async ends(topic: string): Promise<ReadonlyMap<number, bigint>> {
    return new Map([...(await this.#admin.ranges(topic))].map(([partition, { high }]) => [partition, high]));
  }

  /**
   * Whether the topic is compacted: a newer record replaces older records with the same key. false: the setting may not
   * be read.
   */
  async compacted(topic: string): Promise<boolean> {
    const settings = await this.#admin.settings(topic, ['cleanup.policy']);
    return settings?.get('cleanup.policy')?.includes('compact') ?? false;
  }

  async close(): Promise<void> {
    await this.#admin.close();
  }

  /** The settings of a topic; null: they may not be read. */
  async #settingsOf(topic: string): Promise<ReadonlyMap<string, string> | null> {
    try {
      const settings = await this.#admin.settings(topic, ['max.message.bytes', ...TIME_SETTINGS]);
      if (settings) this.#settings.set(topic, settings);
      else this.#settings.delete(topic);
      return settings;
    } catch {
      return this.#settings.get(topic) ?? null;
    }
  }

  /**
   * Closes the connection and returns the error. An existing connection does not list new partitions; the next
   * connection will list them.
   */
  async #unknown(topic: string, partition: number): Promise<SluiceError> {
    await this.#admin.close();
    return new SluiceError('kafka_failed', `partition ${partition} of ${topic} is not known yet`);
  }
}

/** The default value of retention.ms, which is assumed if the settings may not be read. */
const DEFAULT_RETENTION_MS = 7 * 24 * 3_600_000;
/** Allowance for the clock difference between this machine and the broker plus the delivery time of a record, ms. */
const CLOCK_MARGIN_MS = 60_000;

/** Settings that `topicTimes` reads. */
const TIME_SETTINGS = [
  'cleanup.policy',
  'retention.ms',
  'message.timestamp.type',
  'message.timestamp.before.max.ms',
  'message.timestamp.after.max.ms',
  // Brokers before Kafka 3.6 have this setting instead of the two above.
  'message.timestamp.difference.max.ms',
] as const;

interface TopicTimes {
  /** Time after its timestamp at which a record is deleted, ms; Infinity: never. */
  readonly retentionMs: number;
  /**
   * Maximum age of a timestamp, ms. A record with an older timestamp would be rejected, or deleted before half of the
   * retention time.
   */
  readonly maxAgeMs: number;
  /** Maximum time by which a timestamp may be in the future, ms. A record with a later timestamp would be rejected. */
  readonly maxAheadMs: number;
}

/**
 * Accepts no given timestamp, so that every record gets the current time. Used if the topic rejected timestamps for
 * unknown reasons.
 */
const ONLY_NOW: TopicTimes = { retentionMs: Infinity, maxAgeMs: -Infinity, maxAheadMs: -Infinity };

/**
 * The record timestamps that a topic accepts and retains. Retention depends on the timestamp of a record, not on the
 * time when it was written. `settings`: null if they may not be read.
 */
export function topicTimes(settings: ReadonlyMap<string, string> | null): TopicTimes {
  const limit = (name: (typeof TIME_SETTINGS)[number]): number => {
    const value = Number(settings?.get(name) || -1);
    return Number.isFinite(value) && value >= 0 ? value : Infinity;
  };
  const deletes = settings === null || (settings.get('cleanup.policy') ?? 'delete').includes('delete');
  const given = settings === null ? DEFAULT_RETENTION_MS : limit('retention.ms');
  const retentionMs = deletes ? given : Infinity;
  // The broker replaces every timestamp by its own time, so every timestamp is acceptable.
  if (settings?.get('message.timestamp.type') === 'LogAppendTime') {
    return { retentionMs, maxAgeMs: Infinity, maxAheadMs: Infinity };
  }
  const either = limit('message.timestamp.difference.max.ms');
  const behind = withinClocks(Math.min(limit('message.timestamp.before.max.ms'), either));
  const ahead = withinClocks(Math.min(limit('message.timestamp.after.max.ms'), either));
  return { retentionMs, maxAgeMs: Math.min(retentionMs / 2, behind), maxAheadMs: ahead };
}

const withinClocks = (limit: number): number => limit - Math.min(CLOCK_MARGIN_MS, limit / 2);

/** Whether the topic accepts a record with this timestamp and retains it long enough for readers. */
export function isTimely({ maxAgeMs, maxAheadMs }: TopicTimes, timestamp: number, now: number): boolean {
  return now - timestamp <= maxAgeMs && timestamp - now <= maxAheadMs;
}
