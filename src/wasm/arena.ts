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

  /** What the memory holds from address 0 on. */
  build(): Uint8Array<ArrayBuffer> {
    const memory = new ArrayBuffer(this.#end);
    for (const write of this.#writes) write(memory);
    return new Uint8Array(memory);
  }
}
