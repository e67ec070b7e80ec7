// From one topic to another through `process`, exactly once: a member of a group with a lease for each of its partitions.

import { inBackground, within } from '../../core/async.ts';
import { startInterval, stopTimer, type Timer } from '../../core/clock.ts';
import { SluiceError } from '../../core/errors.ts';
import type { Held } from '../../core/flow.ts';
import { saysOf } from '../../core/log.ts';
import { kafkaClient, requireTransactions } from './choose-client.ts';
import type { BatchCompression } from './client/codecs.ts';
import type { GroupMember, MemberEvents, MemberIdentity } from './client/kafka-client.ts';
import type { BatchResult, MicroBatch } from './client/records.ts';
import { Committer, type CommitterHost } from './committer.ts';
import { LagMeter } from './lag.ts';
import { type KafkaCounters, type KafkaObserver, newCounters, type TransactionReport } from './observer.ts';
import { OutputPartitions, type Partitioning } from './output-partitions.ts';
import { InFlight } from './partition-buffer.ts';
import { type LeaseHost, type LeaseOptions, PartitionLease, transactionalId } from './partition-lease.ts';
import { batchLimitsOf, memberOptionsOf, type ReadingOptions, startPolicyOf } from './reading-options.ts';
import { TopicDirectory, type TopicFacts } from './topic-directory.ts';

export interface ProcessorOptions extends ReadingOptions {
  /** null: `process` names the topic of every record. */
  outputTopic: string | null;
  /** Further topics that `process` names: they have to be there at the start. */
  routedTopics?: readonly string[];
  /** null: nothing may be rejected. */
  deadLetterTopic: string | null;
  /** Further topics that rejected records name: they have to be there at the start. */
  letterTopics?: readonly string[];
  /** Topic that the records answered are of, where they come here by another. Default: `topic`. */
  originTopic?: string;
  /** Which partition an answer goes to. Default: that of its application, if all topics have equally many. */
  partitioning?: Partitioning | null;
  /** Longest wait for an output topic that has to grow as its input did, ms. Default 600,000. */
  partitionPatienceMs?: number;
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
  /** Least time from the beginning of a transaction to that of the next, ms. Default 20. */
  commitIntervalMs?: number;
  /** Default: a member where brokers can fence by its generation, else a partition. */
  transactionOf?: 'member' | 'partition';
  /** Default: none. */
  compression?: BatchCompression;
  /** Attempts of `process` on one batch. Default 10. */
  processAttempts?: number;
  observer?: KafkaObserver;
  /** UNSAFE, for tests only: false disables fencing, so that records are answered twice when a member stalls. */
  fencing?: boolean;
}

interface ProcessorReport extends Readonly<KafkaCounters> {
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
  readonly #partitions: OutputPartitions;
  /** Of the last assignment; null: its generation fences no member. */
  #identity: MemberIdentity | null = null;
  #committer: Committer | null = null;
  #byGeneration = false;
  /** Partitions of the input at the start: nothing of a later one was ever to be skipped. */
  #known = Infinity;
  readonly #finish = Promise.withResolvers<void>();
  #gate: PromiseWithResolvers<void> | null = null;
  #refresher: Timer | undefined;
  #stopping: Promise<ProcessorReport> | null = null;

