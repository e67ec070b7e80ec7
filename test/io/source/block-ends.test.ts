// Where a block ends follows from where it begins: whoever begins there, behind a header or not, has the same blocks.
import { expect, test } from 'vitest';
import { Random } from '../../../src/core/random.ts';
import { SlabPool } from '../../../src/core/slabs.ts';
import { type CutOptions, cutBlocks } from '../../../src/io/source/block-cutter.ts';
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

async function cutsOf(chunks: readonly Buffer[], slabBytes: number, more: Partial<CutOptions>): Promise<Cut[]> {
  const slabs = new SlabPool(3, slabBytes);
  const cuts: Cut[] = [];
  const source = (async function* () {
    yield* chunks;
  })();
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
