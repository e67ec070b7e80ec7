// A table of columns as chunks of lines of JSON, and the columns themselves for whoever cuts the lines into blocks.
import type { BlockColumns, CellRun, ColumnFeed, ColumnRun } from '../../core/block-columns.ts';
import { type BatchColumn, type ColumnSource, LineBatch } from './line-batch.ts';
import { longestLine, writeLines } from './line-writer.ts';

const CHUNK_BYTES = 256 * 1024;

/** Chunks are valid until the next one is asked for. */
export class ColumnLines implements AsyncIterable<Uint8Array>, ColumnFeed {
  readonly #source: ColumnSource;
  readonly #free: LineBatch[] = [];
  /** Batches of which rows may still be taken, in order. */
  readonly #held: LineBatch[] = [];
  /** Rows of the first one that were. */
  #taken = 0;
  #keeps = false;
  readonly #beside = new WeakMap<object, SharedArrayBuffer>();

  constructor(source: ColumnSource) {
    this.#source = source;
  }

  keep(): void {
    this.#keeps = true;
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<Uint8Array> {
    let chunk = Buffer.allocUnsafeSlow(CHUNK_BYTES);
    for (;;) {
      const batch = this.#free.pop() ?? new LineBatch(this.#source.names);
      if (!(await this.#source.next(batch))) return;
      if (this.#keeps) this.#held.push(batch);
      const longest = longestLine(batch);
      if (longest > chunk.length) chunk = Buffer.allocUnsafeSlow(longest * 2);
      for (let from = 0; from < batch.rows; ) {
        const { row, length } = writeLines(batch, from, chunk, longest);
        from = row;
        yield chunk.subarray(0, length);
      }
      if (!this.#keeps) this.#free.push(batch);
    }
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
    const memory = new Room(this.#memory(lease, pieces));
    const runs = pieces.map(({ batch, from, to }): ColumnRun => {
      const cells = batch.columns.map((column) => cellsOf(column, from, to, memory));
      return { rows: to - from, cells };
    });
    return { names: this.#source.names, runs };
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

/** Arrays one behind the other. */
class Room {
  readonly #buffer: SharedArrayBuffer;
  #at = 0;

  constructor(buffer: SharedArrayBuffer) {
    this.#buffer = buffer;
  }

  numbers(values: Float64Array): Float64Array {
    const out = new Float64Array(this.#buffer, this.#at, values.length);
    this.#at += out.byteLength;
    out.set(values);
    return out;
  }

  integers(values: Int32Array): Int32Array {
    const out = new Int32Array(this.#buffer, this.#at, values.length);
    this.#at += (out.byteLength + 7) & ~7;
    out.set(values);
    return out;
  }
}

function cellsOf(column: BatchColumn, from: number, to: number, room: Room): CellRun {
  const { kind, values, codes, fragments, places } = column;
  if (kind === 'numbers') return { kind, values: room.numbers(values.subarray(from, to)) };
  if (kind === 'tokens') return { kind, places: room.integers(places.subarray(from * 2, to * 2)) };
  return { kind, codes: room.integers(codes.subarray(from, to)), words: fragments!.list };
}
