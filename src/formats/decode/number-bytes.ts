// Parses a decimal number from bytes to the same double as JavaScript's Number(), without creating a string.
import { POWERS } from '../../wasm/powers-of-ten.ts';

export const POINT = 46;
export const MINUS = 45;
export const PLUS = 43;

const LARGEST_POWER = 22;
/** A mantissa of this many digits is always below 2^53. */
export const EXACT_DIGITS = 15;
/** Maximum length of a text with a sign, EXACT_DIGITS digits and a point. */
const LONGEST_EXACT = EXACT_DIGITS + 2;
/** A mantissa of up to this many digits is an exact sum of two doubles. */
const WIDE_DIGITS = 19;
/** Cap of the absolute exponent. Every larger exponent gives zero or infinity. */
const EXPONENT_CAP = 100_000;
/** Uncertainty of the correction, relative to the value: about 2^-46 of a unit in the last place. */
const DOUBT = 2 ** -98;
/** Multiplier that splits a double into two halves of 26 bits. */
const SPLITTER = 2 ** 27 + 1;

/**
 * Parses the number in `bytes[start..end)`: an optional sign, digits with at most one point, and an optional exponent.
 * Returns NaN for any other text. Rounds to the nearest double, ties to even, as Number() does. A number that is too
 * large becomes ±Infinity. For up to 15 digits and a small power of ten, one division of exact doubles suffices
 * (Clinger, "How to read floating point numbers accurately", PLDI 1990).
 */
export function numberAt(bytes: Uint8Array, start: number, end: number): number {
  let p = start;
  if (p >= end) return NaN;
  if (end - p > LONGEST_EXACT) return longNumberAt(bytes, start, end);
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
  if (digits > EXACT_DIGITS) return longNumberAt(bytes, start, end);
  if (p < end) return scaled(bytes, start, end, p, fraction, mantissa);
  const value = mantissa / POWERS[fraction]!;
  return negative ? -value : value;
}

/** Applies the exponent in `bytes[at..end)` to a mantissa with `fraction` decimals. */
function scaled(bytes: Uint8Array, start: number, end: number, at: number, fraction: number, mantissa: number): number {
  const exponent = exponentAt(bytes, at, end);
  if (Number.isNaN(exponent)) return NaN;
  const scale = exponent - fraction;
  if (scale > LARGEST_POWER || scale < -LARGEST_POWER) return throughText(bytes, start, end);
  const value = scale < 0 ? mantissa / POWERS[-scale]! : mantissa * POWERS[scale]!;
  return bytes[start] === MINUS ? -value : value;
}

/** Parses the exponent in `bytes[at..end)`. Returns NaN if the bytes are anything else. */
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

/** Parses with Number(). The bytes must be a number. */
function throughText(bytes: Uint8Array, start: number, end: number): number {
  return Number(Buffer.from(bytes.buffer, bytes.byteOffset + start, end - start).toString('latin1'));
}

/**
 * Parses a number of any length. Its first 19 significant digits become an exact sum of two doubles. The sum is
 * multiplied or divided by a power of ten up to 10^22, and the rounding error of this operation is added as a second
 * term (Dekker, "A floating-point technique for extending the available precision", 1971). If the remaining error, or
 * the digits after the first 19, could change the rounding, Number() parses the text.
 */
function longNumberAt(bytes: Uint8Array, start: number, end: number): number {
  let p = start;
  const negative = bytes[p] === MINUS;
  if (negative || bytes[p] === PLUS) p++;
  const first = p;
  // The first 9, the next 6 and the next 4 significant digits as integers, and whether any later digit is not zero.
  let [a, b, c, rest] = [0, 0, 0, 0];
  let significant = 0;
  let point = -1;
  for (; p < end; p++) {
    const digit = bytes[p]! ^ 48;
    if (digit > 9) {
      if (point >= 0 || bytes[p] !== POINT) break;
      point = p;
      continue;
    }
    if (significant < 9) a = (a * 10 + digit) | 0;
    else if (significant < EXACT_DIGITS) b = (b * 10 + digit) | 0;
    else if (significant < WIDE_DIGITS) c = (c * 10 + digit) | 0;
    else rest |= digit;
    if ((significant | digit) !== 0) significant++;
  }
  if (p === first || (point >= 0 && p === first + 1)) return NaN;
  const exponent = p < end ? exponentAt(bytes, p, end) : 0;
  if (Number.isNaN(exponent)) return NaN;
  const scale = exponent - (point < 0 ? 0 : p - point - 1) + Math.max(0, significant - WIDE_DIGITS);
  if (scale > LARGEST_POWER || scale < -LARGEST_POWER) return throughText(bytes, start, end);
  const value = timesPower(
    a * POWERS[Math.min(6, Math.max(0, significant - 9))]! + b,
    c,
    Math.min(4, Math.max(0, significant - EXACT_DIGITS)),
    scale,
    rest !== 0,
  );
  if (Number.isNaN(value)) return throughText(bytes, start, end);
  return negative ? -value : value;
}

/**
 * Computes (`high` · 10^`digits` + `low`) · 10^`scale`, for integers `high` < 10^15 and `low` < 10^`digits`, and
 * |`scale`| ≤ 22. `more`: there are further non-zero digits. Returns NaN if the rounding is not certain.
 */
function timesPower(high: number, low: number, digits: number, scale: number, more: boolean): number {
  const shift = POWERS[digits]!;
  const product = high * shift;
  const sum = product + low;
  const rounded = sum - product;
  const beyond = productError(high, shift, product) + (product - (sum - rounded) + (low - rounded));
  const power = POWERS[Math.abs(scale)]!;
  let value: number;
  let correction: number;
  if (scale < 0) {
    value = sum / power;
    const back = value * power;
    correction = (sum - back - productError(value, power, back) + beyond) / power;
  } else {
    value = sum * power;
    correction = productError(sum, power, value) + beyond * power;
  }
  // Upper bound of the value of the further digits.
  const added = more ? (scale < 0 ? 1 / power : power) : 0;
  const doubt = value * DOUBT;
  const result = value + (correction - doubt);
  return result === value + (correction + added + doubt) ? result : NaN;
}

/** Returns `a * b - product` exactly, where `product` is the rounded `a * b`. */
function productError(a: number, b: number, product: number): number {
  const ta = SPLITTER * a;
  const ah = ta - (ta - a);
  const al = a - ah;
  const tb = SPLITTER * b;
  const bh = tb - (tb - b);
  const bl = b - bh;
  return al * bl - (product - ah * bh - al * bh - ah * bl);
}
