// Facts about topics: partitions, settings, committed, first and last offsets, and the times of records that they accept.
import { SluiceError } from '../../core/errors.ts';
import { kafkaClient } from './choose-client.ts';
import type { KafkaConnection } from './client/connection.ts';
import type { BrokerFeatures, PartitionRange, TopicAdmin } from './client/kafka-client.ts';
import { BATCH_OVERHEAD } from './client/records.ts';

/** Default of a broker's message.max.bytes; taken when the setting may not be read. */
const DEFAULT_MAX_MESSAGE_BYTES = 1_048_588;
/** Lower bound of a limit found by trial. */
const MIN_MESSAGE_BYTES = 1024;

export interface TopicFacts {
  partitions: number;
  /** Largest record batch the topic takes, bytes. */
  maxBatchBytes: number;
  /** Times of records that it takes and keeps. */
  times: TopicTimes;
  /** false: the settings may not be read, and a broker's defaults are taken for them. */
  settingsKnown: boolean;
}

/** One admin connection and a cache of topic facts. `close` is idempotent. */
export class TopicDirectory {
  readonly #admin: TopicAdmin;
  readonly #facts = new Map<string, TopicFacts>();
  /** Limits found by trial where the broker's answer was not the truth. */
  readonly #lowered = new Map<string, number>();
  /** Topics that refused the time of a record although the settings allowed it, or could not be read. */
  readonly #onlyNow = new Set<string>();
  /** As they were last read: a question that fails changes no limit. */
  readonly #settings = new Map<string, ReadonlyMap<string, string>>();

  /** @throws SluiceError kafka_config */
  constructor(connection: KafkaConnection) {
    this.#admin = kafkaClient().admin(connection);
  }

  /** What the brokers can do. @throws SluiceError kafka_unreachable | kafka_authentication */
  async connect(): Promise<BrokerFeatures> {
    return this.#admin.features();
  }

  /** Facts of a topic, from the cache where they were asked for before. @throws SluiceError kafka_topic_missing */
  async facts(topic: string): Promise<TopicFacts> {
    return this.#facts.get(topic) ?? this.learn(topic);
  }

  /** Facts of a topic as they are now. @throws SluiceError kafka_topic_missing */
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

  /** Names of all topics but the brokers' own. */
  async topics(): Promise<readonly string[]> {
    return (await this.#admin.topics()).filter((topic) => !topic.startsWith('__'));
  }

  /** Asks again for every topic known; true when the number of partitions of one has changed. */
  async refresh(): Promise<boolean> {
    let changed = false;
    for (const [topic, before] of [...this.#facts]) {
      changed = (await this.learn(topic)).partitions !== before.partitions || changed;
    }
    return changed;
  }

  /** A batch was rejected as too large although it should fit: queries the limit again, or halves the assumed one. */
  async lowerLimit(topic: string): Promise<void> {
    const before = (await this.facts(topic)).maxBatchBytes;
    const { maxBatchBytes } = await this.learn(topic);
    if (maxBatchBytes < before) return;
    this.#lowered.set(topic, Math.max(MIN_MESSAGE_BYTES, before >> 1));
    await this.learn(topic);
  }

  /** The time of a record was refused although it should have been taken: from now on records have the time they are written at. */
  async refuseTimes(topic: string): Promise<void> {
    this.#onlyNow.add(topic);
    await this.learn(topic);
  }

  /**
   * Offset where the group continues, null if it has none.
   * @throws SluiceError kafka_failed when the partition is unknown: that must not be taken for "none"
   */
  async committed(group: string, topic: string, partition: number): Promise<bigint | null> {
    const found = (await this.#admin.committed(group, topic, [partition])).get(partition);
    if (found === undefined) throw await this.#unknown(topic, partition);
    return found;
  }

  /** The same for every partition of the topic. */
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

  /** Whether old records give way to newer ones of their key; false where the setting may not be read. */
  async compacted(topic: string): Promise<boolean> {
    const settings = await this.#admin.settings(topic, ['cleanup.policy']);
    return settings?.get('cleanup.policy')?.includes('compact') ?? false;
  }

  async close(): Promise<void> {
    await this.#admin.close();
  }

  /** null: they may not be read. */
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

  /** Partitions that were just added are unknown to connections that were opened before: the next one will know. */
  async #unknown(topic: string, partition: number): Promise<SluiceError> {
    await this.#admin.close();
    return new SluiceError('kafka_failed', `partition ${partition} of ${topic} is not known yet`);
  }
}

/** Default of a broker's retention.ms; taken when the settings may not be read. */
const DEFAULT_RETENTION_MS = 7 * 24 * 3_600_000;
/** Most that the clocks of a broker and of this machine may differ, and a record may take to get there, ms. */
const CLOCK_MARGIN_MS = 60_000;

/** What `topicTimes` looks at. */
const TIME_SETTINGS = [
  'cleanup.policy',
  'retention.ms',
  'message.timestamp.type',
  'message.timestamp.before.max.ms',
  'message.timestamp.after.max.ms',
  // Brokers before 3.6 have this one instead of the two.
  'message.timestamp.difference.max.ms',
] as const;

interface TopicTimes {
  /** Records are removed this long after the time they have, ms; Infinity: never. */
  readonly retentionMs: number;
  /** An older record would be refused, or removed before readers had it for half of the retention, ms. */
  readonly maxAgeMs: number;
  /** A record that is more ahead of now would be refused, ms. */
  readonly maxAheadMs: number;
}

/** Every record gets the time of now: what the topic takes is not known, only that it refused some. */
const ONLY_NOW: TopicTimes = { retentionMs: Infinity, maxAgeMs: -Infinity, maxAheadMs: -Infinity };

/**
 * Which times of records a topic accepts and keeps: retention goes by the time of a record, not by when it was written. `settings` null: they
 * may not be read.
 */
export function topicTimes(settings: ReadonlyMap<string, string> | null): TopicTimes {
  const limit = (name: (typeof TIME_SETTINGS)[number]): number => {
    const value = Number(settings?.get(name) || -1);
    return Number.isFinite(value) && value >= 0 ? value : Infinity;
  };
  const deletes = settings === null || (settings.get('cleanup.policy') ?? 'delete').includes('delete');
  const given = settings === null ? DEFAULT_RETENTION_MS : limit('retention.ms');
  const retentionMs = deletes ? given : Infinity;
  // The broker gives every record a time of its own.
  if (settings?.get('message.timestamp.type') === 'LogAppendTime') {
    return { retentionMs, maxAgeMs: Infinity, maxAheadMs: Infinity };
  }
  const either = limit('message.timestamp.difference.max.ms');
  const behind = withinClocks(Math.min(limit('message.timestamp.before.max.ms'), either));
  const ahead = withinClocks(Math.min(limit('message.timestamp.after.max.ms'), either));
  return { retentionMs, maxAgeMs: Math.min(retentionMs / 2, behind), maxAheadMs: ahead };
}

const withinClocks = (limit: number): number => limit - Math.min(CLOCK_MARGIN_MS, limit / 2);

/** Whether a record of this time would be taken, and kept for readers long enough. */
export function isTimely({ maxAgeMs, maxAheadMs }: TopicTimes, timestamp: number, now: number): boolean {
  return now - timestamp <= maxAgeMs && timestamp - now <= maxAheadMs;
}
