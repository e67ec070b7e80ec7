// Effects of a black-box model: evaluates all subsets if there are few columns, otherwise samples antithetic
// permutations.
import { Random } from '../../core/random.ts';
import type { EncodedInput } from '../encode/encoder.ts';
import type { Evaluator } from '../evaluate/evaluator.ts';
import type { Interpreter } from '../evaluate/prediction.ts';
import { backgroundRowsOf, evaluationsOfPairs, evaluationsOfSubsets, MOST_EXACT_COLUMNS } from './budget.ts';
import { type Effects, type Explainer, NotExplainable, type OnExplained, type Space } from './explainer.ts';
import { Hybrids, modelAnswers, rowByRow } from './hybrids.ts';
import { answersOf } from './link.ts';
import type { Background, Place } from './scored-background.ts';

// A mixed row takes some columns from an application and the others from a background row. Identical mixed rows are
// evaluated only once.

/** Whether row x and background row z differ in a column. A column in which they are equal has no effect. */
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

/** Lists the distinct evaluations that all subsets of an application's columns need. */
class Likeness {
  readonly #background: Background;
  readonly #places: readonly (readonly Place[])[];
  /**
   * For each subset of columns and each background row: the first row in the same range of background rows with equal
   * values in these columns.
   */
  readonly #first: Uint16Array;
  /** For each background row and each subset of columns that are taken from it: index of the evaluation, or -1. */
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

