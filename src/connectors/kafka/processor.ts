// Processes one topic into another through `process`, exactly once: a group member with a lease for each of its partitions.

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
  /** Further topics that `process` uses. They must exist at the start. */
  routedTopics?: readonly string[];
  /** null: `process` must not reject records. */
  deadLetterTopic: string | null;
  /** Further topics that rejected records use. They must exist at the start. */
  letterTopics?: readonly string[];
  /** Original topic of the records, if they arrive through another topic such as a retry topic. Default: `topic`. */
  originTopic?: string;
  /**
   * How to choose the partition of an answer. Default: its application's partition, if all topics have the same number
   * of partitions.
   */
  partitioning?: Partitioning | null;
  /** Longest wait for an output topic to get as many partitions as its input, ms. Default 600,000. */
  partitionPatienceMs?: number;
  /**
   * Answers a micro-batch. A retryable SluiceError causes another attempt; any other error ends the run. Called for one
   * batch per partition at a time. A batch may be repeated after a failure, so `process` must not have side effects.
   */
  process: (batch: MicroBatch, signal: AbortSignal) => Promise<BatchResult>;
  /** Default: exactly_once. */
  delivery?: 'exactly_once' | 'at_least_once';
  /** Default 4096. */
  transactionRows?: number;
  /** Default 10,000, ms. A member that died can block readers for this long. */
  transactionTimeoutMs?: number;
  /** Minimum time between the starts of two transactions, ms. Default 20. */
  commitIntervalMs?: number;
  /** Scope of a transaction. Default: `member` if brokers can fence by its generation, else `partition`. */
  transactionOf?: 'member' | 'partition';
  /** Default: none. */
  compression?: BatchCompression;
  /** Maximum attempts of `process` on one batch. Default 10. */
  processAttempts?: number;
  observer?: KafkaObserver;
  /** UNSAFE, for tests only. false disables fencing, so that records are answered twice when a member stalls. */
  fencing?: boolean;
}

interface ProcessorReport extends Readonly<KafkaCounters> {
  /** Final offset of each partition for which answers were written. */
  readonly positions: ReadonlyMap<number, bigint>;
  /** false: the deadline passed and unfinished batches were abandoned. The next member reads them again. */
  readonly drained: boolean;
}

/** Leases that do not end within this time after the deadline are abandoned, ms. */
const ABANDON_PATIENCE_MS = 2_000;

interface Progress {
  /** The partition counts as caught up at this offset: its end when this member first got it. */
  goal: bigint;
  /** Offset behind all fetched records, including control records. */
  fetched: bigint;
  /** Offset behind the last record passed to the lease. */
  offered: bigint;
  /** Offset behind the last record answered, or where reading started. */
  next: bigint;
  /** Whether this member wrote answers for the partition. */
  written: boolean;
}

/** A processor is started once and stopped once; `done` settles with the outcome. */
export class TransactionalProcessor {
  /** Resolves after `stop` or when caught up; rejects with the SluiceError that ended the run. */
  readonly done: Promise<void>;
  readonly counters: KafkaCounters = newCounters();
  readonly #options: ProcessorOptions;
  readonly #lease: LeaseOptions;
  readonly #directory: TopicDirectory;
  readonly #consumer: GroupMember;
  readonly #leases = new Map<number, PartitionLease>();
  /** Resolves when earlier leases of the partition have ended. */
  readonly #ending = new Map<number, Promise<void>>();
  readonly #inFlight: InFlight;
  readonly #progress = new Map<number, Progress>();
  readonly #lag: LagMeter;
  readonly #partitions: OutputPartitions;
  /** Member identity in the last assignment; null: generations are not used for fencing. */
  #identity: MemberIdentity | null = null;
  #committer: Committer | null = null;
  #byGeneration = false;
  /** Number of input partitions at the start. Partitions added later are always read from the beginning. */
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
   * kafka_partitions_differ | kafka_config (also for exactly_once with a client without transactions)
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

  /** Connects. One committer can serve all partitions only if the group generation alone identifies their owner. */
  async #chooseCommitter(): Promise<void> {
    const { memberTransactions } = await this.#directory.connect();
    const { group, topic, instanceId, transactionOf } = this.#options;
    const { delivery, commits } = this.#lease;
    this.#byGeneration = memberTransactions && commits.fencing;
    if (transactionOf === 'partition' || (delivery === 'exactly_once' && !this.#byGeneration)) return;
    // A member that returns under its instance name ends its own open transaction. For other members, the timeout ends
    // it.
    const id = transactionalId(group, topic, instanceId ?? crypto.randomUUID());
    const options = { ...commits, of: null, transactionalId: delivery === 'exactly_once' ? id : null };
    this.#committer = new Committer(options, this.#commitHost());
  }

  /** Number of uncommitted records, by partition of this member. */
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

  /** Starts no batch until `resume`. The member stays in the group and finishes current batches. */
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
   * Finishes current batches, abandons them after `deadlineMs`, and leaves the group. Idempotent: later calls return
   * the report of the first.
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
          // All records before the control records are answered.
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
        // Without an identity, brokers would never reject offsets from a committer for all partitions.
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
        // For records from a retry topic, this was checked when they were first read.
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
    // Skipped records at the end are never answered, so both offsets are checked.
    const all = [...this.#leases.keys()].map((p) => this.#progress.get(p));
    if (all.every((p) => p !== undefined && p.fetched >= p.goal && p.next >= p.offered)) this.#finish.resolve();
  }

  async #refresh(): Promise<void> {
    try {
      await this.#directory.refresh();
      await this.#partitions.look();
    } catch {
      // The next transaction repeats the query, and its failure is reported.
    }
  }

  #fail(error: SluiceError): void {
    this.#finish.reject(error);
    inBackground('stopping a processor', () => this.stop(0));
  }
}

/** The options of the leases, with defaults applied. */
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
