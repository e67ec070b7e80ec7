// SHA-256 digests of a file and of its blocks, and finding the blocks that changed.
import { createHash, type Hash, hash } from 'node:crypto';

/** Where a block ends in a file, and the SHA-256 of its bytes. */
export interface Mark {
  /** Bytes from the beginning of the file, uncompressed. */
  end: number;
  sha256: string;
}

/** Compares the marks of two runs. */
export const isSameMark = (a: Mark | null, b: Mark | null): boolean => a?.end === b?.end && a?.sha256 === b?.sha256;

/** Length and hash of a file. */
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

  /** Of all bytes so far. */
  get digest(): Digest {
    return { bytes: this.#bytes, sha256: this.#hash.copy().digest('hex') };
  }

  /** Returns a function that restores the present state; it can be called again. */
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
  /** Of the block that has not ended; null: it has no bytes. */
  #hash: Hash | null = null;
  #bytes = 0;

  /** Bytes of the file so far. */
  get bytes(): number {
    return this.#bytes;
  }

  add(bytes: Uint8Array): void {
    if (bytes.length === 0) return;
    this.#hash ??= createHash('sha256');
    this.#hash.update(bytes);
    this.#bytes += bytes.length;
  }

  /** Ends the block; null: it has no bytes. */
  mark(): Mark | null {
    if (this.#hash === null) return null;
    const sha256 = this.#hash.digest('hex');
    this.#hash = null;
    return { end: this.#bytes, sha256 };
  }

  /** Ends the block with these bytes. */
  markWith(bytes: Uint8Array): Mark | null {
    if (this.#hash !== null || bytes.length === 0) {
      this.add(bytes);
      return this.mark();
    }
    this.#bytes += bytes.length;
    return { end: this.#bytes, sha256: hash('sha256', bytes, 'hex') };
  }

  /** Reads the blocks that an interrupted run wrote, from the beginning of a file. Returns false where they changed. */
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

  /** Returns a function that discards everything added since; only at the end of a block. */
  save(): () => void {
    const bytes = this.#bytes;
    return () => {
      this.#bytes = bytes;
      this.#hash = null;
    };
  }
}

/** Digests of a file whose content is stored as it is: of the whole and of its blocks. */
export class ContentDigests extends BlockDigests {
  readonly #file = new FileDigest();

  override add(bytes: Uint8Array): void {
    this.#file.add(bytes);
    super.add(bytes);
  }

  override markWith(bytes: Uint8Array): Mark | null {
    this.#file.add(bytes);
    // `add` of this class would count the bytes twice.
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

/** A block as a manifest lists it. The blocks of a file cover all its bytes, in order. */
export interface BlockRange {
  /** Bytes from the beginning of the content. */
  end: number;
  /** Rows of the input that the block belongs to; 0: bytes around the rows, such as a footer. */
  rows: number;
  /** Of the bytes of the block; null: they belong to another output of the run. */
  sha256: string | null;
}

/** Consecutive blocks whose bytes changed. */
export interface ChangedBlocks {
  /** Bytes of the content as it was written, `to` exclusive. */
  from: number;
  to: number;
  /** Rows, from 1; `last` < `first`: none. */
  first: number;
  last: number;
  /** By how many bytes the content before and behind them has moved. */
  movedBefore: number;
  movedBehind: number;
}

export interface Located {
  changed: ChangedBlocks[];
  /** Why the content could not be read to its end; null: it could. */
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
 * Compares content with its blocks, in constant memory. Where the content is longer or shorter than it was, it is read a second time: blocks
 * behind the change are found at the place to which they moved.
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
    // A block that repeats can be found at both places: behind the first change only the second one counts.
    const change = whole.findIndex((at) => at !== 0);
    if (change >= 0) for (let i = change; i < whole.length; i++) if (shifted.whole[i]) whole[i] = moved;
  }
  return { changed: changesOf(places, whole, moved), unreadable: inPlace.unreadable };
}

/** `whole`: by how many bytes each block has moved; null: it changed. */
function changesOf(places: readonly BlockPlace[], whole: readonly (number | null)[], moved: number): ChangedBlocks[] {
  const changed: ChangedBlocks[] = [];
  let before = 0;
  for (let i = 0; i <= places.length; i++) {
    const at = i < places.length ? whole[i]! : moved;
    // Bytes between two whole blocks, or behind the last one.
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

/** Which blocks have their digest `moved` bytes behind their place. */
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
        // A block that would start before the content does not exist.
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
