// Lays out WebAssembly memory before it exists: addresses are allocated first, and the contents are written when the memory is built.

/** Alignment of every allocation, bytes: a cache line. */
const LINE = 64;

export class Arena {
  // The first cache line stays empty, so that no allocation has address 0.
  #end = LINE;
  readonly #writes: ((memory: ArrayBuffer) => void)[] = [];

  /** Allocates `bytes` bytes and returns their address. `write` fills them when the memory is built. */
  take(bytes: number, write?: (memory: ArrayBuffer, at: number) => void): number {
    const at = this.#end;
    this.#end = Math.ceil((at + bytes) / LINE) * LINE;
    if (write) this.#writes.push((memory) => write(memory, at));
    return at;
  }

  get bytes(): number {
    return this.#end;
  }

  /** Returns the contents of the memory, starting at address 0. */
  build(): Uint8Array<ArrayBuffer> {
    const memory = new ArrayBuffer(this.#end);
    for (const write of this.#writes) write(memory);
    return new Uint8Array(memory);
  }
}
