// A table of columns as chunks of lines of JSON, and the columns themselves for whoever cuts the lines into blocks.
import {
  type BlockColumns,
  blockColumns,
  type CellRun,
  type ColumnFeed,
  type ColumnRun,
  type WordBook,
  type WordList,
  wordBook,
} from '../../core/block-columns.ts';
import { type BatchColumn, type ColumnSource, LineBatch } from './line-batch.ts';
import { LineWriter } from './line-writer.ts';

const CHUNK_BYTES = 256 * 1024;

const bufferOf = ({ buffer, byteOffset, byteLength }: Uint8Array): Buffer =>
  Buffer.from(buffer as ArrayBuffer, byteOffset, byteLength);

/** Chunks are valid until the next one is asked for. */
export class ColumnLines implements AsyncIterable<Uint8Array>, ColumnFeed {
  readonly #source: ColumnSource;
  /** What is being written: a batch, and of a line that did not fit what is left. */
  #batch: LineBatch | null = null;
  #lines: LineWriter | null = null;
  #apart: Buffer = Buffer.alloc(0);
  #rest: Buffer = Buffer.alloc(0);
  readonly #free: LineBatch[] = [];
  /** Batches of which rows may still be taken, in order. */
  readonly #held: LineBatch[] = [];
  /** Rows of the first one that were. */
  #taken = 0;
  #keeps = false;
  #book: { ids: string; book: WordBook } | null = null;
  readonly #beside = new WeakMap<object, SharedArrayBuffer>();

  constructor(source: ColumnSource) {
    this.#source = source;
  }

  keep(): void {
    this.#keeps = true;
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
    if (this.#batch && !this.#keeps) this.#free.push(this.#batch);
    this.#batch = null;
    const batch = this.#free.pop() ?? new LineBatch(this.#source.names);
    if (!(await this.#source.next(batch))) return false;
    this.#batch = batch;
    this.#lines = new LineWriter(batch);
    if (this.#keeps) this.#held.push(batch);
    return true;
  }

  take(rows: number, lease: object): BlockColumns {
    const pieces: { batch: LineBatch; from: number; to: number }[] = [];
    for (let left = rows; left > 0; ) {
      const batch = this.#held[0]!;
      const from = this.#taken;
      const to = Math.min(batch.rows, from + left);
      pieces.push({ batch, from, to });
      left -= to - from;
      this.#taken = to;
      if (to === batch.rows) {
        this.#free.push(this.#held.shift()!);
        this.#taken = 0;
      }
    }
    const runs = pieces.map(({ batch, from, to }): ColumnRun => {
      return { rows: to - from, cells: batch.columns.map((column) => cellsOf(column, from, to)) };
    });
    return blockColumns(this.#source.names, runs, this.#memory(lease, pieces), (lists) => this.#bookOf(lists));
  }

  /** The lists of a block usually are those of the block before. */
  #bookOf(lists: readonly WordList[]): WordBook {
    const ids = lists.map(({ id }) => id).join();
    if (this.#book?.ids !== ids) this.#book = { ids, book: wordBook(lists) };
    return this.#book.book;
  }

  #memory(lease: object, pieces: readonly { batch: LineBatch; from: number; to: number }[]): SharedArrayBuffer {
    const bytes = pieces.reduce((sum, { batch, from, to }) => sum + batch.columns.length * (to - from) * 8, 0);
    const known = this.#beside.get(lease);
    if (known && known.byteLength >= bytes) return known;
    const larger = new SharedArrayBuffer(bytes + (bytes >> 1));
    this.#beside.set(lease, larger);
    return larger;
  }
}

function cellsOf({ kind, values, codes, fragments, places }: BatchColumn, from: number, to: number): CellRun {
  if (kind === 'numbers') return { kind, values: values.subarray(from, to) };
  if (kind === 'tokens') return { kind, places: places.subarray(from * 2, to * 2) };
  return { kind, codes: codes.subarray(from, to), words: fragments!.list };
}
