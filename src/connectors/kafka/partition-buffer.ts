// Buffers records between fetching and processing: forms micro-batches per partition, and limits the memory of all partitions.
import { epochMs, monotonicMs, startTimer, stopTimer } from '../../core/clock.ts';
import { type IncomingRecord, type MicroBatch, weightOf } from './client/records.ts';

export interface BatchLimits {
  /** Maximum records of a micro-batch. */
  batchRows: number;
  /** Maximum bytes of a micro-batch. A single larger record forms its own micro-batch. */
  batchBytes: number;
  /** Maximum time that the first record of a micro-batch waits for further records, ms. */
  batchWaitMs: number;
  /** Delay of processing after the timestamp or the arrival of a record, whichever is earlier, ms. */
  delayMs: number;
}

interface Chunk {
  records: readonly IncomingRecord[];
  weights: Float64Array;
  /** Number of records of the chunk that were taken. */
  taken: number;
  /** Offset after the chunk and the control records that follow it. */
  next: bigint;
  arrived: number;
  /** ms since 1970. */
  came: number;
}

/**
 * Longest timer, ms. Longer delays use several timers, because the clock may be adjusted, and timers of Node.js support
 * at most 24 days.
 */
const LONGEST_SLEEP_MS = 60_000;

/**
 * The buffered records of one partition, for one reader. The bytes of a record count until they are released, also
 * while it is being processed.
 */
export class PartitionBuffer {
  readonly #topic: string;
  readonly #partition: number;
  readonly #limits: BatchLimits;
  #chunks: Chunk[] = [];
  #rows = 0;
  #waitingBytes = 0;
  #heldBytes = 0;
  #closed = false;
  #wake: (() => void) | null = null;

  constructor(topic: string, partition: number, limits: BatchLimits) {
    this.#topic = topic;
    this.#partition = partition;
    this.#limits = limits;
  }

  /** Bytes of records that are waiting, being processed, or being written. */
  get bytes(): number {
    return this.#waitingBytes + this.#heldBytes;
  }

  push(records: readonly IncomingRecord[], next: bigint): void {
    if (this.#closed || records.length === 0) return;
    const weights = new Float64Array(records.length);
    for (let i = 0; i < records.length; i++) {
      weights[i] = weightOf(records[i]!);
      this.#waitingBytes += weights[i]!;
    }
    this.#chunks.push({ records, weights, taken: 0, next, arrived: monotonicMs(), came: epochMs() });
    this.#rows += records.length;
    this.#wake?.();
  }

  /** Returns the next micro-batch when it is due; null: the buffer is closed. Its bytes count until `release`. */
  async take(): Promise<MicroBatch | null> {
    while (!this.#closed) {
      const first = this.#chunks[0];
      if (first) {
        const early = this.#dueIn(first);
        if (early > 0) {
          await this.#sleep(Math.min(early, LONGEST_SLEEP_MS));
          continue;
        }
        const left = first.arrived + this.#limits.batchWaitMs - monotonicMs();
        const full = this.#rows >= this.#limits.batchRows || this.#waitingBytes >= this.#limits.batchBytes;
        if (full || left <= 0) return this.#cut();
        await this.#sleep(left);
      } else await this.#sleep();
    }
    return null;
  }

  /** Frees the bytes of a taken batch. */
  release(bytes: number): void {
    this.#heldBytes -= bytes;
  }

  /** Ends pending calls of `take` and discards waiting records. */
  close(): void {
    this.#closed = true;
    this.#chunks = [];
    this.#rows = 0;
    this.#waitingBytes = 0;
    this.#wake?.();
  }

  #cut(): MicroBatch {
    const records: IncomingRecord[] = [];
    let bytes = 0;
    let next = 0n;
    for (let chunk = this.#chunks[0]; chunk; chunk = this.#chunks[0]) {
      while (chunk.taken < chunk.records.length && records.length < this.#limits.batchRows) {
        const weight = chunk.weights[chunk.taken]!;
        if (records.length > 0 && (bytes + weight > this.#limits.batchBytes || this.#dueIn(chunk) > 0)) break;
        bytes += weight;
        records.push(chunk.records[chunk.taken++]!);
      }
      const whole = chunk.taken === chunk.records.length;
      next = whole ? chunk.next : records.at(-1)!.offset + 1n;
      if (!whole) break;
      this.#chunks.shift();
    }
    this.#rows -= records.length;
    this.#waitingBytes -= bytes;
    this.#heldBytes += bytes;
    return { topic: this.#topic, partition: this.#partition, records, next, bytes };
  }

  /** Time until the next record of the chunk is due, ms; zero or negative: the record is due now. */
  #dueIn({ records, taken, came }: Chunk): number {
    const { delayMs } = this.#limits;
    return delayMs === 0 ? 0 : Math.min(records[taken]!.timestamp, came) + delayMs - epochMs();
  }

  #sleep(ms?: number): Promise<void> {
    return new Promise((resolve) => {
      const timer = ms === undefined ? undefined : startTimer(() => this.#wake?.(), ms);
      this.#wake = () => {
        stopTimer(timer);
        this.#wake = null;
        resolve();
      };
    });
  }
}

/** Default limit for records in memory, over all partitions, bytes. */
const DEFAULT_IN_FLIGHT_BYTES = 32 * 1024 * 1024;

interface InFlightOptions {
  maxBytes?: number | undefined;
  pause: (partition: number) => void;
  resume: (partition: number) => void;
}

/**
 * Limits the records in memory by pausing partitions. All partitions have equal shares. A partition may exceed its
 * share by one fetch.
 */
export class InFlight {
  readonly #options: InFlightOptions;
  readonly #full = new Set<number>();

  constructor(options: InFlightOptions) {
    this.#options = options;
  }

  /** Maximum bytes of records in memory, over all partitions. */
  get budget(): number {
    return this.#options.maxBytes ?? DEFAULT_IN_FLIGHT_BYTES;
  }

  /** Pauses a partition whose `bytes` reach its share, and resumes it when half of its share is free. */
  update(partition: number, bytes: number, partitions: number): void {
    const share = this.budget / partitions;
    if (bytes >= share && !this.#full.has(partition)) {
      this.#full.add(partition);
      this.#options.pause(partition);
    } else if (bytes <= share / 2 && this.#full.delete(partition)) this.#options.resume(partition);
  }

  isFull(partition: number): boolean {
    return this.#full.has(partition);
  }

  /** Must be called when a partition restarts with an empty buffer. */
  forget(partition: number): void {
    this.#full.delete(partition);
  }

  clear(): void {
    this.#full.clear();
  }
}
