// Tries every swap on the training table.
// Finds swaps that fit the outcome better than the given registration, or that cannot be distinguished from it.
import type { Manifest } from '../model/package/manifest.ts';
import type { Draft } from './draft.ts';
import { NO_ENCODING } from './encoding-file.ts';
import {
  constantLoss,
  fitLosses,
  isOfClass,
  logisticLine,
  logOddsOf,
  type PairedGain,
  type Predictions,
  pairedGain,
} from './fit-loss.ts';
import { pickRows } from './package-files.ts';
import { SwapScorer } from './swap-scorer.ts';
import { classSwaps, codeSwaps, missingNumberSwaps, missingSwaps, orderSwaps, type Swap } from './swaps.ts';
import type { WitnessRows } from './training-check-rows.ts';

// The code below tests whether the outcomes support a property of a registration, or whether another choice would fit
// better.

/**
 * Minimum fraction of the information of a component that must remain after accounting for the predictions as a whole.
 */
const LITTLE = 0.02;

/**
 * Score test (Rao 1948) of how strongly the outcome supports a component of the predictions: the difference between the
 * `given` predictions and the predictions `without` it. The unit is standard errors. A negative result means that a
 * smaller component would fit better; a model that was trained with the component is at 0 or above. null: the
 * predictions contain little apart from the component.
 */
function borneOut(
  task: 'binary' | 'multiclass' | 'regression',
  given: Predictions,
  without: Predictions,
  truth: Float64Array,
): number | null {
  let [score, information, all] = [0, 0, 0];
  for (let c = 0; c < given.width; c++) {
    const at = ({ values, width }: Predictions) => Float64Array.from(truth, (_, r) => values[r * width + c]!);
    const link = task === 'regression' ? (v: number) => v : logOddsOf;
    const x = at(given).map(link);
    const part = at(without).map((v, r) => x[r]! - link(v));
    const { errors, weights } =
      task === 'regression' ? linearErrors(x, truth) : logisticErrors(x, isOfClass(given.width, truth, c));
    const left = residualOf(part, x, weights);
    for (let r = 0; r < left.length; r++) {
      score += errors[r]! * left[r]!;
      information += weights[r]! * left[r]! ** 2;
      all += weights[r]! * part[r]! ** 2;
    }
  }
  return information > LITTLE * all && information > 0 ? score / Math.sqrt(information) : null;
}

interface Errors {
  readonly errors: Float64Array;
  readonly weights: Float64Array;
}

function logisticErrors(x: Float64Array, y: Float64Array): Errors {
  const { intercept, slope } = logisticLine(x, y);
  const p = x.map((v) => 1 / (1 + Math.exp(-intercept - slope * v)));
  return { errors: p.map((q, r) => y[r]! - q), weights: p.map((q) => q * (1 - q)) };
}

function linearErrors(x: Float64Array, y: Float64Array): Errors {
  const raw = residualOf(y, x, new Float64Array(x.length).fill(1));
  const variance = raw.reduce((a, e) => a + e * e, 0) / raw.length;
  return { errors: raw.map((e) => e / variance), weights: new Float64Array(x.length).fill(1 / variance) };
}

/** The weighted residuals of v after fitting a line in x. */
function residualOf(v: Float64Array, x: Float64Array, weights: Float64Array): Float64Array {
  let [w, wx, wv] = [0, 0, 0];
  for (let r = 0; r < v.length; r++) {
    w += weights[r]!;
    wx += weights[r]! * x[r]!;
    wv += weights[r]! * v[r]!;
  }
  const [mx, mv] = [wx / w, wv / w];
  let [xx, xv] = [0, 0];
  for (let r = 0; r < v.length; r++) {
    xx += weights[r]! * (x[r]! - mx) ** 2;
    xv += weights[r]! * (x[r]! - mx) * (v[r]! - mv);
  }
  const slope = xx > 0 ? xv / xx : 0;
  return v.map((value, r) => value - mv - slope * (x[r]! - mx));
}

/** Number of rows on which all swaps are tried first. Swaps that are not clearly worse are then tried on all rows. */
const FIRST_ROWS = 1500;
/** A swap is dropped if its gain on the first rows is below this number of standard errors. */
const CLEARLY_WORSE = -1.5;
/**
 * If the gain of a swap is at least this number of standard errors, the test also measures how strongly the outcome
 * supports the given registration.
 */
const DOUBTFUL = 3;
/**
 * A test result of a column within this number of standard errors of 0 is treated as 0. By chance alone, a result is
 * rarely so close to 0.
 */
const AT_OPTIMUM = 0.5;
/**
 * Maximum number of row evaluations. If the graph processes single rows, each evaluation counts as SINGLE_ROW
 * evaluations.
 */
const MOST_EVALUATIONS = 1_500_000;
const SINGLE_ROW = 30;
/** Maximum number of swaps that are tried on all rows. */
const SECOND_LOOK = 60;

export interface TriedSwap {
  readonly swap: Swap;
  readonly gain: PairedGain;
  /** Mean losses of the given registration, of the swap, and of a constant prediction. */
  readonly losses: { readonly given: number; readonly swapped: number; readonly constant: number };
  /** Number of rows whose inputs change. */
  readonly changed: number;
  /**
   * How strongly the outcome supports the registration against the swap, in standard errors; null: this cannot be
   * decided.
   */
  readonly borneOut: number | null;
  /** Largest difference of the predictions. `typical`: root mean square of the differences in changed rows. */
  readonly largest: number;
  readonly typical: number;
}

