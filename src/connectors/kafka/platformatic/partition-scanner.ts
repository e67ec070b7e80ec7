// Reads offset ranges of partitions without a consumer group.
import type { KafkaConnection } from '../client/connection.ts';
import {
  type OffsetBounds,
  type PartitionScanner,
  type ScanOptions,
  type ScanRange,
  scannerClosed,
} from '../client/kafka-client.ts';
import type { IncomingRecord } from '../client/records.ts';
import { BrokerCluster, offsetsOf } from './broker-cluster.ts';
import { failure, Refusal, refusedAs, Unreadable } from './broker-failures.ts';
import { decodeRecords, type FetchedPartition, readFetch } from './fetched-records.ts';
import { errorName, fetchV11 } from './kafka-protocol.ts';

const READ_COMMITTED = 1;
const FETCH_WAIT_MS = 250;
const DEFAULT_FETCH_BYTES = 1024 * 1024;
/** Maximum time to wait for a broker that restarts, ms. */
const PATIENCE_MS = 15_000;
/** Maximum number of consecutive empty fetches at an offset where a record must exist. */
const SILENT_FETCHES = 40;

export class PlatformaticScanner implements PartitionScanner {
  readonly #connection: KafkaConnection;
  #cluster: BrokerCluster | null = null;
  #closed = false;

  constructor(connection: KafkaConnection) {
    this.#connection = connection;
  }

  async bounds(topic: string): Promise<ReadonlyMap<number, OffsetBounds>> {
    const found = await this.#ask(topic, (cluster) => offsetsOf(cluster, topic));
    return new Map([...found].map(([partition, { low, end }]) => [partition, { low, end }]));
  }

  async *scan(range: ScanRange, options: ScanOptions = {}): AsyncGenerator<IncomingRecord[]> {
    const { topic, partition, end } = range;
    const { signal, onWait } = options;
    let position = range.from;
    let silent = 0;
    while (position < end) {
      signal?.throwIfAborted();
      const fetched = await this.#ask(topic, (cluster) => fetchOf(cluster, range, position, options));
      if (fetched === null) {
        const { low } = (await this.bounds(topic)).get(partition) ?? { low: position };
        if (low <= position) {
          const gone = new Refusal('Fetch', ['OFFSET_OUT_OF_RANGE']);
          throw failure(gone, `partition ${partition} of ${topic} has no offset ${position}`);
        }
        // Retention deleted the next record, so reading continues at the first remaining record.
        position = low;
        continue;
      }
      const { records, next } = await decodeRecords(topic, fetched, position);
      if (next === position) {
        silent++;
        if (fetched.lastStable <= position) onWait?.(partition, silent * FETCH_WAIT_MS);
        else if (silent > SILENT_FETCHES) {
          const why = `partition ${partition} of ${topic} returns no records at offset ${position}`;
          throw failure(new Unreadable(why), `reading the topic ${topic} failed`);
        }
        continue;
      }
      silent = 0;
      position = next;
      const within = records.filter((r) => r.offset < end);
      if (within.length > 0) yield within;
    }
  }

  async close(): Promise<void> {
    this.#closed = true;
    this.#drop();
  }

  #drop(): void {
    this.#cluster?.destroy();
    this.#cluster = null;
  }

  async #ask<T>(topic: string, question: (cluster: BrokerCluster) => Promise<T>): Promise<T> {
    if (this.#closed) throw scannerClosed();
    this.#cluster ??= new BrokerCluster(this.#connection);
    const cluster = this.#cluster;
    try {
      return await cluster.patiently(PATIENCE_MS, () => question(cluster));
    } catch (error) {
      this.#drop();
      if (this.#closed) throw scannerClosed();
      throw failure(error, `reading the topic ${topic} failed`);
    }
  }
}

/** Fetches records starting at `position`; null: the topic does not have this offset. @throws Refusal | NoConnection */
async function fetchOf(
  cluster: BrokerCluster,
  { topic, partition }: ScanRange,
  position: bigint,
  { fetchBytes = DEFAULT_FETCH_BYTES }: ScanOptions,
): Promise<FetchedPartition | null> {
  const leader = (await cluster.layout(topic)).leaders[partition] ?? -1;
  if (leader < 0) throw new Refusal('Fetch', ['LEADER_NOT_AVAILABLE']);
  const broker = await cluster.node(leader, 'aside');
  const asked = {
    partition,
    currentLeaderEpoch: -1,
    fetchOffset: position,
    lastFetchedEpoch: -1,
    partitionMaxBytes: fetchBytes,
  };
  const topics = [{ topicId: topic, partitions: [asked] }];
  const parse = (body: Buffer) => readFetch(body);
  const answer = await broker.call(
    fetchV11.api,
    [FETCH_WAIT_MS, 1, fetchBytes, READ_COMMITTED, 0, -1, topics, [], ''],
    {
      parse: parse as never,
    },
  );
  const { error, partitions } = answer as unknown as ReturnType<typeof readFetch>;
  const [fetched] = partitions;
  const code = error === 0 ? (fetched?.error ?? 0) : error;
  if (code === 0 && fetched) return fetched;
  const refusal = new Refusal('Fetch', [errorName(code)]);
  if (refusedAs(refusal, 'OFFSET_OUT_OF_RANGE')) return null;
  cluster.forget(topic);
  throw refusal;
}
