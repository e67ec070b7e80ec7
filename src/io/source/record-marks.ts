// Finds record starts near given offsets, at which a file can be split, and hashes the bytes between them, in one pass.
import { createHash, type Hash } from 'node:crypto';
import { type Block, RECORD_OK, RECORD_TOO_LONG, recordsOf } from '../../core/block.ts';
import { SluiceError } from '../../core/errors.ts';
import { SlabPool } from '../../core/slabs.ts';
import { cutBlocks, type Leased } from './block-cutter.ts';
import type { ByteRange, ByteSource } from './byte-source.ts';
import type { RecordScanner } from './record-scanner.ts';

/**
 * The start of a record: offset in the file, row and physical line (from 1). A mark after the last record is the end of
 * the file.
 */
export interface RecordMark {
  byte: number;
  row: number;
  line: number;
}

interface MarkedFile {
  bytes: number;
  rows: number;
  /** The first record after the header. */
  first: RecordMark;
  /** One mark per target. */
  marks: RecordMark[];
  /** SHA-256 of the bytes before the first mark, between consecutive marks, and after the last mark. */
  digests: string[];
  /** SHA-256 of all bytes. */
  sha256: string;
}

interface MarkOptions {
  scanner: RecordScanner;
  /** Whether the first record is a header. */
  header: boolean;
  /** Offsets near which marks are needed, ascending. */
  targets: readonly number[];
  /**
   * Block size of a run. If a mark is the start of a block, a run that starts at the mark forms the same blocks as a
   * run over the whole file.
   */
  blockBytes: number;
}

/** Opens the input: all bytes, or some ranges. */
export type OpenRanges = (ranges?: readonly ByteRange[]) => Promise<ByteSource>;

/**
 * Reads an uncompressed file to its end and returns one mark per target. Usually a mark is the start of the block that
 * contains its target, or the start of the next block. If several targets are in one block, or a target is in the last
 * block, the mark is the first record at or after the target. A mark at the first record is moved to the beginning of
 * the file.
 * @throws SluiceError input_not_found | input_unreadable | input_changed | header_mismatch (malformed header row) |
 * foreign_content
 */
export async function findMarks(open: OpenRanges, options: MarkOptions): Promise<MarkedFile> {
  const source = await open();
  const pieces = new PieceHasher(open, options.targets.length > 0);
  try {
    return await marksOf(source.totalBytes ?? 0, pieces, options, (cut) => cutBlocks(source.chunks, cut));
  } finally {
    await source.close();
  }
}

async function marksOf(
  bytes: number,
  pieces: PieceHasher,
  { scanner, header, targets, blockBytes }: MarkOptions,
  cut: (options: Parameters<typeof cutBlocks>[1]) => ReturnType<typeof cutBlocks>,
): Promise<MarkedFile> {
  const slabs = new SlabPool(2, blockBytes, true);
  const onHeader = ({ fault }: { fault: number }) => {
    const long = fault === RECORD_TOO_LONG;
    if (long) throw new SluiceError('header_mismatch', 'the header row exceeds the limit for one row');
    if (fault !== RECORD_OK) throw new SluiceError('header_mismatch', 'the header row is malformed');
  };
  const marks: RecordMark[] = [];
  let first: RecordMark | null = null;
  let [rows, begin] = [0, 0];
  for await (const block of cut({ scanner, slabs, ...(header ? { onHeader } : {}) })) {
    first ??= markAt(block, 0);
    // The start of a block is not a valid mark if the block follows blank lines or the remainder of an oversized line,
    // because a reader that starts there forms other blocks.
    let whole = rows > 0 && begin === beginOf(block, 0);
    const inside = targets.filter((target, i) => i >= marks.length && target < block.inputEnd).length;
    // The mark is deferred to the next block, which is as near to the target and may have a valid start.
    const later = !whole && inside === 1 && block.inputEnd < bytes;
    for (let due = later ? 0 : inside; due > 0; due--) {
      const at = whole ? 0 : firstFrom(block, targets[marks.length]!);
      whole = false;
      if (at === recordsOf(block)) break;
      const mark: RecordMark = rows + at === 0 ? { ...first!, byte: 0 } : markAt(block, at);
      await pieces.end(mark.byte, block);
      marks.push(mark);
    }
    await pieces.upTo(block.inputEnd, block);
    rows += recordsOf(block);
    begin = block.inputEnd;
    slabs.release(block.lease);
  }
  const end: RecordMark = { byte: bytes, row: rows + 1, line: 1 };
  for (const _ of targets.slice(marks.length)) {
    await pieces.end(bytes, null);
    marks.push(end);
  }
  await pieces.end(bytes, null);
  return { bytes, rows, first: first ?? end, marks, digests: pieces.digests, sha256: pieces.whole };
}

