// A partition while it is assigned to this member. Each record is answered exactly once.
//
// The protocol, for `delivery: exactly_once`:
// 1. Brokers can distinguish the owner of a partition from the previous owner, on any machine. If brokers reject
//    offsets of an ended group generation (KIP-447, Kafka 2.5 and later), member and generation identify the owner. The
//    `transactionalId` then belongs to the member, and one transaction covers all its partitions. Otherwise the
//    `transactionalId` consists of group, topic and partition. It is the same for every owner, and each owner fences
//    it.
// 2. A committer (committer.ts) has a producer with this ID. It opens a new producer after a failure. If each partition
//    has its own ID, it also opens a new producer for every assignment. The partition stays paused.
// 3. Fence: the coordinator raises the epoch. It aborts open transactions of older producers with this ID, completes
//    transactions that it had decided to commit, and rejects these producers from now on. If a restarted broker ended a
//    transaction without notifying the partitions, the recorded decision is now applied to the partitions. The ID that
//    earlier releases used for the partition is fenced too, because an earlier release may be in the group during a
//    rolling update.
// 4. Only then the committed offset is read, when no open transaction can change it. No other member can change it
//    either, because the generation or epoch of the previous owner has ended.
// 5. Reading starts at that offset. Records that were fetched earlier are dropped. If no offset is committed, or if the
//    topic no longer has this offset, `start_at` and `on_offset_lost` determine the start.
// 6. `process` runs outside of transactions, one micro-batch at a time, while the previous transaction is written. So a
//    transaction is open only while it is written, and a slow model does not delay readers of the output topic.
// 7. One transaction writes everything that was processed: outputs, dead letters, and the offsets after the last
//    records. It commits only after every batch was acknowledged. The request that adds the offsets contains the member
//    and the generation of the assignment.
// 8. After any error in a transaction (rejection, timeout, lost connection, missing acknowledgement), it is aborted if
//    possible. The producer is discarded, and also the records in memory of every partition in the transaction. After a
//    pause with jitter, if this member still belongs to the group, the lease returns to step 2. If the response to a
//    commit was lost, step 3 completes the commit, and step 4 reads the result.
// 9. When the partition is revoked, `process` is abandoned, a transaction in progress may finish, and no other work
//    starts. If this process was suspended for some time, its next request contains an ended generation, or an epoch
//    that step 3 of another member invalidated. This, not the session timeout, prevents two members from answering the
//    same record. Partitions that the member keeps are not interrupted.
//
// For `at_least_once`, step 3 is omitted. Step 7 sends records with an idempotent producer, and commits the offsets
// after the acknowledgements. After a failure between the two, records are sent again.
import { createHash } from 'node:crypto';
import { inBackground, unlessAborted } from '../../core/async.ts';
import { sleep } from '../../core/clock.ts';
import { SluiceError } from '../../core/errors.ts';
import { kindOf, saysOf, type Word } from '../../core/log.ts';
import { openTransactionalWriter } from './choose-client.ts';
import { backoffMs, isHopeless, kafkaError, reasonOf } from './client/failures.ts';
import type { BatchResult, IncomingRecord, MicroBatch } from './client/records.ts';
import { type CommitQueue, Committer, type CommitterHost, type CommitterOptions } from './committer.ts';
import { type BatchLimits, PartitionBuffer } from './partition-buffer.ts';
import { type Start, type StartPolicy, startOffset } from './reading-options.ts';

export interface LeaseOptions extends BatchLimits, StartPolicy {
  delivery: 'exactly_once' | 'at_least_once';
  /** Options of the committer, if the lease has its own. The lease chooses the transactional ID. */
  commits: Omit<CommitterOptions, 'transactionalId' | 'of'>;
  /** Maximum attempts of `process` on one batch if its error is retryable. */
  processAttempts: number;
}

export interface LeaseHost extends CommitterHost {
  /** The member's committer; null: each partition has its own committer. */
  readonly committer: Committer | null;
  process(batch: MicroBatch, signal: AbortSignal): Promise<BatchResult>;
  /** Resolves when the next batch may start, or `signal` is aborted. */
  ready(signal: AbortSignal): Promise<void>;
  /** Starts reading. */
  startAt(partition: number, start: Start): void;
  /** Stops reading the partition until `startAt`. */
  halt(partition: number): void;
  isMember(): Promise<boolean>;
  aborted(partition: number, reason: string, message: Word): void;
  /** Called when memory was freed. */
  released(partition: number): void;
  failed(error: SluiceError): void;
}

