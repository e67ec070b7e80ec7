// One member of a consumer group on one topic: the fetch loop, replaced when it fails, every partition starting paused.
import { setTimeout as sleep } from 'node:timers/promises';
import type { Consumer, EachBatchPayload } from 'kafkajs';
import { SluiceError } from '../core/errors.ts';
import { inBackground } from '../core/in-background.ts';
import { type KafkaConnection, kafkaClient } from './connection.ts';
import { isHopeless, kafkaError } from './failures.ts';
import type { KafkaLogEntry } from './observer.ts';
import type { IncomingRecord, RecordHeaders } from './records.ts';

export interface GroupOptions {
  connection: KafkaConnection;
  topic: string;
  group: string;
  /** A member without heartbeats for this long loses its partitions, ms. Default 30,000. */
  sessionTimeoutMs?: number;
  /** Default: a tenth of the session. */
  heartbeatIntervalMs?: number;
  /** Longest time the group waits for a member in a rebalance, ms. Default 60,000. */
  rebalanceTimeoutMs?: number;
  /** Maximum bytes of one fetch from one partition. Default 1 MiB. */
  fetchBytes?: number;
  /** Longest time a fetch waits for records, ms; a resumed partition may wait as long. Default 100. */
  fetchWaitMs?: number;
  /** New partitions are noticed after this time, ms. Default 30,000. */
  metadataMaxAgeMs?: number;
}

/** Called on the event loop; must not throw. */
export interface GroupHandler {
  /** A new generation: these partitions are this member's, and paused until `startAt`. All others are lost. */
  assigned(partitions: readonly number[]): void;
  /** The membership is in doubt, or gone: another member may read on from now. */
  unassigned(): void;
  records(partition: number, records: IncomingRecord[], next: bigint, highWatermark: bigint): void;
  /** Nothing but control records and aborted ones up to `next`. */
  skipped(partition: number, next: bigint): void;
  /** Reading started at another offset than requested, and is corrected. */
  reset(partition: number, offset: bigint): void;
  restarting(error: SluiceError): void;
  /** A failure that no restart can fix. */
  failed(error: SluiceError): void;
  log?(entry: KafkaLogEntry): void;
}

const MAX_BACKOFF_MS = 10_000;
/** Restarts after a topic was gone before it is believed: brokers that start up may not know it yet. */
const TOPIC_MISSING_PATIENCE = 5;
/** A fetch loop without progress for this long is replaced, ms. */
const STALL_MS = 120_000;

interface Position {
  /** Offset the next fetch must start at. */
  next: bigint;
  /** A run of skipped records that did not start there: believed when it is seen again. */
  doubt: string | null;
}

/**
 * Modes: joining → reading (partitions paused or not) → joining again on every change of the group. A consumer that
 * crashes is thrown away with everything kafkajs knew, and a new one joins after a pause that grows.
 */
export class GroupConsumer {
  readonly #options: Required<GroupOptions>;
  readonly #handler: GroupHandler;
  readonly #positions = new Map<number, Position>();
  readonly #stop = new AbortController();
  #consumer: Consumer | null = null;
  #heartbeat: (() => Promise<void>) | null = null;
  #failures = 0;
  #lastSign = 0;
  #watchdog: NodeJS.Timeout | undefined;

