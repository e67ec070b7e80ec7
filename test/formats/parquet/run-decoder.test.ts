// Parquet's runs: values of any width, taken in any steps, against a reader of single bits.

import { expect, test } from 'vitest';
import { RunDecoder } from '../../../src/formats/parquet/run-decoder.ts';
import fc from '../../support/seeded-fast-check.ts';

type Run = { repeated: number; times: number } | { values: number[] };

const run: fc.Arbitrary<Run> = fc.oneof(
  fc.record({ repeated: fc.nat(2 ** 31 - 1), times: fc.integer({ min: 0, max: 300 }) }),
  fc.record({ values: fc.array(fc.nat(2 ** 31 - 1), { maxLength: 200 }) }),
);

const varint = (value: number): number[] => (value < 128 ? [value] : [(value & 127) | 128, ...varint(value >>> 7)]);
const cut = (value: number, width: number): number => (width >= 31 ? value : value % 2 ** width);

/** The runs as bytes, packed ones filled up to eight values, and the values they have. */
function written(runs: readonly Run[], width: number): { bytes: number[]; values: number[] } {
  const bytes: number[] = [];
  const values: number[] = [];
  for (const one of runs) {
    if ('times' in one) {
      const value = cut(one.repeated, width);
      bytes.push(...varint(one.times << 1));
      for (let b = 0; b < width; b += 8) bytes.push(Math.floor(value / 2 ** b) & 255);
      values.push(...Array<number>(one.times).fill(value));
    } else {
      const groups = Math.ceil(one.values.length / 8);
      const all = Array.from({ length: groups * 8 }, (_, i) => cut(one.values[i] ?? 0, width));
      bytes.push(...varint((groups << 1) | 1));
      const bits = all.flatMap((value) => Array.from({ length: width }, (_, b) => Math.floor(value / 2 ** b) & 1));
      for (let i = 0; i < bits.length; i += 8)
        bytes.push(bits.slice(i, i + 8).reduce((byte, bit, b) => byte | (bit << b), 0));
      values.push(...all);
    }
  }
  return { bytes, values };
}

test('every width, in steps of any size, also at the end of the memory', () => {
  fc.assert(
    fc.property(
      fc.integer({ min: 1, max: 32 }),
      fc.array(run, { minLength: 1, maxLength: 6 }),
      fc.array(fc.integer({ min: 1, max: 90 }), { minLength: 1 }),
      fc.nat(9),
      (width, runs, steps, front) => {
        const { bytes, values } = written(runs, width);
        const memory = Uint8Array.from([...Array<number>(front).fill(255), ...bytes]);
        const decoder = new RunDecoder();
        decoder.reset(memory, front, memory.length, width);
        const out = new Int32Array(values.length);
        const step = new Int32Array(90);
        for (let at = 0, s = 0; at < values.length; s++) {
          const count = Math.min(steps[s % steps.length]!, values.length - at);
          decoder.fill(step, count);
          out.set(step.subarray(0, count), at);
          at += count;
        }
        expect([...out]).toEqual(values.map((value) => value | 0));
      },
    ),
    { numRuns: 400 },
  );
});

test('bits without a header are those of each byte from the lowest on', () => {
  const decoder = new RunDecoder();
  decoder.resetPacked(Uint8Array.of(0b10110001, 0b00000111), 0, 2);
  const out = new Int32Array(16);
  decoder.fill(out, 3);
  decoder.fill(out.subarray(3), 13);
  expect(out.join('')).toBe('1000110111100000');
});
