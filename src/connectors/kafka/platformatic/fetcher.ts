// Fetches the partitions of one member, with a few concurrent fetches per leader.
// Records of a partition are delivered in order. A response is dropped if its partition was revoked or started at
// another offset in the meantime, and delayed while the partition is paused.
import { inBackground } from '../../../core/async.ts';
import { monotonicMs, sleep, startTimer } from '../../../core/clock.ts';
import type { SluiceError } from '../../../core/errors.ts';
import type { IncomingRecord } from '../client/records.ts';
import type { BrokerCluster } from './broker-cluster.ts';
import { failure, isMissing, isPassing, Refusal } from './broker-failures.ts';
import { decodeRecords, type FetchedPartition, readFetch, readFetchById } from './fetched-records.ts';
import { errorName, fetchV11, fetchV13 } from './kafka-protocol.ts';

interface FetchEvents {
  records(partition: number, records: IncomingRecord[], next: bigint, highWatermark: bigint): void;
  skipped(partition: number, next: bigint): void;
  /** The topic no longer has the next offset, or may have been created again. The partition waits for `startAt`. */
  lost(partition: number, error: SluiceError): void;
  /** Called for an error that no retry can fix. */
  failed(error: unknown): void;
}

interface FetchOptions {
  readonly topic: string;
  readonly fetchBytes: number;
  readonly fetchWaitMs: number;
  /** Minimum time between fetches that return few bytes, ms. */
  readonly fetchPaceMs: number;
  readonly rack: string;
}

interface Held {
  records: IncomingRecord[];
  next: bigint;
  highWatermark: bigint;
}

interface Reading {
  /** Offset to read next; null: the partition waits for `startAt`. */
  position: bigint | null;
  /** The topic that `position` belongs to; null: unknown. */
  topicId: string | null;
  paused: boolean;
  busy: boolean;
  /** Incremented when pending responses become invalid. */
  version: number;
  /** Records that arrived while the partition was paused. */
  held: Held | null;
  /** The replica to read from instead of the leader; -1: none. */
  replica: number;
  /** Number of times that a missing offset was looked up. */
  looks: number;
  /**
   * Whether a broker reported the partition as missing. If it exists again and the topic ID is unknown, the topic may
   * have been created again: its offsets then have other records, so the position must not be used.
   */
  missing: boolean;
}

/** Maximum concurrent fetches to one broker. A partition that is resumed during a fetch is part of the next fetch. */
const FETCHES = 3;
/** Maximum bytes of one response, unless a single batch or `fetchBytes` is larger. */
const ANSWER_BYTES = 2 * 1024 * 1024;
/** After a response with fewer bytes, the next fetch is delayed to the next tick. */
const LITTLE_BYTES = 64 * 1024;
const READ_COMMITTED = 1;
const FIRST_PAUSE_MS = 50;
const MAX_PAUSE_MS = 1_000;
/**
 * Maximum number of lookups of a missing offset. Several are needed because a new leader may be behind for a short
 * time.
 */
const LOOKS = 5;
const LOOK_MS = 500;
/**
 * How long brokers must report a topic as missing before it is treated as missing, ms. A broker that has just started
 * may not list it yet.
 */
const MISSING_MS = 5_000;

export class Fetcher {
  readonly #cluster: BrokerCluster;
  readonly #options: FetchOptions;
  readonly #events: FetchEvents;
  readonly #readings = new Map<number, Reading>();
  readonly #slots = new Map<number, Set<number>>();
  readonly #end = new AbortController();
  #planned = false;
  /** Callbacks to call at the next tick. */
  #resting: (() => void)[] = [];
  #failures = 0;
  #missingSince: number | null = null;

  constructor(cluster: BrokerCluster, options: FetchOptions, events: FetchEvents) {
    this.#cluster = cluster;
    this.#options = options;
    this.#events = events;
  }

  /** Stops delivering records. Idempotent. */
  stop(): void {
    this.#end.abort();
    this.#readings.clear();
  }

