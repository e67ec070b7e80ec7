// Effects of any model by querying it: all subsets of the columns where they are few, else antithetic permutations.
import { Random } from '../../core/random.ts';
import type { EncodedInput, InputArray } from '../encode/encoder.ts';
import { paddedRows } from '../encode/encoder.ts';
import type { Evaluator } from '../evaluate/evaluator.ts';
import type { Interpreter } from '../evaluate/prediction.ts';
import type { Effects, Explainer, Space } from './explainer.ts';
import { answersOf } from './link.ts';
import type { Background, Place } from './scored-background.ts';

/** With more columns than this, scoring all subsets is too expensive. */
export const EXACT_COLUMNS = 12;
/** Rows scored at once. */
const BATCH = 512;
/** Least number of pairs of permutations. */
export const DEFAULT_PAIRS = 400;

/** Answers the first `rows` rows of the inputs; what it gives writes those of row `r`, one number per output. */
export type Answerer = (
  inputs: readonly EncodedInput[],
  rows: number,
) => Promise<(r: number, out: Float64Array) => void>;

/** As the model answers. */
export const modelAnswers =
  (evaluator: Evaluator, interpreter: Interpreter): Answerer =>
  async (inputs, rows) => {
    const scores = await evaluator.score(inputs, rows);
    return (r, out) => answersOf(interpreter, scores, r, out);
  };

interface Asking {
  evaluator: Evaluator;
  interpreter: Interpreter;
  places: readonly (readonly Place[])[];
  background: Background;
}

/** Collects hybrid rows, scores them in batches and hands each answer back to whoever asked. */
export class Hybrids {
  readonly outputs: number;
  readonly #answerer: Answerer;
  readonly #places: readonly (readonly Place[])[];
  readonly #others: readonly EncodedInput[];
  readonly #inputs: EncodedInput[];
  readonly #waiting: ((answer: Float64Array) => void)[] = [];
  readonly #answer: Float64Array;

  /** `others`: the rows that cells are taken from where a row's own are not. */
  constructor(
    answerer: Answerer,
    outputs: number,
    places: readonly (readonly Place[])[],
    others: readonly EncodedInput[],
  ) {
    this.#answerer = answerer;
    this.#places = places;
    this.#others = others;
    this.outputs = outputs;
    this.#answer = new Float64Array(this.outputs);
    this.#inputs = others.map((i) => ({ ...i, data: emptyLike(i.data, paddedRows(BATCH) * i.width) }));
  }

