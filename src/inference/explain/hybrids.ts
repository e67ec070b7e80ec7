// Builds mixed rows for a black-box model, with the columns of two rows each, and scores them in batches of a suitable
// size.
import type { EncodedInput, InputArray } from '../encode/encoder.ts';
import { paddedRows } from '../encode/encoder.ts';
import type { Evaluator } from '../evaluate/evaluator.ts';
import type { Interpreter } from '../evaluate/prediction.ts';
import { answersOf } from './link.ts';
import type { Place } from './scored-background.ts';

/** Size of the first batch in rows. The batch is small, because the cost of a row is still unknown. */
const FIRST_BATCH = 256;
const SMALLEST_BATCH = 16;
const LARGEST_BATCH = 4096;
/**
 * Maximum duration of a batch in ms, unless the smallest batch takes longer. Workers report their progress between
 * batches.
 */
const LONGEST_BATCH_MS = 1000;

/**
 * Scores the first `rows` rows of the inputs. Returns a function that writes the outputs of row `r`, one number per
 * output.
 */
export type Answerer = (
  inputs: readonly EncodedInput[],
  rows: number,
) => Promise<(r: number, out: Float64Array) => void>;

/** Creates an Answerer that uses the model. */
export const modelAnswers =
  (evaluator: Evaluator, interpreter: Interpreter): Answerer =>
  async (inputs, rows) => {
    const scores = await evaluator.score(inputs, rows);
    return (r, out) => answersOf(interpreter, scores, r, out);
  };

/**
 * Called after every batch, with the number of evaluations in it. The function may wait; an error thrown by it ends the
 * work.
 */
type OnEvaluated = (evaluations: number) => void | Promise<void>;

/**
 * For rows `from` to `from + rows - 1` of a list: which columns (`sets`) are taken from which row (`of`) of the other
 * inputs.
 */
interface Mixed {
  sets: Int32Array;
  of: Int32Array;
  from: number;
  rows: number;
}

interface Cells<T> {
  width: number;
  at: number;
  /** The values to use if nothing is taken from the other inputs. */
  own: T;
  column: number;
}

/** Adapts a function that makes a single row to the signature of `make` in `Hybrids.evaluate`. */
export const rowByRow =
  (make: (i: number, to: number) => void) =>
  (from: number, rows: number): void => {
    for (let r = 0; r < rows; r++) make(from + r, r);
  };

export class Hybrids {
  readonly outputs: number;
  readonly #answerer: Answerer;
  readonly #places: readonly (readonly Place[])[];
  #inputs: EncodedInput[];
  #room = FIRST_BATCH;
  #batch = FIRST_BATCH;

  /** `like`: inputs whose types and widths the model accepts. */
  constructor(
    answerer: Answerer,
    outputs: number,
    places: readonly (readonly Place[])[],
    like: readonly EncodedInput[],
  ) {
    this.#answerer = answerer;
    this.#places = places;
    this.outputs = outputs;
    this.#inputs = like.map((i) => ({ ...i, data: emptyLike(i.data, FIRST_BATCH * i.width) }));
  }

