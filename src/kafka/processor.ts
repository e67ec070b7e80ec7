// From one topic to another through `process`, exactly once: a member of a group with a lease for each of its partitions.

import type { SluiceError } from '../core/errors.ts';
import { inBackground } from '../core/in-background.ts';
import { within } from '../core/within.ts';
import { kafkaClient } from './choose-client.ts';
import type { BatchCompression } from './client/codecs.ts';
import type { BrokerFeatures, GroupMember, MemberEvents } from './client/kafka-client.ts';
import type { BatchResult, MicroBatch } from './client/records.ts';
import { InFlight } from './in-flight.ts';
import { LagMeter } from './lag.ts';
import { type KafkaCounters, type KafkaObserver, newCounters } from './observer.ts';
import { type LeaseHost, type LeaseOptions, PartitionLease } from './partition-lease.ts';
import { batchLimitsOf, memberOptionsOf, type ReadingOptions, startPolicyOf } from './reading-options.ts';
import { TopicDirectory } from './topic-directory.ts';

export interface ProcessorOptions extends ReadingOptions {
  /** null: `process` names the topic of every record. */
  outputTopic: string | null;
  /** Further topics that `process` names: they have to be there at the start. */
  routedTopics?: readonly string[];
  /** null: nothing may be rejected. */
  deadLetterTopic: string | null;
  /**
   * Answers a micro-batch. A retryable SluiceError is tried again, any other error ends the run. Called for one batch a
   * partition at a time; a batch may come again after a failure, so it must not have effects of its own.
   */
  process: (batch: MicroBatch, signal: AbortSignal) => Promise<BatchResult>;
  /** Default: exactly_once. */
  delivery?: 'exactly_once' | 'at_least_once';
  /** Default 4096. */
  transactionRows?: number;
  /** Default 10,000: as long may a member that died hold up readers. */
  transactionTimeoutMs?: number;
  /** Default: none. */
  compression?: BatchCompression;
  /** Attempts of `process` on one batch. Default 10. */
  processAttempts?: number;
  observer?: KafkaObserver;
  /** UNSAFE, for tests only: false disables fencing, so that records are answered twice when a member stalls. */
  fencing?: boolean;
}

export interface ProcessorReport extends Readonly<KafkaCounters> {
  /** Offset each partition was left at, for those that something was written of. */
  readonly positions: ReadonlyMap<number, bigint>;
  /** false: the deadline passed and batches in hand were given up. They are read again by the next member. */
  readonly drained: boolean;
}

/** Leases that do not end within this time after the deadline are abandoned, ms. */
const ABANDON_PATIENCE_MS = 2_000;

interface Progress {
  /** The partition counts as caught up here: its end when this member got it first. */
  goal: bigint;
  /** Offset behind everything seen, control records included. */
  fetched: bigint;
  /** Offset behind the last record handed to the lease. */
  offered: bigint;
  /** Offset behind the last record answered, or where reading started. */
  next: bigint;
  /** Whether something was answered here. */
  written: boolean;
}

/** Start once, `stop` once; `done` settles with the outcome. */
export class TransactionalProcessor {
  /** Resolves after `stop` or when caught up; rejects with the SluiceError that ended the run. */
  readonly done: Promise<void>;
  readonly counters: KafkaCounters = newCounters();
  readonly #options: ProcessorOptions;
  readonly #lease: LeaseOptions;
  readonly #directory: TopicDirectory;
  readonly #consumer: GroupMember;
  readonly #leases = new Map<number, PartitionLease>();
  /** What earlier leases of a partition still have to finish. */
  readonly #ending = new Map<number, Promise<void>>();
  readonly #inFlight: InFlight;
  readonly #progress = new Map<number, Progress>();
  readonly #lag: LagMeter;
  #features: BrokerFeatures = { memberTransactions: false };
  readonly #finish = Promise.withResolvers<void>();
  #gate: PromiseWithResolvers<void> | null = null;
  #refresher: NodeJS.Timeout | undefined;
  #stopping: Promise<ProcessorReport> | null = null;

