// The fixed budget of blocks in flight: who wants to read more must wait until a written block gives its slab back.

/** A pool of at most `budget` slabs; waiting for one is the backpressure of a stream. */
export class SlabPool {
  readonly slabBytes: number;
  readonly budget: number;
  readonly #free: SharedArrayBuffer[] = [];
  readonly #waiting: ((slab: SharedArrayBuffer) => void)[] = [];
  #out = 0;

  constructor(budget: number, slabBytes: number) {
    this.budget = budget;
    this.slabBytes = slabBytes;
  }

  /** Slabs handed out and not yet given back. */
  get inFlight(): number {
    return this.#out;
  }

  /** Resolves with a slab as soon as the budget allows; rejects when `signal` is aborted. */
  async acquire(signal?: AbortSignal): Promise<SharedArrayBuffer> {
    signal?.throwIfAborted();
    if (this.#out < this.budget) {
      this.#out++;
      return this.#free.pop() ?? new SharedArrayBuffer(this.slabBytes);
    }
    return new Promise((resolve, reject) => {
      const take = (slab: SharedArrayBuffer) => {
        signal?.removeEventListener('abort', onAbort);
        resolve(slab);
      };
      const onAbort = () => {
        const i = this.#waiting.indexOf(take);
        if (i >= 0) this.#waiting.splice(i, 1);
        reject(signal?.reason);
      };
      signal?.addEventListener('abort', onAbort, { once: true });
      this.#waiting.push(take);
    });
  }

  /** Gives a slab back; one that had to be larger than usual is left to the garbage collector. */
  release(slab: ArrayBufferLike): void {
    const kept = slab instanceof SharedArrayBuffer && slab.byteLength === this.slabBytes ? slab : null;
    const next = this.#waiting.shift();
    if (next) next(kept ?? new SharedArrayBuffer(this.slabBytes));
    else {
      this.#out--;
      if (kept) this.#free.push(kept);
    }
  }
}
