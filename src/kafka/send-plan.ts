// How the records of a transaction are sent: to which partition, in which batches, and what is too large to be sent.
import type { Message, PartitionMetadata, TopicMessages } from 'kafkajs';
import { SluiceError } from '../core/errors.ts';
import { type BatchCompression, compressedSize } from './codecs.ts';
import { deadLetter, truncateDeadLetter } from './dead-letters.ts';
import kafkajs from './kafkajs.ts';
import { type OutgoingRecord, weightOf } from './records.ts';
import type { TopicDirectory, TopicFacts } from './topic-directory.ts';

/** Bounds the size of a request and the time it takes to encode. */
const MAX_BATCH_RECORDS = 4000;
/** Room for a header of a shortened dead letter and rounding, bytes. */
const TRUNCATION_MARGIN = 128;

export interface SendPlan {
  /** In order; each holds at most one batch a partition. */
  rounds: TopicMessages[][];
  /** Topic and partition of everything sent, to be compared with what was acknowledged: one set a round. */
  targets: Set<string>[];
  bytes: number;
  /** Records that went to dead letters because they were too large. */
  oversized: number;
}

export interface PlanOptions {
  directory: TopicDirectory;
  compression: BatchCompression;
  outputTopic: string | null;
  deadLetterTopic: string | null;
}

/** murmur2 over the key, as every Java client does it. */
const partitionByKey = kafkajs.Partitioners.DefaultPartitioner();
const targetOf = (topic: string, partition: number): string => `${topic}/${partition}`;

export { targetOf as sendTarget };

const metadata = new Map<number, PartitionMetadata[]>();
/** As much as the partitioner looks at. */
function metadataOf(partitions: number): PartitionMetadata[] {
  let known = metadata.get(partitions);
  if (!known) {
    const one = { partitionErrorCode: 0, leader: 0, replicas: [], isr: [] };
    known = Array.from({ length: partitions }, (_, partitionId) => ({ ...one, partitionId }));
    metadata.set(partitions, known);
  }
  return known;
}

/** Collects records, then `finish`. Order is kept for each partition. */
export class SendPlanner {
  readonly #options: PlanOptions;
  readonly #facts = new Map<string, TopicFacts>();
  readonly #open = new Map<string, { topic: string; partition: number; messages: Message[]; bytes: number }>();
  readonly #closed = new Map<string, { topic: string; messages: Message[] }[]>();
  #bytes = 0;
  #oversized = 0;

  constructor(options: PlanOptions) {
    this.#options = options;
  }

