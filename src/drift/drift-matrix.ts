// The values of a micro-batch as float32, row by row, for counting.
// Missing and unseen values and rejected rows are NaN.
import type { ColumnBatch } from '../core/batch.ts';
import type { DirectEncoding, EncodedInput, Encoding } from '../inference/encode/encoder.ts';
import type { Scores } from '../inference/evaluate/evaluator.ts';
import type { Interpreter } from '../inference/evaluate/prediction.ts';
import type { DriftPlan, MeasuredColumn } from './drift-plan.ts';

/**
 * Minimum number of columns of a model input to be copied as a whole. Inputs with fewer columns are copied column by
 * column.
 */
const WIDE = 3;

/** Contiguous rows of float32. */
export interface Segment {
  data: Float32Array;
  readonly width: number;
}

/** The position of a column's values in the matrix, and the cells that count these values. */
export interface CountedLane {
  readonly segment: number;
  readonly offset: number;
  /**
   * Ascending. Values from thresholds[k] up to, but excluding, the next threshold are counted in cells[k]. Values below
   * the first threshold are not counted.
   */
  readonly thresholds: Float32Array;
  readonly cells: Int32Array;
}

export interface DriftLane extends CountedLane {
  readonly measured: MeasuredColumn;
}

/** Writes the values of a column into `out` at `from`, `from + step`, … */
type Fill = (batch: ColumnBatch, scores: Scores, rows: number, out: Float32Array, from: number, step: number) => void;

/**
 * For each column: whether the batch must keep its values, because its encoding merges values that drift counts
 * separately.
 */
export const columnsToKeep = (plan: DriftPlan, { columns }: DirectEncoding): boolean[] => {
  const keep = columns.map(() => false);
  for (const measured of plan.columns) {
    const encoding = columns[measured.column];
    if (encoding) keep[measured.column] = encodedLevels(measured, encoding) === null;
  }
  return keep;
};

/**
 * The matrix. Encoded columns are read from the inputs of the model, because fast decoding keeps nothing else. They are
 * followed by the columns of `columnsToKeep`, texts, and scores.
 */
export class DriftMatrix {
  readonly segments: readonly Segment[];
  readonly lanes: readonly DriftLane[];
  readonly decisions: CountedLane | null;
  /** Model inputs that are copied unchanged. They are the first segments. */
  readonly #copied: readonly EncodedInput[];
  readonly #fills: readonly { fill: Fill; offset: number }[];
  /** The lane of each column, by the index of the column in the package. */
  readonly #laneOf: ReadonlyMap<number, DriftLane>;

