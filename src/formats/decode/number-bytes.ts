// Parses a decimal number from bytes to the same double as JavaScript's Number(), without creating a string.
import { POWERS } from '../../wasm/powers-of-ten.ts';

export const POINT = 46;
export const MINUS = 45;
export const PLUS = 43;

const LARGEST_POWER = 22;
/** A mantissa of this many digits is always below 2^53. */
export const EXACT_DIGITS = 15;
/** A mantissa of up to this many digits is an exact sum of two doubles. */
const WIDE_DIGITS = 19;
/** Larger exponents all give zero or infinity. */
const EXPONENT_CAP = 100_000;
/** Uncertainty of the correction, relative to the value: some 2^-46 of a unit in the last place. */
const DOUBT = 2 ** -98;
/** Splits a double into two halves of 26 bits. */
const SPLITTER = 2 ** 27 + 1;

/**
 * The number in `bytes[start..end)`: an optional sign, digits with at most one point, and an optional exponent. NaN for
 * any other text. Rounds to the nearest double, ties to even, as Number() does; overflows to ±Infinity. For up to 15
 * digits and a small power of ten, one division of exact doubles suffices (Clinger, "How to read floating point numbers
 * accurately", PLDI 1990); `scaled` handles the rest.
 */
export function numberAt(bytes: Uint8Array, start: number, end: number): number {
  let p = start;
  if (p >= end) return NaN;
  let c = bytes[p]!;
  const negative = c === MINUS;
  if (negative || c === PLUS) p++;
  const first = p;
  let mantissa = 0;
  let fraction = 0;
  let points = 0;
  for (; p < end; p++) {
    c = bytes[p]! ^ 48;
    if (c > 9) break;
    mantissa = mantissa * 10 + c;
  }
  if (p < end && bytes[p] === POINT) {
    points = 1;
    const from = ++p;
    for (; p < end; p++) {
      c = bytes[p]! ^ 48;
      if (c > 9) break;
      mantissa = mantissa * 10 + c;
    }
    fraction = p - from;
  }
  const digits = p - first - points;
  if (digits === 0) return NaN;
  if (p < end || digits > EXACT_DIGITS) return scaled(bytes, start, end, p, digits, fraction, mantissa);
  const value = mantissa / POWERS[fraction]!;
  return negative ? -value : value;
}

/** Parses a number with an exponent or many digits. `at`: position after the mantissa, which has `digits` digits. */
function scaled(
  bytes: Uint8Array,
  start: number,
  end: number,
  at: number,
  digits: number,
  fraction: number,
  mantissa: number,
): number {
  let exponent = 0;
  if (at < end) {
    exponent = exponentAt(bytes, at, end);
    if (Number.isNaN(exponent)) return NaN;
  }
  const scale = exponent - fraction;
  if (scale > LARGEST_POWER || scale < -LARGEST_POWER) return throughText(bytes, start, end);
  if (digits > EXACT_DIGITS) return wide(bytes, start, end, at, scale);
  const value = scale < 0 ? mantissa / POWERS[-scale]! : mantissa * POWERS[scale]!;
  return bytes[start] === MINUS ? -value : value;
}

/** The exponent in `bytes[at..end)`, or NaN if the bytes are not exactly an exponent. */
function exponentAt(bytes: Uint8Array, at: number, end: number): number {
  if ((bytes[at]! | 32) !== 101) return NaN;
  let p = at + 1;
  const negative = bytes[p] === MINUS;
  if (p < end && (negative || bytes[p] === PLUS)) p++;
  if (p >= end) return NaN;
  let exponent = 0;
  for (; p < end; p++) {
    const c = bytes[p]! ^ 48;
    if (c > 9) return NaN;
    if (exponent < EXPONENT_CAP) exponent = exponent * 10 + c;
  }
  return negative ? -exponent : exponent;
}

/** The result of Number() for bytes already known to be a number. */
function throughText(bytes: Uint8Array, start: number, end: number): number {
  return Number(Buffer.from(bytes.buffer, bytes.byteOffset + start, end - start).toString('latin1'));
}

/**
 * Parses a mantissa of 16 to 19 significant digits times 10^scale, |scale| ≤ 22. The mantissa becomes an exact sum of
 * two doubles. One product or quotient is computed, and its error is added as a second term (Dekker, "A floating-point
 * technique for extending the available precision", 1971). If the remaining error could change the rounding, or with
 * more than 19 digits, Number() decides.
 */
function wide(bytes: Uint8Array, start: number, end: number, at: number, scale: number): number {
  let high = 0;
  let low = 0;
  let significant = 0;
  for (let p = start; p < at; p++) {
    const c = bytes[p]! ^ 48;
    if (c > 9 || (significant === 0 && c === 0)) continue;
    if (significant < EXACT_DIGITS) high = high * 10 + c;
    else low = low * 10 + c;
    significant++;
  }
  if (significant > WIDE_DIGITS) return throughText(bytes, start, end);
  const shift = POWERS[Math.max(0, significant - EXACT_DIGITS)]!;
  const product = high * shift;
  const sum = product + low;
  const rounded = sum - product;
  const rest = productError(high, shift, product) + (product - (sum - rounded) + (low - rounded));
  let value: number;
  let correction: number;
  if (scale < 0) {
    const power = POWERS[-scale]!;
    value = sum / power;
    const back = value * power;
    correction = (sum - back - productError(value, power, back) + rest) / power;
  } else {
    const power = POWERS[scale]!;
    value = sum * power;
    correction = productError(sum, power, value) + rest * power;
  }
  const doubt = value * DOUBT;
  const result = value + (correction - doubt);
  if (result !== value + (correction + doubt)) return throughText(bytes, start, end);
  return bytes[start] === MINUS ? -result : result;
}

/** `a * b - product` exactly, where `product` is the rounded `a * b`. */
function productError(a: number, b: number, product: number): number {
  const ta = SPLITTER * a;
  const ah = ta - (ta - a);
  const al = a - ah;
  const tb = SPLITTER * b;
  const bh = tb - (tb - b);
  const bl = b - bh;
  return al * bl - (product - ah * bh - al * bh - ah * bl);
}