  /** @throws SluiceError kafka_topic_missing | kafka_record_too_large (no dead letter topic to put it into) */
  async add(records: readonly OutgoingRecord[], as: 'output' | 'dead_letter'): Promise<void> {
    const { outputTopic, deadLetterTopic } = this.#options;
    const topicOf = as === 'output' ? outputTopic : deadLetterTopic;
    for (const record of records) {
      const topic = record.topic ?? topicOf;
      if (topic === null)
        throw new SluiceError('kafka_config', `there is no topic for ${as.replace('_', ' ')} records`);
      const facts = this.#facts.get(topic) ?? (await this.#learn(topic));
      if (record.origin && !this.#facts.has(record.origin.topic)) await this.#learn(record.origin.topic);
      const weight = weightOf(record);
      if (weight <= facts.maxBatchBytes || (await this.#fitsCompressed(record, facts.maxBatchBytes))) {
        this.#put(topic, facts, record, weight);
      } else if (as === 'output') await this.#refuse(topic, record);
      else this.#put(topic, facts, this.#truncated(record, facts.maxBatchBytes), facts.maxBatchBytes);
    }
  }

  /** Outputs so far that were too large for their topic and became dead letters. */
  get oversized(): number {
    return this.#oversized;
  }

  async #learn(topic: string): Promise<TopicFacts> {
    const facts = await this.#options.directory.facts(topic);
    this.#facts.set(topic, facts);
    return facts;
  }

  finish(): SendPlan {
    for (const open of this.#open.values()) this.#close(open);
    const rounds: TopicMessages[][] = [];
    const targets: Set<string>[] = [];
    for (const [target, batches] of this.#closed) {
      batches.forEach((batch, i) => {
        rounds[i] ??= [];
        targets[i] ??= new Set();
        const topic = rounds[i]!.find((t) => t.topic === batch.topic);
        if (topic) topic.messages = topic.messages.concat(batch.messages);
        else rounds[i]!.push({ topic: batch.topic, messages: batch.messages });
        targets[i]!.add(target);
      });
    }
    return { rounds, targets, bytes: this.#bytes, oversized: this.#oversized };
  }

  async #refuse(topic: string, record: OutgoingRecord): Promise<void> {
    const { deadLetterTopic } = this.#options;
    if (deadLetterTopic === null || !record.origin) {
      throw new SluiceError('kafka_record_too_large', `a record is larger than the topic ${topic} takes`);
    }
    this.#oversized++;
    const message = `the answer is larger than the topic ${topic} takes`;
    await this.add([deadLetter(record.origin, { code: 'output_too_large', message })], 'dead_letter');
  }

  #truncated(record: OutgoingRecord, limit: number): OutgoingRecord {
    const rest = weightOf({ ...record, value: null });
    if (rest + TRUNCATION_MARGIN > limit) {
      // Key or headers alone fill the limit: the reason and the place are what matters.
      const bare = record.origin ? { ...record.origin, key: null, headers: {} } : null;
      if (!bare) throw new SluiceError('kafka_record_too_large', 'key and headers are larger than the topic takes');
      const headers = Object.entries(record.headers ?? {}).filter(([name]) => name.startsWith('sluice-error-'));
      return truncateDeadLetter({ ...record, key: null, headers: Object.fromEntries(headers) }, 0);
    }
    return truncateDeadLetter(record, limit - rest - TRUNCATION_MARGIN);
  }

  async #fitsCompressed(record: OutgoingRecord, limit: number): Promise<boolean> {
    const { compression } = this.#options;
    if (compression === 'none' || !record.value) return false;
    const rest = weightOf({ ...record, value: null });
    // Small enough to be tried at all, and with room for what the rest of the record adds.
    return rest < limit && (await compressedSize(record.value, compression)) + rest <= limit;
  }

  #put(topic: string, { partitions, maxBatchBytes }: TopicFacts, record: OutgoingRecord, weight: number): void {
    const partition = record.partition ?? this.#partitionOf(record, topic, partitions);
    const key = targetOf(topic, partition);
    let open = this.#open.get(key);
    if (open && (open.bytes + weight > maxBatchBytes || open.messages.length >= MAX_BATCH_RECORDS)) {
      this.#close(open);
      open = undefined;
    }
    if (!open) {
      open = { topic, partition, messages: [], bytes: 0 };
      this.#open.set(key, open);
    }
    open.messages.push({
      key: record.key,
      value: record.value,
      partition,
      ...(record.headers ? { headers: record.headers as Record<string, Buffer | Buffer[]> } : {}),
      ...(record.timestamp === undefined ? {} : { timestamp: String(record.timestamp) }),
    });
    open.bytes += weight;
    this.#bytes += weight;
  }

  /** The partition of the input where there are as many; else by key; records without a key stay together. */
  #partitionOf({ origin, key }: OutgoingRecord, topic: string, partitions: number): number {
    if (origin && this.#facts.get(origin.topic)?.partitions === partitions) return origin.partition;
    if (key === null) return (origin?.partition ?? 0) % partitions;
    return partitionByKey({ topic, partitionMetadata: metadataOf(partitions), message: { key, value: null } });
  }

  #close(batch: { topic: string; partition: number; messages: Message[] }): void {
    const key = targetOf(batch.topic, batch.partition);
    const batches = this.#closed.get(key);
    if (batches) batches.push(batch);
    else this.#closed.set(key, [batch]);
    this.#open.delete(key);
  }
}
