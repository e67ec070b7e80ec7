// The sums of lines: the kernel is its reference, however the text is cut.
import { expect, test } from 'vitest';
import { Random } from '../../src/core/random.ts';
import { PAGE } from '../../src/core/wasm-page.ts';
import { LINE_SCRATCH } from '../../src/io/source/line-kernel.ts';
import { hashLines, LineSummer } from '../../src/proof/line-sum-kernel.ts';
import { lineHash, linesOf, sumHashes, sumsFrom, sumsText } from '../../src/proof/line-sums.ts';

const below = (random: Random, n: number): number => Math.floor(random.uniform() * n);

/** A text with lines of all lengths around the steps of the kernel, blank ones, NUL and high bytes; it may end without a line feed. */
function textOf(random: Random): Buffer {
  const lines = Array.from({ length: 1 + below(random, 40) }, () => {
    const line = Buffer.from(
      Array.from({ length: below(random, below(random, 5) === 0 ? 400 : 36) }, () => below(random, 256)),
    );
    return line.map((byte) => (byte === 10 ? 11 : byte));
  });
  const text = Buffer.concat(lines.flatMap((line) => [line, Buffer.from('\n')]));
  return below(random, 2) === 0 ? text : text.subarray(0, text.length - 1);
}

test('the kernel gives the sums and hashes of the reference, however the text is cut', () => {
  const random = new Random();
  const summer = new LineSummer();
  for (let seed = 1; seed <= 300; seed++) {
    random.seed(seed, 0);
    const text = textOf(random);
    const hashes = [...linesOf(text)].map(lineHash);
    for (let at = 0; at < text.length; ) {
      const n = 1 + below(random, text.length);
      summer.add(text.subarray(at, at + n));
      at += n;
    }
    const expected = sumHashes(hashes);
    expect(summer.take(), `seed ${seed}`).toEqual(expected);
    expect(sumsFrom(sumsText(expected), expected.lines)).toEqual(expected);
    const listed = hashLines(text);
    expect([...listed.hashes], `seed ${seed}`).toEqual(hashes);
    const ends = [...linesOf(text)].map((line) => line.byteOffset - text.byteOffset + line.length);
    expect([...listed.ends]).toEqual(ends);
  }
});

test('blocks that lie in the memory of slabs are summed up in place, whatever stands around them', () => {
  const random = new Random();
  const memory = new WebAssembly.Memory({ initial: 3, maximum: 3, shared: true });
  const bytes = new Uint8Array(memory.buffer);
  const summer = new LineSummer();
  for (let seed = 1; seed <= 200; seed++) {
    random.seed(seed, 1);
    const text = textOf(random);
    const at = PAGE + below(random, PAGE);
    for (let i = PAGE; i < bytes.length; i++) bytes[i] = i % 3 === 0 ? 10 : i;
    bytes.set(text, at);
    summer.attach({ memory, scratch: PAGE });
    const block = Buffer.from(memory.buffer, at, text.length);
    // Where a part of a block was seen before, the rest is copied, too.
    const before = seed % 4 === 0 ? below(random, text.length) : 0;
    if (before > 0) summer.add(block.subarray(0, before));
    const found = summer.takeWith(block.subarray(before));
    expect(found, `seed ${seed}`).toEqual(sumHashes([...linesOf(text)].map(lineHash)));
  }
  expect(bytes.subarray(0, LINE_SCRATCH).every((byte) => byte === 0)).toBe(true);
});

test('a line longer than what is held at once is one line', () => {
  const text = Buffer.concat([Buffer.alloc(700_000, 'x'), Buffer.from('\ny\n')]);
  const summer = new LineSummer();
  for (let at = 0; at < text.length; at += 65_536) summer.add(text.subarray(at, at + 65_536));
  expect(summer.take()).toEqual(sumHashes([...linesOf(text)].map(lineHash)));
  expect(summer.take()).toEqual({ lines: 0, s0: 0n, s1: 0n, s2: 0n });
});

test('any byte of a line changes its hash, and so does its length', () => {
  const line = Buffer.from(Array.from({ length: 45 }, (_, i) => 32 + i));
  const seen = new Set([lineHash(line)]);
  for (let at = 0; at < line.length; at++) {
    for (let bit = 0; bit < 8; bit++) {
      const changed = Buffer.from(line);
      changed[at]! ^= 1 << bit;
      seen.add(lineHash(changed));
    }
  }
  expect(seen.size).toBe(1 + 45 * 8);
  expect(lineHash(Buffer.from('a'))).not.toBe(lineHash(Buffer.from('a\0')));
});
