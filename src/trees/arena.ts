// Lays out WebAssembly memory before it exists: places are taken first, contents written when it is there.

/** Alignment of every place: a cache line. */
const LINE = 64;

export class Arena {
  // The first line stays empty, so that no place has address 0.
  #end = LINE;
  readonly #writes: ((memory: ArrayBuffer) => void)[] = [];

  /** Takes `bytes`; `write` fills them once the memory exists. Gives the address. */
  take(bytes: number, write?: (memory: ArrayBuffer, at: number) => void): number {
    const at = this.#end;
    this.#end = Math.ceil((at + bytes) / LINE) * LINE;
    if (write) this.#writes.push((memory) => write(memory, at));
    return at;
  }

  get bytes(): number {
    return this.#end;
  }

  /** The memory, filled. */
  build(): WebAssembly.Memory {
    // One page more: vector loads near the end stay inside.
    const memory = new WebAssembly.Memory({ initial: Math.ceil(this.#end / 65_536) + 1 });
    for (const write of this.#writes) write(memory.buffer);
    return memory;
  }
}