  private constructor(options: ProcessorOptions) {
    this.#options = options;
    this.done = this.#finish.promise;
    this.done.catch(() => {});
    this.#directory = new TopicDirectory(options.connection);
    this.#partitions = new OutputPartitions({
      directory: this.#directory,
      topic: options.originTopic ?? options.topic,
      outputs: [options.outputTopic, ...(options.routedTopics ?? [])].filter((topic) => topic !== null),
      partitioning: options.partitioning ?? null,
      patienceMs: options.partitionPatienceMs,
      onNotice: options.observer?.onNotice?.bind(options.observer),
    });
    this.#lease = leaseOptionsOf(options, this.#partitions);
    this.#lag = new LagMeter({
      connection: options.connection,
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
   *   kafka_partitions_differ | kafka_config (exactly_once with a client without transactions, too)
   */
  static async start(options: ProcessorOptions): Promise<TransactionalProcessor> {
    if (options.delivery !== 'at_least_once') requireTransactions('delivery');
    const processor = new TransactionalProcessor(options);
    try {
      await processor.#chooseCommitter();
      processor.#known = (await processor.#directory.facts(options.topic)).partitions;
      for (const topic of processor.#lease.commits.writes) await processor.#directory.facts(topic);
      await processor.#partitions.decide();
      await processor.#consumer.start();
    } catch (error) {
      await processor.stop(0);
      throw error;
    }
    processor.#refresher = startInterval(
      () => inBackground('refreshing a topic', () => processor.#refresh()),
      options.metadataMaxAgeMs ?? 30_000,
    );
    processor.#refresher.unref();
    return processor;
  }

  /** Connects. One committer for all partitions is possible where nothing else than the generation says whose they are. */
  async #chooseCommitter(): Promise<void> {
    const { memberTransactions } = await this.#directory.connect();
    const { group, topic, instanceId, transactionOf } = this.#options;
    const { delivery, commits } = this.#lease;
    this.#byGeneration = memberTransactions && commits.fencing;
    if (transactionOf === 'partition' || (delivery === 'exactly_once' && !this.#byGeneration)) return;
    // A member that returns under its name ends its own open transaction; for all others the timeout does.
    const id = transactionalId(group, topic, instanceId ?? crypto.randomUUID());
    const options = { ...commits, of: null, transactionalId: delivery === 'exactly_once' ? id : null };
    this.#committer = new Committer(options, this.#commitHost());
  }

  /** Records not yet committed, by partition of this member. */
  lag(): ReadonlyMap<number, number> {
    return this.#lag.lags;
  }

  /** Records in memory, and how much they may be. */
  get held(): Held {
    return { bytes: [...this.#leases.values()].reduce((sum, l) => sum + l.bytes, 0), budget: this.#inFlight.budget };
  }

  /** Facts of one of its topics. @throws SluiceError kafka_topic_missing */
  facts(topic: string): Promise<TopicFacts> {
    return this.#directory.facts(topic);
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
    stopTimer(this.#refresher);
    this.#lag.stop();
    this.#partitions.close();
    const leases = [...this.#leases.values()];
    const ends = Promise.all([...leases.map((l) => l.drain()), ...this.#ending.values()]);
    const drained = await within(ends, deadlineMs);
    if (!drained) {
      for (const lease of leases) inBackground('abandoning a lease', () => lease.abandon());
      await within(ends, ABANDON_PATIENCE_MS);
    }
    await within(this.#consumer.stop(), ABANDON_PATIENCE_MS);
    this.#committer?.close();
    await this.#directory.close();
    this.#leases.clear();
    this.#finish.resolve();
    const written = [...this.#progress].filter(([, p]) => p.written);
    return { ...this.counters, positions: new Map(written.map(([partition, p]) => [partition, p.next])), drained };
  }

  #memberEvents(): MemberEvents {
    const { observer } = this.#options;
    return {
      assigned: ({ added, kept }) => this.#assign(added, kept),
      revoked: (partitions) => this.#release(partitions ?? [...this.#leases.keys()]),
      records: (partition, records, next, end) => {
        const progress = this.#progress.get(partition);
        if (progress) Object.assign(progress, { fetched: next, offered: next });
        this.#leases.get(partition)?.offer(records, next);
        this.#lag.fetched(partition, records, next, end);
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
        observer?.onRestart?.({ reason: saysOf(error) });
      },
      failed: (error) => this.#fail(error),
      ...(observer?.onLog ? { log: observer.onLog.bind(observer) } : {}),
    };
  }

  #commitHost(): CommitterHost {
    const { observer } = this.#options;
    return {
      directory: this.#directory,
      identity: () => {
        // Without it, offsets of a committer for all partitions would never be rejected.
        if (this.#committer && this.#byGeneration && !this.#identity)
          throw new SluiceError('kafka_rebalanced', 'this member is not in the group');
        return this.#byGeneration ? this.#identity : null;
      },
      commit: (offsets) => this.#consumer.commit(offsets),
      fenced: (ms) => {
        this.counters.fences++;
        observer?.onFence?.({ ms });
      },
      committing: (begun) => observer?.onCommitting?.({ begun }),
      written: (report) => this.#written(report),
    };
  }

  #written(report: TransactionReport): void {
    this.counters.transactions++;
    for (const { partition, records, rejected, oversized, next } of report.partitions) {
      this.counters.records += records;
      this.counters.rejected += rejected;
      this.counters.oversized += oversized;
      const progress = this.#progress.get(partition);
      if (!progress) continue;
      Object.assign(progress, { next, written: true });
      const all = next >= progress.offered && progress.fetched > next;
      this.#lag.committed(partition, all ? progress.fetched : next);
    }
    this.#options.observer?.onTransaction?.(report);
    this.#endIfCaughtUp();
  }

  #leaseHost(): LeaseHost {
    const { observer, process } = this.#options;
    return {
      ...this.#commitHost(),
      committer: this.#committer,
      process: async (batch, signal) => {
        // What came by another topic had room when it was first read.
        if (this.#options.originTopic === undefined) await this.#partitions.room(batch.partition, signal);
        return process(batch, signal);
      },
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
      isMember: () => this.#consumer.isMember(),
      aborted: (partition, reason, message) => {
        this.counters.aborts++;
        observer?.onAbort?.({ partition, reason, message });
      },
      released: (partition) => this.#limit(partition),
      failed: (error) => this.#fail(error),
    };
  }

  #assign(added: readonly number[], kept: readonly number[]): void {
    if (this.#stopping) return;
    this.#release([...this.#leases.keys()].filter((p) => !kept.includes(p)));
    this.#identity = this.#consumer.identity;
    const partitions = [...added, ...kept].sort((a, b) => a - b);
    this.counters.rebalances++;
    this.#options.observer?.onAssigned?.({ partitions });
    this.#lag.assign(partitions);
    inBackground('refreshing a topic', () => this.#refresh());
    for (const partition of partitions) {
      if (this.#leases.has(partition)) continue;
      const before = this.#ending.get(partition) ?? Promise.resolve();
      const lease: LeaseOptions = partition < this.#known ? this.#lease : { ...this.#lease, startAt: 'earliest' };
      this.#leases.set(partition, new PartitionLease(partition, lease, this.#leaseHost(), before));
    }
  }

  #release(partitions: readonly number[]): void {
    for (const partition of partitions) {
      const lease = this.#leases.get(partition);
      if (!lease) continue;
      this.#leases.delete(partition);
      this.#inFlight.forget(partition);
      const end = lease.abandon().then(() => {
        if (this.#ending.get(partition) === end) this.#ending.delete(partition);
      });
      this.#ending.set(partition, end);
    }
  }

  #limit(partition: number): void {
    const lease = this.#leases.get(partition);
    if (lease) this.#inFlight.update(partition, lease.bytes, this.#leases.size);
  }

  #endIfCaughtUp(): void {
    if (!this.#options.untilCaughtUp || this.#leases.size === 0) return;
    // Records skipped at the end are never answered, so both are checked.
    const all = [...this.#leases.keys()].map((p) => this.#progress.get(p));
    if (all.every((p) => p !== undefined && p.fetched >= p.goal && p.next >= p.offered)) this.#finish.resolve();
  }

  async #refresh(): Promise<void> {
    try {
      await this.#directory.refresh();
      await this.#partitions.look();
    } catch {
      // The next transaction asks again, and its failure is reported.
    }
  }

  #fail(error: SluiceError): void {
    this.#finish.reject(error);
    inBackground('stopping a processor', () => this.stop(0));
  }
}

/** The options of the leases, with their defaults. */
function leaseOptionsOf(options: ProcessorOptions, partitions: OutputPartitions): LeaseOptions {
  const { connection, group, topic, outputTopic, deadLetterTopic, routedTopics = [], letterTopics = [] } = options;
  return {
    ...startPolicyOf(options, options.observer),
    ...batchLimitsOf(options),
    delivery: options.delivery ?? 'exactly_once',
    processAttempts: options.processAttempts ?? 10,
    commits: {
      connection,
      group,
      topic,
      outputTopic,
      deadLetterTopic,
      partitions,
      writes: [outputTopic, deadLetterTopic, ...routedTopics, ...letterTopics].filter((t) => t !== null),
      compression: options.compression ?? 'none',
      transactionTimeoutMs: options.transactionTimeoutMs ?? 10_000,
      transactionRows: options.transactionRows ?? 4096,
      commitIntervalMs: options.commitIntervalMs ?? 20,
      fencing: options.fencing ?? true,
    },
  };
}
