// Queries and caches topic properties: partitions, settings, offsets, and the record timestamps that a topic accepts.
import { SluiceError } from '../../core/errors.ts';
import { kafkaClient } from './choose-client.ts';
import type { KafkaConnection } from './client/connection.ts';
import type { BrokerFeatures, PartitionRange, TopicAdmin } from './client/kafka-client.ts';
import { BATCH_OVERHEAD } from './client/records.ts';

/** A broker's default of message.max.bytes; assumed if the setting may not be read. */
const DEFAULT_MAX_MESSAGE_BYTES = 1_048_588;
/** Lower bound for a size limit found by trial. */
const MIN_MESSAGE_BYTES = 1024;

export interface TopicFacts {
  partitions: number;
  /** Maximum size of a record batch that the topic accepts, bytes. */
  maxBatchBytes: number;
  /** Record timestamps that the topic accepts and retains. */
  times: TopicTimes;
  /** false: the settings may not be read, so broker defaults are assumed. */
  settingsKnown: boolean;
}

/** An admin connection with a cache of topic properties. `close` is idempotent. */
export class TopicDirectory {
  readonly #admin: TopicAdmin;
  readonly #facts = new Map<string, TopicFacts>();
  /** Limits found by trial, because the broker reported a wrong limit. */
  readonly #lowered = new Map<string, number>();
  /** Topics that refused a record's timestamp although their settings allowed it, or could not be read. */
  readonly #onlyNow = new Set<string>();
  /** Settings as last read. If a later query fails, they stay in use. */
  readonly #settings = new Map<string, ReadonlyMap<string, string>>();

  /** @throws SluiceError kafka_config */
  constructor(connection: KafkaConnection) {
    this.#admin = kafkaClient().admin(connection);
  }

  /** Connects and returns the features of the brokers. @throws SluiceError kafka_unreachable | kafka_authentication */
  async connect(): Promise<BrokerFeatures> {
    return this.#admin.features();
  }

  /** Properties of a topic, cached. @throws SluiceError kafka_topic_missing */
  async facts(topic: string): Promise<TopicFacts> {
    return this.#facts.get(topic) ?? this.learn(topic);
  }

  /** Current properties of a topic. @throws SluiceError kafka_topic_missing */
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

  /** Names of all topics except Kafka's internal ones. */
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

  /** Called after a topic rejected a batch that should fit. Queries the limit again, or halves the assumed limit. */
  async lowerLimit(topic: string): Promise<void> {
    const before = (await this.facts(topic)).maxBatchBytes;
    const { maxBatchBytes } = await this.learn(topic);
    if (maxBatchBytes < before) return;
    this.#lowered.set(topic, Math.max(MIN_MESSAGE_BYTES, before >> 1));
    await this.learn(topic);
  }

  /** Called after a topic refused an acceptable timestamp. Its records get the current time from now on. */
  async refuseTimes(topic: string): Promise<void> {
    this.#onlyNow.add(topic);
    await this.learn(topic);
  }

  /**
   * Committed offset of the group; null if there is none.
   * @throws SluiceError kafka_failed if the partition is unknown, which must not be mistaken for null
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

  /** First and last offset of every partition. */
  ranges(topic: string): Promise<ReadonlyMap<number, PartitionRange>> {
    return this.#admin.ranges(topic);
  }

  async range(topic: string, partition: number): Promise<PartitionRange> {
    const found = (await this.#admin.ranges(topic)).get(partition);
    if (!found) throw await this.#unknown(topic, partition);
    return found;
  }

  /** Offset behind the last record of every partition. */
  async ends(topic: string): Promise<ReadonlyMap<number, bigint>> {
    return new Map([...(await this.#admin.ranges(topic))].map(([partition, { high }]) => [partition, high]));
  }

  /** Whether newer records replace older ones with the same key; false if the setting may not be read. */
  async compacted(topic: string): Promise<boolean> {
    const settings = await this.#admin.settings(topic, ['cleanup.policy']);
    return settings?.get('cleanup.policy')?.includes('compact') ?? false;
  }

  async close(): Promise<void> {
    await this.#admin.close();
  }

  /** null: the settings may not be read. */
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
   * Connections opened earlier do not list newly added partitions, so this one is closed and the next one will list
   * them.
   */
  async #unknown(topic: string, partition: number): Promise<SluiceError> {
    await this.#admin.close();
    return new SluiceError('kafka_failed', `partition ${partition} of ${topic} is not known yet`);
  }
}

/** A broker's default of retention.ms; assumed if the settings may not be read. */
const DEFAULT_RETENTION_MS = 7 * 24 * 3_600_000;
/** Allowance for the clock difference to the broker plus the delivery time of a record, ms. */
const CLOCK_MARGIN_MS = 60_000;

/** Settings that `topicTimes` reads. */
const TIME_SETTINGS = [
  'cleanup.policy',
  'retention.ms',
  'message.timestamp.type',
  'message.timestamp.before.max.ms',
  'message.timestamp.after.max.ms',
  // Brokers before 3.6 have this setting instead of the previous two.
  'message.timestamp.difference.max.ms',
] as const;

interface TopicTimes {
  /** Records are deleted this long after their timestamp, ms; Infinity: never. */
  readonly retentionMs: number;
  /** Maximum age, ms. An older record would be refused, or deleted before readers had it for half of the retention. */
  readonly maxAgeMs: number;
  /** Maximum time ahead of now, ms. A record further ahead would be refused. */
  readonly maxAheadMs: number;
}

/** Every record gets the current time, because the topic refused timestamps for unknown reasons. */
const ONLY_NOW: TopicTimes = { retentionMs: Infinity, maxAgeMs: -Infinity, maxAheadMs: -Infinity };

/**
 * Record timestamps that a topic accepts and retains. Retention goes by a record's timestamp, not by when it was
 * written. `settings` null: no permission to read them.
 */
export function topicTimes(settings: ReadonlyMap<string, string> | null): TopicTimes {
  const limit = (name: (typeof TIME_SETTINGS)[number]): number => {
    const value = Number(settings?.get(name) || -1);
    return Number.isFinite(value) && value >= 0 ? value : Infinity;
  };
  const deletes = settings === null || (settings.get('cleanup.policy') ?? 'delete').includes('delete');
  const given = settings === null ? DEFAULT_RETENTION_MS : limit('retention.ms');
  const retentionMs = deletes ? given : Infinity;
  // The broker replaces every timestamp by its own time.
  if (settings?.get('message.timestamp.type') === 'LogAppendTime') {
    return { retentionMs, maxAgeMs: Infinity, maxAheadMs: Infinity };
  }
  const either = limit('message.timestamp.difference.max.ms');
  const behind = withinClocks(Math.min(limit('message.timestamp.before.max.ms'), either));
  const ahead = withinClocks(Math.min(limit('message.timestamp.after.max.ms'), either));
  return { retentionMs, maxAgeMs: Math.min(retentionMs / 2, behind), maxAheadMs: ahead };
}

const withinClocks = (limit: number): number => limit - Math.min(CLOCK_MARGIN_MS, limit / 2);

/** Whether the topic would accept a record with this timestamp and retain it long enough for readers. */
export function isTimely({ maxAgeMs, maxAheadMs }: TopicTimes, timestamp: number, now: number): boolean {
  return now - timestamp <= maxAgeMs && timestamp - now <= maxAheadMs;
}
