// Numbers as JSON.stringify writes them, without a string where the number is whole or has few decimals.
import { digitsOf, writeDigits } from '../../core/digits.ts';
import { nonFiniteToken } from './exact-text.ts';

/** Numbers of up to so many digits have one shortest decimal. */
const MOST = 1e15;
const CENTS = 100;
const HALF = 1e8;

/** Longest text of a number. */
export const NUMBER_BYTES = 26;

/** Writes a number, null for NaN and an infinity as a text; one past the last byte. There has to be room for NUMBER_BYTES. */
export function writeNumber(to: Uint8Array, at: number, value: number): number {
  if (Number.isInteger(value) && value < MOST && value > -MOST) return writeSigned(to, at, value);
  const cents = Math.round(value * CENTS);
  if (cents / CENTS === value && cents < MOST && cents > -MOST) return writeCents(to, at, cents);
  const text = numberToken(value);
  for (let i = 0; i < text.length; i++) to[at++] = text.charCodeAt(i);
  return at;
}

/** A number of a column as a token of JSON: NaN is a cell without a value. */
export function numberToken(value: number): string {
  if (Number.isNaN(value)) return 'null';
  if (!Number.isFinite(value)) return nonFiniteToken(value);
  return Object.is(value, -0) ? '-0' : String(value);
}

function writeSigned(to: Uint8Array, at: number, value: number): number {
  if (value > 0 || Object.is(value, 0)) return writeWhole(to, at, value);
  to[at] = 45;
  return writeWhole(to, at + 1, -value);
}

/** A number that is no whole one, as a hundred times what it is. */
function writeCents(to: Uint8Array, at: number, cents: number): number {
  const size = Math.abs(cents);
  if (cents < 0) to[at++] = 45;
  const whole = Math.floor(size / CENTS);
  const end = writeWhole(to, at, whole);
  const rest = size - whole * CENTS;
  to[end] = 46;
  const tens = (rest / 10) | 0;
  to[end + 1] = 48 + tens;
  if (rest === tens * 10) return end + 2;
  to[end + 2] = 48 + rest - tens * 10;
  return end + 3;
}

/** A whole number from 0 to below MOST. */
function writeWhole(to: Uint8Array, at: number, value: number): number {
  if (value >= HALF) {
    const high = Math.floor(value / HALF);
    const end = writeWhole(to, at, high);
    return writeDigits(to, end, value - high * HALF, 8);
  }
  return writeDigits(to, at, value, digitsOf(value));
}
