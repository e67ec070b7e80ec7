// Processes the records of a topic with `process` and writes the results to another topic, exactly once.
// Has one lease per partition.

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
  /** null: `process` sets the topic of every record. */
  outputTopic: string | null;
  /** Further topics to which `process` may send records. They must exist at the start. */
  routedTopics?: readonly string[];
  /** null: `process` must not reject records. */
  deadLetterTopic: string | null;
  /** Further topics to which rejected records may be sent. They must exist at the start. */
  letterTopics?: readonly string[];
  /** The original topic of the records, if they are read from another topic such as a retry topic. Default: `topic`. */
  originTopic?: string;
  /**
   * How to choose the partition of an answer. Default: the partition of its application. This requires that all topics
   * have the same number of partitions.
   */
  partitioning?: Partitioning | null;
  /** Maximum time to wait until an output topic has as many partitions as its input, ms. Default: 600,000. */
  partitionPatienceMs?: number;
  /**
   * Answers a micro-batch. After a retryable SluiceError it is called again; any other error ends the run. It is called
   * for one batch per partition at a time. It must not have side effects, because a batch may be repeated after a
   * failure.
   */
  process: (batch: MicroBatch, signal: AbortSignal) => Promise<BatchResult>;
  /** Default: exactly_once. */
  delivery?: 'exactly_once' | 'at_least_once';
  /** Maximum records per transaction. Default: 4096. */
  transactionRows?: number;
  /** Timeout of a transaction, ms. A member that was killed can block readers for this time. Default: 10,000. */
  transactionTimeoutMs?: number;
  /** Minimum time between the starts of two transactions, ms. Default: 20. */
  commitIntervalMs?: number;
  /**
   * Whether a transaction covers all partitions of the member or a single partition. Default: `member` if brokers can
   * fence by the generation of the member, else `partition`.
   */
  transactionOf?: 'member' | 'partition';
  /** Default: none. */
  compression?: BatchCompression;
  /** Maximum attempts of `process` on one batch. Default: 10. */
  processAttempts?: number;
  observer?: KafkaObserver;
  /** UNSAFE, for tests only: false disables fencing. If a member then stalls, records are answered twice. */
  fencing?: boolean;
}

interface ProcessorReport extends Readonly<KafkaCounters> {
  /** For each partition for which answers were written: the offset after the last answered record. */
  readonly positions: ReadonlyMap<number, bigint>;
  /**
   * false: the deadline passed, and unfinished batches were abandoned. The next owner of the partition reads them
   * again.
   */
  readonly drained: boolean;
}

/** Time after the deadline within which leases must end, ms. Leases that take longer are abandoned. */
const ABANDON_PATIENCE_MS = 2_000;

interface Progress {
  /** The offset at which the partition is caught up: its end when it was first assigned to this member. */
  goal: bigint;
  /** Offset after all fetched records, including control records. */
  fetched: bigint;
  /** Offset after the last record that was passed to the lease. */
  offered: bigint;
  /** Offset after the last answered record, or the offset at which reading started. */
  next: bigint;
  /** Whether this member wrote answers for the partition. */
  written: boolean;
}

/** A processor can be started once and stopped once. `done` settles when it has ended. */
export class TransactionalProcessor {
  /** Resolves after `stop` or when caught up; rejects with the SluiceError that ended the run. */
  readonly done: Promise<void>;
  readonly counters: KafkaCounters = newCounters();
  readonly #options: ProcessorOptions;
  readonly #lease: LeaseOptions;
  readonly #directory: TopicDirectory;
  readonly #consumer: GroupMember;
  readonly #leases = new Map<number, PartitionLease>();
  /** For each partition: resolves when its earlier leases have ended. */
  readonly #ending = new Map<number, Promise<void>>();
  readonly #inFlight: InFlight;
  readonly #progress = new Map<number, Progress>();
  readonly #lag: LagMeter;
  readonly #partitions: OutputPartitions;
  /** The member identity in the last assignment; null: offsets are not fenced by generation. */
  #identity: MemberIdentity | null = null;
  #committer: Committer | null = null;
  #byGeneration = false;
  /** Number of input partitions at the start. A partition that is added later is always read from its beginning. */
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
      startAt: options.startAt,
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
   * kafka_partitions_differ | kafka_config (also if delivery is exactly_once and the client has no transactions)
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

  /**
   * Connects to the brokers and chooses between one committer for all partitions and one per partition. One committer
   * is possible only if the group generation alone identifies the owner of a partition.
   */
  async #chooseCommitter(): Promise<void> {
    const { memberTransactions } = await this.#directory.connect();
    const { group, topic, instanceId, transactionOf } = this.#options;
    const { delivery, commits } = this.#lease;
    this.#byGeneration = memberTransactions && commits.fencing;
    if (transactionOf === 'partition' || (delivery === 'exactly_once' && !this.#byGeneration)) return;
    // A member with an instance name ends its own open transaction when it returns. The open transaction of any other
    // member ends by its timeout.
    const id = transactionalId(group, topic, instanceId ?? crypto.randomUUID());
    const options = { ...commits, of: null, transactionalId: delivery === 'exactly_once' ? id : null };
    this.#committer = new Committer(options, this.#commitHost());
  }

  /** Number of uncommitted records for each partition of this member. */
  lag(): ReadonlyMap<number, number> {
    return this.#lag.lags;
  }

  /** Bytes of records in memory, and their limit. */
  get held(): Held {
    return { bytes: [...this.#leases.values()].reduce((sum, l) => sum + l.bytes, 0), budget: this.#inFlight.budget };
  }

  /** Properties of a topic. @throws SluiceError kafka_topic_missing */
  facts(topic: string): Promise<TopicFacts> {
    return this.#directory.facts(topic);
  }

  get paused(): boolean {
    return this.#gate !== null;
  }

  /** Starts no further batch until `resume`. The member stays in the group and completes current batches. */
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
   * Completes current batches and leaves the group. Batches that are not complete after `deadlineMs` are abandoned.
   * Idempotent: later calls return the report of the first call.
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
          // If all records in front of the control records were answered, the control records are committed too.
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
        // Brokers cannot reject outdated offsets from a committer for all partitions if the request has no member
        // identity.
        if (this.#committer && this.#byGeneration && !this.#identity)
          throw new SluiceError('kafka_rebalanced', 'this member is not in the group');
        return this.#byGeneration ? this.#identity : null;
      },
      commit: (offsets, topicIds) => this.#consumer.commit(offsets, topicIds),
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
        // Records from a retry topic passed this check when they were first read.
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
      startAt: (partition, { offset, end, topicId }) => {
        this.#inFlight.forget(partition);
        const before = this.#progress.get(partition);
        const { goal = end, written = false } = before ?? {};
        const [fetched, offered, next] = [offset, offset, offset];
        this.#progress.set(partition, { goal, fetched, offered, next, written });
        this.#consumer.startAt(partition, offset, topicId);
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
    // Both offsets are checked, because skipped records at the end of a partition are never answered.
    const all = [...this.#leases.keys()].map((p) => this.#progress.get(p));
    if (all.every((p) => p !== undefined && p.fetched >= p.goal && p.next >= p.offered)) this.#finish.resolve();
  }

  async #refresh(): Promise<void> {
    try {
      await this.#directory.refresh();
      await this.#partitions.look();
    } catch {
      // The error is ignored: the next transaction repeats the query and reports the failure.
    }
  }

  #fail(error: SluiceError): void {
    this.#finish.reject(error);
    inBackground('stopping a processor', () => this.stop(0));
  }
}

/** The options of all leases, with defaults applied. */
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
