// Commits the answers of partitions: writes outputs, dead letters and offsets of all waiting partitions in one transaction.
//
// If brokers reject offsets of an ended generation (KIP-447, Kafka 2.5 and later), a member has a single committer.
// The group then identifies the owner of a partition, so one transaction can cover all partitions. Otherwise each
// partition has its own committer, whose transactional ID fences the previous owner.

import { inBackground } from '../../core/async.ts';
import { monotonicMs, startTimer, stopTimer } from '../../core/clock.ts';
import { SluiceError } from '../../core/errors.ts';
import { kafkaClient, openTransactionalWriter } from './choose-client.ts';
import type { BatchCompression } from './client/codecs.ts';
import type { KafkaConnection } from './client/connection.ts';
import type { MemberIdentity, Rounds, TopicIds, TransactionalWriter } from './client/kafka-client.ts';
import type { BatchResult, MicroBatch } from './client/records.ts';
import type { PartitionReport, TransactionReport } from './observer.ts';
import { type PlanOptions, type SendPlan, SendPlanner } from './send-plan.ts';
import type { TopicDirectory } from './topic-directory.ts';

/** A micro-batch with its answers. */
interface Answered {
  readonly batch: MicroBatch;
  readonly result: BatchResult;
}

interface CommitQueueOptions {
  partition: number;
  /** `put` waits while at least this many records are uncommitted. */
  maxRows: number;
  /** Called when answers are added to the queue, or when they become urgent. */
  onWork: () => void;
  onCommitted: (items: readonly Answered[]) => void;
  /**
   * Called when a transaction with records of this partition failed. No further answer in the queue will be committed.
   */
  onFailed: (error: unknown) => void;
}

/**
 * The uncommitted answers of one partition, in order. A lease adds answers, and a committer takes them. The queue ends
 * when a transaction fails or when it is dropped.
 */
export class CommitQueue {
  readonly partition: number;
  /** The topic from which the records of the partition were read; null: unknown. */
  topicId: string | null = null;
  readonly #options: CommitQueueOptions;
  #waiting: Answered[] = [];
  #taken: readonly Answered[] = [];
  #waitingRows = 0;
  #takenRows = 0;
  #urgent = false;
  /** The queue has ended; nothing in it will be committed. */
  #dropped = false;
  #failure: { error: unknown } | null = null;
  #wake: (() => void)[] = [];

  constructor(options: CommitQueueOptions) {
    this.partition = options.partition;
    this.#options = options;
  }

  /** Number of records that are not part of a transaction yet. */
  get rows(): number {
    return this.#waitingRows;
  }

  /** Whether the committer should not wait for more records, because the queue is full or being flushed. */
  get isUrgent(): boolean {
    return this.#waiting.length > 0 && (this.#urgent || this.#waitingRows + this.#takenRows >= this.#options.maxRows);
  }

