// What a compressed output is made of depends on its bytes and its blocks, never on how or when they came; and it can be cut between
// members and gone on with.
import { setImmediate as turn } from 'node:timers/promises';
import { gunzipSync } from 'node:zlib';
import { expect, test } from 'vitest';
import type { ByteSink } from '../../../src/io/sink/byte-sink.ts';
import { BLOCKS_A_MEMBER, compressedSink } from '../../../src/io/sink/compressed-sink.ts';
import { decompressed } from '../../../src/io/source/decompressed.ts';
import { seeded } from '../../support/interrupted.ts';

/** A sink in memory behind `before`. */
function memory(before: readonly Uint8Array[] = []): ByteSink & { bytes(): Buffer } {
  const parts = before.map((p) => Buffer.from(p));
  return {
    revocable: true,
    get bytesWritten() {
      return Buffer.concat(parts).length;
    },
    write: async (bytes) => {
      parts.push(Buffer.from(bytes));
      await turn();
    },
    commit: async () => {},
    abort: async () => {},
    bytes: () => Buffer.concat(parts),
  };
}

const random = seeded(5);
const BLOCKS = Array.from({ length: BLOCKS_A_MEMBER * 2 + 9 }, (_, i) =>
  Buffer.from(Array.from({ length: 60 + (i % 7) * 40 }, () => `${Math.floor(random() * 1000)},`).join('')),
);
// Where a piece ends within a block, and where a block is larger than a piece.
BLOCKS[3] = Buffer.alloc(300_001, 'abcdefg,');

/** Writes blocks from `from` on, each in pieces; gives where it could be gone on. */
async function write(sink: ByteSink, from: number, pieces: () => number): Promise<Map<number, number>> {
  const places = new Map<number, number>();
  for (const [i, block] of BLOCKS.entries()) {
    if (i < from) continue;
    for (let at = 0; at < block.length; ) {
      const n = pieces();
      await sink.write(block.subarray(at, at + n));
      at += n;
    }
    const stored = await sink.blockEnd!();
    if (stored !== null) places.set(i + 1, stored);
  }
  await sink.commit();
  return places;
}

for (const compression of ['gzip', 'zstd'] as const) {
  test(`${compression}: the same bytes however they come, and behind any member`, async () => {
    const one = memory();
    const places = await write(compressedSink(one, compression), 0, () => 1e9);
    expect([...places.keys()]).toEqual([BLOCKS_A_MEMBER, BLOCKS_A_MEMBER * 2]);
    for (let i = 0; i < 3; i++) {
      const other = memory();
      await write(compressedSink(other, compression), 0, () => 1 + Math.floor(random() * 20_000));
      expect(other.bytes().equals(one.bytes())).toBe(true);
    }
    for (const [blocks, stored] of places) {
      const resumed = memory([one.bytes().subarray(0, stored)]);
      await write(compressedSink(resumed, compression), blocks, () => 999);
      expect(resumed.bytes().equals(one.bytes())).toBe(true);
    }
    const plain: Uint8Array[] = [];
    const chunks = (async function* () {
      yield one.bytes();
    })();
    for await (const chunk of decompressed(chunks, compression)) plain.push(Uint8Array.from(chunk));
    expect(Buffer.concat(plain).equals(Buffer.concat(BLOCKS))).toBe(true);
    if (compression === 'gzip') expect(gunzipSync(one.bytes()).equals(Buffer.concat(BLOCKS))).toBe(true);
  });
}

test('without a byte it is a file of its format all the same', async () => {
  for (const compression of ['gzip', 'zstd'] as const) {
    const sink = memory();
    const packed = compressedSink(sink, compression);
    await packed.commit();
    expect(sink.bytes().length).toBeGreaterThan(8);
  }
});

test('both ends reach the sink behind it, once', async () => {
  for (const compression of ['gzip', 'zstd'] as const) {
    const ends: string[] = [];
    const inner = (): ByteSink => ({
      ...memory(),
      commit: async () => void ends.push('commit'),
      abort: async () => void ends.push('abort'),
    });
    await write(compressedSink(inner(), compression), 0, () => 1e9);
    expect([compression, ends]).toEqual([compression, ['commit']]);
    const aborted = compressedSink(inner(), compression);
    await aborted.write(BLOCKS[0]!);
    await aborted.abort();
    expect([compression, ends]).toEqual([compression, ['commit', 'abort']]);
  }
});

test('an error of the sink behind it is that of the write or of the end, and aborting ends it all the same', async () => {
  for (const compression of ['gzip', 'zstd'] as const) {
    let isAborted = false;
    const full: ByteSink = {
      ...memory(),
      write: async () => {
        throw new Error('full');
      },
      abort: async () => {
        isAborted = true;
      },
    };
    const sink = compressedSink(full, compression);
    await expect(write(sink, 0, () => 1e9)).rejects.toThrow('full');
    await sink.abort();
    expect(isAborted).toBe(true);
  }
});
