// Reads offset ranges of partitions without a group, through the internal cluster object of kafkajs.
import type { Kafka } from 'kafkajs';
import { sleep } from '../../../core/clock.ts';
import { SluiceError } from '../../../core/errors.ts';
import type { KafkaConnection } from '../client/connection.ts';
import { backoffMs, isHopeless, reasonOf } from '../client/failures.ts';
import {
  type OffsetBounds,
  type PartitionScanner,
  type ScanOptions,
  type ScanRange,
  scannerClosed,
} from '../client/kafka-client.ts';
import type { IncomingRecord } from '../client/records.ts';
import { type KafkajsHandle, kafkajsError, openKafkajs } from './connect.ts';
import { headersOf } from './kafkajs-member.ts';
import { type AbortedTransaction, withoutAborted } from './repairs.ts';

interface Broker {
  fetch(request: {
    maxWaitTime: number;
    minBytes: number;
    maxBytes: number;
    isolationLevel: number;
    topics: { topic: string; partitions: { partition: number; fetchOffset: string; maxBytes: number }[] }[];
  }): Promise<{ responses: { partitions: FetchedPartition[] }[] }>;
}

interface FetchedPartition {
  lastStableOffset: string;
  abortedTransactions: AbortedTransaction[] | null;
  messages: FetchedRecord[];
}

interface FetchedRecord {
  offset: string;
  timestamp: string;
  key: Buffer | null;
  value: Buffer | null;
  headers?: Record<string, unknown>;
  isControlRecord?: boolean;
  batchContext?: { producerId: string; inTransaction: boolean };
}

interface Opened {
  handle: KafkajsHandle;
  cluster: Cluster;
}

interface Cluster {
  connect(): Promise<void>;
  disconnect(): Promise<void>;
  addTargetTopic(topic: string): Promise<void>;
  findTopicPartitionMetadata(topic: string): { partitionId: number }[];
  findLeaderForPartitions(topic: string, partitions: number[]): Record<string, number[]>;
  findBroker(node: { nodeId: string }): Promise<Broker>;
  fetchTopicsOffset(
    topics: { topic: string; partitions: { partition: number }[]; fromBeginning: boolean }[],
  ): Promise<{ partitions: { partition: number; offset: string }[] }[]>;
}

const READ_UNCOMMITTED = 0;
const READ_COMMITTED = 1;
const FETCH_WAIT_MS = 250;
const DEFAULT_FETCH_BYTES = 1024 * 1024;
/** Maximum attempts of one query. Each retry opens new connections. */
const ATTEMPTS = 8;
/** Maximum number of consecutive empty fetches at an offset where a record must exist. */
const SILENT_FETCHES = 40;

export class KafkajsScanner implements PartitionScanner {
  readonly #connection: KafkaConnection;
  #opened: Promise<Opened> | null = null;
  #closed = false;

  constructor(connection: KafkaConnection) {
    this.#connection = connection;
  }

