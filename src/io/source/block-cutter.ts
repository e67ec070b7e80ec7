// Divides a stream of byte chunks into blocks of whole records. A block has at most one slab of bytes.
import { CR, LF } from '../../core/ascii.ts';
import type { Block } from '../../core/block.ts';
import { monotonicMs, startTimer, stopTimer } from '../../core/clock.ts';
import { refuseForeignContent } from '../../core/file-format.ts';
import type { Flow } from '../../core/flow.ts';
import type { Slab, SlabPool } from '../../core/slabs.ts';
import type { Chunks } from './byte-source.ts';
import { RecordList, type RecordScanner } from './record-scanner.ts';

/** Number of leading bytes used to detect the format. */
const HEAD_BYTES = 64;

export interface CutOptions {
  scanner: RecordScanner;
  slabs: SlabPool;
  signal?: AbortSignal;
  /** Records the time spent waiting for bytes. */
  flow?: Flow;
  /** Called with the first record, which is then the header and not part of a block. */
  onHeader?: (header: { bytes: Buffer; fault: number }) => void;
  /** Whether the chunks start in the middle of an input. Bytes that look like a byte order mark are then text. */
  middle?: boolean;
  /** Whether the first block must start in its own slab, after the header. */
  headApart?: boolean;
  /** Receives all bytes of the input in order. `blockEnds`: a block ends with these bytes. */
  onConsumed?: (bytes: Uint8Array, blockEnds: boolean) => void;
  /** Time without new bytes after which the records found so far are yielded, ms. Default: wait for a full slab. */
  idleMs?: number;
}

/**
 * All records of a complete input as one block, in the memory of the input; null: the input has no records.
 * @throws SluiceError invalid_encoding | foreign_content if the bytes are not UTF-8 text; errors of the scanner
 */
export function cutWhole(
  input: Uint8Array,
  { scanner, onHeader }: Pick<CutOptions, 'scanner' | 'onHeader'>,
): Block | null {
  const start = input.byteOffset + skipByteOrderMark(input, input.length);
  const length = input.byteOffset + input.length - start;
  const bytes = Buffer.from(input.buffer, start, length);
  const records = new RecordList();
  scanner.scan(bytes, length, true, records);
  if (onHeader && records.count > 0) takeHeader(bytes, records, onHeader);
  const { count, spans, faults, lines } = records;
  if (count === 0) return null;
  for (let i = 0; i < count * 2; i++) spans[i]! += start;
  return {
    seq: 0,
    slab: input.buffer,
    // No copy is needed, because only this block uses the list.
    spans: spans.subarray(0, count * 2),
    faults: faults.subarray(0, count),
    lines: lines.subarray(0, count),
    firstRow: 1,
    firstByte: -input.byteOffset,
    length: start + length,
    inputEnd: input.length,
  };
}

/**
 * Finds the end of the first lines of a text. As in the record scanners, LF, CRLF and CR end lines and may be mixed.
 */
class LineSkipper {
  #left: number;
  /** Whether the last byte was CR, so that a following LF belongs to the same line break. */
  #afterCr = false;

  constructor(lines: number) {
    this.#left = lines;
  }

  isDone = false;

  /** Number of bytes at the beginning that belong to the skipped lines. */
  take(bytes: Uint8Array): number {
    for (const [at, byte] of bytes.entries()) {
      const endsCrLf = this.#afterCr && byte === LF;
      this.#afterCr = byte === CR && this.#left > 0;
      if (endsCrLf) continue;
      if (this.#left === 0) {
        this.isDone = true;
        return at;
      }
      if (byte === LF || byte === CR) this.#left--;
    }
    return bytes.length;
  }
}

/** A block with the slab that must be released when the block is no longer used. */
export interface Leased {
  readonly lease: Slab;
}

export const IDLE = Symbol('idle');

/**
 * Yields blocks in order. Each block has a slab of the pool, which its last user must return with
 * `slabs.release(block.lease)`. Sources that can read into a given buffer read directly into the slabs. `idleMs`
 * applies only to sources that wait. The source may reuse a chunk when the next chunk is requested.
 * @throws SluiceError invalid_encoding | foreign_content if the bytes are not UTF-8 text; errors of the chunks or the
 * scanner
 */
