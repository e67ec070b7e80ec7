// Where blocks are cut depends on the input and the size of a block, and on nothing else.

import { expect, test } from 'vitest';
import { SlabPool } from '../../../src/core/slabs.ts';
import { cutBlocks } from '../../../src/io/source/block-cutter.ts';
import type { Chunks } from '../../../src/io/source/byte-source.ts';
import { DelimitedScanner } from '../../../src/io/source/delimited-scanner.ts';
import { inChunks, readInPieces } from '../../support/blocks.ts';
import fc from '../../support/seeded-fast-check.ts';

interface Cut {
  firstRow: number;
  rows: number;
  inputEnd: number;
}

async function cuts(chunks: Chunks, { slab, kernel }: { slab: number; kernel: boolean }): Promise<Cut[]> {
  const slabs = new SlabPool(1, slab, kernel);
  const scanner = new DelimitedScanner(0x2c, 1 << 16, undefined, kernel ? 0 : Infinity);
  const found: Cut[] = [];
  for await (const { firstRow, faults, inputEnd, lease } of cutBlocks(chunks, { scanner, slabs, onHeader: () => {} })) {
    found.push({ firstRow, rows: faults.length, inputEnd });
    slabs.release(lease);
  }
  return found;
}

const cell = fc.oneof(fc.constantFrom('1', '', '"a\nb"', '"x""y"', 'é'), fc.string({ maxLength: 40 }).map((s) => `"${s.replaceAll('"', '')}"`)); // biome-ignore format: one line
const text = fc
  .tuple(fc.boolean(), fc.array(fc.tuple(cell, cell), { maxLength: 60 }), fc.constantFrom('\n', '\r\n'))
  .map(([mark, rows, end]) => Buffer.from(`${mark ? '\ufeff' : ''}a,b${end}${rows.map((r) => r.join(',') + end).join('')}`)); // biome-ignore format: one line

test('blocks are cut at the same places whatever the reads, with and without the kernel', async () => {
  await fc.assert(
    fc.asyncProperty(
      text,
      fc.integer({ min: 1, max: 200 }),
      fc.integer({ min: 64, max: 300 }),
      async (input, size, slab) => {
        const whole = await cuts(readInPieces(input, input.length), { slab, kernel: false });
        expect(await cuts(readInPieces(input, size), { slab, kernel: false })).toEqual(whole);
        expect(await cuts(inChunks(input, size), { slab, kernel: true })).toEqual(whole);
        for (const [i, { firstRow, rows }] of whole.entries()) expect(whole[i + 1]?.firstRow ?? firstRow + rows).toBe(firstRow + rows); // biome-ignore format: one line
        // What is left of the last line end may be in no block.
        if (whole.length > 0) expect(input.length - whole.at(-1)!.inputEnd).toBeOneOf([0, 1]);
      },
    ),
    { numRuns: 200 },
  );
});
