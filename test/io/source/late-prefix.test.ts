// A prefix that nobody hashed while it was read: told once somebody asks, it is the SHA-256 of what was read.
import { createHash } from 'node:crypto';
import { appendFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { setImmediate as turn } from 'node:timers/promises';
import { expect, onTestFinished, test } from 'vitest';
import { openFile } from '../../../src/io/source/byte-source.ts';
import { type PrefixedChunks, withLatePrefix } from '../../../src/io/source/byte-taps.ts';
import { scratch } from '../../support/cli.ts';
import { seeded } from '../../support/interrupted.ts';

const SIZE = 300_000;

function integers(seed: number, count: number, below: number): number[] {
  const random = seeded(seed);
  return Array.from({ length: count }, () => Math.floor(random() * below));
}

/** Chunks as the engine reads them: whoever reads so does not close the file. */
async function* read({ chunks }: PrefixedChunks): AsyncGenerator<number> {
  const target = new Uint8Array(1 << 16);
  for (let n = await chunks.readInto!(target); n > 0; n = await chunks.readInto!(target)) yield n;
}

async function opened(readBytes: number, seed = 1) {
  const bytes = Buffer.from(integers(seed, SIZE, 256));
  const file = path.join(scratch(), 'in.csv');
  writeFileSync(file, bytes);
  const source = await openFile(file, readBytes);
  onTestFinished(() => source.close());
  return { bytes, file, late: withLatePrefix(source.chunks, source.again!), source };
}

const isRight = ({ prefix }: PrefixedChunks, bytes: Buffer): boolean => {
  const told = prefix()!;
  return told.sha256 === createHash('sha256').update(bytes.subarray(0, told.bytes)).digest('hex');
};

async function known({ holds }: PrefixedChunks): Promise<void> {
  while (!holds()) await turn();
}

test('asked for at any moment, of chunks of any size', async () => {
  for (let seed = 1; seed <= 20; seed++) {
    const [readBytes, askAt] = integers(seed, 2, 40_000) as [number, number];
    const { bytes, late } = await opened(readBytes + 1, seed);
    let n = 0;
    for await (const more of read(late)) {
      n += more;
      if (n > askAt * 7 && late.holds())
        expect([seed, isRight(late, bytes), late.prefix()!.bytes]).toEqual([seed, true, n]);
      if (seed % 2 === 0) await turn();
    }
    await known(late);
    expect([seed, n, isRight(late, bytes)]).toEqual([seed, SIZE, true]);
  }
});

test('as chunks, too', async () => {
  const { bytes, late } = await opened(1000);
  let chunks = 0;
  for await (const _ of late.chunks) {
    if (++chunks === 10) await known(late);
    if (chunks >= 10) expect([chunks, isRight(late, bytes)]).toEqual([chunks, true]);
  }
  expect(late.prefix()!.bytes).toBe(SIZE);
});

test('nothing is read again that nobody asked for', async () => {
  const { source, late } = await opened(1000);
  let again = 0;
  const counted = withLatePrefix(source.chunks, async function* () {
    again++;
    yield* source.again!();
  });
  for await (const _ of counted.chunks);
  expect(again).toBe(0);
  counted.holds();
  counted.holds();
  expect([again, late.prefix()!.bytes]).toEqual([1, 0]);
});

test('a file that was changed meanwhile has none', async () => {
  for (const change of [(f: string) => appendFileSync(f, 'x'), (f: string) => writeFileSync(f, 'short')]) {
    const { file, late } = await opened(1000);
    for await (const _ of read(late)) if (late.prefix()!.bytes > 100_000) break;
    change(file);
    expect(late.holds()).toBe(false);
    for (let i = 0; i < 500; i++) await turn();
    expect(late.holds()).toBe(false);
  }
});