export async function* cutBlocks(chunks: Chunks, options: CutOptions): AsyncGenerator<Block & Leased, void, void> {
  const cutter = new BlockCutter(options, await options.slabs.acquire(options.signal), chunks.skipLines ?? 0);
  try {
    yield* chunks.readInto ? cutter.fromReads(chunks) : cutter.fromChunks(chunks);
  } finally {
    cutter.release();
  }
}

/** Fills a slab and collects the records found in it. */
class BlockCutter {
  readonly #options: CutOptions;
  readonly #records = new RecordList();
  #slab: Slab;
  #bytes: Buffer;
  /** Whether the cutter owns the slab; false: the slab was yielded with a block. */
  #owned = true;
  #filled = 0;
  /** Input offset of the first byte of the slab. */
  #base = 0;
  #seq = 0;
  #rows = 0;
  #headerDue: boolean;
  #byteOrderMarkDue: boolean;
  /** Number of lines in front of the records. */
  readonly #skipped: number;
  #skipper: LineSkipper | null;

  constructor(options: CutOptions, slab: Slab, skipLines: number) {
    this.#skipped = skipLines;
    this.#skipper = skipLines > 0 ? new LineSkipper(skipLines) : null;
    this.#options = options;
    this.#slab = slab;
    this.#bytes = viewOf(slab);
    this.#headerDue = options.onHeader !== undefined;
    this.#byteOrderMarkDue = options.middle !== true;
    options.scanner.attach?.(options.slabs);
  }