  constructor(options: GroupOptions, handler: GroupHandler) {
    const sessionTimeoutMs = options.sessionTimeoutMs ?? 30_000;
    this.#options = {
      heartbeatIntervalMs: Math.max(100, Math.floor(sessionTimeoutMs / 10)),
      rebalanceTimeoutMs: 60_000,
      fetchBytes: 1024 * 1024,
      fetchWaitMs: 250,
      metadataMaxAgeMs: 30_000,
      ...options,
      sessionTimeoutMs,
    };
    this.#handler = handler;
  }

  /** Joins the group. @throws SluiceError kafka_unreachable | kafka_authentication | kafka_topic_missing */
  async start(): Promise<void> {
    this.#watchdog = setInterval(() => this.#watch(), STALL_MS / 10);
    this.#watchdog.unref();
    await this.#open();
  }

  /** Reads on from `offset`. */
  startAt(partition: number, offset: bigint): void {
    this.#positions.set(partition, { next: offset, doubt: null });
    this.#seek(partition, offset);
    this.resume([partition]);
  }

  pause(partitions: readonly number[]): void {
    if (partitions.length > 0) this.#consumer?.pause([{ topic: this.#options.topic, partitions: [...partitions] }]);
  }

  resume(partitions: readonly number[]): void {
    const known = partitions.filter((p) => this.#positions.has(p));
    if (known.length > 0) this.#consumer?.resume([{ topic: this.#options.topic, partitions: known }]);
  }

  /** Whether the coordinator still knows this member; asked at most once a heartbeat interval. */
  async isMember(): Promise<boolean> {
    if (!this.#heartbeat) return true;
    return this.#heartbeat().then(
      () => true,
      () => false,
    );
  }

  /** Commits outside of transactions; refused by the broker when this member's generation is over. */
  async commit(offsets: ReadonlyMap<number, bigint>): Promise<void> {
    const { topic } = this.#options;
    if (!this.#consumer) throw new SluiceError('kafka_failed', 'the consumer is being replaced');
    await this.#consumer.commitOffsets(
      [...offsets].map(([partition, offset]) => ({ topic, partition, offset: String(offset) })),
    );
  }

  /** Leaves the group. Idempotent. */
  async stop(): Promise<void> {
    this.#stop.abort();
    clearInterval(this.#watchdog);
    this.#positions.clear();
    const consumer = this.#consumer;
    this.#consumer = null;
    await consumer?.disconnect().catch(() => {});
  }

  async #open(): Promise<void> {
    const o = this.#options;
    const consumer = kafkaClient(o.connection, this.#handler.log?.bind(this.#handler)).consumer({
      groupId: o.group,
      sessionTimeout: o.sessionTimeoutMs,
      heartbeatInterval: o.heartbeatIntervalMs,
      rebalanceTimeout: o.rebalanceTimeoutMs,
      maxBytesPerPartition: o.fetchBytes,
      maxWaitTimeInMs: o.fetchWaitMs,
      metadataMaxAge: o.metadataMaxAgeMs,
      allowAutoTopicCreation: false,
      readUncommitted: false,
      ...(o.connection.rack ? { rackId: o.connection.rack } : {}),
    });
    const current = () => this.#consumer === consumer && !this.#stop.signal.aborted;
    const { events } = consumer;
    consumer.on(events.GROUP_JOIN, ({ payload }) => {
      if (current()) this.#joined(payload.memberAssignment[o.topic] ?? []);
    });
    consumer.on(events.REBALANCING, () => {
      if (current()) this.#handler.unassigned();
    });
    consumer.on(events.START_BATCH_PROCESS, ({ payload }) => {
      if (current() && payload.batchSize === 0) this.#skip(payload.partition, payload.firstOffset, payload.lastOffset);
    });
    consumer.on(events.FETCH, () => {
      this.#lastSign = performance.now();
    });
    consumer.on(events.CRASH, ({ payload }) => {
      if (current()) inBackground('restarting a consumer', () => this.#restart(payload.error));
    });
    this.#consumer = consumer;
    this.#heartbeat = null;
    this.#lastSign = performance.now();
    try {
      await consumer.connect();
      await consumer.subscribe({ topics: [o.topic], fromBeginning: true });
      await consumer.run({
        autoCommit: false,
        eachBatchAutoResolve: false,
        eachBatch: async (payload) => {
          if (current()) this.#take(payload);
        },
      });
    } catch (error) {
      if (this.#consumer === consumer) this.#consumer = null;
      await consumer.disconnect().catch(() => {});
      throw kafkaError(error, `reading the topic ${o.topic} failed`);
    }
  }

  #joined(partitions: number[]): void {
    this.#positions.clear();
    this.#failures = 0;
    // Nothing is read before whoever owns the partition has fenced off its previous owner and knows where to start.
    this.pause(partitions);
    this.#handler.assigned(partitions);
  }

  #take({ batch, resolveOffset, heartbeat, isStale }: EachBatchPayload): void {
    this.#heartbeat = heartbeat;
    const { partition } = batch;
    const position = this.#positions.get(partition);
    if (!position || isStale()) return;
    const from = BigInt((batch as unknown as { fetchedOffset: string }).fetchedOffset);
    if (from !== position.next) {
      // The answer to an outdated fetch: only the position this member wants counts.
      this.#handler.reset(partition, position.next);
      this.#seek(partition, position.next);
      return;
    }
    const last = batch.messages.at(-1)!.offset;
    resolveOffset(last);
    position.next = BigInt(batch.lastOffset()) + 1n;
    position.doubt = null;
    const { topic } = this.#options;
    const records = batch.messages.map((m) => ({
      topic,
      partition,
      offset: BigInt(m.offset),
      timestamp: Number(m.timestamp),
      key: m.key,
      value: m.value,
      headers: headersOf(m.headers),
    }));
    this.#handler.records(partition, records, position.next, BigInt(batch.highWatermark));
  }

  #skip(partition: number, first: string | null, last: string): void {
    const position = this.#positions.get(partition);
    if (!position) return;
    const doubt = `${first}-${last}`;
    // Compaction may leave a gap before the skipped records, so a run that does not join on is believed the second time.
    if (BigInt(first ?? last) !== position.next && position.doubt !== doubt) {
      position.doubt = doubt;
      this.#seek(partition, position.next);
      return;
    }
    position.next = BigInt(last) + 1n;
    position.doubt = null;
    this.#handler.skipped(partition, position.next);
  }

  #seek(partition: number, offset: bigint): void {
    this.#consumer?.seek({ topic: this.#options.topic, partition, offset: String(offset) });
  }

  async #restart(cause: unknown): Promise<void> {
    this.#consumer = null;
    this.#positions.clear();
    this.#handler.unassigned();
    for (let error = cause; !this.#stop.signal.aborted; ) {
      const failure = kafkaError(error, `reading the topic ${this.#options.topic} failed`);
      this.#failures++;
      const patient = failure.code === 'kafka_topic_missing' && this.#failures <= TOPIC_MISSING_PATIENCE;
      // The policy for a lost offset is applied when the next start offset is looked up.
      const hopeless = isHopeless(failure) && !patient && failure.code !== 'kafka_offset_lost';
      if (hopeless) return this.#handler.failed(failure);
      this.#handler.restarting(failure);
      // Keeps the process alive: with every broker gone nothing else may do so.
      await sleep(backoffMs(this.#failures), undefined, { signal: this.#stop.signal }).catch(() => {});
      if (this.#stop.signal.aborted) return;
      try {
        return await this.#open();
      } catch (again) {
        error = again;
      }
    }
  }

  #watch(): void {
    const consumer = this.#consumer;
    if (!consumer || performance.now() - this.#lastSign < STALL_MS) return;
    inBackground('leaving a group', () => consumer.disconnect().catch(() => {}));
    inBackground('restarting a consumer', () => this.#restart(new Error(`no fetch ended within ${STALL_MS} ms`)));
  }
}

/** Exponential backoff from 100 ms, with jitter so that members of a group do not retry in lockstep. */
export function backoffMs(failures: number): number {
  return Math.min(MAX_BACKOFF_MS, 100 * 2 ** Math.min(failures, 10)) * (0.5 + Math.random() / 2);
}

/** kafkajs cannot write null header values, so they become empty ones. */
function headersOf(headers: Record<string, unknown> | undefined): RecordHeaders {
  const clean: Record<string, Buffer | Buffer[]> = {};
  for (const name in headers) {
    const value = headers[name];
    if (Array.isArray(value)) clean[name] = value.map((v: Buffer | null) => v ?? Buffer.alloc(0));
    else clean[name] = (value as Buffer | null) ?? Buffer.alloc(0);
  }
  return clean;
}
