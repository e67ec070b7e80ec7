// Where a block ends follows from where it begins: whoever begins there, behind a header or not, has the same blocks.
import { expect, test } from 'vitest';
import { Random } from '../../../src/core/random.ts';
import { SlabPool } from '../../../src/core/slabs.ts';
import { type CutOptions, cutBlocks } from '../../../src/io/source/block-cutter.ts';
import type { Chunks } from '../../../src/io/source/byte-source.ts';
import { DelimitedScanner } from '../../../src/io/source/delimited-scanner.ts';

const random = new Random();
const below = (n: number): number => Math.floor(random.uniform() * n);
const HEADER = Buffer.from('a,b\n');

/** Lines of all lengths, some longer than a block, some over several lines in quotes, some too long. */
function textOf(): Buffer {
  const record = (): string => {
    const long = 'x'.repeat(below(below(6) === 0 ? 900 : 40));
    return below(5) === 0 ? `"${long}\n${long}",y` : `${long},y`;
  };
  const end = ['\n', '\r\n', '\r'][below(3)]!;
  return Buffer.from(
    Array.from({ length: 5 + below(80) }, () => record() + (below(9) === 0 ? end : '') + end).join(''),
  );
}

interface Cut {
  begin: number;
  /** Of its first record. */
  first: number;
  end: number;
}

async function cutsOf(from: readonly Buffer[] | Chunks, slabBytes: number, more: Partial<CutOptions>): Promise<Cut[]> {
  const slabs = new SlabPool(3, slabBytes);
  const cuts: Cut[] = [];
  const source = Array.isArray(from)
    ? (async function* () {
        yield* from as readonly Buffer[];
      })()
    : (from as Chunks);
  let begin = 0;
  for await (const block of cutBlocks(source, { scanner: new DelimitedScanner(44, 1000), slabs, ...more })) {
    cuts.push({ begin, first: block.firstByte + block.spans[0]!, end: block.inputEnd });
    begin = block.inputEnd;
    slabs.release(block.lease);
  }
  return cuts;
}

test('the blocks behind the beginning of any block are those of the whole', async () => {
  let compared = 0;
  for (let seed = 1; seed <= 60; seed++) {
    random.seed(seed, 5);
    const text = textOf();
    const slabBytes = 64 + below(400);
    const whole = await cutsOf([text], slabBytes, {});
    for (const [i, { begin, first }] of whole.entries()) {
      // Blank lines and the rest of a line that was too long are read with what comes before.
      if (i === 0 || begin !== first) continue;
      compared++;
      const expected = whole.slice(i).map(({ end }) => end - begin);
      const rest = text.subarray(begin);
      expect(
        (await cutsOf([rest], slabBytes, { middle: true })).map(({ end }) => end),
        `seed ${seed}, block ${i}`,
      ).toEqual(expected);
      const apart = { onHeader: () => {}, headApart: true };
      expect(
        (await cutsOf([HEADER, rest], slabBytes, apart)).map(({ end }) => end - HEADER.length),
        `seed ${seed}, block ${i}, behind a header`,
      ).toEqual(expected);
    }
  }
  expect(compared).toBeGreaterThan(300);
});

test('blocks behind skipped lines are those of the text without them, however it is chunked', async () => {
  for (let seed = 1; seed <= 60; seed++) {
    random.seed(seed, 7);
    const text = textOf();
    const slabBytes = 64 + below(400);
    const lines = 1 + below(4);
    const end = ['\n', '\r\n', '\r'][below(3)]!;
    const before = Buffer.from(Array.from({ length: lines }, () => `"${'z,'.repeat(below(300))}${end}`).join(''));
    // A line end of CR and LF must not be divided between the skipped lines and the rest.
    if (end === '\r' && text[0] === 10) continue;
    const input = Buffer.concat([before, text]);
    const chunks: Buffer[] = [];
    for (let at = 0; at < input.length; ) {
      const size = 1 + below(below(2) === 0 ? 5 : 700);
      chunks.push(input.subarray(at, at + size));
      at += size;
    }
    const moved = (await cutsOf([text], slabBytes, { middle: true })).map((cut, i) => ({
      begin: i === 0 ? 0 : cut.begin + before.length,
      first: cut.first + before.length,
      end: cut.end + before.length,
    }));
    const seen: Buffer[] = [];
    const onConsumed = (bytes: Uint8Array) => seen.push(Buffer.from(bytes));
    const skipping = { skipLines: lines, [Symbol.asyncIterator]: async function* () { yield* chunks; } }; // biome-ignore format: one line
    expect(await cutsOf(skipping, slabBytes, { onConsumed }), `seed ${seed}`).toEqual(moved);
    expect(Buffer.concat(seen).equals(input)).toBe(true);
  }
});
