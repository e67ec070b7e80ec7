// Sees every byte of an input or an output once, and can say at each end of a block what there was up to there.
import { createHash, type Hash } from 'node:crypto';
import { LineSummer } from './line-sum-kernel.ts';
import { sumsText } from './line-sums.ts';

/** A file up to the end of a block. */
export interface Mark {
  /** Bytes from the beginning. */
  end: number;
  /** Of all these bytes. */
  sha256: string;
  /** Lines of this block, and their sums as `sumsText` writes them. */
  lines: number;
  sums: string;
}

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

/** Hashes and sums up lines. */
export class ByteWitness {
  readonly #digest = new ByteDigest();
  readonly #summer = new LineSummer();

  add(bytes: Uint8Array): void {
    this.#digest.add(bytes);
    this.#summer.add(bytes);
  }

  get digest(): Digest {
    return this.#digest.digest;
  }

  /** A block ends here. */
  mark(): Mark {
    const { bytes, sha256 } = this.#digest.digest;
    const sums = this.#summer.take();
    return { end: bytes, sha256, lines: sums.lines, sums: sumsText(sums) };
  }

  /** `restore` forgets what came in between. Only where a block ends. */
  save(): () => void {
    const restore = this.#digest.save();
    return () => {
      restore();
      this.#summer.take();
    };
  }
}