  constructor(plan: DriftPlan, { inputs, columns }: DirectEncoding, interpreter: Interpreter, capacity: number) {
    const wide = (encoding: Encoding | null | undefined) =>
      encoding?.places.find(({ input }) => inputs[input]!.width >= WIDE);
    const copied = new Set(plan.columns.flatMap(({ column }) => inputs[wide(columns[column])?.input ?? -1] ?? []));
    this.#copied = [...copied];
    const fills: { fill: Fill; offset: number }[] = [];
    this.lanes = plan.columns.map((measured): DriftLane => {
      const encoding = columns[measured.column] ?? null;
      const levels = encoding ? encodedLevels(measured, encoding)! : heldLevels(measured);
      const limits = { measured, thresholds: Float32Array.from(levels, (l) => l[0]), cells: Int32Array.from(levels, (l) => l[1]) }; // biome-ignore format: one line
      const place = wide(encoding);
      if (place) return { ...limits, segment: this.#copied.indexOf(inputs[place.input]!), offset: place.column };
      const offset = fills.length;
      fills.push({ fill: fillOf(measured, encoding, inputs, interpreter, capacity), offset });
      return { ...limits, segment: this.#copied.length, offset };
    });
    if (plan.decisions) {
      // Decisions are counted from the scores, but with other limits.
      const { segment, offset } = this.lanes.find(({ measured }) => measured === plan.score)!;
      const { names, limits, at } = plan.decisions;
      const cells = Int32Array.from(names, (_, k) => at + k);
      this.decisions = { segment, offset, thresholds: Float32Array.from(limits), cells };
    } else this.decisions = null;
    this.#fills = fills;
    const widths = [...this.#copied.map((input) => input.width), fills.length];
    this.segments = widths.map((width) => ({ width, data: new Float32Array(capacity * width) }));
    this.#laneOf = new Map(this.lanes.map((lane) => [lane.measured.column, lane]));
  }

  /** Copies the rows of an encoded and scored batch. `unseen` is called for each unseen cell of a valid row. */
  fill(batch: ColumnBatch, scores: Scores, unseen: (measured: MeasuredColumn) => void): void {
    const { rows, rejections, rejected } = batch;
    for (let s = 0; s < this.#copied.length; s++) {
      const { data, width } = this.#copied[s]!;
      this.segments[s]!.data.set((data as Float32Array).subarray(0, rows * width));
    }
    const own = this.segments.at(-1)!;
    for (const { fill, offset } of this.#fills) fill(batch, scores, rows, own.data, offset, own.width);
    for (const { index } of rejections) {
      for (const { data, width } of this.segments) data.fill(Number.NaN, index * width, (index + 1) * width);
    }
    for (let c = 0; c < batch.columns.length; c++) {
      const { unseenRows } = batch.columns[c]!;
      if (unseenRows.length === 0) continue;
      const lane = this.#laneOf.get(c);
      if (!lane) continue;
      const { data, width } = this.segments[lane.segment]!;
      for (const row of unseenRows) {
        if (rejected[row] === 1) continue;
        data[row * width + lane.offset] = Number.NaN;
        unseen(lane.measured);
      }
    }
  }
}

type Levels = (readonly [from: number, cell: number])[];

const numberLevels = ({ at }: MeasuredColumn, edges: readonly number[]): Levels =>
  [-Infinity, ...edges].map((edge, bin) => [edge, at + bin]);

/** The levels of a column that a decoder has encoded as numbers; null: the encoding is ambiguous. */
function encodedLevels(measured: MeasuredColumn, { missing, values }: Encoding): Levels | null {
  const { binning, at, bins } = measured;
  if (binning.by === 'texts') return null;
  if (binning.by === 'edges') return Number.isNaN(missing) ? numberLevels(measured, binning.edges) : null;
  // The first two entries are the encodings of unseen and missing values. Unseen values are ignored here, because the
  // batch reports them.
  const [, ofMissing, ...coded] = values!.map(Math.fround);
  if (Number.isNaN(ofMissing) && coded.length > 1 && coded.every((value, i) => i === 0 || coded[i - 1]! < value)) {
    return merged(coded.map((value, code) => [value, at + binning.bins[code]!]));
  }
  const cells = new Map<number, number>();
  if (!Number.isNaN(ofMissing)) cells.set(ofMissing!, at + bins);
  for (const [code, value] of coded.entries()) {
    const cell = at + binning.bins[code]!;
    if (Number.isNaN(value) || (cells.get(value) ?? cell) !== cell) return null;
    cells.set(value, cell);
  }
  return merged([...cells].sort((a, b) => a[0] - b[0]));
}

/**
 * Merges adjacent levels with the same cell, because a hundred thousand categories may be counted in a hundred cells.
 */
const merged = (levels: Levels): Levels => levels.filter(([, cell], i) => i === 0 || levels[i - 1]![1] !== cell);

/**
 * The levels of a column that no decoder has encoded, so that the batch contains its values. A value is a number, a
 * category code, or the bin of a text (-1: unseen).
 */
function heldLevels(measured: MeasuredColumn): Levels {
  const { binning, at, bins } = measured;
  if (binning.by === 'edges') return numberLevels(measured, binning.edges);
  if (binning.by === 'codes') return merged(binning.bins.map((bin, code) => [code, at + bin]));
  return [[-1, at + bins + 1], ...Array.from({ length: bins }, (_, bin) => [bin, at + bin] as const)];
}

function fillOf(
  { column, binning }: MeasuredColumn,
  encoding: Encoding | null,
  inputs: readonly EncodedInput[],
  interpreter: Interpreter,
  capacity: number,
): Fill {
  if (column < 0) return fillScores(interpreter, capacity);
  if (encoding) {
    const place = encoding.places[0]!;
    const { data, width } = inputs[place.input]! as EncodedInput & { data: Float32Array };
    return (_batch, _scores, rows, out, from, step) => {
      for (let r = 0, o = from; r < rows; r++, o += step) out[o] = data[r * width + place.column]!;
    };
  }
  if (binning.by === 'edges') {
    return (batch, _scores, rows, out, from, step) => {
      const { numbers } = batch.columns[column]!;
      for (let r = 0, o = from; r < rows; r++, o += step) out[o] = numbers[r]!;
    };
  }
  if (binning.by === 'codes') {
    return (batch, _scores, rows, out, from, step) => {
      const { codes } = batch.columns[column]!;
      for (let r = 0, o = from; r < rows; r++, o += step) out[o] = codes[r]! < 0 ? Number.NaN : codes[r]!;
    };
  }
  const { bins, other } = binning;
  const otherwise = other ?? -1;
  return (batch, _scores, rows, out, from, step) => {
    const { texts } = batch.columns[column]!;
    for (let r = 0, o = from; r < rows; r++, o += step) {
      const text = texts[r];
      out[o] = text === null || text === undefined ? Number.NaN : (bins.get(text) ?? otherwise);
    }
  };
}

/**
 * Writes the score that the baseline describes: the probability, the value, or the probability of the first of several
 * classes.
 */
function fillScores(interpreter: Interpreter, capacity: number): Fill {
  const probabilities = new Float32Array(interpreter.task === 'binary' ? capacity : 0);
  return (_batch, scores, rows, out, from, step) => {
    if (interpreter.task === 'binary') {
      if (step === 1) return interpreter.probabilities(scores, rows, out);
      interpreter.probabilities(scores, rows, probabilities);
      for (let r = 0, o = from; r < rows; r++, o += step) out[o] = probabilities[r]!;
      return;
    }
    const { values, width } = scores;
    for (let r = 0, o = from; r < rows; r++, o += step) out[o] = values[r * width]!;
  };
}