  /** Two rows are equal in a subset if they are equal in one of its columns and in the subset of the other columns. */
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
   * The evaluations for row x and background rows z0 to z1 - 1. Evaluation k takes the columns in `sets[k]` from
   * background row `of[k]`, and the others from x. `at[set * (z1 - z0) + z - z0]`: index of the evaluation that takes
   * the columns in `set` from x and the others from z.
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

/** Maximum number of model outputs that an explanation holds in memory. */
const MOST_ANSWERS = 1 << 17;

export interface Asking {
  evaluator: Evaluator;
  interpreter: Interpreter;
  places: readonly (readonly Place[])[];
  background: Background;
  /** Shared by the explainers of one model. Default: an own instance. */
  hybrids?: Hybrids;
}

export function hybridsOf({ evaluator, interpreter, places, background }: Asking): Hybrids {
  const outputs = interpreter.task === 'multiclass' ? interpreter.classes.length : 1;
  return new Hybrids(modelAnswers(evaluator, interpreter), outputs, places, background.inputs);
}

const spaceOf = (interpreter: Interpreter): Space =>
  interpreter.task === 'binary' || interpreter.task === 'multiclass' ? 'probability' : 'value';

/** The mean of the model's outputs for these background rows. */
function baseOf({ interpreter, background }: Asking, outputs: number, rows: Int32Array): Float64Array {
  const base = new Float64Array(outputs);
  const answer = new Float64Array(outputs);
  for (const r of rows) {
    answersOf(interpreter, background.scores, r, answer);
    for (let o = 0; o < outputs; o++) base[o]! += answer[o]! / rows.length;
  }
  return base;
}

/**
 * Exact interventional Shapley values by definition: for each background row, evaluates all subsets of the columns in
 * which the application differs. Identical rows are evaluated only once. A background row can need 2^columns
 * evaluations, so the method is only for few columns.
 * @throws NotExplainable
 */
export function exactExplainer(asking: Asking): Explainer {
  const hybrids = asking.hybrids ?? hybridsOf(asking);
  const { outputs } = hybrids;
  const { places, background } = asking;
  const columns = places.length;
  if (columns > MOST_EXACT_COLUMNS) throw new NotExplainable(`more than ${MOST_EXACT_COLUMNS} columns`);
  const subsets = 2 ** columns;
  const atOnce = Math.max(1, Math.floor(MOST_ANSWERS / subsets / hybrids.outputs));
  const weights = shapleyWeights(columns);
  const likeness = new Likeness(background, places, atOnce);
  const answers = new Float64Array(atOnce * subsets * outputs);
  const values = new Float64Array(subsets * outputs);
  return {
    method: 'exact',
    space: spaceOf(asking.interpreter),
    outputs,
    questions: evaluationsOfSubsets(background.rows, columns),
    base: baseOf(asking, outputs, backgroundRowsOf(background.rows, background.rows)),
    async explain(inputs, rows, onExplained): Promise<Effects> {
      const effects = new Float64Array(rows.length * outputs * columns);
      const margins = new Float64Array(rows.length * outputs);
      let evaluations = 0;
      for (const [i, x] of rows.entries()) {
        values.fill(0);
        for (let z0 = 0; z0 < background.rows; z0 += atOnce) {
          const z1 = Math.min(background.rows, z0 + atOnce);
          const { count, sets, of, at } = likeness.distinct(inputs, x, z0, z1);
          const make = (from: number, n: number): void =>
            hybrids.mix(inputs, x, background.inputs, { sets, of, from, rows: n });
          const share = (z1 - z0) / background.rows / count;
          await hybrids.evaluate(count, make, answers, (n) => onExplained?.(n * share, n));
          evaluations += count;
          // The first evaluation is the application itself, without columns from the background.
          margins.set(answers.subarray(0, outputs), i * outputs);
          addMeans(values, answers, { at, subsets, rows: z1 - z0, outputs, of: background.rows });
        }
        addShapley(values, weights, effects.subarray(i * outputs * columns, (i + 1) * outputs * columns), outputs);
      }
      return { values: effects, margins, errors: null, evaluations };
    },
  };
}

/**
 * For each subset, adds the sum of the outputs for these background rows, divided by the total number of background
 * rows (`of`). After all calls, the value is the mean.
 */
function addMeans(
  values: Float64Array,
  answers: Float64Array,
  { at, subsets, rows, outputs, of }: { at: Int32Array; subsets: number; rows: number; outputs: number; of: number },
): void {
  for (let set = 0; set < subsets; set++) {
    for (let o = 0; o < outputs; o++) {
      let sum = 0;
      for (let k = set * rows, end = k + rows; k < end; k++) sum += answers[at[k]! * outputs + o]!;
      values[set * outputs + o]! += sum / of;
    }
  }
}

/** Shapley weights, by the size of a subset that does not contain the player. */
function shapleyWeights(columns: number): Float64Array {
  const factorial = [1];
  for (let n = 1; n <= columns; n++) factorial.push(factorial[n - 1]! * n);
  return Float64Array.from(
    { length: columns },
    (_, size) => (factorial[size]! * factorial[columns - size - 1]!) / factorial[columns]!,
  );
}

/**
 * Adds the Shapley values of a game to `into` (outputs × players). `values`: the values of all subsets in row-major
 * order, subsets × outputs.
 */
function addShapley(values: Float64Array, weights: Float64Array, into: Float64Array, outputs: number): void {
  const players = weights.length;
  for (let set = 0; set < 2 ** players; set++) {
    const size = bitCount(set);
    for (let j = 0; j < players; j++) {
      if ((set >>> j) & 1) continue;
      const more = (set | (1 << j)) * outputs;
      for (let o = 0; o < outputs; o++)
        into[o * players + j]! += weights[size]! * (values[more + o]! - values[set * outputs + o]!);
    }
  }
}

function bitCount(n: number): number {
  let count = 0;
  for (let v = n; v !== 0; v &= v - 1) count++;
  return count;
}

/**
 * Permutation sampling with antithetic pairs: each order and its reverse (Mitchell et al., "Sampling permutations for
 * Shapley value estimation", JMLR 2022). Every background row in use is used equally often, so that base and effects
 * add up. If there are fewer pairs than background rows, only one background row per pair is used, evenly spaced. The
 * orders are derived from the row, so the bits of its effects do not depend on other rows of the batch.
 */
export function samplingExplainer(asking: Asking, pairs: number): Explainer {
  const hybrids = asking.hybrids ?? hybridsOf(asking);
  const { outputs } = hybrids;
  const { background, interpreter, places } = asking;
  const columns = places.length;
  const used = backgroundRowsOf(pairs, background.rows);
  const random = new Random();
  const own = new Float64Array(outputs);
  return {
    method: 'sampling',
    space: spaceOf(interpreter),
    outputs,
    questions: evaluationsOfPairs(pairs, columns),
    base: baseOf(asking, outputs, used),
    async explain(inputs, rows, onExplained: OnExplained = () => {}): Promise<Effects> {
      const values = new Float64Array(rows.length * outputs * columns);
      const margins = new Float64Array(rows.length * outputs);
      const errors = new Float64Array(rows.length);
      let evaluations = 0;
      for (const [i, x] of rows.entries()) {
        const seed = hashRow(inputs, x);
        const orders = Array.from({ length: pairs }, (_, p) => {
          random.seed(seed, p);
          const z = used[p % used.length]!;
          return { z, order: shuffled(differing(places, inputs, x, background, z), random) };
        });
        const count = orders.reduce((n, { order }) => n + stepsOf(order), 1);
        const told = (n: number) => onExplained(n / count, n);
        await hybrids.evaluate(1, () => hybrids.row(inputs, x, 0), own, told);
        margins.set(own, i * outputs);
        const sums = new PairSums(outputs, columns);
        const atOnce = Math.max(1, Math.floor(MOST_ANSWERS / outputs / (2 * columns)));
        for (let from = 0; from < pairs; from += atOnce) {
          const some = orders.slice(from, from + atOnce);
          const answers = await askOrders(hybrids, some, { inputs, x, background, told });
          let at = 0;
          for (const { z, order } of some) {
            answersOf(interpreter, background.scores, z, sums.other);
            sums.add(order, answers, at, own);
            at += stepsOf(order) * outputs;
          }
        }
        evaluations += count;
        errors[i] = sums.mean(pairs, values, i * outputs * columns);
      }
      return { values, margins, errors, evaluations };
    },
  };
}

/**
 * A pair of orders. `order` contains those columns in which the application and background row `z` differ; the second
 * order is its reverse.
 */
interface Order {
  z: number;
  order: number[];
}

/** Number of evaluations for a pair: the mixed rows between background row and application, for both orders. */
const stepsOf = (order: readonly number[]): number => 2 * Math.max(0, order.length - 1);

const differing = (
  places: readonly (readonly Place[])[],
  inputs: readonly EncodedInput[],
  x: number,
  background: Background,
  z: number,
): number[] => places.flatMap((list, column) => (differs(list, inputs, x, background, z) ? [column] : []));

interface AskedRow {
  inputs: readonly EncodedInput[];
  x: number;
  background: Background;
  told: (evaluations: number) => void | Promise<void>;
}

/** The model's outputs for each pair: first along its order, then along the reverse order. */
async function askOrders(hybrids: Hybrids, orders: readonly Order[], { inputs, x, background, told }: AskedRow) {
  const count = orders.reduce((n, { order }) => n + stepsOf(order), 0);
  const answers = new Float64Array(count * hybrids.outputs);
  let at = 0;
  let step = 0;
  const make = (_: number, to: number): void => {
    while (step === stepsOf(orders[at]!.order)) {
      at++;
      step = 0;
    }
    const { z, order } = orders[at]!;
    const half = order.length - 1;
    const back = step >= half;
    const taken = (back ? step - half : step) + 1;
    hybrids.row(background.inputs, z, to);
    for (let k = 0; k < taken; k++) hybrids.column(order[back ? half - k : k]!, inputs, x, to);
    step++;
  };
  await hybrids.evaluate(count, rowByRow(make), answers, told);
  return answers;
}

/** Sums of the effects over pairs, and sums of their squares. */
class PairSums {
  /** The model's output for the background row of the next pair. */
  readonly other: Float64Array;
  readonly #sums: Float64Array;
  readonly #squares: Float64Array;
  readonly #pair: Float64Array;
  readonly #outputs: number;
  readonly #columns: number;

