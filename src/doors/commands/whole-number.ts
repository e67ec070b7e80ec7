// Parses an option that must be a whole number within bounds.
import { SluiceError } from '../../core/errors.ts';

/** @throws SluiceError usage */
export function wholeNumber(name: string, min: number, max: number): (text: string) => number {
  return (text) => {
    // An empty variable must be an error, but `Number('')` is 0.
    const n = text.trim() === '' ? Number.NaN : Number(text);
    if (!Number.isInteger(n) || n < min || n > max) {
      throw new SluiceError('usage', `--${name} takes a whole number from ${min} to ${max}`);
    }
    return n;
  };
}
