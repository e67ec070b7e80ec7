// Counts of rows by bin and sketches of their numbers: of a single block result, and accumulated.
import type { DriftPlan } from './drift-plan.ts';
import { QuantileSketch, TABLE_BUCKETS } from './sketch.ts';

/** The counts of a block result. */
export interface DriftCounts {
  /** The count of each cell of the plan. */
  readonly cells: ArrayLike<number>;
  /** Pairs of an index (sketch × TABLE_BUCKETS + bucket) and the number of values in this bucket. */
  readonly numbers: ArrayLike<number>;
}

export class DriftSum {
  readonly cells: Float64Array;
  /** null: only the cells are accumulated. */
  readonly sketches: readonly QuantileSketch[] | null;

  constructor(plan: DriftPlan, { sketched = true } = {}) {
    this.cells = new Float64Array(plan.cells);
    this.sketches = sketched ? Array.from({ length: plan.sketches }, () => new QuantileSketch()) : null;
  }

  get rows(): number {
    return this.cells[0]!;
  }

  add({ cells, numbers }: DriftCounts): void {
    const own = this.cells;
    // The rows were counted with another package of the same name, so the counts are ignored.
    if (cells.length !== own.length) return;
    for (let i = 0; i < own.length; i++) own[i]! += cells[i]!;
    const { sketches } = this;
    if (!sketches) return;
    for (let i = 0; i < numbers.length; i += 2) {
      const place = numbers[i]!;
      const sketch = Math.floor(place / TABLE_BUCKETS);
      sketches[sketch]?.add(place - sketch * TABLE_BUCKETS, numbers[i + 1]!);
    }
  }

  merge(other: DriftSum): void {
    for (const [i, n] of other.cells.entries()) this.cells[i]! += n;
    for (const [i, sketch] of (this.sketches ?? []).entries()) {
      const more = other.sketches?.[i];
      if (more) sketch.merge(more);
    }
  }
}
