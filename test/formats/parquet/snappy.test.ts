// Snappy, against the library's reading of it and against what its format says.

import { snappyUncompress } from 'hyparquet/src/snappy.js';
import { expect, test } from 'vitest';
import { unpackSnappy } from '../../../src/formats/parquet/parquet-pages.ts';
import fc from '../../support/seeded-fast-check.ts';

/** A piece of packed bytes: a literal, or a copy of what lies `back` bytes before. */
type Piece = { literal: Uint8Array } | { back: number; length: number; bytes: 1 | 2 | 4 };

const varint = (value: number): number[] => (value < 128 ? [value] : [(value & 127) | 128, ...varint(value >>> 7)]);
const small = (value: number, bytes: number): number[] =>
  Array.from({ length: bytes }, (_, i) => Math.floor(value / 256 ** i) & 255);

/** The pieces packed, and what they become. Each piece is made to fit what stands before it. */
function packed(pieces: readonly Piece[]): { packed: Uint8Array; plain: Uint8Array } {
  const plain: number[] = [];
  const out: number[] = [];
  for (const piece of pieces) {
    if ('literal' in piece) {
      const { literal } = piece;
      if (literal.length === 0) continue;
      const bytes = literal.length <= 60 ? 0 : literal.length <= 256 ? 1 : 2;
      out.push(
        ((bytes === 0 ? literal.length - 1 : 59 + bytes) << 2) | 0,
        ...small(literal.length - 1, bytes),
        ...literal,
      );
      plain.push(...literal);
    } else if (plain.length > 0) {
      const back = Math.min(plain.length, piece.bytes === 1 ? 2047 : piece.bytes === 2 ? 65535 : Infinity, piece.back);
      const length = piece.bytes === 1 ? 4 + (piece.length % 8) : piece.length;
      if (piece.bytes === 1) out.push(1 | ((length - 4) << 2) | ((back >> 8) << 5), back & 255);
      else out.push((piece.bytes === 2 ? 2 : 3) | ((length - 1) << 2), ...small(back, piece.bytes));
      for (let i = 0; i < length; i++) plain.push(plain[plain.length - back]!);
    }
  }
  return { packed: Uint8Array.from([...varint(plain.length), ...out]), plain: Uint8Array.from(plain) };
}

const piece: fc.Arbitrary<Piece> = fc.oneof(
  fc.record({ literal: fc.uint8Array({ maxLength: 400 }) }),
  fc.record({
    back: fc.integer({ min: 1, max: 3000 }),
    length: fc.integer({ min: 1, max: 64 }),
    bytes: fc.constantFrom(1 as const, 2 as const, 4 as const),
  }),
);

test('whatever is packed is what the format says, and what the library reads', () => {
  fc.assert(
    fc.property(fc.array(piece, { maxLength: 40 }), (pieces) => {
      const { packed: bytes, plain } = packed(pieces);
      const out = new Uint8Array(plain.length);
      unpackSnappy(bytes, out);
      expect(Buffer.compare(out, plain)).toBe(0);
      const theirs = new Uint8Array(plain.length);
      if (plain.length > 0) snappyUncompress(bytes, theirs);
      expect(Buffer.compare(theirs, plain)).toBe(0);
    }),
    { numRuns: 500 },
  );
});

test('bytes that are cut, changed, or of another size are an error, or other bytes: never more than there is room for', () => {
  fc.assert(
    fc.property(fc.array(piece, { minLength: 1, maxLength: 12 }), fc.nat(), fc.nat(255), (pieces, at, byte) => {
      const { packed: bytes, plain } = packed(pieces);
      const around = new Uint8Array(plain.length + 16).fill(7);
      const damaged = bytes.slice();
      damaged[at % bytes.length] = byte;
      for (const input of [damaged, bytes.subarray(0, at % bytes.length)]) {
        try {
          unpackSnappy(input, around.subarray(8, 8 + plain.length));
        } catch (error) {
          expect((error as Error).message).toBe('a page is not valid Snappy data');
        }
        expect([...around.subarray(0, 8), ...around.subarray(8 + plain.length)]).toEqual(Array(16).fill(7));
      }
      expect(() => unpackSnappy(bytes, new Uint8Array(plain.length + 1))).toThrow();
      if (plain.length > 0) expect(() => unpackSnappy(bytes, new Uint8Array(plain.length - 1))).toThrow();
    }),
    { numRuns: 500 },
  );
});