  /** Reads the input directly into the slabs. */
  async *fromReads(chunks: Chunks): AsyncGenerator<Block & Leased, void, void> {
    for (let n = -1; n !== 0; ) {
      this.#options.signal?.throwIfAborted();
      if (this.#filled === this.#bytes.length) yield* this.#room();
      const asked = monotonicMs();
      n = await chunks.readInto!(this.#bytes.subarray(this.#filled));
      this.#options.flow?.waited('source', monotonicMs() - asked);
      this.#filled += n;
      if (n > 0) this.#scan(false);
    }
    yield* this.#last();
  }

  /** Copies the chunks of the input into the slabs. */
  async *fromChunks(chunks: Chunks): AsyncGenerator<Block & Leased, void, void> {
    const { signal } = this.#options;
    const input = chunks[Symbol.asyncIterator]();
    try {
      let pending: Promise<IteratorResult<Uint8Array>> | null = null;
      for (;;) {
        signal?.throwIfAborted();
        pending ??= input.next();
        const idleMs = this.#records.count > 0 ? this.#options.idleMs : undefined;
        const asked = monotonicMs();
        const next = await firstOf(pending, signal, idleMs);
        this.#options.flow?.waited('source', monotonicMs() - asked);
        if (next === IDLE) {
          yield* this.#handOver();
          continue;
        }
        pending = null;
        if (next.done) break;
        const chunk = next.value;
        for (let at = 0; at < chunk.length; ) {
          if (this.#filled === this.#bytes.length) yield* this.#room();
          at += this.#copy(chunk, at);
          this.#scan(false);
        }
      }
      yield* this.#last();
    } finally {
      this.release();
      const closed = Promise.resolve(input.return?.());
      if (signal?.aborted) closed.catch(() => {});
      else await closed;
    }
  }

  /** Returns the slab to the pool if no block has it. */
  release(): void {
    if (this.#owned) this.#options.slabs.release(this.#slab);
    this.#owned = false;
  }

  /** Copies as many bytes of the chunk as fit into the slab. Returns their number. */
  #copy(chunk: Uint8Array, at: number): number {
    const n = Math.min(chunk.length - at, this.#bytes.length - this.#filled);
    this.#bytes.set(at === 0 && n === chunk.length ? chunk : chunk.subarray(at, at + n), this.#filled);
    this.#filled += n;
    return n;
  }

  #scan(final: boolean): void {
    const { scanner, slabs, onHeader } = this.#options;
    if (this.#byteOrderMarkDue && !this.#skipByteOrderMark(final)) return;
    if (this.#skipper && !this.#skipLines(this.#skipper)) return;
    const place = slabs.memory && slabs.holds(this.#slab) ? this.#slab.at : -1;
    scanner.scan(this.#bytes, this.#filled, final, this.#records, place);
    if (this.#headerDue && this.#records.count > 0) {
      this.#headerDue = false;
      takeHeader(this.#bytes, this.#records, onHeader!);
      // Blocks start at the first record, because block sizes must not depend on how earlier bytes were read.
      if (this.#options.headApart && this.#records.count === 0) this.#makeRoom();
    }
  }

  /** Skips a byte order mark. Returns false if there are not enough bytes to detect it. */
  #skipByteOrderMark(final: boolean): boolean {
    if (this.#filled < 4 && !final) return false;
    this.#byteOrderMarkDue = false;
    this.#drop(skipByteOrderMark(this.#bytes, this.#filled));
    return true;
  }

  /** Skips the lines in front of the records. Returns false if they may continue in the next bytes. */
  #skipLines(skipper: LineSkipper): boolean {
    this.#drop(skipper.take(this.#bytes.subarray(0, this.#filled)));
    if (!skipper.isDone) return false;
    this.#skipper = null;
    return true;
  }

  /**
   * Removes the first bytes of the slab, which belong to no record. The sizes of blocks do not depend on them, because
   * the slab is filled again.
   */
  #drop(length: number): void {
    if (length === 0) return;
    this.#consumed(length, false);
    this.#bytes.copyWithin(0, length, this.#filled);
    this.#filled -= length;
    this.#base += length;
  }

  /** Yields the remaining records at the end of the input. */
  *#last(): Generator<Block & Leased, void, void> {
    this.#scan(true);
    this.#consumed(this.#filled, this.#records.count > 0);
    if (this.#records.count > 0) yield this.#take(this.#filled);
  }

  #consumed(bytes: number, blockEnds: boolean): void {
    this.#options.onConsumed?.(this.#bytes.subarray(0, bytes), blockEnds);
  }

  /**
   * Creates a block of the records found so far, which all end at or before `end`. The slab then belongs to the block.
   */
  #take(end: number): Block & Leased {
    const inputEnd = this.#base + end;
    const rest = { seq: this.#seq++, firstRow: this.#rows + 1, length: this.#filled, inputEnd };
    const block = blockOf(this.#records, this.#slab, this.#base, rest);
    if (this.#skipped > 0) for (let i = 0; i < block.lines.length; i++) block.lines[i]! += this.#skipped;
    this.#rows += this.#records.count;
    this.#owned = false;
    return block;
  }

  async *#room(): AsyncGenerator<Block & Leased, void, void> {
    if (this.#records.count > 0) yield* this.#handOver();
    else this.#makeRoom();
  }

  /** Yields a block, and moves the bytes of the unfinished record to another slab. */
  async *#handOver(): AsyncGenerator<Block & Leased, void, void> {
    const { scanner, slabs, signal } = this.#options;
    const keep = scanner.keepFrom;
    // The bytes are copied, because the receiver may return the slab of the block before it requests the next block.
    const rest = Buffer.from(this.#bytes.subarray(keep, this.#filled));
    this.#consumed(keep, true);
    yield this.#take(keep);
    this.#slab = await slabs.acquire(signal);
    this.#owned = true;
    // The end of a block must depend only on its start. So a slab is only enlarged, by doubling, if the unfinished
    // record does not fit.
    let bytes = this.#slab.bytes;
    while (rest.length >= bytes) bytes *= 2;
    if (bytes > this.#slab.bytes) this.#slab = slabs.larger(this.#slab, bytes);
    this.#bytes = viewOf(this.#slab);
    this.#bytes.set(rest);
    this.#filled = rest.length;
    this.#base += keep;
    scanner.rebase();
    this.#records.clear();
  }

  /**
   * Makes space without yielding a block: moves the unfinished record to the front of the slab, or to a larger slab.
   */
  #makeRoom(): void {
    const { scanner, slabs } = this.#options;
    const keep = scanner.keepFrom;
    if (keep > 0) this.#consumed(keep, false);
    if (keep > 0) this.#bytes.copyWithin(0, keep, this.#filled);
    this.#base += keep;
    this.#filled -= keep;
    scanner.rebase();
    if (this.#filled * 2 > this.#bytes.length) {
      const before = this.#bytes;
      this.#slab = slabs.larger(this.#slab, this.#bytes.length * 2);
      this.#bytes = viewOf(this.#slab);
      this.#bytes.set(before.subarray(0, this.#filled));
    }
  }
}

/**
 * Resolves with the result of `next`, or with IDLE after `idleMs`. Rejects if `signal` is aborted. Repeated calls do
 * not accumulate listeners.
 */
export function firstOf<T>(
  next: Promise<T>,
  signal: AbortSignal | undefined,
  idleMs?: number,
): Promise<T | typeof IDLE> {
  return new Promise((resolve, reject) => {
    const onAbort = () => settle(() => reject(signal?.reason));
    const timer = idleMs === undefined ? undefined : startTimer(() => settle(() => resolve(IDLE)), idleMs);
    const settle = (how: () => void) => {
      stopTimer(timer);
      signal?.removeEventListener('abort', onAbort);
      how();
    };
    signal?.addEventListener('abort', onAbort, { once: true });
    next.then(
      (value) => settle(() => resolve(value)),
      (error) => settle(() => reject(error)),
    );
  });
}

const viewOf = ({ buffer, at, bytes }: Slab): Buffer => Buffer.from(buffer as unknown as ArrayBuffer, at, bytes);

/** Creates a block from the listed records. `base`: input offset of the first byte of the slab. */
function blockOf(
  records: RecordList,
  lease: Slab,
  base: number,
  rest: Pick<Block, 'seq' | 'firstRow' | 'length' | 'inputEnd'>,
): Block & Leased {
  const spans = records.spans.slice(0, records.count * 2);
  for (let i = 0; i < spans.length; i++) spans[i]! += lease.at;
  return {
    ...rest,
    slab: lease.buffer,
    firstByte: base - lease.at,
    spans,
    faults: records.faults.slice(0, records.count),
    lines: records.lines.slice(0, records.count),
    lease,
  };
}

/** Passes the first record to `onHeader` and removes it from the list. */
function takeHeader(bytes: Buffer, records: RecordList, onHeader: NonNullable<CutOptions['onHeader']>): void {
  const [start, end] = [records.spans[0]!, records.spans[1]!];
  onHeader({ bytes: Buffer.from(bytes.subarray(start, end)), fault: records.faults[0]! });
  records.spans.copyWithin(0, 2, records.count * 2);
  records.faults.copyWithin(0, 1, records.count);
  records.lines.copyWithin(0, 1, records.count);
  records.count--;
}

/** Length of the UTF-8 byte order mark at the beginning, 3 or 0. @throws SluiceError if the bytes are not UTF-8 text */
function skipByteOrderMark(bytes: Uint8Array, filled: number): number {
  const [a, b, c] = bytes;
  refuseForeignContent(bytes.subarray(0, Math.min(filled, HEAD_BYTES)));
  return filled >= 3 && a === 0xef && b === 0xbb && c === 0xbf ? 3 : 0;
}

// The functions below handle blocks of one piece of an input, whose rows, lines and bytes are counted from the
// beginning of the whole input.

/** Number of rows, lines and bytes of the whole input that precede a piece and are not read. */
export interface PiecePlace {
  rows: number;
  lines: number;
  bytes: number;
}

/** Marks blocks whose records have no position in the input, because they were generated from columns. */
export async function* withoutPlace(blocks: AsyncIterable<Block & Leased>): AsyncGenerator<Block & Leased, void, void> {
  for await (const block of blocks) yield { ...block, firstByte: Number.NaN };
}

export async function* movedBlocks(
  blocks: AsyncIterable<Block & Leased>,
  { rows, lines, bytes }: PiecePlace,
): AsyncGenerator<Block & Leased, void, void> {
  for await (const block of blocks) {
    yield {
      ...block,
      firstRow: block.firstRow + rows,
      lines: block.lines.map((line) => line + lines),
      firstByte: block.firstByte + bytes,
      inputEnd: block.inputEnd + bytes,
    };
  }
}