  constructor(outputs: number, columns: number) {
    this.#outputs = outputs;
    this.#columns = columns;
    this.other = new Float64Array(outputs);
    this.#sums = new Float64Array(outputs * columns);
    this.#squares = new Float64Array(outputs * columns);
    this.#pair = new Float64Array(outputs * columns);
  }

  /** Adds a pair. `answers`: outputs of the pair, from index `at` on. `own`: output for the application. */
  add(order: readonly number[], answers: Float64Array, at: number, own: Float64Array): void {
    const outputs = this.#outputs;
    const last = order.length - 1;
    const pair = this.#pair.fill(0);
    for (const back of [false, true]) {
      const from = at + (back ? last * outputs : 0);
      for (let o = 0; o < outputs; o++) {
        let before = this.other[o]!;
        for (let k = 0; k <= last; k++) {
          const answer = k === last ? own[o]! : answers[from + k * outputs + o]!;
          pair[o * this.#columns + order[back ? last - k : k]!]! += (answer - before) / 2;
          before = answer;
        }
      }
    }
    for (let k = 0; k < pair.length; k++) {
      this.#sums[k]! += pair[k]!;
      this.#squares[k]! += pair[k]! ** 2;
    }
  }

  /** Writes the means over n pairs and returns the largest standard error. */
  mean(n: number, into: Float64Array, at: number): number {
    let worst = 0;
    for (let k = 0; k < this.#sums.length; k++) {
      const mean = this.#sums[k]! / n;
      into[at + k] = mean;
      const variance = n > 1 ? Math.max(0, this.#squares[k]! / n - mean * mean) / (n - 1) : 0;
      worst = Math.max(worst, Math.sqrt(variance));
    }
    return worst;
  }
}

function shuffled(items: number[], random: Random): number[] {
  for (let i = items.length - 1; i > 0; i--) {
    const j = Math.floor(random.uniform() * (i + 1));
    [items[i], items[j]] = [items[j]!, items[i]!];
  }
  return items;
}

/** FNV-1a hash of the encoded values of a row. */
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