  /**
   * The row that takes the columns with `takes(column)` from row `x` of `inputs`, the others from row `z` of the others. What it
   * returns must be awaited, if anything: a promise for every question would cost more than the model.
   */
  ask(
    inputs: readonly EncodedInput[],
    x: number,
    z: number,
    takes: (column: number) => boolean,
    then: (answer: Float64Array) => void,
  ): Promise<void> | undefined {
    const to = this.#waiting.length;
    for (const [i, own] of this.#inputs.entries()) copyRow(this.#others[i]!.data, z, own.data, to, own.width);
    for (let column = 0; column < this.#places.length; column++) {
      if (!takes(column)) continue;
      for (const { input, at } of this.#places[column]!)
        copyCell(inputs[input]!.data, x, this.#inputs[input]!.data, to, inputs[input]!.width, at);
    }
    this.#waiting.push(then);
    return this.#waiting.length === BATCH ? this.flush() : undefined;
  }

  async flush(): Promise<void> {
    const n = this.#waiting.length;
    if (n === 0) return;
    for (const i of this.#inputs) for (let r = n; r < paddedRows(n); r++) copyRow(i.data, 0, i.data, r, i.width);
    const answer = await this.#answerer(this.#inputs, n);
    for (let r = 0; r < n; r++) {
      answer(r, this.#answer);
      this.#waiting[r]!(this.#answer);
    }
    this.#waiting.length = 0;
  }
}

function emptyLike(data: InputArray, length: number): InputArray {
  if (Array.isArray(data)) return new Array<string>(length).fill('');
  return new (data.constructor as new (n: number) => Exclude<InputArray, string[]>)(length);
}

function copyRow(from: InputArray, row: number, to: InputArray, target: number, width: number): void {
  for (let k = 0; k < width; k++) (to as string[])[target * width + k] = (from as string[])[row * width + k]!;
}

function copyCell(from: InputArray, row: number, to: InputArray, target: number, width: number, at: number): void {
  (to as string[])[target * width + at] = (from as string[])[row * width + at]!;
}

function hybridsOf({ evaluator, interpreter, places, background }: Asking): Hybrids {
  const outputs = interpreter.task === 'multiclass' ? interpreter.classes.length : 1;
  return new Hybrids(modelAnswers(evaluator, interpreter), outputs, places, background.inputs);
}

const spaceOf = (interpreter: Interpreter): Space =>
  interpreter.task === 'binary' || interpreter.task === 'multiclass' ? 'probability' : 'value';

function baseOf({ interpreter, background }: Asking, outputs: number): Float64Array {
  const base = new Float64Array(outputs);
  const answer = new Float64Array(outputs);
  for (let r = 0; r < background.rows; r++) {
    answersOf(interpreter, background.scores, r, answer);
    for (let o = 0; o < outputs; o++) base[o]! += answer[o]! / background.rows;
  }
  return base;
}

/** Columns in which row x and background row z differ; the others change nothing. */
function differing(asking: Asking, inputs: readonly EncodedInput[], x: number, z: number): number[] {
  return asking.places.flatMap((list, column) =>
    list.some(({ input, at }) => {
      const { data, width } = inputs[input]!;
      return !Object.is(data[x * width + at], asking.background.inputs[input]!.data[z * width + at]);
    })
      ? [column]
      : [],
  );
}

/**
 * Exact interventional Shapley values by the definition: for each background row all subsets of the columns that differ.
 * 2^columns questions a background row, so for few columns only.
 */
export function exactExplainer(asking: Asking): Explainer {
  const hybrids = hybridsOf(asking);
  const { outputs } = hybrids;
  const columns = asking.places.length;
  const { rows: backgroundRows } = asking.background;
  const factorial = Float64Array.from({ length: columns + 1 }, (_, n) => {
    let f = 1;
    for (let i = 2; i <= n; i++) f *= i;
    return f;
  });
  return {
    method: 'exact',
    space: spaceOf(asking.interpreter),
    outputs,
    questions: backgroundRows * 2 ** columns,
    base: baseOf(asking, outputs),
    async explain(inputs, rows): Promise<Effects> {
      const values = new Float64Array(rows.length * outputs * columns);
      const margins = new Float64Array(rows.length * outputs);
      for (const [i, x] of rows.entries()) {
        for (let z = 0; z < backgroundRows; z++) {
          const players = differing(asking, inputs, x, z);
          const k = players.length;
          const answers = new Float64Array(2 ** k * outputs);
          const bit = new Int32Array(columns).fill(31);
          players.forEach((c, j) => {
            bit[c] = j;
          });
          for (let set = 0; set < 2 ** k; set++) {
            const full = hybrids.ask(
              inputs,
              x,
              z,
              (c) => ((set >>> bit[c]!) & 1) === 1,
              (answer) => answers.set(answer, set * outputs),
            );
            if (full) await full;
          }
          await hybrids.flush();
          const weights = Float64Array.from(
            { length: k },
            (_, size) => (factorial[size]! * factorial[k - size - 1]!) / factorial[k]!,
          );
          for (let o = 0; o < outputs; o++) {
            if (z === 0) margins[i * outputs + o] = answers[(2 ** k - 1) * outputs + o]!;
            for (let j = 0; j < k; j++) {
              let sum = 0;
              for (let set = 0; set < 2 ** k; set++) {
                if ((set >>> j) & 1) continue;
                const weight = weights[bitCount(set)]!;
                sum += weight * (answers[(set | (1 << j)) * outputs + o]! - answers[set * outputs + o]!);
              }
              values[(i * outputs + o) * columns + players[j]!]! += sum / backgroundRows;
            }
          }
        }
      }
      return { values, margins, errors: null };
    },
  };
}

function bitCount(n: number): number {
  let count = 0;
  for (let v = n; v !== 0; v &= v - 1) count++;
  return count;
}

/**
 * Permutation sampling with antithetic pairs (each order and its reverse; Mitchell et al., "Sampling permutations for
 * Shapley value estimation", JMLR 2022). Every background row is used equally often, so base and effects add up. The orders
 * depend on the row alone: its effects have the same bits whatever stands beside it.
 */
export function samplingExplainer(asking: Asking, pairs = DEFAULT_PAIRS): Explainer {
  const hybrids = hybridsOf(asking);
  const { outputs } = hybrids;
  const columns = asking.places.length;
  const { rows: backgroundRows } = asking.background;
  const rounds = Math.max(1, Math.ceil(pairs / backgroundRows));
  const random = new Random();
  return {
    method: 'sampling',
    space: spaceOf(asking.interpreter),
    outputs,
    questions: rounds * backgroundRows * 2 * (columns + 1),
    base: baseOf(asking, outputs),
    async explain(inputs, rows): Promise<Effects> {
      const values = new Float64Array(rows.length * outputs * columns);
      const margins = new Float64Array(rows.length * outputs);
      const errors = new Float64Array(rows.length);
      for (const [i, x] of rows.entries()) {
        const at = i * outputs * columns;
        const squares = new Float64Array(outputs * columns);
        const seed = hashRow(inputs, x);
        const drawn: Float64Array[] = [];
        for (let round = 0; round < rounds; round++) {
          for (let z = 0; z < backgroundRows; z++) {
            random.seed(seed, round * backgroundRows + z);
            const order = shuffled(differing(asking, inputs, x, z), random);
            const pair = new Float64Array(outputs * columns);
            drawn.push(pair);
            for (const sequence of [order, order.toReversed()]) {
              const place = new Int32Array(columns).fill(columns);
              sequence.forEach((c, k) => {
                place[c] = k;
              });
              const before = new Float64Array(outputs);
              for (let step = 0; step <= sequence.length; step++) {
                const player = sequence[step - 1];
                const full = hybrids.ask(
                  inputs,
                  x,
                  z,
                  (c) => place[c]! < step,
                  (answer) => {
                    for (let o = 0; o < outputs; o++) {
                      if (player !== undefined) pair[o * columns + player]! += (answer[o]! - before[o]!) / 2;
                      before[o] = answer[o]!;
                      if (step === sequence.length) margins[i * outputs + o] = answer[o]!;
                    }
                  },
                );
                if (full) await full;
              }
            }
          }
        }
        await hybrids.flush();
        for (const pair of drawn) {
          for (let k = 0; k < pair.length; k++) {
            values[at + k]! += pair[k]!;
            squares[k]! += pair[k]! ** 2;
          }
        }
        const n = rounds * backgroundRows;
        for (let k = 0; k < squares.length; k++) {
          const mean = values[at + k]! / n;
          values[at + k] = mean;
          const variance = n > 1 ? Math.max(0, squares[k]! / n - mean * mean) / (n - 1) : 0;
          errors[i] = Math.max(errors[i]!, Math.sqrt(variance));
        }
      }
      return { values, margins, errors };
    },
  };
}

function shuffled(items: number[], random: Random): number[] {
  for (let i = items.length - 1; i > 0; i--) {
    const j = Math.floor(random.uniform() * (i + 1));
    [items[i], items[j]] = [items[j]!, items[i]!];
  }
  return items;
}

/** FNV-1a over the encoded cells of a row. */
function hashRow(inputs: readonly EncodedInput[], row: number): number {
  let h = 0x811c9dc5;
  const mix = (n: number) => {
    h = Math.imul(h ^ n, 0x01000193);
  };
  const real = new Float64Array(1);
  const words = new Int32Array(real.buffer);
  for (const { data, width } of inputs) {
    for (let k = 0; k < width; k++) {
      const cell = data[row * width + k]!;
      if (typeof cell === 'string') for (let c = 0; c < cell.length; c++) mix(cell.charCodeAt(c));
      else {
        real[0] = Number(cell);
        mix(words[0]!);
        mix(words[1]!);
      }
      mix(0x1f);
    }
  }
  return h >>> 0;
}
