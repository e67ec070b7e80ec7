// A table of columns as lines of JSON, for whoever reads text.
import { type ColumnSource, LineBatch } from './line-batch.ts';
import { LineWriter } from './line-writer.ts';

const CHUNK_BYTES = 256 * 1024;

const bufferOf = ({ buffer, byteOffset, byteLength }: Uint8Array): Buffer =>
  Buffer.from(buffer as ArrayBuffer, byteOffset, byteLength);

/** Chunks are valid until the next one is asked for. */
export class ColumnLines implements AsyncIterable<Uint8Array> {
  readonly #source: ColumnSource;
  readonly #batch: LineBatch;
  /** What of the batch is left, and of a line that did not fit. */
  #lines: LineWriter | null = null;
  #apart: Buffer = Buffer.alloc(0);
  #rest: Buffer = Buffer.alloc(0);

  constructor(source: ColumnSource) {
    this.#source = source;
    this.#batch = new LineBatch(source.names);
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<Uint8Array> {
    const chunk = Buffer.allocUnsafeSlow(CHUNK_BYTES);
    for (let n = await this.readInto(chunk); n > 0; n = await this.readInto(chunk)) yield chunk.subarray(0, n);
  }

  /** Reads the next bytes to where they are wanted; gives how many, 0 at the end. */
  async readInto(target: Uint8Array): Promise<number> {
    if (this.#rest.length === 0) {
      if (!this.#lines?.left && !(await this.#next())) return 0;
      const lines = this.#lines!;
      if (target.length >= lines.longest) return lines.write(bufferOf(target));
      if (this.#apart.length < lines.longest) this.#apart = Buffer.allocUnsafeSlow(lines.longest);
      this.#rest = this.#apart.subarray(0, lines.write(this.#apart.subarray(0, lines.longest)));
    }
    const n = Math.min(target.length, this.#rest.length);
    target.set(this.#rest.subarray(0, n));
    this.#rest = this.#rest.subarray(n);
    return n;
  }

  /** Goes on with the next batch; false: there is none. */
  async #next(): Promise<boolean> {
    if (!(await this.#source.next(this.#batch))) return false;
    this.#lines = new LineWriter(this.#batch, this.#source.recordBytes);
    return true;
  }
}
