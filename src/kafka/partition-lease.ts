// One partition while it belongs to this member: exactly once from its records to their answers.
//
// The protocol, for `delivery: exactly_once`:
//  1. `transactionalId` of group, topic and partition: whoever works on a partition, on whatever machine, uses the same.
//  2. Every assignment (one generation of the group) starts with a new producer. The partition stays paused.
//  3. Fence: an empty transaction is opened and aborted. The coordinator raises the epoch, aborts what an older producer
//     had open, finishes what it had decided to commit, and refuses that producer from now on. What a restarted broker ended
//     without telling the partitions is ended there, as it was decided. The same for the name that earlier releases gave
//     it, because one of them may be in the group during a rolling update.
//  4. Only then the committed offset is read: nobody can move it any more without fencing this producer.
//  5. Reading starts at that offset; records fetched before are dropped. Without a committed offset, or with one that the
//     topic has no longer, `start_at` and `on_offset_lost` decide.
//  6. `process` runs outside of any transaction, one micro-batch at a time, while the transaction before it is written:
//     no transaction is open longer than it takes to write it, and readers are not held up by a slow model.
//  7. One transaction writes all that is processed: outputs, dead letters, and the offset behind the last record. It
//     commits only when every batch was acknowledged. The offset carries the member and the generation of the assignment
//     (KIP-447, brokers from 2.5): refused when it is over, whatever name a newer owner of another release fences.
//  8. Any error in it (refusal, time-out, lost connection, missing acknowledgement): abort if it can be done, throw the
//     producer and all records in memory away, wait with jitter, and if this member still belongs to the group go back
//     to 2. A commit whose answer got lost is thus settled by step 3 and seen in step 4.
//  9. When the partition is taken away, `process` is abandoned, a transaction being written may end, and nothing else is
//     begun. If this process was asleep meanwhile, its next request carries an epoch that step 3 of another member made
//     invalid: that, not the group's session, is what keeps two members from answering the same record.
//
// For `at_least_once`, step 3 is left out, 7 sends with an idempotent producer and commits the offset after the
// acknowledgements, and what was sent before a failure is sent again.
import { createHash } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { SluiceError } from '../core/errors.ts';
import { inBackground } from '../core/in-background.ts';
import { kafkaClient } from './choose-client.ts';
import { backoffMs } from './client/backoff.ts';
import type { BatchCompression } from './client/codecs.ts';
import type { KafkaConnection } from './client/connection.ts';
import { isHopeless, kafkaError, reasonOf } from './client/failures.ts';
import type { BatchWriter, MemberIdentity, Rounds } from './client/kafka-client.ts';
import type { BatchResult, IncomingRecord, MicroBatch } from './client/records.ts';
import type { TransactionReport } from './observer.ts';
import { type BatchLimits, PartitionBuffer } from './partition-buffer.ts';
import { SendPlanner } from './send-plan.ts';
import { type StartPolicy, startOffset } from './start-offset.ts';
import type { TopicDirectory } from './topic-directory.ts';

export interface LeaseOptions extends BatchLimits, StartPolicy {
  connection: KafkaConnection;
  outputTopic: string | null;
  deadLetterTopic: string | null;
  /** All topics that answers and dead letters may go to. */
  writes: readonly string[];
  delivery: 'exactly_once' | 'at_least_once';
  compression: BatchCompression;
  transactionTimeoutMs: number;
  /** Most records a transaction, unless one micro-batch has more. */
  transactionRows: number;
  /** false: steps 1 to 5 as one writes them first. UNSAFE: for the test that shows what they are good for. */
  fencing: boolean;
  /** Attempts of `process` on one batch when its error is a retryable one. */
  processAttempts: number;
}

export interface LeaseHost {
  readonly directory: TopicDirectory;
  /** Of the assignment the lease belongs to; null: brokers cannot fence by it. */
  readonly identity: MemberIdentity | null;
  process(batch: MicroBatch, signal: AbortSignal): Promise<BatchResult>;
  /** Resolves when batches may be begun, or `signal` is aborted. */
  ready(signal: AbortSignal): Promise<void>;
  /** Reading may start at `offset`; `end` is where the partition ended when it was asked. */
  startAt(partition: number, offset: bigint, end: bigint): void;
  /** Nothing of the partition is wanted until `startAt`. */
  halt(partition: number): void;
  commit(partition: number, next: bigint): Promise<void>;
  isMember(): Promise<boolean>;
  fenced(partition: number, ms: number): void;
  written(report: TransactionReport): void;
  aborted(partition: number, reason: string, message: string): void;
  /** Memory became free. */
  released(partition: number): void;
  failed(error: SluiceError): void;
}

/** Wait for the transaction that an earlier lease is writing, ms: if it takes longer, the fence ends it. */
const PREDECESSOR_PATIENCE_MS = 10_000;
/** Attempts after a topic was not known before it is believed: brokers that start up may not know it yet. */
const TOPIC_MISSING_PATIENCE = 5;

interface Processed {
  batch: MicroBatch;
  result: BatchResult;
}

