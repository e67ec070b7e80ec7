// Counts scored rows by the bins of the baseline in the package, one micro-batch at a time.
import type { ColumnBatch } from '../core/batch.ts';
import type { ColumnReader } from '../inference/encode/column-reader.ts';
import { type DirectEncoding, Encoder } from '../inference/encode/encoder.ts';
import type { Scores } from '../inference/evaluate/evaluator.ts';
import type { Interpreter } from '../inference/evaluate/prediction.ts';
import type { Manifest } from '../model/package/manifest.ts';
import type { DriftCounts } from './drift-counts.ts';
import { DriftKernel } from './drift-kernel.ts';
import { type CountedLane, columnsToKeep, type DriftLane, DriftMatrix } from './drift-matrix.ts';
import { DriftPlan } from './drift-plan.ts';
import { BUCKET_SHIFT, bucketsByBits, TABLE_BUCKETS } from './sketch.ts';

/**
 * Number of rows after which the kernel is assembled. Counting this number of rows without a kernel takes about as long
 * as assembling it.
 */
export const DRIFT_KERNEL_AFTER = 512;
/**
 * Minimum number of rows of a micro-batch for using the kernel. Smaller micro-batches, such as those of single
 * requests, are counted faster without the kernel.
 */
const KERNEL_ROWS_AT_LEAST = 64;

interface DriftCounterOptions {
  plan: DriftPlan;
  encoder: DirectEncoding;
  interpreter: Interpreter;
  /** Maximum number of rows in a micro-batch. */
  capacity: number;
  /** Number of rows after which the kernel is used; Infinity: never. */
  kernelAfter: number;
}

/**
 * Counts the rows of one job at a time: the caller calls `begin`, then `add` for each micro-batch, then `end`. The
 * kernel gives the same counts as the loops in this class, in less time.
 */
export class DriftCounter {
  readonly #plan: DriftPlan;
  readonly #matrix: DriftMatrix;
  readonly #kernelAfter: number;
  #rowsSeen = 0;
  #kernel: DriftKernel | null = null;
  readonly #cells: Uint32Array;
  readonly #tables: Uint32Array;
  /** Indexes of the nonzero table entries. */
  #touched: number[] = [];
  readonly #buckets = bucketsByBits();
  readonly #bits = new Float32Array(1);
  readonly #upper = new Uint32Array(this.#bits.buffer);

  constructor({ plan, encoder, interpreter, capacity, kernelAfter }: DriftCounterOptions) {
    this.#plan = plan;
    this.#matrix = new DriftMatrix(plan, encoder, interpreter, capacity);
    this.#kernelAfter = capacity < KERNEL_ROWS_AT_LEAST ? Infinity : kernelAfter;
    this.#cells = new Uint32Array(plan.cells);
    this.#tables = new Uint32Array(plan.sketches * TABLE_BUCKETS);
  }

  /** Starts a job, and discards the counts of an earlier job that failed. */
  begin(): void {
    if (this.#cells[0] !== 0) this.#take();
  }

  /** Decides whether to use the kernel. The decision never changes during a job. */
  #chooseWay(): void {
    if (this.#kernel || this.#cells[0] !== 0 || this.#rowsSeen < this.#kernelAfter) return;
    this.#kernel = DriftKernel.open(this.#matrix, this.#plan.sketches);
    // If there is not enough memory, opening the kernel is not tried again.
    if (!this.#kernel) this.#rowsSeen = -Infinity;
  }

  /** Counts the valid rows of an encoded, scored and checked batch. */
  add(batch: ColumnBatch, scores: Scores): void {
    const { rows } = batch;
    const cells = this.#cells;
    this.#rowsSeen += rows;
    this.#chooseWay();
    cells[0]! += rows - batch.rejections.length;
    this.#matrix.fill(batch, scores, ({ at, bins }) => {
      cells[at + bins + 1]!++;
    });
    if (this.#kernel) {
      this.#kernel.run(rows);
      for (const lane of this.#kernel.left) this.#count(lane, rows);
      return;
    }
    for (const lane of this.#matrix.lanes) {
      this.#count(lane, rows);
      if (lane.measured.sketch >= 0) this.#sketch(lane, rows);
    }
    if (this.#matrix.decisions) this.#count(this.#matrix.decisions, rows);
  }

  /** Returns the counts of the job and resets them. */
  end(): DriftCounts {
    return this.#take();
  }

  #take(): DriftCounts {
    const cells = this.#cells;
    const numbers = this.#kernel ? this.#kernel.drain(cells) : this.#takeNumbers();
    for (const { at, bins } of this.#plan.columns) {
      // All values that are neither in a bin nor unseen are missing.
      let missing = cells[0]! - cells[at + bins + 1]!;
      for (let b = at; b < at + bins; b++) missing -= cells[b]!;
      cells[at + bins] = missing;
    }
    const taken = { cells: cells.slice(), numbers };
    cells.fill(0);
    return taken;
  }

  #takeNumbers(): Uint32Array {
    const tables = this.#tables;
    const touched = this.#touched;
    const numbers = new Uint32Array(touched.length * 2);
    for (let i = 0; i < touched.length; i++) {
      const place = touched[i]!;
      numbers[i * 2] = place;
      numbers[i * 2 + 1] = tables[place]!;
      tables[place] = 0;
    }
    this.#touched = [];
    return numbers;
  }

  #count({ segment, offset, thresholds, cells: cellOf }: CountedLane, rows: number): void {
    const { data, width } = this.#matrix.segments[segment]!;
    const cells = this.#cells;
    for (let r = 0, at = offset; r < rows; r++, at += width) {
      const value = data[at]!;
      if (Number.isNaN(value)) continue;
      // Finds the largest threshold that is at most the value.
      let low = -1;
      for (let high = thresholds.length; high - low > 1; ) {
        const middle = (low + high) >> 1;
        if (value >= thresholds[middle]!) low = middle;
        else high = middle;
      }
      if (low >= 0) cells[cellOf[low]!]!++;
    }
  }

  #sketch({ segment, offset, measured }: DriftLane, rows: number): void {
    const { data, width } = this.#matrix.segments[segment]!;
    const first = measured.sketch * TABLE_BUCKETS;
    for (let r = 0, at = offset; r < rows; r++, at += width) {
      this.#bits[0] = data[at]!;
      const place = first + this.#buckets[this.#upper[0]! >>> BUCKET_SHIFT]!;
      if (this.#tables[place]!++ === 0) this.#touched.push(place);
    }
  }
}

/**
 * Creates the encoder of a model, which keeps the columns that drift counting needs, and the drift counter; null: the
 * package has no baseline.
 */
export function openDrift(
  manifest: Manifest,
  { kinds, ...options }: Omit<DriftCounterOptions, 'plan' | 'encoder'> & { kinds: ColumnReader['kind'][] },
): { encoder: Encoder; drift: DriftCounter | null } {
  const plan = DriftPlan.of(manifest);
  const direct = new Encoder(manifest, kinds, options.capacity);
  if (!plan) return { encoder: direct, drift: null };
  const kept = columnsToKeep(plan, direct);
  const encoder = kept.includes(true) ? new Encoder(manifest, kinds, options.capacity, kept) : direct;
  return { encoder, drift: new DriftCounter({ plan, encoder, ...options }) };
}
