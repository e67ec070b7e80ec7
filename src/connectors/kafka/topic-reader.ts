// Reads a topic in order and commits offsets on request.
// This is the plain consumer for runs that write a topic to files or tables.
import { inBackground } from '../../core/async.ts';
import { sleep } from '../../core/clock.ts';
import { SluiceError } from '../../core/errors.ts';
import type { Held } from '../../core/flow.ts';
import { saysOf } from '../../core/log.ts';
import { kafkaClient } from './choose-client.ts';
import { backoffMs, isHopeless, kafkaError } from './client/failures.ts';
import type { GroupMember, TopicIds } from './client/kafka-client.ts';
import type { IncomingRecord, MicroBatch } from './client/records.ts';
import { LagMeter } from './lag.ts';
import type { KafkaObserver } from './observer.ts';
import { InFlight, PartitionBuffer } from './partition-buffer.ts';
import {
  batchLimitsOf,
  memberOptionsOf,
  type OffsetKeeper,
  type ReadingOptions,
  type Start,
  startOffset,
  startPolicyOf,
  type TopicOffset,
} from './reading-options.ts';
import { TopicDirectory } from './topic-directory.ts';

/** A batch with the offset at which the previous batch of its partition ended. */
export interface PlacedBatch extends MicroBatch {
  /** Offset after the previous batch. */
  readonly from: bigint;
  /** The assignment of the partition to this member that the batch belongs to, compared by identity. */
  readonly assignment: object;
}

export interface ReaderOptions extends ReadingOptions {
  /** Stores the offsets. Default: the consumer group stores them. */
  offsets?: OffsetKeeper;
  observer?: Pick<KafkaObserver, 'onLog' | 'onAssigned' | 'onRestart' | 'onLag' | 'onReset' | 'onOffsetLost'>;
}

interface Slot {
  buffer: PartitionBuffer;
  /** Offset after the records that were delivered in this generation. */
  delivered: bigint;
  /** Offset after the fetched records. */
  fetched: bigint;
  goal: bigint;
  /** The topic that the records belong to; null: unknown. */
  topicId: string | null;
}

/** Maximum number of batches, over all partitions, that wait for the iterator. */
const MAX_WAITING = 2;

/** A reader is iterated once. The caller calls `commit` between batches and `stop` at the end. */
export class TopicReader implements AsyncDisposable {
  readonly #options: ReaderOptions;
  readonly #directory: TopicDirectory;
  readonly #consumer: GroupMember;
  readonly #slots = new Map<number, Slot>();
  readonly #lag: LagMeter;
  readonly #inFlight: InFlight;
  readonly #waiting: MicroBatch[] = [];
  #generation = 0;
  /** Number of partitions in this generation. Their slots are added one by one. */
  #assigned = 0;
  #ended = false;
  #failure: SluiceError | null = null;
  #wake: (() => void)[] = [];

