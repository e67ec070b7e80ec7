// A partition while it belongs to this member: each record is answered exactly once.
//
// The protocol, for `delivery: exactly_once`:
// 1. The owner of a partition can be distinguished from its predecessor, on any machine. If brokers reject offsets of
//    an ended group generation (KIP-447, from 2.5), member and generation identify the owner. The `transactionalId`
//    then belongs to the member, and one transaction covers all its partitions. Otherwise a `transactionalId` made of
//    group, topic and partition, the same for every owner, is fenced.
// 2. A committer (committer.ts) has a producer with this ID. It opens a new producer after a failure; if each partition
//    has its own ID, also for every assignment. The partition stays paused.
// 3. Fence: the coordinator raises the epoch, aborts open transactions of older producers with this ID and completes
//    those it had decided to commit. It rejects these producers from now on. If a restarted broker ended a transaction
//    without notifying the partitions, the transaction is ended there as decided. The ID that earlier releases used for
//    the partition is fenced as well, because such a release may be in the group during a rolling update.
// 4. Only then is the committed offset read, once no open transaction can move it. No other member can move it either,
//    because its predecessor's generation or epoch has ended.
// 5. Reading starts at that offset; records fetched before are dropped. If no offset is committed, or the topic no
//    longer has it, `start_at` and `on_offset_lost` decide.
// 6. `process` runs outside of transactions, one micro-batch at a time, while the previous transaction is written. A
//    transaction is therefore open only while it is written, and a slow model does not hold up readers.
// 7. One transaction writes everything that was processed: outputs, dead letters, and the offsets behind the last
//    records. It commits only after every batch was acknowledged. The offsets carry the member and the generation of
//    the assignment.
// 8. On any error in it (rejection, timeout, lost connection, missing acknowledgement): abort if possible; discard the
//    producer and the records in memory of every partition in the transaction; wait with jitter; then, if this member
//    still belongs to the group, return to step 2. Step 3 thus settles a commit whose response was lost, and step 4
//    sees the result.
// 9. When the partition is revoked, `process` is abandoned, a running transaction may finish, and no other work starts.
//    If this process was suspended meanwhile, its next request carries an ended generation or an epoch invalidated by
//    another member's step 3. This, not the session timeout, prevents two members from answering the same record.
//    Partitions that the member keeps continue.
//
// For `at_least_once`, step 3 is omitted. Step 7 sends with an idempotent producer and commits the offsets after the
// acknowledgements, so records sent before a failure are sent again.
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
import { type StartPolicy, startOffset } from './reading-options.ts';

export interface LeaseOptions extends BatchLimits, StartPolicy {
  delivery: 'exactly_once' | 'at_least_once';
  /** Options of the lease's own committer; the lease chooses its transactional ID. */
  commits: Omit<CommitterOptions, 'transactionalId' | 'of'>;
  /** Maximum attempts of `process` on one batch if its error is retryable. */
  processAttempts: number;
}

export interface LeaseHost extends CommitterHost {
  /** The member's committer; null: each partition has its own. */
  readonly committer: Committer | null;
  process(batch: MicroBatch, signal: AbortSignal): Promise<BatchResult>;
  /** Resolves when the next batch may start, or `signal` is aborted. */
  ready(signal: AbortSignal): Promise<void>;
  /** Starts reading at `offset`; `end` is the end of the partition when it was queried. */
  startAt(partition: number, offset: bigint, end: bigint): void;
  /** Stops reading the partition until `startAt`. */
  halt(partition: number): void;
  isMember(): Promise<boolean>;
  aborted(partition: number, reason: string, message: Word): void;
  /** Called when memory was freed. */
  released(partition: number): void;
  failed(error: SluiceError): void;
}

/**
 * Longest wait for a running transaction of the partition's earlier lease, ms. After it, fencing ends the transaction.
 */
const PREDECESSOR_PATIENCE_MS = 10_000;
/** Number of retries before a missing topic counts as missing, because brokers that start up may not list it yet. */
const TOPIC_MISSING_PATIENCE = 5;

/** A lease runs from construction until `drain` or `abandon`. */
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

  /** @param after resolves when the lease of an earlier generation has ended */
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

  /** Ends immediately except for a running transaction. Resolves when that has ended; idempotent. */
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
        // The lease was closed before it had any work, so this error needs no attention.
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

  /** Performs steps 2 to 5. @param session aborted when a transaction fails */
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
    const { offset, end } = await startOffset(this.#host.directory, this.#options, this.partition, this.#host);
    if (this.#closing.signal.aborted) return queue;
    this.#buffer = new PartitionBuffer(topic, this.partition, this.#options);
    this.#queue = queue;
    this.#host.startAt(this.partition, offset, end);
    return queue;
  }

  async #fenceEarlierReleases(): Promise<void> {
    const { group, topic, commits } = this.#options;
    const writer = openTransactionalWriter({ ...commits, transactionalId: `${group}-${topic}-${this.partition}` });
    try {
      await writer.connect();
      await writer.fence();
    } catch (error) {
      // A user without permission for this ID cannot have an open transaction under it.
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
      // A batch that cannot be processed is not written; a running transaction is awaited.
      await queue.end();
    }
  }

  /**
   * null: abandoned, or cancelled because the lease is closing. @throws ProcessFailure wraps an error of `process` that
   * is not worth another attempt
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

  /** Performs step 8; false: this lease has ended. */
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
    // After the member left the group, the next assignment creates a new lease.
    do await pause(backoffMs(this.#failures++), this.#closing.signal);
    while (!this.#closing.signal.aborted && !(await this.#host.isMember()));
    return !this.#closing.signal.aborted;
  }
}

/**
 * A transactional ID, unique for each combination of group, topic and holder (a partition, or a member's name): group
 * `score-eu` with topic `loan` differs from `score` with `eu-loan`. It begins with the group, so that a prefix
 * permission can cover it.
 */
export function transactionalId(group: string, topic: string, holder: number | string): string {
  const parts = typeof holder === 'number' ? [group, topic] : [group, topic, holder];
  const hash = createHash('sha256').update(JSON.stringify(parts)).digest('hex').slice(0, 32);
  return typeof holder === 'number' ? `${group}-${hash}-${holder}` : `${group}-${hash}`;
}

const pause = (ms: number, signal: AbortSignal): Promise<void> => sleep(ms, { signal }).catch(() => {});

/** Wraps errors of `process` to distinguish them from Kafka errors. */
class ProcessFailure extends Error {
  constructor(cause: unknown) {
    super('process failed', { cause });
  }
}