export interface SwapTest {
  readonly rows: number;
  readonly tried: number;
  /** Number of possible swaps. */
  readonly offered: number;
  /** Swaps that are not clearly worse than the registration, best first. */
  readonly near: readonly TriedSwap[];
}

/** All swaps, starting with the most likely errors. */
export function swapsOf(draft: Draft): Swap[] {
  const encoding = draft.options.encoding ?? NO_ENCODING;
  const [wholeOrders, exchanges] = orderSwaps(draft, encoding);
  const [wholeCodes, codes] = codeSwaps(draft);
  const [wholeMissing, missing] = missingSwaps(draft, encoding);
  const numbers = missingNumberSwaps(draft);
  return [...wholeOrders, ...wholeCodes, ...wholeMissing, ...numbers, ...missing, ...codes, ...exchanges];
}

/** Tries the swaps. @throws SluiceError model_failed if the model fails on a row */
export async function runSwapTest(draft: Draft, manifest: Manifest, witness: WitnessRows): Promise<SwapTest> {
  const swaps = swapsOf(draft);
  const single = draft.probe.opened.inputs.some((i) => i.single);
  const budget = MOST_EVALUATIONS / 2 / (single ? SINGLE_ROW : 1);
  const first = new Trial(await subsetOf(draft, manifest, witness));
  const left: { swap: Swap; z: number }[] = [];
  let tried = 0;
  for (const swap of swaps) {
    if (first.evaluated > budget) break;
    tried++;
    const found = await first.run(swap);
    if (found && found.gain.z > CLEARLY_WORSE) left.push({ swap, z: found.gain.z });
  }
  const all = new Trial(witness);
  const near: TriedSwap[] = [];
  for (const { swap } of left.sort((a, b) => b.z - a.z).slice(0, SECOND_LOOK)) {
    if (all.evaluated > budget) break;
    const found = await all.run(swap);
    if (found && found.gain.z > CLEARLY_WORSE) near.push(found.gain.z > DOUBTFUL ? await all.judged(found) : found);
  }
  near.push(...all.classes(classSwaps(draft, manifest)).filter((found) => found.gain.z > CLEARLY_WORSE));
  near.sort((a, b) => b.gain.z - a.gain.z);
  return { rows: all.rows, tried, offered: swaps.length, near };
}

/** Draws a random subset of the rows, because the first rows of a sorted table may all have the same class. */
async function subsetOf(draft: Draft, manifest: Manifest, { task, rows, truth }: WitnessRows): Promise<WitnessRows> {
  const picked = pickRows([...rows.keys()], FIRST_ROWS);
  const own = picked.map((r) => rows[r]!);
  const { scorer } = await SwapScorer.open(draft, manifest, own);
  return { task, rows: own, truth: Float64Array.from(picked, (r) => truth[r]!), scorer };
}

/** The given registration and its loss on some rows, for comparison with swaps. */
class Trial {
  readonly #scorer: SwapScorer;
  readonly #task: WitnessRows['task'];
  readonly #truth: Float64Array;
  readonly #losses: Float64Array;
  readonly #constant: number;

  constructor({ scorer, task, truth }: WitnessRows) {
    this.#scorer = scorer;
    this.#task = task;
    this.#truth = truth;
    this.#losses = fitLosses(task, scorer.given, truth);
    this.#constant = constantLoss(task, truth);
  }

  get rows(): number {
    return this.#truth.length;
  }
  get evaluated(): number {
    return this.#scorer.evaluated;
  }

  /** Compares a swap with the given registration; null: the swap does not change any prediction. */
  async run(swap: Swap): Promise<TriedSwap | null> {
    const found = await this.#scorer.rescore(swap);
    return found && this.#compare(swap, found, found.changed);
  }

  /**
   * Adds how strongly the outcome supports the given values that the swap would change. If the model was fitted to the
   * column as registered, it is at its optimum for this column (the test result of a linear model is 0). Then the whole
   * column is confirmed.
   */
  async judged(found: TriedSwap): Promise<TriedSwap> {
    const [cells, columns] = [await this.#borneOut(found.swap, false), await this.#borneOut(found.swap, true)];
    const fitted = columns !== null && Math.abs(columns) <= AT_OPTIMUM;
    return { ...found, borneOut: fitted ? 0 : (cells ?? columns) };
  }

  async #borneOut(swap: Swap, whole: boolean): Promise<number | null> {
    const without = await this.#scorer.withoutChanged(swap, whole);
    return without && borneOut(this.#task, this.#scorer.given, without, this.#truth);
  }

  /** Compares swaps that assign the same scores to other classes. */
  classes(swaps: readonly { swap: Swap; of: (given: Predictions) => Predictions }[]): TriedSwap[] {
    return swaps.flatMap(({ swap, of }) => this.#compare(swap, of(this.#scorer.given), this.rows) ?? []);
  }

  #compare(swap: Swap, found: Predictions, changed: number): TriedSwap | null {
    const given = this.#scorer.given.values;
    let [largest, squares] = [0, 0];
    for (let i = 0; i < given.length; i++) {
      const d = Math.abs(found.values[i]! - given[i]!);
      if (d > largest) largest = d;
      squares += d * d;
    }
    if (largest === 0) return null;
    const losses = fitLosses(this.#task, found, this.#truth);
    const mean = (v: Float64Array) => v.reduce((a, b) => a + b, 0) / v.length;
    return {
      swap,
      gain: pairedGain(this.#losses, losses),
      losses: { given: mean(this.#losses), swapped: mean(losses), constant: this.#constant },
      changed,
      borneOut: null,
      largest,
      typical: Math.sqrt(squares / changed / found.width),
    };
  }
}