/**
 * Maximum time to wait for a transaction of the partition's earlier lease, ms. After this time, fencing ends the
 * transaction.
 */
const PREDECESSOR_PATIENCE_MS = 10_000;
/** Number of retries before a topic is reported as missing, because brokers that are starting may not list it yet. */
const TOPIC_MISSING_PATIENCE = 5;

/** The lease of one partition. It runs from its construction until `drain` or `abandon`. */
export class PartitionLease {
  readonly partition: number;
  readonly #options: LeaseOptions;
  readonly #host: LeaseHost;
  readonly #ended: Promise<void>;
  readonly #closing = new AbortController();
  readonly #abandoned = new AbortController();
  readonly #committer: Committer;
  #buffer: PartitionBuffer | null = null;
  #queue: CommitQueue | null = null;
  #failures = 0;

  /** `after` resolves when the lease of an earlier generation has ended. */
  constructor(partition: number, options: LeaseOptions, host: LeaseHost, after: Promise<void>) {
    this.partition = partition;
    this.#options = options;
    this.#host = host;
    this.#committer = host.committer ?? this.#ownCommitter();
    this.#ended = Promise.race([after, sleep(PREDECESSOR_PATIENCE_MS, { ref: false })])
      .then(() => this.#run())
      .finally(() => {
        if (this.#committer !== host.committer) this.#committer.close();
      });
  }

  /** Bytes of records in memory. */
  get bytes(): number {
    return this.#buffer?.bytes ?? 0;
  }

  offer(records: readonly IncomingRecord[], next: bigint): void {
    this.#buffer?.push(records, next);
  }

  /** Finishes current batches, then ends the lease. Resolves when it has ended; idempotent. */
  drain(): Promise<void> {
    this.#closing.abort();
    this.#buffer?.close();
    return this.#ended;
  }

  /**
   * Ends the lease immediately; only a transaction in progress may finish. Resolves when the lease has ended;
   * idempotent.
   */
  abandon(): Promise<void> {
    this.#abandoned.abort();
    this.#queue?.drop();
    return this.drain();
  }

  async #run(): Promise<void> {
    while (!this.#closing.signal.aborted) {
      const session = new AbortController();
      try {
        const queue = await this.#takeOver(session);
        if (this.#closing.signal.aborted) return;
        await this.#work(queue, session.signal);
      } catch (error) {
        // The lease was closed before it had any work, so the error does not matter.
        if (this.#closing.signal.aborted && this.#queue === null) return;
        if (!(await this.#survive(error))) return;
      } finally {
        this.#buffer?.close();
        this.#buffer = null;
        this.#queue = null;
      }
    }
  }

  #ownCommitter(): Committer {
    const { group, topic, delivery, commits } = this.#options;
    const own = transactionalId(group, topic, this.partition);
    const id = commits.fencing ? own : `${own}-${crypto.randomUUID()}`;
    const options = { ...commits, of: [this.partition], transactionalId: delivery === 'exactly_once' ? id : null };
    return new Committer(options, this.#host);
  }

  /** Performs steps 2 to 5. `session` is aborted when a transaction fails. */
  async #takeOver(session: AbortController): Promise<CommitQueue> {
    const { topic, delivery, commits } = this.#options;
    const opening = this.#committer.open({
      partition: this.partition,
      onCommitted: (items) => {
        this.#failures = 0;
        for (const { batch } of items) this.#buffer?.release(batch.bytes);
        this.#host.released(this.partition);
      },
      onFailed: () => {
        session.abort();
        this.#buffer?.close();
      },
    });
    const fencing = delivery === 'exactly_once' && commits.fencing;
    const [queue] = await Promise.all([opening, fencing ? this.#fenceEarlierReleases() : null]);
    const start = await startOffset(this.#host.directory, this.#options, this.partition, this.#host);
    if (this.#closing.signal.aborted) return queue;
    this.#buffer = new PartitionBuffer(topic, this.partition, this.#options);
    this.#queue = queue;
    queue.topicId = start.topicId;
    this.#host.startAt(this.partition, start);
    return queue;
  }

  async #fenceEarlierReleases(): Promise<void> {
    const { group, topic, commits } = this.#options;
    const writer = openTransactionalWriter({ ...commits, transactionalId: `${group}-${topic}-${this.partition}` });
    try {
      await writer.connect();
      await writer.fence();
    } catch (error) {
      // A user without permission for this ID cannot have an open transaction with this ID.
      if (!(error instanceof SluiceError && error.code === 'kafka_not_authorized')) throw error;
    } finally {
      inBackground('abort a producer', () => writer.discard());
    }
  }

  /** Performs step 6 while the committer performs step 7. */
  async #work(queue: CommitQueue, session: AbortSignal): Promise<void> {
    const buffer = this.#buffer!;
    const signal = AbortSignal.any([session, this.#abandoned.signal]);
    try {
      for (;;) {
        await this.#host.ready(this.#closing.signal);
        const batch = this.#closing.signal.aborted ? null : await buffer.take();
        const result = batch && (await this.#process(batch, signal));
        if (!batch || !result || signal.aborted) break;
        await queue.put({ batch, result });
      }
      await queue.flush();
    } finally {
      // Batches that wait are not written. A transaction in progress is awaited.
      await queue.end();
    }
  }

  /**
   * Processes a batch. null: the lease was abandoned, or processing was cancelled because the lease is closing.
   * @throws ProcessFailure wraps an error of `process` for which no further attempt is made
   */
  async #process(batch: MicroBatch, signal: AbortSignal): Promise<BatchResult | null> {
    for (let attempt = 1; ; attempt++) {
      try {
        return await unlessAborted(this.#host.process(batch, signal), signal);
      } catch (error) {
        const cancelled = error instanceof SluiceError && error.code === 'cancelled';
        if (signal.aborted || (cancelled && this.#closing.signal.aborted)) return null;
        const retryable = error instanceof SluiceError && error.entry.retryable;
        if (!retryable || attempt >= this.#options.processAttempts) throw new ProcessFailure(error);
        await pause(backoffMs(attempt), this.#closing.signal);
        await this.#host.ready(this.#closing.signal);
        if (this.#closing.signal.aborted) return null;
      }
    }
  }

  /** Performs step 8. Returns false if this lease has ended. */
  async #survive(error: unknown): Promise<boolean> {
    if (error instanceof ProcessFailure) {
      const cause = error.cause;
      this.#host.failed(
        cause instanceof SluiceError
          ? cause
          : new SluiceError('kafka_failed', `processing failed: ${kindOf(cause)}`, { cause }),
      );
      return false;
    }
    this.#host.halt(this.partition);
    const failure = kafkaError(error, `partition ${this.partition} of ${this.#options.topic}`);
    this.#host.aborted(this.partition, reasonOf(error), saysOf(failure));
    if (this.#closing.signal.aborted) return false;
    const patient = failure.code === 'kafka_topic_missing' && this.#failures < TOPIC_MISSING_PATIENCE;
    const tooLarge = failure.code === 'kafka_record_too_large';
    if ((isHopeless(failure) && !patient) || tooLarge) {
      this.#host.failed(failure);
      return false;
    }
    // If the member has left the group, the next assignment creates a new lease.
    do await pause(backoffMs(this.#failures++), this.#closing.signal);
    while (!this.#closing.signal.aborted && !(await this.#host.isMember()));
    return !this.#closing.signal.aborted;
  }
}

/**
 * A transactional ID that is unique for each combination of group, topic and holder (a partition, or the name of a
 * member). Group `score-eu` with topic `loan` and group `score` with topic `eu-loan` have different IDs. The ID begins
 * with the group, so that a permission for this prefix covers it.
 */
export function transactionalId(group: string, topic: string, holder: number | string): string {
  const parts = typeof holder === 'number' ? [group, topic] : [group, topic, holder];
  const hash = createHash('sha256').update(JSON.stringify(parts)).digest('hex').slice(0, 32);
  return typeof holder === 'number' ? `${group}-${hash}-${holder}` : `${group}-${hash}`;
}

const pause = (ms: number, signal: AbortSignal): Promise<void> => sleep(ms, { signal }).catch(() => {});

/** Wraps an error of `process` to distinguish it from Kafka errors. */
class ProcessFailure extends Error {
  constructor(cause: unknown) {
    super('process failed', { cause });
  }
}
