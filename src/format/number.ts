// Writes numbers as the shortest decimals that read back to the same bits.
import type { ByteWriter } from './byte-writer.ts';

/**
 * Writes `value` (exactly a float32) as the shortest decimal that, read as a double and rounded to float32, gives the
 * same bits. Probabilities of usual size take the fast path: 6 to 9 decimals tried in turn, no string made.
 */
export function writeFloat32(out: ByteWriter, value: number): void {
  if (value >= 1e-3 && value < 1) {
    for (let scale = 1e6, digits = 6; digits <= 10; scale *= 10, digits++) {
      const n = Math.round(value * scale);
      if (Math.fround(n / scale) !== value) continue;
      writeFraction(out, n, digits);
      return;
    }
  }
  out.ascii(shortestFloat32(value));
}

/** The shortest decimal text of a float32. */
export function shortestFloat32(value: number): string {
  if (Number.isInteger(value) && Math.abs(value) < 1e9) return String(value);
  for (let digits = 1; digits <= 9; digits++) {
    const text = value.toPrecision(digits);
    if (Math.fround(Number(text)) === value) return String(Number(text));
  }
  return String(value);
}

export const writeFloat64 = (out: ByteWriter, value: number): void => out.ascii(String(value));

/** `0.` and `n` padded to `digits` decimals, trailing zeros left out. */
function writeFraction(out: ByteWriter, n: number, digits: number): void {
  if (n === 10 ** digits) {
    out.byte(49);
    return;
  }
  while (n % 10 === 0 && digits > 1) {
    n /= 10;
    digits--;
  }
  out.byte(48);
  out.byte(46);
  for (let limit = 10 ** (digits - 1); n < limit && limit > 1; limit /= 10) out.byte(48);
  out.unsigned(n);
}
