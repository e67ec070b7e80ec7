// The in-flight share of a partition: records in memory are bounded by pausing the partitions that hold more than their part.

/** Records in memory, all partitions together, bytes. */
export const DEFAULT_IN_FLIGHT_BYTES = 32 * 1024 * 1024;

export interface InFlightOptions {
  maxBytes?: number | undefined;
  pause: (partition: number) => void;
  resume: (partition: number) => void;
}

/** Each partition has an equal share, which it may exceed by one fetch. */
export class InFlight {
  readonly #options: InFlightOptions;
  readonly #full = new Set<number>();

  constructor(options: InFlightOptions) {
    this.#options = options;
  }

  /** Bytes there may be, all partitions together. */
  get budget(): number {
    return this.#options.maxBytes ?? DEFAULT_IN_FLIGHT_BYTES;
  }

  /** Pauses a partition whose `bytes` reach its share, and goes on when half of the share is free. */
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

  /** The partition starts over with nothing in memory. */
  forget(partition: number): void {
    this.#full.delete(partition);
  }

  clear(): void {
    this.#full.clear();
  }
}
