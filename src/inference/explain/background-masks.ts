// A background counted: what its rows have in common is computed once, however many rows have it.
import { KeyTable } from './key-table.ts';

/** The distinct keys among the first `rows`: a row that has each, and how many have it. */
export function distinctKeys(keys: Int32Array, rows: number): { rows: Int32Array; counts: Float64Array } {
  const table = new KeyTable();
  const first = new Int32Array(rows);
  const counts = new Float64Array(rows);
  for (let r = 0; r < rows; r++) {
    let k = table.find(keys[r]!);
    if (k < 0) {
      k = table.size;
      table.add(keys[r]!, k);
      first[k] = r;
    }
    counts[k]!++;
  }
  return { rows: first.subarray(0, table.size), counts: counts.subarray(0, table.size) };
}

/** How many rows of the background have each mask of a leaf. */
export class MaskCounts {
  readonly #table = new KeyTable();
  readonly #masks: number[] = [];
  readonly #counts: number[] = [];

  add(mask: number, count: number): void {
    const k = this.#table.find(mask);
    if (k >= 0) this.#counts[k]! += count;
    else {
      this.#table.add(mask, this.#masks.push(mask) - 1);
      this.#counts.push(count);
    }
  }

  /** Ascending, so that sums over them do not depend on the order of the background. */
  sorted(): { masks: Int32Array; counts: Float64Array } {
    const masks = Int32Array.from(this.#masks).sort();
    return { masks, counts: Float64Array.from(masks, (m) => this.#counts[this.#table.find(m)]!) };
  }
}
