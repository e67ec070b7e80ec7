// ASCII bytes that every text format uses, and whole numbers written as decimal digits.

export const LF = 10;
export const CR = 13;
/** The double quote. */
export const QUOTE = 34;

/** Number of decimal digits of a whole number from 0 to 2^31 - 1. */
export function digitsOf(value: number): number {
  let digits = 1;
  for (let limit = 10; value >= limit && digits < 10; limit *= 10) digits++;
  return digits;
}

/** Writes the last `digits` digits of a whole number below 2^31. Returns the end offset. */
export function writeDigits(to: Uint8Array, at: number, value: number, digits: number): number {
  let rest = value | 0;
  for (let o = at + digits - 1; o >= at; o--) {
    const q = (rest / 10) | 0;
    to[o] = 48 + rest - q * 10;
    rest = q;
  }
  return at + digits;
}