  async bounds(topic: string): Promise<ReadonlyMap<number, OffsetBounds>> {
    return this.#ask(topic, async (cluster) => {
      const partitions = cluster
        .findTopicPartitionMetadata(topic)
        .map(({ partitionId }) => ({ partition: partitionId }));
      const [[lows], [ends]] = await Promise.all([
        cluster.fetchTopicsOffset([{ topic, partitions, fromBeginning: true }]),
        cluster.fetchTopicsOffset([{ topic, partitions, fromBeginning: false }]),
      ]);
      const low = new Map(lows?.partitions.map((p) => [p.partition, BigInt(p.offset)]));
      const found = ends?.partitions.map(
        (p) => [p.partition, { low: low.get(p.partition)!, end: BigInt(p.offset) }] as const,
      );
      return new Map(found?.sort(([a], [b]) => a - b));
    });
  }

  async *scan(range: ScanRange, options: ScanOptions = {}): AsyncGenerator<IncomingRecord[]> {
    const { topic, partition, end } = range;
    const { signal, onWait } = options;
    let position = range.from;
    let silent = 0;
    while (position < end) {
      signal?.throwIfAborted();
      const fetched = await this.#fetch(topic, partition, position, options);
      if (fetched === 'out of range') {
        const { low } = (await this.bounds(topic)).get(partition) ?? { low: position };
        if (low <= position) throw new SluiceError('kafka_offset_lost', lostWords(topic, partition, position));
        // Retention deleted the next record, so reading continues at the first remaining record.
        position = low;
        continue;
      }
      const within = fetched.messages.filter((m) => BigInt(m.offset) >= position);
      const last = within.at(-1);
      if (!last) {
        silent++;
        if (BigInt(fetched.lastStableOffset) <= position) onWait?.(partition, silent * FETCH_WAIT_MS);
        else if (silent > SILENT_FETCHES) {
          throw new SluiceError(
            'kafka_failed',
            `partition ${partition} of ${topic} returns no records at offset ${position}`,
          );
        }
        continue;
      }
      silent = 0;
      position = BigInt(last.offset) + 1n;
      const records = withoutAborted({ messages: within, abortedTransactions: fetched.abortedTransactions })
        .filter((m) => !m.isControlRecord && BigInt(m.offset) < end)
        .map((m) => incoming(topic, partition, m));
      if (records.length > 0) yield records;
    }
  }

  async close(): Promise<void> {
    this.#closed = true;
    await this.#drop();
  }

  async #drop(): Promise<void> {
    const opened = this.#opened;
    this.#opened = null;
    // Destroys the connections immediately, because kafkajs may wait for an unreachable broker.
    await opened?.then(({ handle }) => handle.destroy()).catch(() => {});
  }

  #fetch(
    topic: string,
    partition: number,
    position: bigint,
    { signal, fetchBytes = DEFAULT_FETCH_BYTES }: ScanOptions,
  ): Promise<FetchedPartition | 'out of range'> {
    const question = async (cluster: Cluster): Promise<FetchedPartition | 'out of range'> => {
      const [nodeId] = Object.keys(cluster.findLeaderForPartitions(topic, [partition]));
      if (nodeId === undefined)
        throw new SluiceError('kafka_failed', `partition ${partition} of ${topic} has no leader`);
      const broker = await cluster.findBroker({ nodeId });
      try {
        const { responses } = await broker.fetch({
          maxWaitTime: FETCH_WAIT_MS,
          minBytes: 1,
          maxBytes: fetchBytes,
          isolationLevel: READ_COMMITTED,
          topics: [{ topic, partitions: [{ partition, fetchOffset: String(position), maxBytes: fetchBytes }] }],
        });
        return responses[0]!.partitions[0]!;
      } catch (error) {
        if (reasonOf(error) === 'OFFSET_OUT_OF_RANGE') return 'out of range';
        throw error;
      }
    };
    return this.#ask(topic, question, signal);
  }

  async #ask<T>(topic: string, question: (cluster: Cluster) => Promise<T>, signal?: AbortSignal): Promise<T> {
    for (let attempt = 1; ; attempt++) {
      if (this.#closed) throw scannerClosed();
      try {
        this.#opened ??= this.#open();
        const { cluster } = await this.#opened;
        await cluster.addTargetTopic(topic);
        return await question(cluster);
      } catch (error) {
        await this.#drop();
        // Another attempt would open a connection that would stay open.
        if (this.#closed) throw scannerClosed();
        const failure = kafkajsError(error, `reading the topic ${topic} failed`);
        if (isHopeless(failure) || attempt >= ATTEMPTS) throw failure;
        await sleep(backoffMs(attempt), { signal });
      }
    }
  }

  /**
   * Opens the clusters. Offset queries use the isolation level read_uncommitted, so that they include open
   * transactions. Records are fetched with read_committed.
   */
  async #open(): Promise<Opened> {
    const handle = openKafkajs(this.#connection);
    const { kafka } = handle;
    const create = Object.getOwnPropertySymbols(kafka).find((s) => s.description === 'private:Kafka:createCluster')!;
    const cluster = (kafka as Kafka & Record<symbol, (o: object) => Cluster>)[create]!({
      allowAutoTopicCreation: false,
      isolationLevel: READ_UNCOMMITTED,
      metadataMaxAge: 30_000,
    });
    try {
      await cluster.connect();
    } catch (error) {
      handle.destroy();
      throw error;
    }
    return { handle, cluster };
  }
}

const lostWords = (topic: string, partition: number, offset: bigint): string =>
  `partition ${partition} of ${topic} has no offset ${offset}`;

const incoming = (topic: string, partition: number, m: FetchedRecord): IncomingRecord => ({
  topic,
  partition,
  offset: BigInt(m.offset),
  timestamp: Number(m.timestamp),
  key: m.key,
  value: m.value,
  headers: headersOf(m.headers),
});
