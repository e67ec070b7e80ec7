// Accumulator of a run: counts, rejections by column, drift. Checkpoints save the accumulator, shards merge it, and the
// gate and the report read it.
import type { ErrorCode } from '../core/errors.ts';
import { type DriftCounts, DriftSum } from '../drift/drift-counts.ts';
import type { DriftPlan } from '../drift/drift-plan.ts';
import type { ColumnRejects, RunCounts, Tally } from '../engine/counts.ts';
import { MAX_DETAILS } from '../engine/protocol.ts';
import type { Manifest } from '../model/package/manifest.ts';

/**
 * Adds up the block results of a run. The saved state is plain data, which another process can add to its own
 * accumulator.
 */
export interface Accumulator<Saved> {
  add(part: Tally): void;
  save(): Saved;
  /** Adds a saved state: after `restore(a)` and `restore(b)`, `save()` returns a + b. */
  restore(saved: Saved): void;
}

export const newCounts = (): RunCounts => ({
  rows: 0,
  scored: 0,
  rejected: 0,
  rejectedByCode: {},
  interpreted: 0,
  inexact: 0,
  details: [],
});

/** Keeps at most MAX_DETAILS details. */
export function addTo(counts: RunCounts, more: Readonly<RunCounts>): void {
  counts.rows += more.rows;
  counts.scored += more.scored;
  counts.rejected += more.rejected;
  if (more.skipped) counts.skipped = (counts.skipped ?? 0) + more.skipped;
  for (const [code, n] of Object.entries(more.rejectedByCode) as [ErrorCode, number][]) {
    counts.rejectedByCode[code] = (counts.rejectedByCode[code] ?? 0) + n;
  }
  counts.interpreted += more.interpreted;
  counts.inexact += more.inexact;
  const room = MAX_DETAILS - counts.details.length;
  if (room > 0) counts.details.push(...more.details.slice(0, room));
}

/** Saved state of a TallyAccumulator, written to checkpoint journals and to the descriptions of shard results. */
export interface SavedTally extends RunCounts {
  rejectedByColumn: readonly ColumnRejects[];
  /**
   * Null if the model has no baseline. `numbers`: pairs of an index in the sketches and the count at that index, sorted
   * by index.
   */
  drift: { cells: readonly number[]; numbers: readonly number[] } | null;
}

/** Rejected rows by column, then by code. */
export type RejectsByColumn = ReadonlyMap<string, Partial<Record<ErrorCode, number>>>;

export class TallyAccumulator implements Accumulator<SavedTally> {
  #counts = newCounts();
  readonly #byColumn = new Map<string, Partial<Record<ErrorCode, number>>>();
  #cells: Float64Array | null = null;
  /** Counts by index in the sketches; the array grows to the largest index seen. */
  #numbers = new Float64Array(0);

  add(part: Readonly<RunCounts> & Pick<Tally, 'rejectedByColumn'> & { drift: DriftCounts | null }): void {
    addTo(this.#counts, part);
    for (const { column, code, rows } of part.rejectedByColumn ?? []) {
      const known = this.#byColumn.get(column) ?? {};
      known[code] = (known[code] ?? 0) + rows;
      this.#byColumn.set(column, known);
    }
    if (part.drift) this.#addDrift(part.drift);
  }

  restore(saved: SavedTally): void {
    this.add(saved);
  }

  save(): SavedTally {
    const { rejectedByCode, details, ...counts } = this.#counts;
    return {
      ...counts,
      rejectedByCode: { ...rejectedByCode },
      details: [...details],
      rejectedByColumn: [...this.#byColumn].flatMap(([column, codes]) =>
        Object.entries(codes).map(([code, rows]) => ({ column, code: code as ErrorCode, rows })),
      ),
      drift: this.#cells && { cells: [...this.#cells], numbers: this.#numberPairs() },
    };
  }

  /** Returns the state and resets all counts to zero. */
  take(): SavedTally {
    const saved = this.save();
    this.#counts = newCounts();
    this.#byColumn.clear();
    this.#cells?.fill(0);
    this.#numbers.fill(0);
    return saved;
  }

  get rejectedByColumn(): RejectsByColumn {
    return this.#byColumn;
  }

  /** The distribution of the rows over the bins of a plan; empty if no drift was measured. */
  driftOf(plan: DriftPlan): DriftSum {
    const sum = new DriftSum(plan);
    if (this.#cells) sum.add({ cells: this.#cells, numbers: this.#numberPairs() });
    return sum;
  }

  #numberPairs(): number[] {
    const pairs: number[] = [];
    for (let place = 0; place < this.#numbers.length; place++) {
      if (this.#numbers[place]! > 0) pairs.push(place, this.#numbers[place]!);
    }
    return pairs;
  }

  #addDrift({ cells, numbers }: DriftCounts): void {
    this.#cells ??= new Float64Array(cells.length);
    const sums = this.#cells;
    // The saved state belongs to another package with the same name.
    if (sums.length !== cells.length) return;
    for (let i = 0; i < cells.length; i++) sums[i]! += cells[i]!;
    let largest = -1;
    for (let i = 0; i < numbers.length; i += 2) if (numbers[i]! > largest) largest = numbers[i]!;
    if (largest >= this.#numbers.length) {
      const larger = new Float64Array(Math.max(largest + 1, this.#numbers.length * 2));
      larger.set(this.#numbers);
      this.#numbers = larger;
    }
    const counts = this.#numbers;
    for (let i = 0; i < numbers.length; i += 2) counts[numbers[i]!]! += numbers[i + 1]!;
  }
}

/**
 * Converts a saved state to a block result of this process. Scoring time is dropped, because the other process has
 * counted it. `manifest`: manifest of the model that scored the rows; if null, the drift is dropped.
 */
export function tallyOfSaved(
  saved: Omit<SavedTally, 'details'> & Partial<Pick<SavedTally, 'details'>>,
  manifest: Manifest | null,
): Tally {
  const { rows, scored, rejected, rejectedByCode, interpreted, inexact, details = [] } = saved;
  return {
    ...{ rows, scored, rejected, rejectedByCode, interpreted, inexact, details },
    rejectedByColumn: saved.rejectedByColumn,
    workMs: 0,
    drift: manifest && saved.drift && { ...saved.drift, manifest },
  };
}
