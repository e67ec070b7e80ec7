// Computes the SHA-256 of a file and the digests of its blocks, and finds the blocks that changed.
import { createHash, type Hash } from 'node:crypto';
import { crc32 } from 'node:zlib';

/** The end of a block in a file, and the digest of the block. */
export interface Mark {
  /** Offset at which the block ends in the uncompressed file. */
  end: number;
  /** CRC-32 (8 hexadecimal digits) or SHA-256 (64 hexadecimal digits). */
  digest: string;
}

/** Whether two marks are equal. */
export const isSameMark = (a: Mark | null, b: Mark | null): boolean => a?.end === b?.end && a?.digest === b?.digest;

/**
 * Kind of the digests of blocks. A CRC-32 only locates a change that the SHA-256 of the file has already proved. CRC-32
 * is therefore used where that SHA-256 covers the same bytes.
 */
export type BlockDigestKind = 'crc32' | 'sha256';

/** CRC-32 with the interface of a `Hash`. */
class Crc32 {
  #value = 0;

  update(bytes: Uint8Array): void {
    this.#value = crc32(bytes, this.#value);
  }

  digest(_: 'hex'): string {
    return this.#value.toString(16).padStart(8, '0');
  }
}

interface BlockHash {
  update(bytes: Uint8Array): unknown;
  digest(encoding: 'hex'): string;
}

const newHash = (kind: BlockDigestKind): BlockHash => (kind === 'crc32' ? new Crc32() : createHash('sha256'));

/** The kind of a digest that a manifest contains. */
const kindOf = (digest: string): BlockDigestKind => (digest.length === 8 ? 'crc32' : 'sha256');

/** Length of a file in bytes, and its SHA-256. */
export interface Digest {
  bytes: number;
  sha256: string;
}

/** Computes the digest of a whole file. */
export class FileDigest {
  #hash: Hash = createHash('sha256');
  #bytes = 0;

  add(bytes: Uint8Array): void {
    this.#hash.update(bytes);
    this.#bytes += bytes.length;
  }