  private constructor(options: ProcessorOptions) {
    this.#options = options;
    this.done = this.#finish.promise;
    this.done.catch(() => {});
    this.#lease = {
      connection: options.connection,
      ...startPolicyOf(options),
      ...batchLimitsOf(options),
      outputTopic: options.outputTopic,
      deadLetterTopic: options.deadLetterTopic,
      writes: [options.outputTopic, options.deadLetterTopic, ...(options.routedTopics ?? [])].filter((t) => t !== null),
      delivery: options.delivery ?? 'exactly_once',
      compression: options.compression ?? 'none',
      transactionTimeoutMs: options.transactionTimeoutMs ?? 10_000,
      transactionRows: options.transactionRows ?? 4096,
      processAttempts: options.processAttempts ?? 10,
      fencing: options.fencing ?? true,
    };
    this.#directory = new TopicDirectory(options.connection);
    this.#lag = new LagMeter({
      directory: this.#directory,
      topic: options.topic,
      group: options.group,
      onLag: options.observer?.onLag?.bind(options.observer),
    });
    this.#consumer = kafkaClient().member(memberOptionsOf(options), this.#memberEvents());
    this.#inFlight = new InFlight({
      maxBytes: options.maxInFlightBytes,
      pause: (partition) => this.#consumer.pause([partition]),
      resume: (partition) => {
        if (!this.#gate) this.#consumer.resume([partition]);
      },
    });
  }

  /**
   * Checks the topics and joins the group.
   * @throws SluiceError kafka_unreachable | kafka_authentication | kafka_not_authorized | kafka_topic_missing |
   *   kafka_config
   */
  static async start(options: ProcessorOptions): Promise<TransactionalProcessor> {
    const processor = new TransactionalProcessor(options);
    try {
      processor.#features = await processor.#directory.connect();
      for (const topic of [
        options.topic,
        options.outputTopic,
        options.deadLetterTopic,
        ...(options.routedTopics ?? []),
      ]) {
        if (topic !== null) await processor.#directory.facts(topic);
      }
      await processor.#consumer.start();
    } catch (error) {
      await processor.stop(0);
      throw error;
    }
    processor.#refresher = setInterval(
      () => inBackground('refreshing a topic', () => processor.#refresh()),
      options.metadataMaxAgeMs ?? 30_000,
    );
    processor.#refresher.unref();
    return processor;
  }

  /** Records not yet committed, by partition of this member. */
  lag(): ReadonlyMap<number, number> {
    return this.#lag.lags;
  }

  get paused(): boolean {
    return this.#gate !== null;
  }

  /** Starts no batch until `resume`; the member stays in the group and finishes batches in hand. */
  pause(reason: string): void {
    if (this.#gate) return;
    this.#gate = Promise.withResolvers();
    this.#consumer.pause([...this.#leases.keys()]);
    this.#options.observer?.onPaused?.({ reason });
  }

  resume(): void {
    if (!this.#gate) return;
    this.#gate.resolve();
    this.#gate = null;
    this.#consumer.resume([...this.#leases.keys()].filter((p) => !this.#inFlight.isFull(p)));
    this.#options.observer?.onPaused?.({ reason: null });
  }

  /**
   * Finishes the batches in hand, gives them up after `deadlineMs`, and leaves the group. Idempotent: later calls get the
   * report of the first.
   */
  stop(deadlineMs: number): Promise<ProcessorReport> {
    this.#stopping ??= this.#stop(deadlineMs);
    return this.#stopping;
  }

  async #stop(deadlineMs: number): Promise<ProcessorReport> {
    clearInterval(this.#refresher);
    this.#lag.stop();
    const leases = [...this.#leases.values()];
    const ends = Promise.all([...leases.map((l) => l.drain()), ...this.#ending.values()]);
    const drained = await within(ends, deadlineMs);
    if (!drained) {
      for (const lease of leases) inBackground('abandoning a lease', () => lease.abandon());
      await within(ends, ABANDON_PATIENCE_MS);
    }
    await within(this.#consumer.stop(), ABANDON_PATIENCE_MS);
    await this.#directory.close();
    this.#leases.clear();
    this.#finish.resolve();
    const written = [...this.#progress].filter(([, p]) => p.written);
    return { ...this.counters, positions: new Map(written.map(([partition, p]) => [partition, p.next])), drained };
  }

  #memberEvents(): MemberEvents {
    const { observer } = this.#options;
    return {
      assigned: ({ added, kept }) => this.#assign([...added, ...kept]),
      revoked: () => this.#release(),
      records: (partition, records, next, end) => {
        const progress = this.#progress.get(partition);
        if (progress) Object.assign(progress, { fetched: next, offered: next });
        this.#leases.get(partition)?.offer(records, next);
        this.#lag.end(partition, end);
        this.#limit(partition);
      },
      skipped: (partition, next) => {
        const progress = this.#progress.get(partition);
        if (progress) {
          progress.fetched = next;
          // Nothing is left to answer before the control records.
          if (progress.next >= progress.offered) this.#lag.committed(partition, next);
        }
        this.#endIfCaughtUp();
      },
      reset: (partition, offset) => {
        this.counters.resets++;
        observer?.onReset?.({ partition, offset });
      },
      restarting: (error) => {
        this.counters.restarts++;
        observer?.onRestart?.({ reason: error.message });
      },
      failed: (error) => this.#fail(error),
      ...(observer?.onLog ? { log: observer.onLog.bind(observer) } : {}),
    };
  }

  #leaseHost(): LeaseHost {
    const { observer, process } = this.#options;
    return {
      directory: this.#directory,
      identity: this.#features.memberTransactions && this.#lease.fencing ? this.#consumer.identity : null,
      process,
      ready: async (signal) => {
        while (this.#gate && !signal.aborted) {
          const aborted = Promise.withResolvers<void>();
          const onAbort = () => aborted.resolve();
          signal.addEventListener('abort', onAbort, { once: true });
          await Promise.race([this.#gate.promise, aborted.promise]);
          signal.removeEventListener('abort', onAbort);
        }
      },
      startAt: (partition, offset, end) => {
        this.#inFlight.forget(partition);
        const before = this.#progress.get(partition);
        const { goal = end, written = false } = before ?? {};
        const [fetched, offered, next] = [offset, offset, offset];
        this.#progress.set(partition, { goal, fetched, offered, next, written });
        this.#consumer.startAt(partition, offset);
        if (this.#gate) this.#consumer.pause([partition]);
        this.#lag.start(partition, offset, end);
        this.#endIfCaughtUp();
      },
      halt: (partition) => {
        this.#inFlight.forget(partition);
        this.#consumer.pause([partition]);
      },
      commit: (partition, next) => this.#consumer.commit(new Map([[partition, next]])),
      isMember: () => this.#consumer.isMember(),
      fenced: (partition, ms) => {
        this.counters.fences++;
        observer?.onFence?.({ partition, ms });
      },
      written: (report) => {
        this.counters.transactions++;
        this.counters.records += report.records;
        this.counters.rejected += report.rejected;
        this.counters.oversized += report.oversized;
        observer?.onTransaction?.(report);
        const progress = this.#progress.get(report.partition);
        if (progress) {
          Object.assign(progress, { next: report.next, written: true });
          const all = report.next >= progress.offered && progress.fetched > report.next;
          this.#lag.committed(report.partition, all ? progress.fetched : report.next);
        }
        this.#endIfCaughtUp();
      },
      aborted: (partition, reason, message) => {
        this.counters.aborts++;
        observer?.onAbort?.({ partition, reason, message });
      },
      released: (partition) => this.#limit(partition),
      failed: (error) => this.#fail(error),
    };
  }

  #assign(partitions: readonly number[]): void {
    if (this.#stopping) return;
    this.#release();
    this.counters.rebalances++;
    this.#options.observer?.onAssigned?.({ partitions });
    this.#lag.assign(partitions);
    inBackground('refreshing a topic', () => this.#refresh());
    for (const partition of partitions) {
      const before = this.#ending.get(partition) ?? Promise.resolve();
      this.#leases.set(partition, new PartitionLease(partition, this.#lease, this.#leaseHost(), before));
    }
  }

  #release(): void {
    for (const [partition, lease] of this.#leases) {
      const end = lease.abandon().then(() => {
        if (this.#ending.get(partition) === end) this.#ending.delete(partition);
      });
      this.#ending.set(partition, end);
    }
    this.#leases.clear();
    this.#inFlight.clear();
  }

  #limit(partition: number): void {
    const lease = this.#leases.get(partition);
    if (lease) this.#inFlight.update(partition, lease.bytes, this.#leases.size);
  }

  #endIfCaughtUp(): void {
    if (!this.#options.untilCaughtUp || this.#leases.size === 0) return;
    // What was skipped at the end is never answered, so both are looked at.
    const all = [...this.#leases.keys()].map((p) => this.#progress.get(p));
    if (all.every((p) => p !== undefined && p.fetched >= p.goal && p.next >= p.offered)) this.#finish.resolve();
  }

  async #refresh(): Promise<void> {
    try {
      await this.#directory.refresh();
    } catch {
      // The next transaction asks again, and its failure is reported.
    }
  }

  #fail(error: SluiceError): void {
    this.#finish.reject(error);
    inBackground('stopping a processor', () => this.stop(0));
  }
}
