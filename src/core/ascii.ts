// ASCII bytes that all text formats use, and functions that write integers as decimal digits.

export const LF = 10;
export const CR = 13;
/** The double quote. */
export const QUOTE = 34;

/** Number of decimal digits of an integer from 0 to 2^31 - 1. */
export function digitsOf(value: number): number {
  let digits = 1;
  for (let limit = 10; value >= limit && digits < 10; limit *= 10) digits++;
  return digits;
}

/** Writes the last `digits` digits of a non-negative integer below 2^31. Returns the offset after the last digit. */
export function writeDigits(to: Uint8Array, at: number, value: number, digits: number): number {
  let rest = value | 0;
  for (let o = at + digits - 1; o >= at; o--) {
    const q = (rest / 10) | 0;
    to[o] = 48 + rest - q * 10;
    rest = q;
  }
  return at + digits;
}
