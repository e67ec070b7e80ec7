// Buffers records between fetching and processing: micro-batches per partition, and the memory limit shared by all partitions.
import { epochMs, monotonicMs, startTimer, stopTimer } from '../../core/clock.ts';
import { type IncomingRecord, type MicroBatch, weightOf } from './client/records.ts';

export interface BatchLimits {
  /** Maximum records of a micro-batch. */
  batchRows: number;
  /** Maximum bytes of a micro-batch, unless its only record is larger. */
  batchBytes: number;
  /** Longest time the first record waits for the batch to fill, ms. */
  batchWaitMs: number;
  /** A record is processed this long after its timestamp or its arrival, whichever is earlier, ms. */
  delayMs: number;
}

interface Chunk {
  records: readonly IncomingRecord[];
  weights: Float64Array;
  /** Number of records of the chunk already taken. */
  taken: number;
  /** Offset behind the chunk and the control records that follow it. */
  next: bigint;
  arrived: number;
  /** ms since 1970. */
  came: number;
}

/** Node timers support at most 24 days, and the clock may be adjusted meanwhile. */
const LONGEST_SLEEP_MS = 60_000;

/**
 * The buffered records of one partition, for one reader. Bytes count until they are released, including those of
 * records in processing.
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

  /** Bytes of records that wait, are processed or are written. */
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

  /** The next micro-batch as soon as one is due; null once closed. Its bytes count until `release`. */
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

  /** Ends `take` and discards waiting records. */
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

  /** Time until the next record of the chunk is due, ms; zero or less: it is due now. */
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

/** Limits records in memory by pausing partitions. Each has an equal share and may exceed it by one fetch. */
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

  /** Pauses a partition whose `bytes` reach its share, and resumes it when half of the share is free. */
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

  /** The partition restarts with an empty buffer. */
  forget(partition: number): void {
    this.#full.delete(partition);
  }

  clear(): void {
    this.#full.clear();
  }
}
