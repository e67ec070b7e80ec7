// Computes SHA-256 digests of a file and of its blocks, and finds changed blocks.
import { createHash, type Hash, hash } from 'node:crypto';

/** End of a block in a file, and the SHA-256 of its bytes. */
export interface Mark {
  /** Offset of the end in the uncompressed file. */
  end: number;
  sha256: string;
}

/** Whether two marks are equal. */
export const isSameMark = (a: Mark | null, b: Mark | null): boolean => a?.end === b?.end && a?.sha256 === b?.sha256;

/** Length in bytes and SHA-256 of a file. */
export interface Digest {
  bytes: number;
  sha256: string;
}

/** Digest of a whole file. */
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

  /** Returns a function that restores the current state; it can be called repeatedly. */
  save(): () => void {
    const [saved, bytes] = [this.#hash.copy(), this.#bytes];
    return () => {
      this.#hash = saved.copy();
      this.#bytes = bytes;
    };
  }
}

/** Digests of the blocks of a file. */
export class BlockDigests {
  /** Hash of the current block; null: it has no bytes. */
  #hash: Hash | null = null;
  #bytes = 0;

  /** Number of bytes so far. */
  get bytes(): number {
    return this.#bytes;
  }

  add(bytes: Uint8Array): void {
    if (bytes.length === 0) return;
    this.#hash ??= createHash('sha256');
    this.#hash.update(bytes);
    this.#bytes += bytes.length;
  }

  /** Ends the block; returns null if it has no bytes. */
  mark(): Mark | null {
    if (this.#hash === null) return null;
    const sha256 = this.#hash.digest('hex');
    this.#hash = null;
    return { end: this.#bytes, sha256 };
  }

  /** Ends the block after adding these bytes. */
  markWith(bytes: Uint8Array): Mark | null {
    if (this.#hash !== null || bytes.length === 0) {
      this.add(bytes);
      return this.mark();
    }
    this.#bytes += bytes.length;
    return { end: this.#bytes, sha256: hash('sha256', bytes, 'hex') };
  }

  /** Reads the blocks of an interrupted run from the beginning of a file. Returns false if they changed. */
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

  /** Returns a function that discards everything added since. Call it only at the end of a block. */
  save(): () => void {
    const bytes = this.#bytes;
    return () => {
      this.#bytes = bytes;
      this.#hash = null;
    };
  }
}

/** Digests of a file whose content is stored uncompressed: of the whole file and of its blocks. */
export class ContentDigests extends BlockDigests {
  readonly #file = new FileDigest();

  override add(bytes: Uint8Array): void {
    this.#file.add(bytes);
    super.add(bytes);
  }

  override markWith(bytes: Uint8Array): Mark | null {
    this.#file.add(bytes);
    // This class's `add` would count the bytes twice.
    super.add(bytes);
    return this.mark();
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

/** A block in a manifest. The blocks of a file cover all its bytes, in order. */
export interface BlockRange {
  /** Offset of the end in the content. */
  end: number;
  /** Number of input rows in the block; 0: bytes outside the rows, such as a footer. */
  rows: number;
  /** SHA-256 of the bytes of the block; null: they belong to another output of the run. */
  sha256: string | null;
}

/** Consecutive blocks whose bytes changed. */
export interface ChangedBlocks {
  /** Byte range in the original content; `to` is exclusive. */
  from: number;
  to: number;
  /** Rows, from 1. `last` < `first`: none. */
  first: number;
  last: number;
  /** Number of bytes by which the content before and after the blocks has moved. */
  movedBefore: number;
  movedBehind: number;
}

export interface Located {
  changed: ChangedBlocks[];
  /** Error because of which the content could not be read completely; null: it could. */
  unreadable: unknown;
}

interface BlockPlace {
  from: number;
  to: number;
  first: number;
  rows: number;
  sha256: string | null;
}

function placesOf(blocks: readonly BlockRange[]): BlockPlace[] {
  let [from, first] = [0, 1];
  return blocks.map(({ end, rows, sha256 }) => {
    const place = { from, to: end, first, rows, sha256 };
    from = end;
    first += rows;
    return place;
  });
}

/**
 * Compares content with its blocks in constant memory. If its length changed, the content is read a second time to find
 * blocks after the change at their new positions.
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
    // A repeated block can match at both positions; after the first change only the new position is valid.
    const change = whole.findIndex((at) => at !== 0);
    if (change >= 0) for (let i = change; i < whole.length; i++) if (shifted.whole[i]) whole[i] = moved;
  }
  return { changed: changesOf(places, whole, moved), unreadable: inPlace.unreadable };
}

/** `whole`: number of bytes by which each block has moved; null: the block changed. */
function changesOf(places: readonly BlockPlace[], whole: readonly (number | null)[], moved: number): ChangedBlocks[] {
  const changed: ChangedBlocks[] = [];
  let before = 0;
  for (let i = 0; i <= places.length; i++) {
    const at = i < places.length ? whole[i]! : moved;
    // Inserted bytes between two unchanged blocks, or after the last one.
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

/** Finds the blocks whose digest matches at an offset of `moved` bytes. */
async function wholeBlocks(
  chunks: AsyncIterable<Uint8Array>,
  places: readonly BlockPlace[],
  moved: number,
): Promise<{ whole: boolean[]; bytes: number; unreadable: unknown }> {
  const whole = places.map(({ sha256 }) => sha256 === null);
  let [block, bytes] = [0, 0];
  let sha256 = createHash('sha256');
  try {
    for await (const chunk of chunks) {
      for (let at = 0; block < places.length && at < chunk.length; ) {
        const [from, to] = [places[block]!.from + moved, places[block]!.to + moved];
        const here = bytes + at;
        if (here < from) {
          at = Math.min(chunk.length, from - bytes);
          continue;
        }
        // A block that would start before the content cannot match.
        const n = Math.min(chunk.length - at, Math.max(0, to - here));
        sha256.update(chunk.subarray(at, at + n));
        at += n;
        if (here + n < to) continue;
        if (sha256.digest('hex') === places[block]!.sha256) whole[block] = true;
        sha256 = createHash('sha256');
        block++;
      }
      bytes += chunk.length;
    }
    return { whole, bytes, unreadable: null };
  } catch (error) {
    return { whole, bytes, unreadable: error ?? new Error('unreadable') };
  }
}
