// Forms blocks of a columnar table. A block has as many rows as fit into a slab.
import {
  type Block,
  blockColumns,
  bytesOfRuns,
  RECORD_OK,
  RECORD_TOO_LONG,
  type TableFeed,
  type TableRows,
  type WordBook,
  type WordList,
  wordBook,
} from '../../core/block.ts';
import { monotonicMs } from '../../core/clock.ts';
import type { Slab } from '../../core/slabs.ts';
import { type CutOptions, firstOf, IDLE, type Leased } from './block-cutter.ts';

/**
 * Maximum number of row groups that are collected in one block. Each group holds memory for its maximum number of rows,
 * even if it has few rows.
 */
const MOST_RUNS = 64;
/**
 * Maximum bytes of text per block, unless a single row has more text. A limit is needed because some readers write the
 * text of a block.
 */
const MOST_TEXT_BYTES = 32 * 1024 * 1024;

interface TableOptions extends Pick<CutOptions, 'slabs' | 'signal' | 'flow' | 'idleMs'> {
  /** Maximum text length of a row, bytes. Longer rows are rejected. */
  maxRecordBytes: number;
}

/**
 * Like `cutBlocks`: yields blocks in order, each with a slab of the pool. The columns are in the memory of the slab, so
 * they are valid until the slab is released.
 * @throws SluiceError errors of the table
 */
export async function* tableBlocks(feed: TableFeed, options: TableOptions): AsyncGenerator<Block & Leased, void, void> {
  const { slabs, signal, flow } = options;
  const blocks = new TableBlocks(feed, options);
  let pending: Promise<TableRows | null> | null = null;
  for (;;) {
    signal?.throwIfAborted();
    pending ??= feed.next();
    const asked = monotonicMs();
    const next = await firstOf(pending, signal, blocks.rows > 0 ? options.idleMs : undefined);
    flow?.waited('source', monotonicMs() - asked);
    if (next === IDLE) {
      yield blocks.take(await slabs.acquire(signal));
      continue;
    }
    pending = null;
    if (next === null) break;
    if (blocks.rows > 0 && !blocks.fits(next)) yield blocks.take(await slabs.acquire(signal));
    blocks.add(next);
  }
  if (blocks.rows > 0) yield blocks.take(await slabs.acquire(signal));
}

/** Collects the rows of the current block. */
class TableBlocks {
  rows = 0;
  readonly #feed: TableFeed;
  readonly #options: TableOptions;
  readonly #held: TableRows[] = [];
  #bytes = 0;
  /**
   * Upper bound of the text bytes of the collected rows. It can exceed `#bytes`, because many rows can refer to the
   * same word.
   */
  #textBytes = 0;
  #seq = 0;
  /** Number of rows in earlier blocks. */
  #before = 0;
  #book: { ids: string; book: WordBook } | null = null;
  readonly #memories = new WeakMap<Slab, SharedArrayBuffer>();

  constructor(feed: TableFeed, options: TableOptions) {
    this.#feed = feed;
    this.#options = options;
  }

  fits({ run, textBytes }: TableRows): boolean {
    const isShort = this.#held.length < MOST_RUNS && this.#textBytes + textBytes <= MOST_TEXT_BYTES;
    return isShort && this.#bytes + bytesOfRuns([run]) <= this.#options.slabs.slabBytes;
  }

  add(rows: TableRows): void {
    this.#held.push(rows);
    this.rows += rows.run.rows;
    this.#bytes += bytesOfRuns([rows.run]);
    this.#textBytes += rows.textBytes;
  }

  take(slab: Slab): Block & Leased {
    const [rows, bytes, firstRow] = [this.rows, this.#bytes, this.#before + 1];
    const faults = this.#faults();
    const runs = this.#held.map(({ run }) => run);
    const columns = blockColumns(this.#feed.names, runs, this.#memory(slab, bytes), (lists) => this.#bookOf(lists));
    for (const held of this.#held.splice(0)) held.release();
    this.#before += rows;
    this.rows = this.#bytes = this.#textBytes = 0;
    return {
      seq: this.#seq++,
      slab: slab.buffer,
      spans: new Int32Array(0),
      faults,
      firstRow,
      lines: numbersFrom(firstRow, rows),
      firstByte: Number.NaN,
      length: bytes,
      inputEnd: this.#before,
      columns,
      lease: slab,
    };
  }

  #faults(): Uint8Array {
    const { maxRecordBytes } = this.#options;
    const faults = new Uint8Array(this.rows).fill(RECORD_OK);
    let first = 0;
    for (const rows of this.#held) {
      for (const row of rows.longer(maxRecordBytes)) faults[first + row] = RECORD_TOO_LONG;
      first += rows.run.rows;
    }
    return faults;
  }

  /**
   * Returns the word book of some word lists, from the cache if they are unchanged, because consecutive blocks usually
   * have the same word lists.
   */
  #bookOf(lists: readonly WordList[]): WordBook {
    const ids = lists.map(({ id }) => id).join();
    if (this.#book?.ids !== ids) this.#book = { ids, book: wordBook(lists) };
    return this.#book.book;
  }

  #memory(slab: Slab, bytes: number): SharedArrayBuffer {
    const known = this.#memories.get(slab);
    if (known && known.byteLength >= bytes) return known;
    const larger = new SharedArrayBuffer(
      Math.max(bytes, Math.min(bytes + (bytes >> 1), this.#options.slabs.slabBytes)),
    );
    this.#memories.set(slab, larger);
    return larger;
  }
}

function numbersFrom(first: number, count: number): Int32Array {
  const numbers = new Int32Array(count);
  for (let i = 0; i < count; i++) numbers[i] = first + i;
  return numbers;
}
