// The workers beyond the first of each pool. All pools of a service share a number of them, so that the memory of workers
// does not grow with the number of models times the number of cores.

/** A pool that starts more workers when its jobs wait. */
export interface SpareHolder {
  /** Ends a worker that the pool has not needed for some time. Returns false if there is none. */
  endSpare(): boolean;
}

export class SpareWorkers {
  readonly #most: number;
  readonly #held = new Map<SpareHolder, number>();

  /** `most`: maximum number of workers beyond the first of each pool, over all pools. */
  constructor(most: number) {
    this.#most = most;
  }

  /** Number of workers beyond the first of each pool. */
  get held(): number {
    return this.#held.values().reduce((sum, n) => sum + n, 0);
  }

  /**
   * Gives a pool up to `wanted` more workers. If all are in use, other pools end workers that they have not needed for
   * some time. Returns how many workers the pool may start.
   */
  take(holder: SpareHolder, wanted: number): number {
    let given = 0;
    while (given < wanted && (this.held < this.#most || this.#reclaim(holder))) {
      this.#held.set(holder, (this.#held.get(holder) ?? 0) + 1);
      given++;
    }
    return given;
  }

  /** Takes back all workers of a pool that is closed. */
  release(holder: SpareHolder): void {
    this.#held.delete(holder);
  }

  #reclaim(holder: SpareHolder): boolean {
    for (const [other, held] of this.#held) {
      if (other === holder || !other.endSpare()) continue;
      if (held === 1) this.#held.delete(other);
      else this.#held.set(other, held - 1);
      return true;
    }
    return false;
  }
}