  /** Copies row `r` of `from` into row `to` of the batch. */
  row(from: readonly EncodedInput[], r: number, to: number): void {
    for (let i = 0; i < this.#inputs.length; i++) {
      const { data, width } = from[i]!;
      copyRow(data, r, this.#inputs[i]!.data, to, width);
    }
  }

  /** Copies one column of row `r` of `from` into row `to` of the batch. */
  column(column: number, from: readonly EncodedInput[], r: number, to: number): void {
    const places = this.#places[column]!;
    for (let p = 0; p < places.length; p++) {
      const { input, at } = places[p]!;
      const { data, width } = from[input]!;
      const own = this.#inputs[input]!.data;
      (own as string[])[to * width + at] = (data as string[])[r * width + at]!;
    }
  }

  /**
   * Builds `rows` rows from row `x` of `inputs`. In row k, the columns of the set `sets[from + k]` (one bit each) come
   * from row `of[from + k]` of `others`.
   */
  mix(inputs: readonly EncodedInput[], x: number, others: readonly EncodedInput[], mixed: Mixed): void {
    for (const [column, list] of this.#places.entries()) {
      for (const { input, at } of list) {
        const { data, width } = this.#inputs[input]!;
        const [own, other] = [inputs[input]!.data, others[input]!.data];
        const cells = { width, at, own: own[x * width + at]!, column };
        // Each type of values has its own function: a function that gets several types would be slower than the model.
        if (data instanceof Float32Array) mixFloats(data, cells as Cells<number>, other as Float32Array, mixed);
        else mixCells(data as string[], cells as Cells<string>, other as string[], mixed);
      }
    }
  }

  /**
   * Builds rows 0 to `count - 1` and scores them. `make(from, rows)` writes rows from `from` on into the batch, with
   * `row`, `column` or `mix`. The outputs are written to `into` in row-major order: count × outputs.
   * @throws SluiceError model_failed
   */
  async evaluate(
    count: number,
    make: (from: number, rows: number) => void,
    into: Float64Array,
    onEvaluated?: OnEvaluated,
  ): Promise<void> {
    const { outputs } = this;
    const answer = new Float64Array(outputs);
    for (let from = 0; from < count; ) {
      this.#grow();
      const rows = Math.min(this.#batch, count - from);
      make(from, rows);
      for (const i of this.#inputs)
        for (let r = rows; r < paddedRows(rows); r++) copyRow(i.data, 0, i.data, r, i.width);
      const began = performance.now();
      const answered = await this.#answerer(this.#inputs, rows);
      this.#fit(rows, performance.now() - began);
      for (let r = 0; r < rows; r++) {
        answered(r, answer);
        for (let o = 0; o < outputs; o++) into[(from + r) * outputs + o] = answer[o]!;
      }
      from += rows;
      await onEvaluated?.(rows);
    }
  }

  /**
   * Adapts the batch size to the measured time. Changing the size is safe, because the bits of an output do not depend
   * on the batch size.
   */
  #fit(rows: number, ms: number): void {
    if (ms > LONGEST_BATCH_MS) this.#batch = Math.max(SMALLEST_BATCH, this.#batch >> 1);
    else if (rows === this.#batch && ms < LONGEST_BATCH_MS / 4) this.#batch = Math.min(LARGEST_BATCH, this.#batch << 1);
  }

  #grow(): void {
    if (this.#batch <= this.#room) return;
    this.#room = this.#batch;
    this.#inputs = this.#inputs.map((i) => ({ ...i, data: emptyLike(i.data, this.#room * i.width) }));
  }
}

function mixFloats(
  to: Float32Array,
  { width, at, own, column }: Cells<number>,
  others: Float32Array,
  { sets, of, from, rows }: Mixed,
): void {
  for (let k = 0; k < rows; k++) {
    to[k * width + at] = (sets[from + k]! >>> column) & 1 ? others[of[from + k]! * width + at]! : own;
  }
}

function mixCells(
  to: string[],
  { width, at, own, column }: Cells<string>,
  others: string[],
  { sets, of, from, rows }: Mixed,
): void {
  for (let k = 0; k < rows; k++) {
    to[k * width + at] = (sets[from + k]! >>> column) & 1 ? others[of[from + k]! * width + at]! : own;
  }
}

function emptyLike(data: InputArray, length: number): InputArray {
  if (Array.isArray(data)) return new Array<string>(length).fill('');
  return new (data.constructor as new (n: number) => Exclude<InputArray, string[]>)(length);
}

function copyRow(from: InputArray, row: number, to: InputArray, target: number, width: number): void {
  for (let k = 0; k < width; k++) (to as string[])[target * width + k] = (from as string[])[row * width + k]!;
}
