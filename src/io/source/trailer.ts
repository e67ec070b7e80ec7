// The last line of an input kept back: a trailer is no record of the table, and must not reach what reads those.
import type { Chunks } from './byte-source.ts';

const LF = 10;
const CR = 13;
/** A longer line is no trailer. */
const LONGEST = 64 * 1024;

const isEnd = (byte: number | undefined): boolean => byte === LF || byte === CR;

/** Text in UTF-8 without its last line that is not empty, which is there when the chunks have ended. */
export class WithoutLastLine {
  #held = Buffer.alloc(0);
  /** The beginning of the line that is held was too long to be held. */
  #cut = false;

  /** The last line without its end; null: there is none, or it is too long to be a trailer. */
  get last(): string | null {
    const end = this.#textEnd(this.#held);
    return this.#cut || end === 0 ? null : this.#held.toString('utf8', 0, end);
  }

  /** A chunk is valid until the next one is asked for. */
  async *rest(chunks: Chunks): AsyncGenerator<Uint8Array> {
    for await (const chunk of chunks) {
      const bytes = this.#held.length === 0 ? Buffer.from(chunk) : Buffer.concat([this.#held, chunk]);
      const from = this.#lastLine(bytes);
      if (from > 0) yield bytes.subarray(0, from);
      this.#held = bytes.subarray(from);
    }
  }

  /** Where the last line begins that is not empty, or may go on. */
  #lastLine(bytes: Buffer): number {
    const end = this.#textEnd(bytes);
    // Only ends of lines: the line that was held before them is the last one, if it is still here.
    let from = end;
    while (from > 0 && !isEnd(bytes[from - 1])) from--;
    if (from > 0) this.#cut = false;
    if (bytes.length - from <= LONGEST) return from;
    this.#cut = true;
    return bytes.length;
  }

  #textEnd(bytes: Buffer): number {
    let end = bytes.length;
    while (end > 0 && isEnd(bytes[end - 1])) end--;
    return end;
  }
}