  private constructor(options: ReaderOptions) {
    this.#options = options;
    this.#directory = new TopicDirectory(options.connection);
    const { observer } = options;
    this.#lag = new LagMeter({
      connection: options.connection,
      directory: this.#directory,
      topic: options.topic,
      group: options.group,
      startAt: options.startAt,
      onLag: observer?.onLag?.bind(observer),
    });
    this.#consumer = kafkaClient().member(memberOptionsOf(options), {
      assigned: ({ added, kept }) => this.#assign([...added, ...kept]),
      revoked: () => this.#drop(),
      records: (partition, records, next, highWatermark) => {
        this.#lag.fetched(partition, records, next, highWatermark);
        this.#receive(partition, records, next);
      },
      skipped: (partition, next) => this.#receive(partition, [], next),
      reset: (partition, offset) => observer?.onReset?.({ partition, offset }),
      restarting: (error) => observer?.onRestart?.({ reason: saysOf(error) }),
      failed: (error) => this.fail(error),
      ...(observer?.onLog ? { log: observer.onLog.bind(observer) } : {}),
    });
    this.#inFlight = new InFlight({
      maxBytes: options.maxInFlightBytes,
      pause: (partition) => this.#consumer.pause([partition]),
      resume: (partition) => this.#consumer.resume([partition]),
    });
  }

  /**
   * Checks the topic and joins the group.
   * @throws SluiceError kafka_unreachable | kafka_authentication | kafka_not_authorized | kafka_topic_missing
   */
  static async start(options: ReaderOptions): Promise<TopicReader> {
    const reader = new TopicReader(options);
    try {
      await reader.#directory.connect();
      await reader.#directory.facts(options.topic);
      await reader.#consumer.start();
    } catch (error) {
      await reader.stop();
      throw error;
    }
    return reader;
  }

  /**
   * Yields batches of all partitions. The batches of a partition are in order.
   * @throws SluiceError the error that ended reading
   */
  async *[Symbol.asyncIterator](): AsyncGenerator<PlacedBatch> {
    for (;;) {
      const batch = this.#waiting.shift();
      if (batch) {
        this.#changed();
        const slot = this.#slots.get(batch.partition);
        if (!slot) continue;
        const from = slot.delivered;
        slot.delivered = batch.next;
        yield { ...batch, from, assignment: slot };
        slot.buffer.release(batch.bytes);
        this.#limit(batch.partition);
        continue;
      }
      if (this.#failure) throw this.#failure;
      if (this.#ended || this.#caughtUp()) return;
      await this.#change();
    }
  }

  /** Whether an assignment of the partition is the current one. It ends with a rebalance, a restart or `stop`. */
  isCurrent({ partition, assignment }: Pick<PlacedBatch, 'partition' | 'assignment'>): boolean {
    return this.#slots.get(partition) === assignment;
  }

  /**
   * Commits offsets. `positions`: the offset `next` of batches that are safely stored, by partition. Returns the
   * partitions that were revoked, or reassigned in another generation, since these batches were read. Their records
   * since the last commit are read again by this or another member.
   */
  async commit(positions: ReadonlyMap<number, bigint>): Promise<readonly number[]> {
    const lost: number[] = [];
    const safe = new Map<number, bigint>();
    const topicIds = new Map<number, string | null>();
    for (const [partition, next] of positions) {
      const slot = this.#slots.get(partition);
      if (slot && next <= slot.delivered) {
        safe.set(partition, next);
        topicIds.set(partition, slot.topicId);
      } else lost.push(partition);
    }
    if (safe.size === 0) return lost;
    try {
      await this.#consumer.commit(safe, topicIds);
      for (const [partition, next] of safe) this.#lag.committed(partition, next);
    } catch (error) {
      if (!(error instanceof SluiceError && error.code === 'kafka_rebalanced')) throw error;
      lost.push(...safe.keys());
    }
    return lost;
  }

  /**
   * Discards the records of a partition in memory and continues at the committed offset. Does nothing if the partition
   * belongs to another member.
   */
  restart(partition: number): void {
    const slot = this.#slots.get(partition);
    if (!slot) return;
    this.#consumer.pause([partition]);
    slot.buffer.close();
    this.#slots.delete(partition);
    this.#inFlight.forget(partition);
    this.#waiting.splice(0, Infinity, ...this.#waiting.filter((batch) => batch.partition !== partition));
    this.#changed();
    inBackground('opening a partition', () => this.#open(partition, this.#generation));
  }

  /** Number of uncommitted records for each partition of this member. */
  lag(): ReadonlyMap<number, number> {
    return this.#lag.lags;
  }

  /** Bytes of records in memory, and their limit. */
  get held(): Held {
    return {
      bytes: [...this.#slots.values()].reduce((sum, { buffer }) => sum + buffer.bytes, 0),
      budget: this.#inFlight.budget,
    };
  }

  /** Ends the iteration with an error. After the first call, further calls have no effect. */
  fail(error: SluiceError): void {
    this.#failure ??= error;
    this.#drop();
  }

  /** Leaves the group and ends the iteration. Idempotent. */
  async stop(): Promise<void> {
    this.#ended = true;
    this.#lag.stop();
    this.#drop();
    this.#changed();
    await this.#consumer.stop();
    await this.#directory.close();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.stop();
  }

  #assign(partitions: readonly number[]): void {
    this.#drop();
    this.#assigned = partitions.length;
    this.#options.observer?.onAssigned?.({ partitions });
    this.#lag.assign(partitions);
    for (const partition of partitions) {
      inBackground('opening a partition', () => this.#open(partition, this.#generation));
    }
  }

  async #open(partition: number, generation: number): Promise<void> {
    const { topic } = this.#options;
    for (let failures = 0; generation === this.#generation && !this.#ended; failures++) {
      try {
        const { offset, end, topicId } = await this.#startOf(partition);
        if (generation !== this.#generation || this.#ended || this.#slots.has(partition)) return;
        this.#options.offsets?.started(partition, { offset, topicId });
        const buffer = new PartitionBuffer(topic, partition, batchLimitsOf(this.#options));
        this.#inFlight.forget(partition);
        this.#slots.set(partition, { buffer, delivered: offset, fetched: offset, goal: end, topicId });
        this.#consumer.startAt(partition, offset, topicId);
        this.#lag.start(partition, offset, end);
        this.#changed();
        return await this.#pump(buffer);
      } catch (error) {
        const failure = kafkaError(error, `partition ${partition} of ${topic}`);
        if (isHopeless(failure) || failure.code === 'database_refused') return this.fail(failure);
        await sleep(backoffMs(failures));
      }
    }
  }

  #startOf(partition: number): Promise<Start> {
    const policy = startPolicyOf(this.#options, this.#options.observer);
    const { offsets } = this.#options;
    if (!offsets) return startOffset(this.#directory, policy, partition, this.#consumer);
    let stored: TopicOffset | null = null;
    const directory = {
      topicId: (topic: string) => this.#directory.topicId(topic),
      committed: async () => {
        stored = await offsets.committed(partition);
        return stored;
      },
      range: (topic: string, of: number) => this.#directory.range(topic, of),
    };
    const keeper = {
      commit: async (at: ReadonlyMap<number, bigint>, topicIds?: TopicIds) =>
        offsets.begin(partition, stored, { offset: at.get(partition)!, topicId: topicIds?.get(partition) ?? null }),
    };
    return startOffset(directory, policy, partition, keeper);
  }

  async #pump(buffer: PartitionBuffer): Promise<void> {
    for (;;) {
      const batch = await buffer.take();
      if (!batch) return;
      while (this.#waiting.length >= MAX_WAITING && !this.#ended) await this.#change();
      if (this.#slots.get(batch.partition)?.buffer !== buffer) return;
      this.#waiting.push(batch);
      this.#changed();
    }
  }

  #receive(partition: number, records: readonly IncomingRecord[], next: bigint): void {
    const slot = this.#slots.get(partition);
    if (!slot) return;
    slot.fetched = next;
    slot.buffer.push(records, next);
    this.#limit(partition);
    this.#changed();
  }

  #limit(partition: number): void {
    const slot = this.#slots.get(partition);
    if (slot) this.#inFlight.update(partition, slot.buffer.bytes, this.#slots.size);
  }

  /** Whether all records up to the goals were fetched and processed. */
  #caughtUp(): boolean {
    if (!this.#options.untilCaughtUp || this.#assigned === 0 || this.#slots.size < this.#assigned) return false;
    return [...this.#slots.values()].every((s) => s.fetched >= s.goal && s.buffer.bytes === 0);
  }

  #drop(): void {
    this.#generation++;
    this.#assigned = 0;
    for (const { buffer } of this.#slots.values()) buffer.close();
    this.#slots.clear();
    this.#inFlight.clear();
    this.#waiting.length = 0;
    this.#changed();
  }

  #change(): Promise<void> {
    return new Promise((resolve) => this.#wake.push(resolve));
  }

  #changed(): void {
    for (const wake of this.#wake.splice(0)) wake();
  }
}