/** Runs from construction until `drain` or `abandon`. */
export class PartitionLease {
  readonly partition: number;
  readonly #options: LeaseOptions;
  readonly #host: LeaseHost;
  readonly #ended: Promise<void>;
  readonly #closing = new AbortController();
  readonly #abandoned = new AbortController();
  #buffer: PartitionBuffer | null = null;
  #failures = 0;

  /** @param after what the lease of an earlier generation still has to finish */
  constructor(partition: number, options: LeaseOptions, host: LeaseHost, after: Promise<void>) {
    this.partition = partition;
    this.#options = options;
    this.#host = host;
    this.#ended = Promise.race([after, sleep(PREDECESSOR_PATIENCE_MS, undefined, { ref: false })]).then(() =>
      this.#run(),
    );
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

  /** Ends at once, but for a transaction that is being written. Resolves when that is over; idempotent. */
  abandon(): Promise<void> {
    this.#abandoned.abort();
    return this.drain();
  }

  async #run(): Promise<void> {
    while (!this.#closing.signal.aborted) {
      let producer: BatchWriter | null = null;
      try {
        producer = await this.#takeOver();
        if (this.#closing.signal.aborted) return;
        await this.#work(producer);
      } catch (error) {
        if (!(await this.#survive(error))) return;
      } finally {
        this.#buffer?.close();
        this.#buffer = null;
        // In the background: it must not hold up the lease that follows.
        inBackground('giving up a producer', () => producer?.discard());
      }
    }
  }

  /** Steps 1 to 5. */
  async #takeOver(): Promise<BatchWriter> {
    const { connection, group, topic, writes, delivery, compression, transactionTimeoutMs, fencing } = this.#options;
    const began = performance.now();
    const transactional = delivery === 'exactly_once';
    const id = transactionalId(group, topic, this.partition);
    const producer = kafkaClient().writer({
      connection,
      compression,
      transactionTimeoutMs,
      transactionalId: transactional ? (fencing ? id : `${id}-${crypto.randomUUID()}`) : null,
    });
    try {
      await producer.connect();
      if (transactional && fencing) {
        await Promise.all([
          producer.fence({ group, topic, partition: this.partition, writes }),
          this.#fenceEarlierReleases(),
        ]);
        this.#host.fenced(this.partition, performance.now() - began);
      }
      const { offset, end } = await startOffset(this.#host.directory, this.#options, this.partition);
      if (this.#closing.signal.aborted) return producer;
      this.#buffer = new PartitionBuffer(topic, this.partition, this.#options);
      this.#host.startAt(this.partition, offset, end);
      return producer;
    } catch (error) {
      inBackground('giving up a producer', () => producer.discard());
      throw error;
    }
  }

  async #fenceEarlierReleases(): Promise<void> {
    const { connection, group, topic, compression, transactionTimeoutMs } = this.#options;
    const id = `${group}-${topic}-${this.partition}`;
    const writer = kafkaClient().writer({ connection, compression, transactionTimeoutMs, transactionalId: id });
    try {
      await writer.connect();
      await writer.fence();
    } catch (error) {
      // Who may not use the name now has left nothing open under it.
      if (!(error instanceof SluiceError && error.code === 'kafka_not_authorized')) throw error;
    } finally {
      inBackground('giving up a producer', () => writer.discard());
    }
  }

  /** Steps 6 and 7: two loops with a short queue between them. */
  async #work(producer: BatchWriter): Promise<void> {
    const buffer = this.#buffer!;
    const session = new AbortController();
    const signal = AbortSignal.any([session.signal, this.#abandoned.signal]);
    const queue: Processed[] = [];
    let rows = 0;
    let processed = false;
    let wake = () => {};
    const changed = () => new Promise<void>((resolve) => (wake = resolve));
    const processing = async () => {
      for (;;) {
        await this.#host.ready(this.#closing.signal);
        const batch = this.#closing.signal.aborted ? null : await buffer.take();
        const result = batch && (await this.#process(batch, signal));
        if (!batch || !result || signal.aborted) return;
        queue.push({ batch, result });
        rows += batch.records.length;
        wake();
        // Only one of the loops ever waits: there is something to write, or room to process.
        while (rows >= this.#options.transactionRows && !signal.aborted) await changed();
      }
    };
    const writing = async () => {
      while (!signal.aborted) {
        const items = this.#nextTransaction(queue);
        if (items.length === 0) {
          if (processed) return;
          await changed();
          continue;
        }
        await this.#write(producer, items);
        for (const { batch } of items) {
          rows -= batch.records.length;
          buffer.release(batch.bytes);
        }
        this.#host.released(this.partition);
        wake();
      }
    };
    const end = (failure?: unknown) => {
      processed = true;
      if (failure !== undefined) {
        session.abort();
        buffer.close();
      }
      wake();
    };
    const onAbandoned = () => wake();
    this.#abandoned.signal.addEventListener('abort', onAbandoned, { once: true });
    // Whichever fails, the other ends: a transaction being written is waited for, `process` is not.
    const ends = [processing(), writing()].map((loop) =>
      loop.then(
        () => end(),
        (error: unknown) => {
          end(error);
          throw error;
        },
      ),
    );
    for (const outcome of await Promise.allSettled(ends)) if (outcome.status === 'rejected') throw outcome.reason;
  }

  #nextTransaction(queue: Processed[]): Processed[] {
    let rows = 0;
    let n = 0;
    while (n < queue.length && (n === 0 || rows + queue[n]!.batch.records.length <= this.#options.transactionRows)) {
      rows += queue[n++]!.batch.records.length;
    }
    return queue.splice(0, n);
  }

  /** null: abandoned. @throws ProcessFailure what `process` threw, when it is not worth another attempt */
  async #process(batch: MicroBatch, signal: AbortSignal): Promise<BatchResult | null> {
    for (let attempt = 1; ; attempt++) {
      try {
        return await unlessAborted(this.#host.process(batch, signal), signal);
      } catch (error) {
        if (signal.aborted) return null;
        const retryable = error instanceof SluiceError && error.entry.retryable;
        if (!retryable || attempt >= this.#options.processAttempts) throw new ProcessFailure(error);
        await pause(backoffMs(attempt), this.#closing.signal);
        await this.#host.ready(this.#closing.signal);
        if (this.#closing.signal.aborted) return null;
      }
    }
  }

  /** Step 7. */
  async #write(producer: BatchWriter, items: readonly Processed[]): Promise<void> {
    const { delivery, outputTopic, deadLetterTopic, compression, group, topic } = this.#options;
    const began = performance.now();
    const planner = new SendPlanner({ directory: this.#host.directory, compression, outputTopic, deadLetterTopic });
    let records = 0;
    let rejected = 0;
    const oversizedOf: number[] = [];
    for (const { batch, result } of items) {
      const before = planner.oversized;
      await planner.add(result.outputs, 'output');
      oversizedOf.push(planner.oversized - before);
      await planner.add(result.rejected, 'dead_letter');
      records += batch.records.length;
      rejected += result.rejected.length;
    }
    const plan = planner.finish();
    const { next } = items.at(-1)!.batch;
    try {
      if (delivery === 'exactly_once') {
        await producer.writeTransaction(plan.rounds, {
          group,
          topic,
          next: new Map([[this.partition, next]]),
          member: this.#host.identity,
        });
      } else {
        await producer.write(plan.rounds);
        await this.#host.commit(this.partition, next);
      }
    } catch (error) {
      if (!(error instanceof SluiceError && error.code === 'kafka_record_too_large')) throw error;
      await this.#lowerLimits(plan.rounds);
      throw new SluiceError('kafka_failed', error.message, { cause: error });
    }
    this.#failures = 0;
    const { bytes, oversized } = plan;
    const ms = performance.now() - began;
    const { partition } = this;
    items.forEach(({ result }, i) => {
      result.committed?.(oversizedOf[i]!);
    });
    this.#host.written({ partition, records, rejected: rejected + oversized, oversized, bytes, ms, next });
  }

  async #lowerLimits(rounds: Rounds): Promise<void> {
    for (const topic of new Set(rounds.flat().map((b) => b.topic))) await this.#host.directory.lowerLimit(topic);
  }

  /** Step 8; false: this lease is over. */
  async #survive(error: unknown): Promise<boolean> {
    if (error instanceof ProcessFailure) {
      const cause = error.cause;
      this.#host.failed(
        cause instanceof SluiceError
          ? cause
          : new SluiceError('kafka_failed', `processing failed: ${(cause as Error).message}`, { cause }),
      );
      return false;
    }
    this.#host.halt(this.partition);
    const failure = kafkaError(error, `partition ${this.partition} of ${this.#options.topic}`);
    this.#host.aborted(this.partition, reasonOf(error), failure.message);
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
 * No two of them are alike for any groups and topics: `score-eu` with `loan` is not `score` with `eu-loan`. Begins with the group, so that
 * a permission for a prefix can name it.
 */
export function transactionalId(group: string, topic: string, partition: number): string {
  const hash = createHash('sha256')
    .update(JSON.stringify([group, topic]))
    .digest('hex')
    .slice(0, 32);
  return `${group}-${hash}-${partition}`;
}

const pause = (ms: number, signal: AbortSignal): Promise<void> => sleep(ms, undefined, { signal }).catch(() => {});

/** What `work` gives, or null as soon as `signal` is aborted. Leaves no listener behind. */
async function unlessAborted<T>(work: Promise<T>, signal: AbortSignal): Promise<T | null> {
  if (signal.aborted) return null;
  const { promise, resolve } = Promise.withResolvers<null>();
  const onAbort = () => resolve(null);
  signal.addEventListener('abort', onAbort, { once: true });
  try {
    return await Promise.race([work, promise]);
  } finally {
    signal.removeEventListener('abort', onAbort);
  }
}

/** Distinguishes errors of `process` from those of Kafka. */
class ProcessFailure extends Error {
  constructor(cause: unknown) {
    super('process failed', { cause });
  }
}
