// Commits what partitions have answered: outputs, dead letters and offsets of all that wait, in one transaction.
//
// One committer a member where brokers refuse offsets of a generation that is over (KIP-447, from 2.5): whose partition it is says the
// group, not the transactional id, so one transaction holds all partitions. Else one committer a partition, under a transactional id of
// the partition, which fences whoever had it before.
import { monotonicMs, startTimer, stopTimer } from '../core/clock.ts';
import { SluiceError } from '../core/errors.ts';
import { inBackground } from '../core/in-background.ts';
import { kafkaClient, openTransactionalWriter } from './choose-client.ts';
import type { BatchCompression } from './client/codecs.ts';
import type { KafkaConnection } from './client/connection.ts';
import type { MemberIdentity, Rounds, TransactionalWriter } from './client/kafka-client.ts';
import { type Answered, CommitQueue, type CommitQueueOptions } from './commit-queue.ts';
import type { PartitionReport, TransactionReport } from './observer.ts';
import { type PlanOptions, type SendPlan, SendPlanner } from './send-plan.ts';
import type { TopicDirectory } from './topic-directory.ts';

export interface CommitterOptions extends Omit<PlanOptions, 'directory'> {
  connection: KafkaConnection;
  group: string;
  topic: string;
  /** null: at least once, without transactions. */
  transactionalId: string | null;
  /** Partitions whose offsets it commits; null: any of the topic. */
  of: readonly number[] | null;
  /** All topics that answers and dead letters may go to. */
  writes: readonly string[];
  compression: BatchCompression;
  transactionTimeoutMs: number;
  /** Most records a transaction, unless one micro-batch has more. */
  transactionRows: number;
  /** Least time from the beginning of a transaction to that of the next, ms. A full queue does not wait. */
  commitIntervalMs: number;
  /** Whether a new writer fences the ones before it. */
  fencing: boolean;
}

export interface CommitterHost {
  readonly directory: TopicDirectory;
  /** Of the assignment the open queues belong to; null: not fenced by generation. */
  identity(): MemberIdentity | null;
  /** Commits outside of transactions. */
  commit(offsets: ReadonlyMap<number, bigint>): Promise<void>;
  /** A writer took over; every older one of its transactional id is refused from now on. */
  fenced(ms: number): void;
  /** A transaction begins, or is over, however it ended. */
  committing(begun: boolean): void;
  written(report: TransactionReport): void;
}

/** Writes rounds and commits `next`, in one transaction or, at least once, one after the other. */
interface Sender {
  send(rounds: Rounds, next: ReadonlyMap<number, bigint>): Promise<void>;
  discard(): Promise<void>;
}

type Taken = ReadonlyMap<CommitQueue, readonly Answered[]>;

/** One transaction at a time. After a failure all queues that had a part in it are over, and the next one has a new writer. */
export class Committer {
  readonly #options: CommitterOptions;
  readonly #host: CommitterHost;
  /** In turn: who was served last is last. */
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
   * Resolves when a writer has taken over: what an older one of the same transactional id had open is ended, so offsets read from now on
   * are final, or, where several ids are about, as soon as no open transaction can move them.
   */
  async open(options: Omit<CommitQueueOptions, 'onWork' | 'maxRows'>): Promise<CommitQueue> {
    await this.#writing();
    const maxRows = this.#options.transactionRows;
    const queue: CommitQueue = new CommitQueue({ ...options, maxRows, onWork: () => this.#work(queue) });
    return queue;
  }

  /** Nothing is begun any more. Idempotent. */
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
    await this.#write(plan, new Map([...taken].map(([queue, items]) => [queue.partition, items.at(-1)!.batch.next])));
    const ms = monotonicMs() - began;
    for (const [item, n] of oversized) item.result.committed?.(n);
    const partitions = [...taken].map(([{ partition }, items]) => reportOf(partition, items, oversized));
    this.#host.written({ partitions, retimed: plan.retimed, bytes: plan.bytes, ms });
  }

  async #write({ rounds }: SendPlan, next: ReadonlyMap<number, bigint>): Promise<void> {
    const writer = await this.#writing();
    try {
      await writer.send(rounds, next);
    } catch (error) {
      throw await this.#learnFrom(error, rounds);
    }
  }

  /** A refusal that the next attempt avoids. */
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
      const send = async (rounds: Rounds, next: ReadonlyMap<number, bigint>) => {
        await writer.write(rounds);
        await this.#host.commit(next);
      };
      return { send, discard: () => writer.discard() };
    }
    const writer = openTransactionalWriter({ connection, compression, transactionTimeoutMs, transactionalId });
    await connected(writer, () => this.#fence(writer));
    return {
      send: (rounds, next) => writer.writeTransaction(rounds, { group, topic, next, member: this.#host.identity() }),
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

  /** In the background: it must not hold up whoever takes over. */
  #giveUp(): void {
    const writer = this.#writer;
    this.#writer = null;
    inBackground('giving up a producer', () =>
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
