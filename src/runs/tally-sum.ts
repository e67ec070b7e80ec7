// What parts add up to between two checkpoints, as plain data that a later process counts as if it had scored them.
import type { ErrorCode } from '../core/errors.ts';
import type { ColumnRejects, RunCounts, Tally } from '../engine/counts.ts';
import type { Manifest } from '../model/package/manifest.ts';
import { addTo, newCounts } from './account.ts';

/** A tally as it stands in a journal. */
export interface StoredTally extends RunCounts {
  byColumn: ColumnRejects[];
  /** Cells of the drift plan, and pairs of a place of its sketches and how many numbers fell there; null: nothing is measured. */
  drift: { cells: number[]; numbers: number[] } | null;
}

export class TallySum {
  #counts = newCounts();
  readonly #byColumn = new Map<string, ColumnRejects>();
  #cells: Float64Array | null = null;
  /** By place; grows to the largest that is seen. */
  #numbers = new Float64Array(0);

  add(tally: Tally): void {
    addTo(this.#counts, tally);
    for (const { column, code, rows } of tally.rejectedByColumn ?? []) this.#rejected(column, code, rows);
    if (tally.drift) this.#measure(tally.drift.cells, tally.drift.numbers);
  }

  #rejected(column: string, code: ErrorCode, rows: number): void {
    const key = `${code} ${column}`;
    this.#byColumn.set(key, { column, code, rows: rows + (this.#byColumn.get(key)?.rows ?? 0) });
  }

  #measure(cells: Uint32Array, numbers: Uint32Array): void {
    if (this.#cells?.length !== cells.length) this.#cells = new Float64Array(cells.length);
    const sums = this.#cells;
    for (let i = 0; i < cells.length; i++) sums[i]! += cells[i]!;
    let most = -1;
    for (let i = 0; i < numbers.length; i += 2) if (numbers[i]! > most) most = numbers[i]!;
    if (most >= this.#numbers.length) {
      const larger = new Float64Array(Math.max(most + 1, this.#numbers.length * 2));
      larger.set(this.#numbers);
      this.#numbers = larger;
    }
    const counts = this.#numbers;
    for (let i = 0; i < numbers.length; i += 2) counts[numbers[i]!]! += numbers[i + 1]!;
  }

  /** What was added since it was taken last. */
  take(): StoredTally {
    const numbers: number[] = [];
    for (let place = 0; place < this.#numbers.length; place++) {
      if (this.#numbers[place]! > 0) numbers.push(place, this.#numbers[place]!);
    }
    const drift = this.#cells === null ? null : { cells: [...this.#cells], numbers };
    const taken = { ...this.#counts, byColumn: [...this.#byColumn.values()], drift };
    this.#counts = newCounts();
    this.#byColumn.clear();
    this.#cells?.fill(0);
    this.#numbers.fill(0);
    return taken;
  }
}

/** `manifest`: of the model that scored it. The time its scoring took is that of another process, and not told again. */
export function restoredTally({ byColumn, drift, ...counts }: StoredTally, manifest: Manifest): Tally {
  const measured = drift && {
    cells: Uint32Array.from(drift.cells),
    numbers: Uint32Array.from(drift.numbers),
    manifest,
  };
  return { ...counts, rejectedByColumn: byColumn, workMs: 0, drift: measured };
}
