// Which rows made of an application and of rows of the background are alike, so that the model is asked once for all of them.
import type { EncodedInput } from '../encode/encoder.ts';
import type { Background, Place } from './scored-background.ts';

/** Whether row x and background row z differ in a column; where they do not, the column changes nothing. */
export const differs = (
  list: readonly Place[],
  inputs: readonly EncodedInput[],
  x: number,
  other: Background,
  z: number,
): boolean =>
  list.some(({ input, at }) => {
    const { data, width } = inputs[input]!;
    return !Object.is(data[x * width + at], other.inputs[input]!.data[z * width + at]);
  });

/** Questions for all subsets of the columns of an application. */
export class Likeness {
  readonly #background: Background;
  readonly #places: readonly (readonly Place[])[];
  /** Per subset of columns and row of the background: the first row of its part that has the same cells there. */
  readonly #first: Uint16Array;
  /** Per subset taken from the background and row of it: which question has its answer, or -1. */
  readonly #asked: Int32Array;
  readonly #differing: Int32Array;
  readonly #sets: Int32Array;
  readonly #of: Int32Array;
  readonly #at: Int32Array;

  constructor(background: Background, places: readonly (readonly Place[])[], atOnce: number) {
    this.#background = background;
    this.#places = places;
    const subsets = 2 ** places.length;
    const held = Math.min(atOnce, background.rows);
    this.#asked = new Int32Array(subsets * held);
    this.#differing = new Int32Array(held);
    this.#sets = new Int32Array(subsets * held);
    this.#of = new Int32Array(subsets * held);
    this.#at = new Int32Array(subsets * held);
    this.#first = new Uint16Array(subsets * background.rows);
    for (let from = 0; from < background.rows; from += atOnce)
      this.#firstOf(from, Math.min(background.rows, from + atOnce));
  }

  /** Two rows are alike in a subset if they are in its first column and in the rest of it. */
  #firstOf(from: number, to: number): void {
    const { rows, inputs } = this.#background;
    const first = this.#first;
    for (let set = 1; set < 2 ** this.#places.length; set++) {
      const rest = set & (set - 1);
      const known = new Map<string | number, number>();
      for (let z = from; z < to; z++) {
        const key =
          rest === 0
            ? cellsOf(inputs, this.#places[31 - Math.clz32(set)]!, z)
            : first[rest * rows + z]! * rows + first[(set & -set) * rows + z]!;
        const alike = known.get(key);
        if (alike === undefined) known.set(key, z);
        first[set * rows + z] = alike ?? z;
      }
    }
  }

  /**
   * The questions for row x and the rows z0..z1 - 1 of the background: `sets[k]` are the columns that question k takes from row `of[k]` of
   * it. `at[set * (z1 - z0) + z - z0]`: the question with the answer to the row that takes the columns of `set` from x.
   */
  distinct(inputs: readonly EncodedInput[], x: number, z0: number, z1: number) {
    const background = this.#background;
    const rows = z1 - z0;
    const all = 2 ** this.#places.length - 1;
    for (let z = z0; z < z1; z++) {
      let mask = 0;
      this.#places.forEach((list, c) => {
        if (differs(list, inputs, x, background, z)) mask |= 1 << c;
      });
      this.#differing[z - z0] = mask;
    }
    this.#asked.fill(-1, 0, (all + 1) * rows);
    let count = 0;
    for (let set = all; set >= 0; set--) {
      for (let z = z0; z < z1; z++) {
        const taken = ~set & all & this.#differing[z - z0]!;
        const first = taken === 0 ? z0 : this.#first[taken * background.rows + z]!;
        const key = taken * rows + first - z0;
        let k = this.#asked[key]!;
        if (k < 0) {
          k = count++;
          this.#asked[key] = k;
          this.#sets[k] = taken;
          this.#of[k] = first;
        }
        this.#at[set * rows + z - z0] = k;
      }
    }
    return { count, sets: this.#sets, of: this.#of, at: this.#at };
  }
}

const cellsOf = (inputs: readonly EncodedInput[], places: readonly Place[], row: number): string =>
  places
    .map(({ input, at }) => {
      const cell = inputs[input]!.data[row * inputs[input]!.width + at]!;
      return Object.is(cell, -0) ? '-0' : String(cell);
    })
    .join('\0');
