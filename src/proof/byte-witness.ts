// Sees every byte of an input or an output once, and can say at each end of a block what there was up to there.
import { createHash, type Hash } from 'node:crypto';
import type { SlabMemory } from '../io/source/record-scanner.ts';
import { LineSummer } from './line-sum-kernel.ts';
import { type LineSums, sumsText } from './line-sums.ts';

/** Where a block ends in a file, and what its lines are. */
export interface Mark {
  /** Bytes from the beginning. */
  end: number;
  /** Lines of this block, and their sums as `sumsText` writes them. */
  lines: number;
  sums: string;
}

export const isSameMark = (a: Mark, b: Mark): boolean => a.end === b.end && a.lines === b.lines && a.sums === b.sums;

/** Bytes and their hash. */
export interface Digest {
  bytes: number;
  sha256: string;
}

/** Only counts and hashes: for bytes as they are stored. */
export class ByteDigest {
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

  /** Goes on from here another time; `restore` comes back. */
  save(): () => void {
    const [hash, bytes] = [this.#hash.copy(), this.#bytes];
    return () => {
      this.#hash = hash.copy();
      this.#bytes = bytes;
    };
  }
}

/** Sums up lines, block by block. */
export class LineWitness {
  readonly #summer = new LineSummer();
  #bytes = 0;

  /** So far. */
  get bytes(): number {
    return this.#bytes;
  }

  add(bytes: Uint8Array): void {
    this.#bytes += bytes.length;
    this.#summer.add(bytes);
  }

  /** Most blocks will lie in this memory. */
  attach(slabs: SlabMemory): void {
    this.#summer.attach(slabs);
  }

  /** A block ends here. */
  mark(): Mark {
    return this.#mark(this.#summer.take());
  }

  /** A block ends with these bytes. */
  markWith(bytes: Uint8Array): Mark {
    this.#bytes += bytes.length;
    return this.#mark(this.#summer.takeWith(bytes));
  }

  #mark(sums: LineSums): Mark {
    return { end: this.#bytes, lines: sums.lines, sums: sumsText(sums) };
  }

  /** Adds the blocks that an earlier run marked; false: they are not what they were. At the beginning of a file. */
  async seesAgain(chunks: AsyncIterable<Uint8Array>, marks: readonly Mark[]): Promise<boolean> {
    let block = 0;
    /** Marks the blocks that end here. */
    const same = (): boolean => {
      for (; marks[block]?.end === this.#bytes; block++) if (!isSameMark(this.mark(), marks[block]!)) return false;
      return true;
    };
    if (!same()) return false;
    for await (const chunk of chunks) {
      for (let at = 0; at < chunk.length; ) {
        const mark = marks[block];
        if (mark === undefined || mark.end < this.#bytes) return false;
        const n = Math.min(chunk.length - at, mark.end - this.#bytes);
        this.add(chunk.subarray(at, at + n));
        at += n;
        if (!same()) return false;
      }
    }
    return block === marks.length;
  }

  /** `restore` forgets what came in between. Only where a block ends. */
  save(): () => void {
    const bytes = this.#bytes;
    return () => {
      this.#bytes = bytes;
      this.#summer.take();
    };
  }
}

/** Hashes and sums up lines. */
export class ByteWitness extends LineWitness {
  readonly #digest = new ByteDigest();

  override add(bytes: Uint8Array): void {
    this.#digest.add(bytes);
    super.add(bytes);
  }

  override markWith(bytes: Uint8Array): Mark {
    this.#digest.add(bytes);
    return super.markWith(bytes);
  }

  get digest(): Digest {
    return this.#digest.digest;
  }

  override save(): () => void {
    const [digest, lines] = [this.#digest.save(), super.save()];
    return () => {
      digest();
      lines();
    };
  }
}
