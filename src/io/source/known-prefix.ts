// The bytes of an input with the SHA-256 of all that was read of them: what tells two inputs apart, whatever they are called.
import { createHash } from 'node:crypto';
import { SluiceError } from '../../core/errors.ts';
import type { Chunks } from './byte-source.ts';
import { seenChunks } from './seen-chunks.ts';

/** The first `bytes` of an input. */
export interface Prefix {
  bytes: number;
  sha256: string;
}

export interface PrefixedChunks {
  chunks: Chunks;
  /** All that was read up to now; null: somebody else hashes it. */
  prefix(): Prefix | null;
  /** Whether the expected prefix has been read and is there; true where none is expected. */
  holds(): boolean;
}

/**
 * `expected`: what the input has to begin with.
 * @throws SluiceError while reading: checkpoint_mismatch, or what `chunks` throw
 */
export function withPrefix(chunks: Chunks, expected: Prefix | null): PrefixedChunks {
  const hash = createHash('sha256');
  let read = 0;
  let due = expected;

  /** `bytes`: empty at the end of the input. */
  function take(bytes: Uint8Array): void {
    let from = 0;
    if (due !== null && (read + bytes.length >= due.bytes || bytes.length === 0)) {
      from = due.bytes - read;
      hash.update(bytes.subarray(0, from));
      if (from > bytes.length || hash.copy().digest('hex') !== due.sha256) {
        throw new SluiceError('checkpoint_mismatch', 'the content of the input changed since the run was interrupted');
      }
      due = null;
    }
    hash.update(from === 0 ? bytes : bytes.subarray(from));
    read += bytes.length;
  }

  return {
    chunks: seenChunks(chunks, take, () => take(new Uint8Array(0))),
    prefix: () => ({ bytes: read, sha256: hash.copy().digest('hex') }),
    holds: () => due === null,
  };
}
