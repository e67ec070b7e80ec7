// Blocks of a table: its rows as columns, as many as a slab has bytes.
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

/** Most pieces of a table in a block: each holds memory for as many rows as a piece may have, however few it has. */
const MOST_RUNS = 64;
/** Most bytes of text of a block, unless a single row has more: some readers of a block write its text. */
const MOST_TEXT_BYTES = 32 * 1024 * 1024;

interface TableOptions extends Pick<CutOptions, 'slabs' | 'signal' | 'flow' | 'idleMs'> {
  /** A row is rejected whose text is longer. */
  maxRecordBytes: number;
}

/**
 * Yields blocks in order, each with a slab of the pool, as `cutBlocks` does. Columns lie in
 * memory that belongs to the slab: they are valid until it is given back.
 * @throws SluiceError what the table throws
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

/** The rows of the block that is being filled. */
class TableBlocks {
  rows = 0;
  readonly #feed: TableFeed;
  readonly #options: TableOptions;
  readonly #held: TableRows[] = [];
  #bytes = 0;
  /** Most bytes of their text: words referenced by many rows make it longer than its storage. */
  #textBytes = 0;
  #seq = 0;
  /** Rows of the blocks before. */
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

  /** The lists of a block usually are those of the block before. */
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
