// One partition while it belongs to this member: exactly once from its records to their answers.
//
// The protocol, for `delivery: exactly_once`:
//  1. The owner of a partition can be distinguished from its predecessor, on any machine. Where brokers refuse offsets of
//     a generation of the group that has ended (KIP-447, from 2.5), by the member and its generation; the `transactionalId`
//     is then the member's, and one transaction holds all its partitions. Else by a `transactionalId` of group, topic and
//     partition, which is the same for all of them.
//  2. A committer (committer.ts) has a producer of that id; after a failure, and where the id is a partition's with every
//     assignment, a new one. The partition stays paused.
//  3. Fence: the coordinator raises the epoch, aborts what an older producer of the id had open, finishes what it had
//     decided to commit, and refuses that producer from now on. A transaction that a restarted broker ended without informing the partitions is ended there as decided. The same for the name that earlier releases gave the partition,
//     because one of them may be in the group during a rolling update.
//  4. Only then the committed offset is read, once no open transaction can move it: no other member can any more, because
//     the generation, or the epoch, of its predecessor has ended.
//  5. Reading starts at that offset; records fetched before are dropped. Without a committed offset, or with one that the
//     topic has no longer, `start_at` and `on_offset_lost` decide.
//  6. `process` runs outside of any transaction, one micro-batch at a time, while the transaction before it is written:
//     no transaction is open longer than it takes to write it, and readers are not held up by a slow model.
//  7. One transaction writes all that is processed: outputs, dead letters, and the offsets behind the last records. It
//     commits only when every batch was acknowledged. The offsets carry the member and the generation of the assignment.
//  8. Any error in it (refusal, time-out, lost connection, missing acknowledgement): abort if it can be done, throw the
//     producer and all records in memory away, of every partition that had a part in it, wait with jitter, and if this
//     member still belongs to the group go back to 2. A commit whose answer got lost is thus settled by step 3 and seen
//     in step 4.
//  9. When the partition is taken away, `process` is abandoned, a transaction being written may end, and nothing else is
//     begun. If this process was asleep meanwhile, its next request carries a generation that has ended, or an epoch that
//     step 3 of another member made invalid: that, not the group's session, is what keeps two members from answering
//     the same record. Partitions that the member keeps continue.
//
// For `at_least_once`, step 3 is left out, 7 sends with an idempotent producer and commits the offsets after the
// acknowledgements, and what was sent before a failure is sent again.
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
  /** Of a committer of the lease's own; its transactional id is made here. */
  commits: Omit<CommitterOptions, 'transactionalId' | 'of'>;
  /** Attempts of `process` on one batch when its error is a retryable one. */
  processAttempts: number;
}

export interface LeaseHost extends CommitterHost {
  /** Of the member; null: each partition has its own. */
  readonly committer: Committer | null;
  process(batch: MicroBatch, signal: AbortSignal): Promise<BatchResult>;
  /** Resolves when batches may be begun, or `signal` is aborted. */
  ready(signal: AbortSignal): Promise<void>;
  /** Reading may start at `offset`; `end` is where the partition ended when it was asked. */
  startAt(partition: number, offset: bigint, end: bigint): void;
  /** Nothing of the partition is wanted until `startAt`. */
  halt(partition: number): void;
  isMember(): Promise<boolean>;
  aborted(partition: number, reason: string, message: Word): void;
  /** Memory became free. */
  released(partition: number): void;
  failed(error: SluiceError): void;
}

/** Wait for the transaction that an earlier lease is writing, ms: if it takes longer, the fence ends it. */
const PREDECESSOR_PATIENCE_MS = 10_000;
/** Attempts after a topic was not known before it is believed: brokers that start up may not know it yet. */
const TOPIC_MISSING_PATIENCE = 5;

/** Runs from construction until `drain` or `abandon`. */
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

  /** @param after what the lease of an earlier generation still has to finish */
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

  /** Ends after the batches in hand are written. Resolves then; idempotent. */
  drain(): Promise<void> {
    this.#closing.abort();
    this.#buffer?.close();
    return this.#ended;
  }

  /** Ends at once, except for a transaction being written. Resolves when that has ended; idempotent. */
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
        // It was to end before it had anything in hand: nothing failed that anybody could look into.
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

  /** Steps 2 to 5. @param session aborted when a transaction fails */
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
      // Who may not use the name now has left nothing open under it.
      if (!(error instanceof SluiceError && error.code === 'kafka_not_authorized')) throw error;
    } finally {
      inBackground('abort a producer', () => writer.discard());
    }
  }

  /** Step 6, while the committer does step 7. */
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
      // A batch that cannot be processed is not written; a running write is awaited.
      await queue.end();
    }
  }

  /** null: abandoned, or cancelled because the lease is to end. @throws ProcessFailure what `process` threw, when it is not worth another attempt */
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

  /** Step 8; false: this lease has ended. */
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
    // Once not a member any more, the next assignment starts over with a lease of its own.
    do await pause(backoffMs(this.#failures++), this.#closing.signal);
    while (!this.#closing.signal.aborted && !(await this.#host.isMember()));
    return !this.#closing.signal.aborted;
  }
}

/**
 * No two of them are alike for any groups, topics and holders (a partition, or the name of a member): `score-eu` with `loan` is not `score`
 * with `eu-loan`. Begins with the group, so that a permission for a prefix can name it.
 */
export function transactionalId(group: string, topic: string, holder: number | string): string {
  const parts = typeof holder === 'number' ? [group, topic] : [group, topic, holder];
  const hash = createHash('sha256').update(JSON.stringify(parts)).digest('hex').slice(0, 32);
  return typeof holder === 'number' ? `${group}-${hash}-${holder}` : `${group}-${hash}`;
}

const pause = (ms: number, signal: AbortSignal): Promise<void> => sleep(ms, { signal }).catch(() => {});

/** Distinguishes errors of `process` from those of Kafka. */
class ProcessFailure extends Error {
  constructor(cause: unknown) {
    super('process failed', { cause });
  }
}
