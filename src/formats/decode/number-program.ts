// Emits the code of a row kernel that parses a number: it reads all digits at once and divides two exact doubles.

import type { ColumnReader } from '../../inference/encode/column-reader.ts';
import type { Arena } from '../../wasm/arena.ts';
import { POWERS } from '../../wasm/powers-of-ten.ts';
import type { Label } from '../../wasm/type-stack.ts';
import { EXACT_DIGITS, MINUS, PLUS, POINT } from './number-bytes.ts';
import { type RowLocals, VECTOR } from './row-locals.ts';

const ZERO = 48;
const COMMA = 44;
/** 10 · 256 + 1: combines two digits in one multiplication. */
const PAIR = 2561;
/** A bound above every number of EXACT_DIGITS digits. */
const LARGEST = 10 ** EXACT_DIGITS;

/**
 * Writes the table of divisors to the kernel's memory and returns its address. Entry i is for a number whose point is
 * at byte i - 1 of 16; entry 0 is for a number without a point.
 */
export const placeDivisors = (arena: Arena): number =>
  arena.take((VECTOR + 1) * 8, (memory, at) => {
    new Float64Array(memory, at, VECTOR + 1).set([1, ...POWERS.slice(0, VECTOR).reverse()]);
  });

interface ReadNumber {
  /** The reader of the column, which defines its range and number notation. */
  reader: Pick<ColumnReader, 'min' | 'max' | 'wholeNumbers' | 'notation' | 'nullNumbers'>;
  /** Address that `placeDivisors` returned. */
  divisors: number;
  /** Jump target for text that is not a plain number. */
  none: Label;
  /** Jump target for a number that the kernel declines. */
  slow: Label;
}

/**
 * Emits code that sets `value` to the number in bytes p to q - 1. The code reads the last 16 bytes at once. It moves
 * the bytes before the point by one byte, over the point, so that all digits are adjacent. Then it combines digits into
 * pairs, and pairs into larger groups.
 */
export function readNumber(x: RowLocals, { reader, divisors, none, slow }: ReadNumber): void {
  const { f, p, q, length, c, digits, slot, at, negative, value } = x;
  f.get(q, p).op('i32.sub').tee(length).i32(1).op('i32.sub').i32(VECTOR).op('i32.ge_u').leaveIf(none);
  x.byte().tee(c).i32(MINUS).op('i32.eq').set(negative);
  f.get(q)
    .i32(VECTOR)
    .op('i32.sub')
    .memory('v128.load')
    .tee(digits)
    .bytes(reader.notation?.decimal === 'comma' ? COMMA : POINT)
    .op('i8x16.eq', 'i8x16.bitmask');
  f.i32(0xffff).i32(VECTOR).get(length).op('i32.sub', 'i32.shl', 'i32.and').tee(at);
  // `slot` becomes 1 + the position of the first point; 0 without a point.
  f.i32(1).op('i32.shl', 'i32.ctz').i32(31).op('i32.and').set(slot);
  f.get(length, negative).get(c).i32(PLUS).op('i32.eq', 'i32.or', 'i32.sub');
  f.get(at).i32(0).op('i32.ne', 'i32.sub').tee(length);
  f.i32(1).op('i32.sub').i32(EXACT_DIGITS).op('i32.ge_u').leaveIf(none);
  f.get(q)
    .i32(VECTOR + 1)
    .op('i32.sub')
    .memory('v128.load')
    .get(digits, slot);
  x.mask().op('v128.bitselect').bytes(ZERO).op('i8x16.sub').i32(VECTOR).get(length).op('i32.sub');
  x.mask().op('v128.andnot').tee(digits).bytes(9).op('i8x16.gt_u', 'v128.any_true').leaveIf(none);
  // Each pair of digits a, b becomes (10 a + b) · 256 + a.
  f.get(digits).shorts(PAIR, PAIR, PAIR, PAIR, PAIR, PAIR, PAIR, PAIR).op('i16x8.mul').i32(8).op('i16x8.shr_u');
  f.shorts(100, 1, 100, 1, 100, 1, 100, 1).op('i32x4.dot_i16x8_s').tee(digits).get(digits).op('i16x8.narrow_i32x4_s');
  f.shorts(10_000, 1, 10_000, 1, 0, 0, 0, 0).op('i32x4.dot_i16x8_s', 'f64x2.convert_low_i32x4_s').tee(digits);
  f.lane('f64x2', 0).f64(1e8).op('f64.mul').get(digits).lane('f64x2', 1).op('f64.add');
  f.get(slot).i32(3).op('i32.shl').memory('f64.load', divisors).op('f64.div').tee(value).op('f64.neg');
  f.get(value, negative).op('select').set(value);
  // A limit beyond LARGEST needs no check, because no number of EXACT_DIGITS digits reaches it.
  if (reader.min > -LARGEST) f.get(value).f64(reader.min).op('f64.ge', 'i32.eqz').leaveIf(slow);
  if (reader.max < LARGEST) f.get(value).f64(reader.max).op('f64.le', 'i32.eqz').leaveIf(slow);
  for (const number of reader.nullNumbers) f.get(value).f64(number).op('f64.ne', 'i32.eqz').leaveIf(slow);
  if (reader.wholeNumbers) f.get(value, value).op('f64.trunc', 'f64.ne').leaveIf(slow);
}