const beginOf = ({ spans, firstByte }: Block, record: number): number => firstByte + spans[record * 2]!;

const markAt = (block: Block, record: number): RecordMark => ({
  byte: beginOf(block, record),
  row: block.firstRow + record,
  line: block.lines[record]!,
});

/** The first record of the block that starts at or after `byte`; if there is none, the number of records. */
function firstFrom(block: Block, byte: number): number {
  let low = 0;
  for (let high = recordsOf(block); low < high; ) {
    const middle = (low + high) >>> 1;
    if (beginOf(block, middle) < byte) low = middle + 1;
    else high = middle;
  }
  return low;
}

/**
 * Hashes bytes in place in the blocks. Bytes that no block contains (a byte order mark, a line that was too long) are
 * read again.
 */
class PieceHasher {
  readonly digests: string[] = [];
  readonly #open: OpenRanges;
  #hash: Hash = createHash('sha256');
  /** Hash of the whole file; null: the file is a single piece. */
  readonly #all: Hash | null;
  #at = 0;

  constructor(open: OpenRanges, several: boolean) {
    this.#open = open;
    this.#all = several ? createHash('sha256') : null;
  }

  /** SHA-256 of the whole file. Must be read after the last piece has ended. */
  get whole(): string {
    return this.#all?.digest('hex') ?? this.digests[0]!;
  }

  async upTo(byte: number, block: (Block & Leased) | null): Promise<void> {
    if (block) {
      const { buffer, at } = block.lease;
      const begin = block.firstByte + at;
      if (this.#at < begin) await this.#read(Math.min(begin, byte));
      if (this.#at < byte) {
        this.#see(Buffer.from(buffer as unknown as ArrayBuffer, this.#at - block.firstByte, byte - this.#at));
        this.#at = byte;
      }
    } else await this.#read(byte);
  }

  /** Ends a piece at `byte`. */
  async end(byte: number, block: (Block & Leased) | null): Promise<void> {
    await this.upTo(byte, block);
    this.digests.push(this.#hash.digest('hex'));
    this.#hash = createHash('sha256');
  }

  #see(bytes: Uint8Array): void {
    this.#hash.update(bytes);
    this.#all?.update(bytes);
  }

  async #read(to: number): Promise<void> {
    if (this.#at >= to) return;
    const source = await this.#open([{ from: this.#at, to }]);
    try {
      for await (const chunk of source.chunks) {
        this.#see(chunk);
        this.#at += chunk.length;
      }
    } finally {
      await source.close();
    }
    if (this.#at < to) throw new SluiceError('input_changed', 'the input became shorter while it was being read');
  }
}

/**
 * Computes SHA-256 hashes in one pass: of the bytes before the first bound, between consecutive bounds and after the
 * last bound, and of all bytes. Bounds must ascend.
 * @throws SluiceError input_not_found | input_changed (the input is shorter than the last bound)
 */
export async function hashesBetween(
  open: OpenRanges,
  bounds: readonly number[],
): Promise<{ digests: string[]; sha256: string }> {
  const digests: string[] = [];
  const all = createHash('sha256');
  let hash = createHash('sha256');
  let at = 0;
  const source = await open();
  try {
    for await (const chunk of source.chunks) {
      all.update(chunk);
      let begin = 0;
      while (digests.length < bounds.length && bounds[digests.length]! < at + chunk.length) {
        const end = bounds[digests.length]! - at;
        digests.push(hash.update(chunk.subarray(begin, end)).digest('hex'));
        hash = createHash('sha256');
        begin = end;
      }
      hash.update(chunk.subarray(begin));
      at += chunk.length;
    }
  } finally {
    await source.close();
  }
  for (const bound of bounds.slice(digests.length)) {
    if (bound > at) throw new SluiceError('input_changed', 'the input became shorter while it was being read');
    digests.push(hash.digest('hex'));
    hash = createHash('sha256');
  }
  return { digests: [...digests, hash.digest('hex')], sha256: all.digest('hex') };
}

/**
 * SHA-256 of bytes `from` to `to - 1`.
 * @throws SluiceError input_not_found | input_changed (the input is shorter than `to`)
 */
export async function hashOfRange(open: OpenRanges, from: number, to: number): Promise<string> {
  const hash = createHash('sha256');
  const source = await open([{ from, to }]);
  try {
    for await (const chunk of source.chunks) hash.update(chunk);
  } finally {
    await source.close();
  }
  return hash.digest('hex');
}
