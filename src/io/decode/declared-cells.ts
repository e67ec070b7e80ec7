// Cells of an input with declarations, read from their bytes: blanks around them, and numbers that are not written with a point.
import type { NumberNotation } from '../../core/input-declaration.ts';
import { numberAt } from './number-bytes.ts';

const BLANK = 32;
const TAB = 9;
/** The two bytes of the space that does not break lines. */
const [NO_BREAK_1, NO_BREAK_2] = [0xc2, 0xa0];

/** The first byte of `bytes[start..end)` that is no blank; `end` if there is none. */
export function skipBlanks(bytes: Uint8Array, start: number, end: number): number {
  for (;;) {
    if (start < end && (bytes[start] === BLANK || bytes[start] === TAB)) start++;
    else if (start + 1 < end && bytes[start] === NO_BREAK_1 && bytes[start + 1] === NO_BREAK_2) start += 2;
    else return start;
  }
}

/** One past the last byte that is no blank; `start` if there is none. */
export function endWithoutBlanks(bytes: Uint8Array, start: number, end: number): number {
  for (;;) {
    if (end > start && (bytes[end - 1] === BLANK || bytes[end - 1] === TAB)) end--;
    else if (end - 1 > start && bytes[end - 1] === NO_BREAK_2 && bytes[end - 2] === NO_BREAK_1) end -= 2;
    else return end;
  }
}

const CODES = { point: 46, comma: 44, space: 32, apostrophe: 39 } as const;
const POINT = CODES.point;
/** Longer numbers are left to the reader. */
const LONGEST = 40;
const GROUP = 3;

/** Numbers of one notation. It reads some of those that `plainNumber` does, and gives NaN for all else. */
export class LocalNumbers {
  readonly #decimal: number;
  /** -1: none. */
  readonly #thousands: number;
  readonly #plain = new Uint8Array(LONGEST);

  constructor({ decimal, thousands }: NumberNotation) {
    this.#decimal = CODES[decimal];
    this.#thousands = thousands === null ? -1 : CODES[thousands];
  }

  /** The number in `bytes[start..end)`, or NaN: it is none, or one that only the reader can tell. */
  at(bytes: Uint8Array, start: number, end: number): number {
    if (end - start > LONGEST) return Number.NaN;
    const plain = this.#plain;
    let n = 0;
    /** Digits since the last mark between thousands; -1: behind the whole part, where there is none. */
    let group = 0;
    let groups = 0;
    for (let p = start; p < end; p++) {
      const c = bytes[p]!;
      if ((c ^ 48) <= 9) {
        if (group >= 0) group++;
        plain[n++] = c;
      } else if (c === this.#thousands) {
        if (groups === 0 ? group < 1 || group > GROUP : group !== GROUP) return Number.NaN;
        groups++;
        group = 0;
      } else {
        if (groups > 0 && group !== GROUP) return Number.NaN;
        if (c === POINT && this.#decimal !== POINT) return Number.NaN;
        // Behind the point, or in an exponent: no mark can follow. A sign in front changes nothing.
        if (n > 0 || c === this.#decimal) {
          group = -1;
          groups = 0;
        }
        plain[n++] = c === this.#decimal ? POINT : c;
      }
    }
    return groups > 0 && group !== GROUP ? Number.NaN : numberAt(plain, 0, n);
  }
}