  /** Adds an answer. Resolves when the queue has space for another one, or has ended. */
  async put(item: Answered): Promise<void> {
    if (this.#dropped) return;
    this.#waiting.push(item);
    this.#waitingRows += item.batch.records.length;
    this.#options.onWork();
    while (!this.#dropped && this.#waitingRows + this.#takenRows >= this.#options.maxRows) await this.#change();
  }

  /** Resolves when all answers are committed or the queue has ended. @throws the error of the failed transaction */
  async flush(): Promise<void> {
    this.#urgent = true;
    if (this.#waiting.length > 0) this.#options.onWork();
    while (!this.#dropped && this.#waiting.length + this.#taken.length > 0) await this.#change();
    if (this.#failure) throw this.#failure.error;
  }

  /** Discards the waiting answers. A transaction in progress may still commit. Idempotent. */
  drop(): void {
    this.#dropped = true;
    this.#waiting = [];
    this.#waitingRows = 0;
    this.#changed();
  }

  /** Drops the queue. Resolves when no transaction is writing its answers. */
  async end(): Promise<void> {
    this.drop();
    while (this.#taken.length > 0) await this.#change();
  }

  /**
   * For the committer: takes the next batches, which stay taken until `settle`. They have at most `rows` records,
   * unless the first batch alone has more.
   */
  take(rows: number): readonly Answered[] {
    let n = 0;
    let sum = 0;
    for (const { batch } of this.#waiting) {
      if (n > 0 && sum + batch.records.length > rows) break;
      sum += batch.records.length;
      n++;
    }
    this.#taken = this.#waiting.splice(0, n);
    this.#takenRows = sum;
    this.#waitingRows -= sum;
    return this.#taken;
  }

  /** For the committer: reports that the taken batches were committed, or that their transaction failed. */
  settle(failure: { error: unknown } | null): void {
    const items = this.#taken;
    this.#taken = [];
    this.#takenRows = 0;
    if (failure) {
      this.#failure = failure;
      this.drop();
      this.#options.onFailed(failure.error);
    } else {
      this.#options.onCommitted(items);
      this.#changed();
    }
  }

  #change(): Promise<void> {
    return new Promise((resolve) => this.#wake.push(resolve));
  }

  #changed(): void {
    for (const wake of this.#wake.splice(0)) wake();
  }
}

export interface CommitterOptions extends Omit<PlanOptions, 'directory'> {
  connection: KafkaConnection;
  group: string;
  topic: string;
  /** null: at-least-once delivery without transactions. */
  transactionalId: string | null;
  /** Partitions whose offsets this committer commits; null: any partition of the topic. */
  of: readonly number[] | null;
  /** All topics that can receive answers and dead letters. */
  writes: readonly string[];
  compression: BatchCompression;
  transactionTimeoutMs: number;
  /** Maximum records per transaction, unless a single micro-batch has more. */
  transactionRows: number;
  /** Minimum time between the starts of two transactions, ms. A full queue does not wait. */
  commitIntervalMs: number;
  /** Whether a new writer must fence earlier writers. */
  fencing: boolean;
}

export interface CommitterHost {
  readonly directory: TopicDirectory;
  /** The member identity in the current assignment; null: offsets are not fenced by generation. */
  identity(): MemberIdentity | null;
  /** Commits offsets outside of transactions. */
  commit(offsets: ReadonlyMap<number, bigint>, topicIds?: TopicIds): Promise<void>;
  /**
   * Called when a new writer is ready. From then on, the broker rejects all older writers of its transactional ID.
   * `ms`: duration of the fencing.
   */
  fenced(ms: number): void;
  /** Called when a transaction begins (true), and when it ends with any result (false). */
  committing(begun: boolean): void;
  written(report: TransactionReport): void;
}

/**
 * Writes rounds and commits the offsets `next`, in one transaction. With at-least-once delivery, commits after writing.
 */
interface Sender {
  send(rounds: Rounds, next: ReadonlyMap<number, bigint>, topicIds: TopicIds): Promise<void>;
  discard(): Promise<void>;
}

type Taken = ReadonlyMap<CommitQueue, readonly Answered[]>;

/**
 * Runs one transaction at a time. A failed transaction ends all queues whose answers it contained. The next transaction
 * uses a new writer.
 */
export class Committer {
  readonly #options: CommitterOptions;
  readonly #host: CommitterHost;
  /** The queues in the order in which they are served; a queue that was served moves to the end. */
  readonly #queues = new Set<CommitQueue>();
  #writer: Promise<Sender> | null = null;
  #running = false;
  #closed = false;
  #begun = Number.NEGATIVE_INFINITY;
  /** Ends the wait for the next transaction. */
  #wake: (() => void) | null = null;

  constructor(options: CommitterOptions, host: CommitterHost) {
    this.#options = options;
    this.#host = host;
  }

  /**
   * Opens the queue of a partition. Resolves when a writer has fenced older writers with the same transactional ID,
   * which ends their open transactions. Offsets that are read afterwards are final. If there are several transactional
   * IDs, they are final once no open transaction can change them.
   */
  async open(options: Omit<CommitQueueOptions, 'onWork' | 'maxRows'>): Promise<CommitQueue> {
    await this.#writing();
    const maxRows = this.#options.transactionRows;
    const queue: CommitQueue = new CommitQueue({ ...options, maxRows, onWork: () => this.#work(queue) });
    return queue;
  }

  /** Drops all queues and starts no further transaction. Idempotent. */
  close(): void {
    this.#closed = true;
    for (const queue of this.#queues) queue.drop();
    this.#queues.clear();
    this.#wake?.();
    this.#giveUp();
  }

  #work(queue: CommitQueue): void {
    this.#queues.add(queue);
    if (!this.#running) {
      this.#running = true;
      inBackground('committing', () => this.#run());
    } else if (this.#isUrgent) this.#wake?.();
  }

  get #isUrgent(): boolean {
    let rows = 0;
    for (const queue of this.#queues) {
      if (queue.isUrgent) return true;
      rows += queue.rows;
    }
    return rows >= this.#options.transactionRows;
  }

  async #run(): Promise<void> {
    try {
      for (;;) {
        await this.#pace();
        const taken = this.#take();
        if (taken.size === 0) return;
        this.#begun = monotonicMs();
        this.#host.committing(true);
        const failure = await this.#commit(taken).then(
          () => null,
          (error: unknown) => ({ error }),
        );
        this.#host.committing(false);
        if (failure) this.#giveUp();
        for (const queue of taken.keys()) queue.settle(failure);
      }
    } finally {
      this.#running = false;
    }
  }

  async #pace(): Promise<void> {
    const left = this.#begun + this.#options.commitIntervalMs - monotonicMs();
    if (left <= 0 || this.#isUrgent || this.#closed) return;
    const { promise, resolve } = Promise.withResolvers<void>();
    const timer = startTimer(resolve, left);
    this.#wake = resolve;
    await promise;
    stopTimer(timer);
    this.#wake = null;
  }

  #take(): Taken {
    const taken = new Map<CommitQueue, readonly Answered[]>();
    let left = this.#options.transactionRows;
    for (const queue of [...this.#queues]) {
      if (left <= 0 && taken.size > 0) break;
      this.#queues.delete(queue);
      const items = queue.take(left);
      if (items.length > 0) taken.set(queue, items);
      for (const { batch } of items) left -= batch.records.length;
      if (queue.rows > 0) this.#queues.add(queue);
    }
    return taken;
  }

  async #commit(taken: Taken): Promise<void> {
    const began = monotonicMs();
    const planner = new SendPlanner({ ...this.#options, directory: this.#host.directory });
    const oversized = new Map<Answered, number>();
    for (const item of [...taken.values()].flat()) {
      const before = planner.oversized;
      await planner.add(item.result.outputs, 'output');
      oversized.set(item, planner.oversized - before);
      await planner.add(item.result.rejected, 'dead_letter');
    }
    const plan = planner.finish();
    const next = new Map([...taken].map(([queue, items]) => [queue.partition, items.at(-1)!.batch.next]));
    await this.#write(plan, next, new Map([...taken.keys()].map((queue) => [queue.partition, queue.topicId])));
    const ms = monotonicMs() - began;
    for (const [item, n] of oversized) item.result.committed?.(n, plan.replaced);
    const partitions = [...taken].map(([{ partition }, items]) => reportOf(partition, items, oversized));
    this.#host.written({ partitions, retimed: plan.retimed, bytes: plan.bytes, ms });
  }

  async #write({ rounds }: SendPlan, next: ReadonlyMap<number, bigint>, topicIds: TopicIds): Promise<void> {
    const writer = await this.#writing();
    try {
      await writer.send(rounds, next, topicIds);
    } catch (error) {
      throw await this.#learnFrom(error, rounds);
    }
  }

  /**
   * Remembers the reason of a rejection (record too large, timestamp not accepted), so that the next attempt avoids it.
   */
  async #learnFrom(error: unknown, rounds: Rounds): Promise<unknown> {
    if (!(error instanceof SluiceError)) return error;
    const tooLarge = error.code === 'kafka_record_too_large';
    if (!tooLarge && error.code !== 'kafka_time_refused') return error;
    const { directory } = this.#host;
    for (const topic of new Set(rounds.flat().map((b) => b.topic))) {
      await (tooLarge ? directory.lowerLimit(topic) : directory.refuseTimes(topic));
    }
    return tooLarge ? new SluiceError('kafka_failed', error.message, { cause: error }) : error;
  }

  #writing(): Promise<Sender> {
    if (this.#writer) return this.#writer;
    const opening = this.#takeOver();
    this.#writer = opening;
    opening.catch(() => {
      if (this.#writer === opening) this.#writer = null;
    });
    return opening;
  }

  async #takeOver(): Promise<Sender> {
    const { group, topic, connection, compression, transactionTimeoutMs, transactionalId } = this.#options;
    if (this.#closed) throw new SluiceError('kafka_failed', 'the committer is closed');
    if (transactionalId === null) {
      const writer = kafkaClient().writer({ connection, compression });
      await connected(writer, () => writer.connect());
      const send = async (rounds: Rounds, next: ReadonlyMap<number, bigint>, topicIds: TopicIds) => {
        await writer.write(rounds);
        await this.#host.commit(next, topicIds);
      };
      return { send, discard: () => writer.discard() };
    }
    const writer = openTransactionalWriter({ connection, compression, transactionTimeoutMs, transactionalId });
    await connected(writer, () => this.#fence(writer));
    return {
      send: (rounds, next, topicIds) =>
        writer.writeTransaction(rounds, { group, topic, next, topicIds, member: this.#host.identity() }),
      discard: () => writer.discard(),
    };
  }

  async #fence(writer: TransactionalWriter): Promise<void> {
    const { group, topic, of, writes, fencing } = this.#options;
    const began = monotonicMs();
    await writer.connect();
    if (!fencing) return;
    await writer.fence({ group, topic, partitions: of, writes });
    this.#host.fenced(monotonicMs() - began);
  }

  /** Discards the writer in the background, so that this does not delay the next owner of the partition. */
  #giveUp(): void {
    const writer = this.#writer;
    this.#writer = null;
    inBackground('abort a producer', () =>
      writer?.then(
        (w) => w.discard(),
        () => {},
      ),
    );
  }
}

async function connected(writer: Pick<TransactionalWriter, 'discard'>, connect: () => Promise<void>): Promise<void> {
  try {
    await connect();
  } catch (error) {
    inBackground('discarding a producer', () => writer.discard());
    throw error;
  }
}

function reportOf(
  partition: number,
  items: readonly Answered[],
  oversized: ReadonlyMap<Answered, number>,
): PartitionReport {
  const sum = (count: (item: Answered) => number) => items.reduce((total, item) => total + count(item), 0);
  const tooLarge = sum((item) => oversized.get(item)!);
  return {
    partition,
    records: sum(({ batch }) => batch.records.length),
    rejected: sum(({ result }) => result.rejected.length) + tooLarge,
    oversized: tooLarge,
    next: items.at(-1)!.batch.next,
  };
}
