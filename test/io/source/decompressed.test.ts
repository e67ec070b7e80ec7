// Compressed inputs: the bytes inside, and damage told to whoever reads, however late that is.
import { gzipSync, zstdCompressSync } from 'node:zlib';
import { expect, test } from 'vitest';
import { decompressed } from '../../../src/io/source/decompressed.ts';

const PLAIN = Buffer.from('amount,term\n1,2\n'.repeat(50_000));
const PACKED = { gzip: gzipSync(PLAIN), zstd: zstdCompressSync(PLAIN) } as const;

/** `bytes` in chunks, and whether anybody has asked for them yet. */
function chunksOf(bytes: Uint8Array) {
  const state = { asked: false };
  const chunks = (async function* () {
    state.asked = true;
    for (let at = 0; at < bytes.length; at += 1000) yield bytes.subarray(at, at + 1000);
  })();
  return { chunks, state };
}

const read = async (chunks: AsyncIterable<Uint8Array>): Promise<Buffer> => {
  const parts: Uint8Array[] = [];
  for await (const chunk of chunks) parts.push(Uint8Array.from(chunk));
  return Buffer.concat(parts);
};

test.each(['gzip', 'zstd'] as const)(
  '%s: the bytes inside; what is cut off or no archive is truncated_input',
  async (how) => {
    expect((await read(decompressed(chunksOf(PACKED[how]).chunks, how))).equals(PLAIN)).toBe(true);
    for (const damaged of [PACKED[how].subarray(0, PACKED[how].length - 9), PLAIN.subarray(0, 5000)]) {
      await expect(read(decompressed(chunksOf(damaged).chunks, how))).rejects.toMatchObject({
        code: 'truncated_input',
      });
    }
  },
);

test.each(['gzip', 'zstd'] as const)('%s: nothing is read before somebody listens to what goes wrong', async (how) => {
  const { chunks, state } = chunksOf(PLAIN);
  const inside = decompressed(chunks, how);
  // Longer than a damaged head takes to be found, if anybody looks for it.
  for (let turn = 0; turn < 50; turn++) await new Promise((resolve) => setImmediate(resolve));
  expect(state.asked).toBe(false);
  await expect(read(inside)).rejects.toMatchObject({ code: 'truncated_input' });
});
