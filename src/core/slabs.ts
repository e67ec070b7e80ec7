// The fixed budget of blocks in flight: who wants to read more must wait until a written block gives its slab back.
import { PAGE } from './wasm.ts';

/** A piece of shared memory for the bytes of one block. */
export interface Slab {
  readonly buffer: SharedArrayBuffer;
  /** Its first byte in the buffer. */
  readonly at: number;
  readonly bytes: number;
}

/** A pool of at most `budget` slabs, side by side in one memory; waiting for one is the backpressure of a stream. */
export class SlabPool {
  readonly slabBytes: number;
  readonly budget: number;
  /** The memory of all slabs, for kernels that look at them in place; null where there is no such memory to be had. */
  readonly memory: WebAssembly.Memory | null;
  /** Bytes in front of the slabs that kernels may write to. */
  readonly scratch: number;
  readonly #buffer: SharedArrayBuffer;
  readonly #free: Slab[] = [];
  readonly #waiting: ((slab: Slab) => void)[] = [];
  #made = 0;
  #out = 0;

  /** Memory is taken when it is written to, not before. */
  constructor(budget: number, slabBytes: number, scratch = PAGE) {
    this.budget = budget;
    this.slabBytes = slabBytes;
    this.scratch = scratch;
    // Vector loads may touch what lies behind the last slab.
    const pages = Math.ceil((scratch + budget * aligned(slabBytes)) / PAGE) + 1;
    this.memory = sharedMemory(pages);
    this.#buffer = (this.memory?.buffer as unknown as SharedArrayBuffer) ?? new SharedArrayBuffer(pages * PAGE);
  }

  /** Slabs handed out and not yet given back. */
  get inFlight(): number {
    return this.#out;
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

  /** Gives a slab back, or the larger one that had to stand in for it: that is left to the garbage collector. */
  release(slab: Slab): void {
    if (this.holds(slab)) this.#free.push(slab);
    const next = this.#waiting.shift();
    if (next) next(this.#next());
    else this.#out--;
  }

  /** Whether a slab lies in the memory of the pool. */
  holds(slab: Slab): boolean {
    return slab.buffer === this.#buffer;
  }

  /** Something larger in the place of a slab, for a record that is longer: not in the memory of the pool. */
  larger(slab: Slab, bytes: number): Slab {
    if (this.holds(slab)) this.#free.push(slab);
    return { buffer: new SharedArrayBuffer(bytes), at: 0, bytes };
  }

  #next(): Slab {
    const known = this.#free.pop();
    if (known) return known;
    const at = this.scratch + this.#made++ * aligned(this.slabBytes);
    return { buffer: this.#buffer, at, bytes: this.slabBytes };
  }
}

const aligned = (bytes: number): number => Math.ceil(bytes / 64) * 64;

function sharedMemory(pages: number): WebAssembly.Memory | null {
  try {
    return new WebAssembly.Memory({ initial: pages, maximum: pages, shared: true });
  } catch {
    return null;
  }
}
