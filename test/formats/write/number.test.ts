// Numbers are the shortest decimals that read back to the same bits.

import { expect, test } from 'vitest';
import { Random } from '../../../src/core/random.ts';
import { ByteWriter } from '../../../src/formats/write/byte-writer.ts';
import {
  decimalOfFloat32,
  shortestFloat32,
  writeFloat32,
  writeFloat64,
  writeWhole,
} from '../../../src/formats/write/number.ts';
import fc from '../../support/seeded-fast-check.ts';
import { times } from '../../support/tiers.ts';

const written = (value: number): string => {
  const out = new ByteWriter();
  writeFloat32(out, value);
  return out.view().toString();
};

test.each([
  [0, '0'],
  [1, '1'],
  [0.5, '0.5'],
  [0.1, '0.1'],
  [0.05, '0.05'],
  [0.001, '0.001'],
  [0.8731, '0.8731'],
  [0.99999994, '0.99999994'],
  [-2.5, '-2.5'],
  [1e-10, '1e-10'],
  [123456.79, '123456.79'],
  [3.4028234663852886e38, '3.4028235e+38'],
])('%d is written as %s', (value, text) => {
  expect(written(Math.fround(value))).toBe(text);
});

test('every float32 reads back to itself and is as short as the shortest', () => {
  fc.assert(
    fc.property(
      fc.oneof(fc.float({ noNaN: true, noDefaultInfinity: true }), fc.float({ min: 0, max: 1, noNaN: true })),
      (v) => {
        const value = Math.fround(v) + 0;
        const text = written(value);
        expect(Math.fround(Number(text))).toBe(value);
        expect(JSON.parse(text)).toBe(Number(text));
        expect(decimalOfFloat32(v)).toBe(Number(text));
        if (value >= 1e-3 && value < 1) expect(text.length).toBe(shortestFloat32(value).length);
      },
    ),
    { numRuns: 20_000 },
  );
});

test('the bytes are those of the shortest text, for float32 of any bits and of few digits', () => {
  const random = new Random();
  random.seed(1, 1);
  const value = new Float32Array(1);
  const bits = new Uint32Array(value.buffer);
  const wrong: [value: number, text: string][] = [];
  for (let i = 0; i < 60_000; i++) {
    const u = random.uniform();
    if (i % 3 === 0) bits[0] = u * 2 ** 32;
    else if (i % 3 === 1) value[0] = (u - 0.3) ** (1 + (i % 23));
    else {
      value[0] = Number((u * 10 ** ((i % 25) - 14)).toPrecision(1 + (i % 9)));
      bits[0] = bits[0]! + ((i % 7) - 3);
    }
    if (!Number.isFinite(value[0])) continue;
    const text = written(value[0]!);
    const right = text === shortestFloat32(value[0]!) && decimalOfFloat32(value[0]!) === Number(text);
    if (!right && wrong.length < 5) wrong.push([value[0]!, text]);
  }
  expect(wrong).toEqual([]);
});

test('whole numbers of any size', () => {
  const out = new ByteWriter(1);
  for (const n of [0, 9, 10, 99, 100, 12_345, 2 ** 53 - 1]) {
    out.unsigned(n);
    out.byte(32);
  }
  expect(out.view().toString()).toBe('0 9 10 99 100 12345 9007199254740991 ');
  for (const n of [0, -0, 1, -1, 999_999_999, 1e9, 2147483647, 2147483648, -4294967296, 2 ** 53, 1e21, NaN, 10 ** 15]) {
    out.length = 0;
    writeWhole(out, n);
    expect(out.view().toString()).toBe(String(n));
  }
});

/** Doubles at, next to and between those that decide: powers of 2 and 10, few and many digits, probabilities, any bits. */
const anyDouble = fc.oneof(
  fc.double({ noNaN: true }),
  fc.double({ min: 0, max: 1, noNaN: true }),
  fc.double({ min: -1e9, max: 1e9, noNaN: true }),
  fc
    .tuple(fc.integer({ min: -20, max: 30 }), fc.integer({ min: -3, max: 3 }))
    .map(([e, n]) => 2 ** e * (1 + n * 2 ** -52)),
  fc
    .tuple(fc.integer({ min: 1, max: 9 }), fc.integer({ min: -8, max: 9 }), fc.integer({ min: -3, max: 3 }))
    .map(([d, e, n]) => Number(`${d}e${e}`) * (1 + n * 2 ** -52)),
  fc.tuple(fc.maxSafeNat(), fc.integer({ min: 0, max: 20 })).map(([n, d]) => Number(`${n}e-${d}`)),
  fc.double({ min: -20, max: 20, noNaN: true }).map((x) => 1 / (1 + Math.exp(-x))),
);

test('the bytes of a double are those of its text in JavaScript', () => {
  const out = new ByteWriter();
  fc.assert(
    fc.property(anyDouble, fc.nat(70), (value, before) => {
      // Any number of bytes may precede it.
      out.length = 0;
      for (let i = 0; i < before; i++) out.byte(120);
      writeFloat64(out, value);
      expect(out.view().toString('latin1')).toBe('x'.repeat(before) + String(value));
    }),
    { numRuns: times('texts of doubles', { quick: 20_000, check: 40_000, campaigns: 20_000_000 }) },
  );
});
