// What a partition has answered and not committed yet, in order.
import type { BatchResult, MicroBatch } from './client/records.ts';

/** A micro-batch with its answers. */
export interface Answered {
  readonly batch: MicroBatch;
  readonly result: BatchResult;
}

export interface CommitQueueOptions {
  partition: number;
  /** `put` waits while as many records are not committed. */
  maxRows: number;
  /** There is something to commit, or it is urgent now. */
  onWork: () => void;
  onCommitted: (items: readonly Answered[]) => void;
  /** The transaction failed that records of this partition were in; nothing of the queue will be committed. */
  onFailed: (error: unknown) => void;
}

/** Between one lease, which puts, and a committer, which takes. Ends with its first failure, or when it is dropped. */
export class CommitQueue {
  readonly partition: number;
  readonly #options: CommitQueueOptions;
  #waiting: Answered[] = [];
  #taken: readonly Answered[] = [];
  #waitingRows = 0;
  #takenRows = 0;
  #urgent = false;
  /** Nothing of it will be committed any more. */
  #dropped = false;
  #failure: { error: unknown } | null = null;
  #wake: (() => void)[] = [];

  constructor(options: CommitQueueOptions) {
    this.partition = options.partition;
    this.#options = options;
  }

  /** Records that no transaction has yet. */
  get rows(): number {
    return this.#waitingRows;
  }

  /** Whether it makes no sense to wait for more: it is full, or its lease ends. */
  get isUrgent(): boolean {
    return this.#waiting.length > 0 && (this.#urgent || this.#waitingRows + this.#takenRows >= this.#options.maxRows);
  }

  /** Resolves when there is room for more, or the queue is over. */
  async put(item: Answered): Promise<void> {
    if (this.#dropped) return;
    this.#waiting.push(item);
    this.#waitingRows += item.batch.records.length;
    this.#options.onWork();
    while (!this.#dropped && this.#waitingRows + this.#takenRows >= this.#options.maxRows) await this.#change();
  }

  /** Resolves when all is committed, or the queue is over. @throws what the transaction failed of */
  async flush(): Promise<void> {
    this.#urgent = true;
    if (this.#waiting.length > 0) this.#options.onWork();
    while (!this.#dropped && this.#waiting.length + this.#taken.length > 0) await this.#change();
    if (this.#failure) throw this.#failure.error;
  }

  /** Nothing is begun any more; what is being written may end. Idempotent. */
  drop(): void {
    this.#dropped = true;
    this.#waiting = [];
    this.#waitingRows = 0;
    this.#changed();
  }

  /** Drops, and resolves when nothing is being written. */
  async end(): Promise<void> {
    this.drop();
    while (this.#taken.length > 0) await this.#change();
  }

  /** For the committer: the next batches, at most `rows` records unless the first one has more, until `settle`. */
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

  /** For the committer: what was taken is committed, or failed. */
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
