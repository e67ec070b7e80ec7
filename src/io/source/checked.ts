// Bytes that have to be those that somebody saw before: told by their hash, when all of them have been read.
import { createHash } from 'node:crypto';
import type { Chunks } from './byte-source.ts';
import { seenChunks } from './seen-chunks.ts';

/** The next `bytes` of an input. */
interface KnownBytes {
  bytes: number;
  sha256: string;
}

/**
 * `known`: all of the input, one behind the other. `changed` makes the error.
 * @throws what `changed` makes, at the latest at the end of the input
 */
export function checked(chunks: Chunks, known: readonly KnownBytes[], changed: () => Error): Chunks {
  const due = known.map((part) => ({ ...part }));
  let hash = createHash('sha256');
  const close = (): void => {
    while (due.length > 0 && due[0]!.bytes === 0) {
      if (hash.digest('hex') !== due.shift()!.sha256) throw changed();
      hash = createHash('sha256');
    }
  };
  const take = (bytes: Uint8Array): void => {
    close();
    for (let at = 0; at < bytes.length; close()) {
      const part = due[0];
      if (part === undefined) throw changed();
      const n = Math.min(part.bytes, bytes.length - at);
      hash.update(bytes.subarray(at, at + n));
      part.bytes -= n;
      at += n;
    }
  };
  const end = (): void => {
    close();
    if (due.length > 0) throw changed();
  };
  return seenChunks(chunks, take, end);
}
