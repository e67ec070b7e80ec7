// Writes numbers as the shortest decimals that convert back to the same bits.
import { digitsOf, writeDigits } from '../../core/ascii.ts';
import { POWERS } from '../../wasm/powers-of-ten.ts';
import type { ByteWriter } from './byte-writer.ts';

/** Smallest size for the fast path. Smaller numbers would need a power of ten that no double represents exactly. */
const SMALLEST = 1e-13;
/** Every float32 of at least this size is an integer. */
const WHOLE = 2 ** 24;
/** An integer of at least this size may have a shorter decimal that ends with zeros. */
const LARGE_WHOLE = 1e9;
/** Largest number of decimals d for which a float32 times 10^d is exact in doubles. */
export const EXACT_DECIMALS = 12;
/** Smallest exponent that JavaScript writes as a plain decimal. */
const SMALLEST_DECIMAL = -6;

/**
 * Writes `value`, which must be an exact float32, as the shortest decimal that gives the same bits when read as a
 * double and rounded to float32. If there are several such decimals, writes the nearest. The text is the same as that
 * of `shortestFloat32`, but the fast path creates no string.
 */
export function writeFloat32(out: ByteWriter, value: number): void {
  const size = Math.abs(value);
  if (!(size < WHOLE && size >= SMALLEST)) {
    if (Number.isInteger(value) && size < LARGE_WHOLE) writeWhole(out, value);
    else out.ascii(shortestFloat32(value));
    return;
  }
  if (Math.trunc(size) === size) {
    writeWhole(out, value);
    return;
  }
  const n = shortestDigits(size);
  if (n === 0) out.ascii(shortestFloat32(value));
  else writeDecimal(out, value < 0, n, decimalsFound);
}

/** The double nearest to the decimal that `writeFloat32` writes. Programs that parse the text get this double. */
export function decimalOfFloat32(value: number): number {
  const size = Math.abs(value);
  if (size < WHOLE && size >= SMALLEST && Math.trunc(size) !== size) {
    const n = shortestDigits(size);
    // Both operands are exact doubles, so the quotient is the double nearest to the decimal.
    if (n !== 0) return value < 0 ? -n / POWERS[decimalsFound]! : n / POWERS[decimalsFound]!;
  }
  // Adding 0 turns negative zero into zero, because the text of negative zero has no sign.
  return Number(shortestFloat32(value)) + 0;
}

/** Number of decimals of the last result of `shortestDigits`. */
let decimalsFound = 0;

/**
 * The digits of the shortest decimal of a non-integer float32 with SMALLEST ≤ size < WHOLE. 0: this method does not
 * find it.
 */
function shortestDigits(size: number): number {
  // Tries six significant digits first, then up to nine.
  let decimals = 6;
  if (size < 1) while (size * POWERS[decimals - 5]! < 1) decimals++;
  else for (decimals = 5; decimals > 1 && size >= POWERS[6 - decimals]!; ) decimals--;
  for (let digits = 6; digits <= 9; digits++, decimals++) {
    const power = POWERS[decimals]!;
    const scaled = size * power;
    const n = Math.round(scaled);
    if (decimals > EXACT_DECIMALS && Math.abs(scaled - Math.floor(scaled) - 0.5) < 1e-6) break;
    if (Math.fround(n / power) !== size) continue;
    decimalsFound = decimals;
    return n;
  }
  return 0;
}

/** The shortest decimal text of a float32. */
export function shortestFloat32(value: number): string {
  if (Number.isInteger(value) && Math.abs(value) < LARGE_WHOLE) return String(value);
  for (let digits = 1; digits <= 9; digits++) {
    const text = value.toPrecision(digits);
    if (Math.fround(Number(text)) === value) return String(Number(text));
  }
  return String(value);
}

/** Writes a double as JavaScript does: the shortest decimal that gives the same bits. The fast path creates no string. */
export function writeFloat64(out: ByteWriter, value: number): void {
  const size = Math.abs(value);
  if (size >= SMALLEST_PLAIN && size < LARGEST_PLAIN && writePlainDouble(out, value < 0, size)) return;
  out.ascii(String(value));
}

/**
 * The fast path covers numbers from 1e-5 to below 1e8, because the powers of ten that scale these numbers are exact.
 */
const SMALLEST_PLAIN = 1e-5;
const LARGEST_PLAIN = 1e8;
/** Powers of ten below 1 as doubles, each slightly above the exact power. */
const FRACTIONS = Float64Array.of(1e-1, 1e-2, 1e-3, 1e-4, 1e-5);
/**
 * Number of significant digits that identify every double. The first 8 digits are kept in one number, the last 9 in
 * another.
 */
const DIGITS = 17;
const FIRST_DIGITS = 8;
const LAST_DIGITS = 9;
/** Veltkamp's constant 2^27 + 1, which splits a double into two halves. */
const SPLITTER = 134_217_729;
/**
 * Error bound of the last nine digits, with a margin. If a decision depends on a smaller difference, JavaScript formats
 * the number.
 */
const UNSURE = 1e-5;

const bitsValue = new Float64Array(1);
const bits = new Int32Array(bitsValue.buffer);
/**
 * Half the distance between adjacent doubles, for numbers below 2^27: HALF_ULPS[e] for numbers from 2^(e - 20) to below
 * 2^(e - 19).
 */