  add(partitions: readonly number[]): void {
    for (const partition of partitions) {
      this.#readings.set(partition, {
        position: null,
        topicId: null,
        paused: false,
        busy: false,
        version: 0,
        held: null,
        replica: -1,
        looks: 0,
        missing: false,
      });
    }
  }

  remove(partitions: readonly number[]): void {
    for (const partition of partitions) this.#readings.delete(partition);
  }

  /** `topicId`: the topic that the offset belongs to. Records of another topic with the same name are not delivered. */
  startAt(partition: number, offset: bigint, topicId: string | null): void {
    const reading = this.#readings.get(partition);
    if (!reading) return;
    reading.position = offset;
    reading.topicId = topicId;
    reading.version++;
    reading.held = null;
    reading.paused = false;
    this.#wake();
  }

  pause(partitions: readonly number[]): void {
    for (const partition of partitions) {
      const reading = this.#readings.get(partition);
      if (reading) reading.paused = true;
    }
  }

  resume(partitions: readonly number[]): void {
    for (const partition of partitions) {
      const reading = this.#readings.get(partition);
      if (reading) reading.paused = false;
    }
    this.#wake();
  }

  /** Reports partitions as lost whose topic was replaced by the topic with this ID. */
  verify(topicId: string | null): void {
    if (topicId === null || this.#end.signal.aborted) return;
    for (const [partition, reading] of [...this.#readings]) {
      if (reading.position === null || reading.topicId === null || reading.topicId === topicId) continue;
      const why = `the topic ${this.#options.topic} was deleted and created again`;
      this.#lose(partition, reading, failure(new Refusal('Fetch', ['UNKNOWN_TOPIC_ID']), why));
    }
  }

  #wake(): void {
    if (this.#planned) return;
    this.#planned = true;
    queueMicrotask(() => {
      this.#planned = false;
      this.#plan();
    });
  }

  #plan(): void {
    if (this.#end.signal.aborted) return;
    for (const [partition, reading] of this.#readings) this.#release(partition, reading);
    const leaders = this.#cluster.known(this.#options.topic)?.leaders ?? [];
    const wanted = new Map<number, number[]>();
    for (const [partition, reading] of this.#readings) {
      if (reading.position === null || reading.paused || reading.busy) continue;
      const broker = reading.replica >= 0 ? reading.replica : (leaders[partition] ?? -1);
      const list = wanted.get(broker);
      if (list) list.push(partition);
      else wanted.set(broker, [partition]);
    }
    for (const [broker, partitions] of wanted) {
      const slots = this.#slots.get(broker) ?? new Set();
      this.#slots.set(broker, slots);
      // While the leader is unknown, there is one fetch attempt at a time, which looks up the leader.
      const limit = broker < 0 ? 1 : FETCHES;
      for (let slot = 0; slot < limit; slot++) {
        if (slots.has(slot)) continue;
        slots.add(slot);
        inBackground('fetching records', () => this.#fetch(broker, slot, partitions, slots));
        break;
      }
    }
  }

  /** Fetches partitions from a broker. Never rejects. */
  async #fetch(broker: number, slot: number, partitions: readonly number[], slots: Set<number>): Promise<void> {
    const asked = new Map<number, { reading: Reading; version: number }>();
    for (const partition of partitions) {
      const reading = this.#readings.get(partition)!;
      reading.busy = true;
      asked.set(partition, { reading, version: reading.version });
    }
    let bytes = 0;
    try {
      if (broker < 0) throw new Refusal('Fetch', ['LEADER_NOT_AVAILABLE']);
      let refused: unknown = null;
      const { partitions: found, byId } = await this.#ask(broker, slot, asked);
      for (const fetched of found) {
        bytes += fetched.batches.length;
        const one = asked.get(fetched.partition);
        if (one && byId && fetched.error === 0) one.reading.missing = false;
        if (one) await this.#take(fetched, one.reading, one.version).catch((error: unknown) => (refused ??= error));
      }
      if (refused !== null) throw refused;
      this.#failures = 0;
      this.#missingSince = null;
    } catch (error) {
      await this.#mend(error, asked);
    } finally {
      slots.delete(slot);
      this.#rest(bytes > 0 && bytes < LITTLE_BYTES, () => {
        for (const { reading } of asked.values()) reading.busy = false;
        this.#wake();
      });
    }
  }

  /**
   * Calls `then`; if `paced`, at the next tick. All partitions share the ticks, so that one fetch covers as many
   * partitions as possible.
   */
  #rest(paced: boolean, then: () => void): void {
    const { fetchPaceMs } = this.#options;
    if (!paced || fetchPaceMs === 0) {
      then();
      return;
    }
    this.#resting.push(then);
    if (this.#resting.length > 1) return;
    const left = fetchPaceMs - (monotonicMs() % fetchPaceMs);
    startTimer(() => {
      for (const go of this.#resting.splice(0)) go();
    }, left).unref();
  }

  /** `byId`: the broker has compared the topic IDs with its own. */
  async #ask(
    broker: number,
    slot: number,
    asked: ReadonlyMap<number, { reading: Reading }>,
  ): Promise<{ partitions: FetchedPartition[]; byId: boolean }> {
    const { topic, fetchBytes, fetchWaitMs, rack } = this.#options;
    const connection = await this.#cluster.node(broker, `fetch-${slot}`);
    const known = [...asked.values()].every(({ reading }) => reading.topicId !== null);
    const byId = known && (await this.#cluster.fetchesById(connection));
    const byTopic = Map.groupBy(asked, ([, { reading }]) => (byId ? reading.topicId! : topic));
    const topics = [...byTopic].map(([topicId, some]) => ({
      topicId,
      partitions: some.map(([partition, { reading }]) => ({
        partition,
        currentLeaderEpoch: -1,
        fetchOffset: reading.position ?? 0n,
        lastFetchedEpoch: -1,
        partitionMaxBytes: fetchBytes,
      })),
    }));
    // Both versions have the same arguments, and `parse` replaces the parser of the library.
    const api = byId ? (fetchV13.api as unknown as typeof fetchV11.api) : fetchV11.api;
    const parse = byId ? readFetchById : readFetch;
    const most = Math.max(fetchBytes, ANSWER_BYTES);
    const answer = await connection.call(api, [fetchWaitMs, 1, most, READ_COMMITTED, 0, -1, topics, [], rack], {
      parse: parse as never,
    });
    const { error, partitions } = answer as unknown as ReturnType<typeof readFetch>;
    if (error !== 0) throw new Refusal('Fetch', [errorName(error)]);
    return { partitions, byId };
  }

  async #take(fetched: FetchedPartition, reading: Reading, version: number): Promise<void> {
    if (!this.#counts(fetched.partition, reading, version)) return;
    const from = reading.position!;
    if (fetched.error !== 0) {
      const refusal = new Refusal('Fetch', [errorName(fetched.error)]);
      if (refusal.type !== 'OFFSET_OUT_OF_RANGE') {
        if (isMissing(refusal)) reading.missing = true;
        throw refusal;
      }
      if (!reading.missing) return this.#outOfRange(fetched, reading, from);
    }
    if (reading.missing) {
      const why = `partition ${fetched.partition} of the topic ${this.#options.topic} was missing and exists again`;
      return this.#lose(fetched.partition, reading, failure(new Refusal('Fetch', ['UNKNOWN_TOPIC_OR_PARTITION']), why));
    }
    reading.looks = 0;
    if (fetched.preferredReplica >= 0) {
      reading.replica = fetched.preferredReplica;
      return;
    }
    const { records, next } = await decodeRecords(this.#options.topic, fetched, from);
    if (next === from || !this.#counts(fetched.partition, reading, version)) return;
    reading.held = { records, next, highWatermark: fetched.highWatermark };
    this.#release(fetched.partition, reading);
  }

  /** Delivers held records, unless the partition is paused. */
  #release(partition: number, reading: Reading): void {
    const { held } = reading;
    if (!held || reading.paused) return;
    reading.held = null;
    reading.position = held.next;
    if (held.records.length > 0) this.#events.records(partition, held.records, held.next, held.highWatermark);
    else this.#events.skipped(partition, held.next);
  }

  #counts(partition: number, reading: Reading, version: number): boolean {
    return !this.#end.signal.aborted && this.#readings.get(partition) === reading && reading.version === version;
  }

  async #outOfRange(fetched: FetchedPartition, reading: Reading, from: bigint): Promise<void> {
    const { topic } = this.#options;
    const { version } = reading;
    const replica = reading.replica >= 0;
    reading.replica = -1;
    reading.looks++;
    if (replica || (from > fetched.highWatermark && reading.looks < LOOKS) || fetched.logStart < 0n) {
      this.#cluster.forget(topic);
      if (!replica) await sleep(LOOK_MS, { signal: this.#end.signal }).catch(() => {});
      await this.#cluster.layout(topic);
      if (reading.looks < LOOKS) return;
    }
    if (!this.#counts(fetched.partition, reading, version)) return;
    const why = `offset ${from} of partition ${fetched.partition} is no longer in the topic ${topic}`;
    this.#lose(fetched.partition, reading, offsetLost(why));
  }

  #lose(partition: number, reading: Reading, error: SluiceError): void {
    reading.position = null;
    reading.version++;
    reading.missing = false;
    this.#missingSince = null;
    this.#events.lost(partition, error);
  }

  /**
   * After a failed fetch: waits and looks up the leaders, so that the next fetch is a retry. Reports permanent errors.
   */
  async #mend(error: unknown, asked: ReadonlyMap<number, { reading: Reading }>): Promise<void> {
    if (this.#end.signal.aborted) return;
    for (const { reading } of asked.values()) reading.replica = -1;
    if (isMissing(error)) this.#missingSince ??= monotonicMs();
    const missing = this.#missingSince !== null && monotonicMs() - this.#missingSince > MISSING_MS;
    if (!(isPassing(error) || (isMissing(error) && !missing))) return this.#events.failed(error);
    const pause = Math.min(MAX_PAUSE_MS, FIRST_PAUSE_MS * 2 ** Math.min(this.#failures++, 10));
    await sleep(pause * (0.5 + Math.random() / 2), { signal: this.#end.signal }).catch(() => {});
    if (this.#end.signal.aborted) return;
    this.#cluster.forget(this.#options.topic);
    try {
      this.verify((await this.#cluster.layout(this.#options.topic)).topicId);
    } catch (again) {
      if (isMissing(again)) {
        this.#missingSince ??= monotonicMs();
        for (const reading of this.#readings.values()) reading.missing = true;
      } else if (!isPassing(again)) this.#events.failed(again);
    }
  }
}

const offsetLost = (why: string): SluiceError => failure(new Refusal('Fetch', ['OFFSET_OUT_OF_RANGE']), why);
