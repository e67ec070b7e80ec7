// Plans how to send the records of a transaction: chooses partitions, forms batches, and handles oversized records.
import { epochMs } from '../../core/clock.ts';
import { SluiceError } from '../../core/errors.ts';
import { type BatchCompression, compressedSize } from './client/codecs.ts';
import type { PlannedBatch, PlannedRecord, Rounds } from './client/kafka-client.ts';
import { type OutgoingRecord, weightOf } from './client/records.ts';
import { deadLetter, truncateDeadLetter } from './dlq/dead-letter.ts';
import { type OutputPartitions, partitionOfKey } from './output-partitions.ts';
import { isTimely, type TopicDirectory, type TopicFacts } from './topic-directory.ts';

/** Maximum records per batch, which limits the size of a request and the time to encode it. */
const MAX_BATCH_RECORDS = 4000;
/** Bytes reserved for the additional header of a truncated dead letter and for rounding. */
const TRUNCATION_MARGIN = 128;
/** Header with the original timestamp of a record whose timestamp was replaced by the current time, ms since 1970. */
export const TIME_HEADER = 'sluice-source-timestamp';

export interface SendPlan {
  rounds: Rounds;
  bytes: number;
  /** Number of oversized outputs that became dead letters. */
  oversized: number;
  /** Records that were too large for their topic, so that `instead` was planned. */
  replaced: ReadonlySet<OutgoingRecord>;
  /**
   * Number of records by topic whose timestamp was replaced by the current time, because the topic would have rejected
   * or soon deleted them.
   */
  retimed: ReadonlyMap<string, number>;
}

export interface PlanOptions {
  directory: TopicDirectory;
  compression: BatchCompression;
  outputTopic: string | null;
  deadLetterTopic: string | null;
  /** Chooses the partition of outputs. Default: the rule for dead letters. */
  partitions?: OutputPartitions;
}

interface OpenBatch extends PlannedBatch {
  records: PlannedRecord[];
  bytes: number;
}

/** Collects records until `finish`. Preserves the order of records within a partition. */
export class SendPlanner {
  readonly #options: PlanOptions;
  readonly #facts = new Map<string, TopicFacts>();
  readonly #open = new Map<string, OpenBatch>();
  readonly #closed = new Map<string, PlannedBatch[]>();
  readonly #retimed = new Map<string, number>();
  readonly #now = epochMs();
  #bytes = 0;
  #oversized = 0;
  readonly #replaced = new Set<OutgoingRecord>();

  constructor(options: PlanOptions) {
    this.#options = options;
  }