  /** Digest of all bytes so far. */
  get digest(): Digest {
    return { bytes: this.#bytes, sha256: this.#hash.copy().digest('hex') };
  }

  /** Returns a function that restores the current state. The function can be called repeatedly. */
  save(): () => void {
    const [saved, bytes] = [this.#hash.copy(), this.#bytes];
    return () => {
      this.#hash = saved.copy();
      this.#bytes = bytes;
    };
  }
}

/** Computes the digests of a file's blocks. */
export class BlockDigests {
  readonly #kind: BlockDigestKind;
  /** Hash of the current block; null while the block has no bytes. */
  #hash: BlockHash | null = null;
  #bytes = 0;

  constructor(kind: BlockDigestKind) {
    this.#kind = kind;
  }

  /** Number of bytes added so far. */
  get bytes(): number {
    return this.#bytes;
  }

  add(bytes: Uint8Array): void {
    if (bytes.length === 0) return;
    this.#hash ??= newHash(this.#kind);
    this.#hash.update(bytes);
    this.#bytes += bytes.length;
  }

  /** Ends the current block. Returns null if the block has no bytes. */
  mark(): Mark | null {
    if (this.#hash === null) return null;
    const digest = this.#hash.digest('hex');
    this.#hash = null;
    return { end: this.#bytes, digest };
  }

  /** Adds these bytes and ends the block. */
  markWith(bytes: Uint8Array): Mark | null {
    this.add(bytes);
    return this.mark();
  }

  /**
   * Reads the blocks that an interrupted run wrote, from the beginning of a file. Returns false if the blocks changed.
   */
  async readAgain(chunks: AsyncIterable<Uint8Array>, marks: readonly Mark[]): Promise<boolean> {
    let block = 0;
    for await (const chunk of chunks) {
      for (let at = 0; at < chunk.length; ) {
        const mark = marks[block];
        if (mark === undefined) return false;
        const n = Math.min(chunk.length - at, mark.end - this.#bytes);
        this.add(chunk.subarray(at, at + n));
        at += n;
        if (this.#bytes < mark.end) continue;
        if (!isSameMark(this.mark(), mark)) return false;
        block++;
      }
    }
    return block === marks.length;
  }

  /**
   * Returns a function that discards everything that was added after this call. Call this method only at the end of a
   * block.
   */
  save(): () => void {
    const bytes = this.#bytes;
    return () => {
      this.#bytes = bytes;
      this.#hash = null;
    };
  }
}

/** Computes the digests of a file that is stored uncompressed: of the whole file, and of its blocks. */
export class ContentDigests extends BlockDigests {
  readonly #file = new FileDigest();

  constructor() {
    super('crc32');
  }

  override add(bytes: Uint8Array): void {
    this.#file.add(bytes);
    super.add(bytes);
  }

  get digest(): Digest {
    return this.#file.digest;
  }

  override save(): () => void {
    const [file, blocks] = [this.#file.save(), super.save()];
    return () => {
      file();
      blocks();
    };
  }
}

/** A block in a manifest. The blocks of a file cover the file completely, in order. */
export interface BlockRange {
  /** Offset in the content at which the block ends. */
  end: number;
  /** Number of input rows in the block; 0 for bytes outside the rows, such as a footer. */
  rows: number;
  /** Digest of the block, as in `Mark`; null if the bytes belong to another output of the run. */
  digest: string | null;
}

/** Consecutive blocks whose bytes changed. */
export interface ChangedBlocks {
  /** Byte range of the blocks in the original content; `to` is exclusive. */
  from: number;
  to: number;
  /** First and last row of the blocks, from 1. If `last` < `first`, the blocks have no rows. */
  first: number;
  last: number;
  /** Number of bytes by which the content before the blocks, and the content after them, has moved. */
  movedBefore: number;
  movedBehind: number;
}

export interface Located {
  changed: ChangedBlocks[];
  /** Error that prevented reading the whole content; null if there was none. */
  unreadable: unknown;
}

interface BlockPlace {
  from: number;
  to: number;
  first: number;
  rows: number;
  digest: string | null;
}

function placesOf(blocks: readonly BlockRange[]): BlockPlace[] {
  let [from, first] = [0, 1];
  return blocks.map(({ end, rows, digest }) => {
    const place = { from, to: end, first, rows, digest };
    from = end;
    first += rows;
    return place;
  });
}

/**
 * Compares content with its blocks in constant memory. If the length of the content changed, reads the content a second
 * time, to find the blocks after the change at their new positions.
 */
export async function locateChanges(
  open: () => AsyncIterable<Uint8Array>,
  blocks: readonly BlockRange[],
): Promise<Located> {
  const places = placesOf(blocks);
  const expected = blocks.at(-1)?.end ?? 0;
  const inPlace = await wholeBlocks(open(), places, 0);
  const moved = inPlace.unreadable === null ? inPlace.bytes - expected : 0;
  const whole = inPlace.whole.map((isWhole): number | null => (isWhole ? 0 : null));
  if (moved !== 0) {
    const shifted = await wholeBlocks(open(), places, moved);
    for (const [i, isWhole] of shifted.whole.entries()) if (isWhole) whole[i] ??= moved;
    // If blocks are repeated, a block can match at both positions. After the first change, only the new position is
    // valid.
    const change = whole.findIndex((at) => at !== 0);
    if (change >= 0) for (let i = change; i < whole.length; i++) if (shifted.whole[i]) whole[i] = moved;
  }
  return { changed: changesOf(places, whole, moved), unreadable: inPlace.unreadable };
}

/** `whole`: for each block, the number of bytes by which it has moved; null if the block changed. */
function changesOf(places: readonly BlockPlace[], whole: readonly (number | null)[], moved: number): ChangedBlocks[] {
  const changed: ChangedBlocks[] = [];
  let before = 0;
  for (let i = 0; i <= places.length; i++) {
    const at = i < places.length ? whole[i]! : moved;
    // Bytes were inserted between two unchanged blocks, or after the last block.
    if (at !== null && at !== before) {
      const { from, first } = places[i] ?? { from: places.at(-1)?.to ?? 0, first: 1 };
      changed.push({ from, to: from, first, last: first - 1, movedBefore: before, movedBehind: at });
    }
    if (at !== null) {
      before = at;
      continue;
    }
    const start = i;
    while (i < places.length && whole[i] === null) i++;
    const behind = i < places.length ? whole[i]! : moved;
    const [{ from, first }, last] = [places[start]!, places[i - 1]!];
    const range = { from, to: last.to, first, last: last.first + last.rows - 1 };
    changed.push({ ...range, movedBefore: before, movedBehind: behind });
    before = behind;
  }
  return changed;
}

/** Finds the blocks whose digest matches if the content has moved by `moved` bytes. */
async function wholeBlocks(
  chunks: AsyncIterable<Uint8Array>,
  places: readonly BlockPlace[],
  moved: number,
): Promise<{ whole: boolean[]; bytes: number; unreadable: unknown }> {
  const whole = places.map(({ digest }) => digest === null);
  let [block, bytes] = [0, 0];
  let hash: BlockHash | null = null;
  try {
    for await (const chunk of chunks) {
      for (let at = 0; block < places.length && at < chunk.length; ) {
        const { digest } = places[block]!;
        const [from, to] = [places[block]!.from + moved, places[block]!.to + moved];
        const here = bytes + at;
        if (here < from) {
          at = Math.min(chunk.length, from - bytes);
          continue;
        }
        // A block that would begin before the start of the content cannot match.
        const n = Math.min(chunk.length - at, Math.max(0, to - here));
        if (digest !== null) {
          hash ??= newHash(kindOf(digest));
          hash.update(chunk.subarray(at, at + n));
        }
        at += n;
        if (here + n < to) continue;
        if (hash?.digest('hex') === digest) whole[block] = true;
        hash = null;
        block++;
      }
      bytes += chunk.length;
    }
    return { whole, bytes, unreadable: null };
  } catch (error) {
    return { whole, bytes, unreadable: error ?? new Error('unreadable') };
  }
}
