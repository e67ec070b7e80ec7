// A pool of memory for blocks, whose size limits the number of blocks in flight.
// A reader waits until the slab of a written block is returned.
import type { Held } from './flow.ts';

/** Page size of WebAssembly memory in bytes; memories grow by whole pages (WebAssembly core specification, 4.2.8). */
export const PAGE = 65_536;

/** Shared memory for the bytes of one block. */
export interface Slab {
  readonly buffer: SharedArrayBuffer;
  /** Offset of the first byte of the slab in the buffer. */
  readonly at: number;
  readonly bytes: number;
}

/** A pool of at most `budget` slabs; waiting for a slab is the backpressure of a stream. */
export class SlabPool {
  readonly slabBytes: number;
  readonly budget: number;
  /** The memory shared by all slabs, which kernels read in place; null: each slab has its own memory. */
  readonly memory: WebAssembly.Memory | null;
  /** Bytes of scratch space for kernels, in front of the slabs. */
  readonly scratch = PAGE;
  readonly #free: Slab[] = [];
  readonly #waiting: ((slab: Slab) => void)[] = [];
  #made = 0;
  #out = 0;
  #bytes = 0;

  /**
   * `together`: put all slabs into a single WebAssembly memory if possible. This is not suitable for services: each
   * memory reserves 10 GB of address space, and thousands of memories could accumulate before they are
   * garbage-collected.
   */
  constructor(budget: number, slabBytes: number, together = false) {
    this.budget = budget;
    this.slabBytes = slabBytes;
    this.memory = together ? sharedMemory(this.scratch + budget * aligned(slabBytes)) : null;
  }

  /** Number of slabs in use. */
  get inFlight(): number {
    return this.#out;
  }

  /** Bytes of the slabs in use, and their limit. A larger substitute for a slab counts with its own size. */
  get held(): Held {
    return { bytes: this.#bytes, budget: this.budget * this.slabBytes };
  }

  /** Resolves with a slab as soon as the budget allows; rejects when `signal` is aborted. */
  async acquire(signal?: AbortSignal): Promise<Slab> {
    signal?.throwIfAborted();
    if (this.#out < this.budget) {
      this.#out++;
      return this.#next();
    }
    return new Promise((resolve, reject) => {
      const take = (slab: Slab) => {
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

  /** Releases a slab; a larger substitute is garbage-collected. */
  release(slab: Slab): void {
    this.#bytes -= slab.bytes;
    if (this.holds(slab)) this.#free.push(slab);
    const next = this.#waiting.shift();
    if (next) next(this.#next());
    else this.#out--;
  }

  /** Whether a slab belongs to the pool and is not a larger substitute. */
  holds(slab: Slab): boolean {
    return this.memory ? slab.buffer === bufferOf(this.memory) : slab.bytes === this.slabBytes;
  }

  /** Returns a larger substitute for a slab, for a record that does not fit. It is allocated outside the pool. */
  larger(slab: Slab, bytes: number): Slab {
    if (this.holds(slab)) this.#free.push(slab);
    this.#bytes += bytes - slab.bytes;
    return { buffer: new SharedArrayBuffer(bytes), at: 0, bytes };
  }

  #next(): Slab {
    this.#bytes += this.slabBytes;
    const known = this.#free.pop();
    if (known) return known;
    const bytes = this.slabBytes;
    if (!this.memory) return { buffer: new SharedArrayBuffer(bytes), at: 0, bytes };
    return { buffer: bufferOf(this.memory), at: this.scratch + this.#made++ * aligned(bytes), bytes };
  }
}

const bufferOf = (memory: WebAssembly.Memory): SharedArrayBuffer => memory.buffer as unknown as SharedArrayBuffer;

const aligned = (bytes: number): number => Math.ceil(bytes / 64) * 64;

function sharedMemory(bytes: number): WebAssembly.Memory | null {
  // An additional page is needed, because vector loads may read past the last slab.
  const pages = Math.ceil(bytes / PAGE) + 1;
  try {
    return new WebAssembly.Memory({ initial: pages, maximum: pages, shared: true });
  } catch {
    return null;
  }
}