  /**
   * Adds records to the plan.
   * @throws SluiceError kafka_topic_missing | kafka_record_too_large (without a dead letter topic)
   */
  async add(records: readonly OutgoingRecord[], as: 'output' | 'dead_letter'): Promise<void> {
    const { outputTopic, deadLetterTopic } = this.#options;
    const topicOf = as === 'output' ? outputTopic : deadLetterTopic;
    for (const given of records) {
      const topic = given.topic ?? topicOf;
      if (topic === null)
        throw new SluiceError('kafka_config', `no topic is configured for ${as.replace('_', ' ')} records`);
      const facts = this.#facts.get(topic) ?? (await this.#learn(topic));
      if (given.origin && !this.#facts.has(given.origin.topic)) await this.#learn(given.origin.topic);
      const record = this.#timely(topic, facts, given);
      const weight = weightOf(record);
      if (weight <= facts.maxBatchBytes || (await this.#fitsCompressed(record, facts.maxBatchBytes))) {
        this.#put(topic, facts, record, weight, as);
      } else if (as === 'output') await this.#refuse(topic, record);
      else if (record.instead) {
        this.#replaced.add(given);
        await this.add([record.instead], as);
      } else this.#put(topic, facts, this.#truncated(record, facts.maxBatchBytes), facts.maxBatchBytes, as);
    }
  }

  /** Number of outputs so far that became dead letters because they were too large for their topic. */
  get oversized(): number {
    return this.#oversized;
  }

  async #learn(topic: string): Promise<TopicFacts> {
    const { directory, partitions: places } = this.#options;
    const known = await directory.facts(topic);
    const facts = places ? { ...known, partitions: places.grown(topic, known.partitions) } : known;
    this.#facts.set(topic, facts);
    return facts;
  }

  finish(): SendPlan {
    for (const open of this.#open.values()) this.#close(open);
    const rounds: PlannedBatch[][] = [];
    for (const batches of this.#closed.values()) {
      batches.forEach((batch, i) => {
        rounds[i] ??= [];
        rounds[i].push(batch);
      });
    }
    return { rounds, bytes: this.#bytes, oversized: this.#oversized, replaced: this.#replaced, retimed: this.#retimed };
  }

  async #refuse(topic: string, record: OutgoingRecord): Promise<void> {
    const { deadLetterTopic } = this.#options;
    if (deadLetterTopic === null || !record.origin) {
      throw new SluiceError('kafka_record_too_large', `a record is larger than the topic ${topic} accepts`);
    }
    this.#oversized++;
    const message = `the prediction is larger than the topic ${topic} accepts`;
    await this.add([deadLetter(record.origin, { code: 'output_too_large', message })], 'dead_letter');
  }

  #truncated(record: OutgoingRecord, limit: number): OutgoingRecord {
    const rest = weightOf({ ...record, value: null });
    if (rest + TRUNCATION_MARGIN > limit) {
      // If key and headers alone exceed the limit, the dead letter contains only the reason and the origin of the
      // record.
      const bare = record.origin ? { ...record.origin, key: null, headers: {} } : null;
      if (!bare) throw new SluiceError('kafka_record_too_large', 'key and headers are larger than the topic accepts');
      const headers = Object.entries(record.headers ?? {}).filter(([name]) => name.startsWith('sluice-error-'));
      return truncateDeadLetter({ ...record, key: null, headers: Object.fromEntries(headers) }, 0);
    }
    return truncateDeadLetter(record, limit - rest - TRUNCATION_MARGIN);
  }

  async #fitsCompressed(record: OutgoingRecord, limit: number): Promise<boolean> {
    const { compression } = this.#options;
    if (compression === 'none' || !record.value) return false;
    const rest = weightOf({ ...record, value: null });
    // The value is compressed only if all other data of the record fits.
    return rest < limit && (await compressedSize(record.value, compression)) + rest <= limit;
  }

  /** Replaces the timestamp by the current time if the topic would reject or soon delete the record. */
  #timely(topic: string, { times }: TopicFacts, record: OutgoingRecord): OutgoingRecord {
    if (record.timestamp === undefined || isTimely(times, record.timestamp, this.#now)) return record;
    const { timestamp, ...rest } = record;
    this.#retimed.set(topic, (this.#retimed.get(topic) ?? 0) + 1);
    return { ...rest, headers: { ...record.headers, [TIME_HEADER]: Buffer.from(String(timestamp)) } };
  }

  #put(
    topic: string,
    { partitions, maxBatchBytes }: TopicFacts,
    record: OutgoingRecord,
    weight: number,
    as: 'output' | 'dead_letter',
  ): void {
    const places = as === 'output' ? this.#options.partitions : undefined;
    const partition =
      record.partition ??
      (places ? places.partitionOf(record, topic, partitions) : this.#partitionOf(record, partitions));
    const key = `${topic}/${partition}`;
    let open = this.#open.get(key);
    if (open && (open.bytes + weight > maxBatchBytes || open.records.length >= MAX_BATCH_RECORDS)) {
      this.#close(open);
      open = undefined;
    }
    if (!open) {
      open = { topic, partition, records: [], bytes: 0 };
      this.#open.set(key, open);
    }
    const { key: name, value, headers, timestamp } = record;
    open.records.push({
      key: name,
      value,
      ...(headers ? { headers } : {}),
      ...(timestamp === undefined ? {} : { timestamp }),
    });
    open.bytes += weight;
    this.#bytes += weight;
  }

  /**
   * The partition of a record: the input partition if both topics have the same number of partitions, otherwise a
   * partition chosen by the key. Records without a key from one input partition stay in one partition.
   */
  #partitionOf({ origin, key }: OutgoingRecord, partitions: number): number {
    if (origin && this.#facts.get(origin.topic)?.partitions === partitions) return origin.partition;
    if (key === null) return (origin?.partition ?? 0) % partitions;
    return partitionOfKey(key, partitions);
  }

  #close({ topic, partition, records }: OpenBatch): void {
    const key = `${topic}/${partition}`;
    const batches = this.#closed.get(key) ?? [];
    this.#closed.set(key, batches);
    batches.push({ topic, partition, records });
    this.#open.delete(key);
  }
}