const HALF_ULPS = Float64Array.from({ length: 48 }, (_, e) => 2 ** (e - 20 - 53));

/**
 * Writes a double if the fast path can decide its shortest decimal. Scales the number to 17 digits in front of the
 * point, with an error of at most 1e-6 of the last digit. Then drops digits as long as the rounded decimal is nearer to
 * the number than half the distance to the next double. Returns false if a decision is too close, and for integers and
 * short decimals.
 */
function writePlainDouble(out: ByteWriter, negative: boolean, size: number): boolean {
  if (Math.trunc(size) === size) return false;
  bitsValue[0] = size;
  // Declines powers of two, because the distances to the next smaller and the next larger double differ.
  if (bits[0] === 0 && (bits[1]! & 0xfffff) === 0) return false;
  // Number of digits in front of the point. If it is 0 or negative: minus the number of zeros after the point.
  let before = 0;
  if (size < 1) while (size < FRACTIONS[-before]!) before--;
  else while (size >= POWERS[before]!) before++;
  const scale = POWERS[FIRST_DIGITS - before]!;
  // Dekker's product: size × scale = product + error, exactly.
  const product = size * scale;
  const [a, b] = [size * SPLITTER, scale * SPLITTER];
  const sizeHigh = a - (a - size);
  const scaleHigh = b - (b - scale);
  const sizeLow = size - sizeHigh;
  const scaleLow = scale - scaleHigh;
  const error = sizeLow * scaleLow - (product - sizeHigh * scaleHigh - sizeLow * scaleHigh - sizeHigh * scaleLow);
  let first = Math.floor(product);
  let rest = product - first + error;
  if (rest < 0) {
    first--;
    rest += 1;
  }
  const last = rest * 1e9;
  const half = HALF_ULPS[((bits[1]! >>> 20) & 0x7ff) - 1023 + 20]! * POWERS[DIGITS - before]!;
  // `unit` becomes the largest power of ten whose nearest multiple still identifies the double.
  let unit = 1;
  let rounded = Math.round(last);
  if (Math.abs(Math.abs(last - rounded) - 0.5) < UNSURE) return false;
  for (;;) {
    const next = unit * 10;
    if (next >= 1e8) return false;
    const nearest = Math.round(last / next) * next;
    const distance = Math.abs(last - nearest);
    if (Math.abs(distance - half) < UNSURE || Math.abs(distance * 2 - next) < UNSURE) return false;
    if (distance > half) break;
    unit = next;
    rounded = nearest;
  }
  if (rounded >= 1e9) {
    first++;
    rounded = 0;
  }
  if (first >= POWERS[FIRST_DIGITS]! || first < POWERS[FIRST_DIGITS - 1]!) return false;
  const to = out.room(40);
  let at = out.length;
  if (negative) to[at++] = MINUS;
  if (before <= 0) {
    to[at++] = ZERO;
    to[at++] = POINT;
    for (let i = before; i < 0; i++) to[at++] = ZERO;
  }
  let end = writeDigits(to, at, first, FIRST_DIGITS);
  end = writeDigits(to, end, rounded, LAST_DIGITS);
  while (to[end - 1] === ZERO) end--;
  if (before > 0) {
    to.copyWithin(at + before + 1, at + before, end);
    to[at + before] = POINT;
    end++;
  }
  out.length = end;
  return true;
}

const MINUS = 45;
const POINT = 46;
const ZERO = 48;

/** Writes an integer of either sign. */
export function writeWhole(out: ByteWriter, value: number): void {
  if (!Number.isSafeInteger(value)) {
    out.ascii(String(value));
    return;
  }
  if (value < 0) out.byte(45);
  out.unsigned(Math.abs(value));
}

/** Writes n / 10^decimals (0 < n < 2^31) as JavaScript does, without trailing zeros. */
function writeDecimal(out: ByteWriter, negative: boolean, n: number, decimals: number): void {
  let rest = n | 0;
  for (let q = (rest / 10) | 0; decimals > 0 && q * 10 === rest; q = (rest / 10) | 0) {
    rest = q;
    decimals--;
  }
  const digits = digitsOf(rest);
  const to = out.room(40);
  let at = out.length;
  if (negative) to[at++] = 45;
  const exponent = digits - 1 - decimals;
  if (exponent < SMALLEST_DECIMAL) {
    // Writes d.ddde-x: the first digit is moved in front of the point.
    const end = writeDigits(to, at + 1, rest, digits);
    to[at] = to[at + 1]!;
    to[at + 1] = 46;
    at = digits > 1 ? end : at + 1;
    to[at++] = 101;
    to[at++] = 45;
    out.length = writeDigits(to, at, -exponent, digitsOf(-exponent));
    return;
  }
  if (exponent < 0) {
    to[at++] = 48;
    to[at++] = 46;
    for (let zeros = -1 - exponent; zeros > 0; zeros--) to[at++] = 48;
    out.length = writeDigits(to, at, rest, digits);
    return;
  }
  const whole = digits - decimals;
  const end = writeDigits(to, at + 1, rest, digits);
  to.copyWithin(at, at + 1, at + 1 + whole);
  to[at + whole] = 46;
  out.length = decimals > 0 ? end : at + whole;
}
