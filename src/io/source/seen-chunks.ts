// Bytes on their way that somebody else sees, too: to hash or to count them, or to end a read that is not what it should be.
import type { Chunks } from './byte-source.ts';

/**
 * The same chunks, read whichever way the reader likes: `see` gets all bytes once and in order before the reader does, `end` is called
 * when there are no more. What either throws ends the read.
 */
export function seenChunks(chunks: Chunks, see: (bytes: Uint8Array) => void, end: () => void = () => {}): Chunks {
  const readInto = chunks.readInto?.bind(chunks);
  return {
    // Whoever sees the lines of a table go by changes nothing of what its columns are.
    ...(chunks.columns ? { columns: chunks.columns } : {}),
    async *[Symbol.asyncIterator]() {
      for await (const chunk of chunks) {
        see(chunk);
        yield chunk;
      }
      end();
    },
    ...(readInto
      ? {
          readInto: async (target: Uint8Array) => {
            const n = await readInto(target);
            if (n === 0) end();
            else see(target.subarray(0, n));
            return n;
          },
        }
      : {}),
  };
}
