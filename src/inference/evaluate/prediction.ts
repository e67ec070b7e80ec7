// Converts a raw score to class, probability, scorecard points and decision, as the model package defines them.
import type { Manifest } from '../../model/package/manifest.ts';
import type { Scores } from './evaluator.ts';

/** Probabilities are kept at least this far from 0 and 1, so that scorecard points stay finite. */
const CLAMP = 1e-9;
/** Tolerance for rounding errors in float32 sums. */
const PROBABILITY_SLACK = 1e-5;

interface Decision {
  name: string;
  limit: number;
  /** The smallest float32 whose shortest decimal is not below `limit`. */
  single: number;
}

/** The smallest float32 whose shortest decimal is not below `limit`. */
export function leastFloat32(limit: number): number {
  const near = Math.fround(limit);
  let decimal = near;
  for (let digits = 1; digits <= 9; digits++) {
    decimal = Number(near.toPrecision(digits));
    if (Math.fround(decimal) === near) break;
  }
  if (decimal >= limit) return near;
  const bits = new Uint32Array(Float32Array.of(near).buffer);
  bits[0]! += near < 0 ? -1 : 1;
  return new Float32Array(bits.buffer)[0]!;
}

export class Interpreter {
  readonly task: Manifest['task'];
  readonly classes: readonly (string | number | boolean)[];
  /** Index of the positive class among the classes. */
  readonly positive: number;
  readonly hasPoints: boolean;
  readonly hasDecisions: boolean;
  readonly #logOdds: boolean;
  readonly #factor: number;
  readonly #offset: number;
  readonly #decisions: readonly Decision[];

  constructor(manifest: Manifest) {
    this.task = manifest.task;
    this.classes = manifest.classes ?? [];
    this.positive = manifest.positive_class === undefined ? -1 : this.classes.indexOf(manifest.positive_class);
    this.#logOdds = manifest.output?.kind === 'log_odds';
    const card = manifest.scorecard;
    this.hasPoints = card !== undefined;
    this.#factor = card ? card.points_to_double_odds / Math.LN2 : 0;
    this.#offset = card ? card.base_points - this.#factor * Math.log(card.base_odds) : 0;
    this.#decisions = (manifest.decisions ?? [])
      .toSorted((a, b) => b.min_probability - a.min_probability)
      .map(({ name, min_probability: limit }) => ({ name, limit, single: leastFloat32(limit) }));
    this.hasDecisions = this.#decisions.length > 0;
  }

  /** Probability of the positive class for row `r`, in the precision of the model's output. Binary models only. */
  probability(scores: Scores, r: number): number {
    const { values, width } = scores;
    const v = values[width > 1 ? r * width + this.positive : r]!;
    const p = this.#logOdds ? 1 / (1 + Math.exp(-v)) : v;
    const positive = width === 1 && this.positive === 0 ? 1 - p : p;
    return values instanceof Float32Array ? Math.fround(positive) : positive;
  }

  /** Probabilities of rows 0 to `rows - 1`, as float32. */
  probabilities(scores: Scores, rows: number, out: Float32Array): void {
    const { values, width } = scores;
    if (this.#logOdds || width === 1) {
      for (let r = 0; r < rows; r++) out[r] = this.probability(scores, r);
      return;
    }
    for (let r = 0, at = this.positive; r < rows; r++, at += width) out[r] = values[at]!;
  }

  /** Index of the most probable class of row `r`. Of equal classes, the first wins, as in the training libraries. */
  top(scores: Scores, r: number): number {
    const { values, width } = scores;
    let best = 0;
    for (let c = 1; c < width; c++) if (values[r * width + c]! > values[r * width + best]!) best = c;
    return best;
  }

  /** Value of row `r`. Only for the tasks regression and score. */
  value(scores: Scores, r: number): number {
    return scores.values[r * scores.width]!;
  }

  /**
   * The first row from `from` to `rows - 1` with invalid scores; `rows` if all are valid. Scores that are not finite
   * are invalid. Probabilities are also invalid if they are outside 0…1, or if the probabilities of several classes do
   * not add up to 1.
   */
  nextInvalid(scores: Scores, from: number, rows: number): number {
    const { values, width } = scores;
    const probabilities = !this.#logOdds && (this.task === 'binary' || this.task === 'multiclass');
    const lowest = probabilities ? -PROBABILITY_SLACK : -Number.MAX_VALUE;
    const highest = probabilities ? 1 + PROBABILITY_SLACK : Number.MAX_VALUE;
    for (let r = from, at = from * width; r < rows; r++) {
      let sum = 0;
      for (const end = at + width; at < end; at++) {
        const v = values[at]!;
        if (!(v >= lowest && v <= highest)) return r;
        sum += v;
      }
      if (probabilities && width > 1 && !(Math.abs(sum - 1) < 1e-3)) return r;
    }
    return rows;
  }

  /** Whether the scores of row `r` are invalid. */
  isInvalid(scores: Scores, r: number): boolean {
    return this.nextInvalid(scores, r, r + 1) === r;
  }

  /** Whether all scores of row `r` are finite. */
  finite(scores: Scores, r: number): boolean {
    const { values, width } = scores;
    for (let c = 0; c < width; c++) if (!Number.isFinite(values[r * width + c]!)) return false;
    return true;
  }

  /**
   * Scorecard points, rounded. Odds (good : bad) of base_odds give base_points; each doubling of the odds adds
   * points_to_double_odds.
   */
  points(probability: number): number {
    const p = Math.min(1 - CLAMP, Math.max(CLAMP, probability));
    return Math.round(this.#offset + this.#factor * Math.log(p / (1 - p)));
  }

  /** All values that `decision` can return. */
  get decisions(): string[] {
    return [...this.#decisions.map((d) => d.name), ''];
  }

  /**
   * The decision with the highest min_probability that a probability of `scores` reaches; '' if it reaches none. Outputs
   * show a float32 as its shortest decimal, so a probability that is shown as 0.7 reaches 0.7.
   */
  decision(probability: number, { values }: Pick<Scores, 'values'>): string {
    const single = values instanceof Float32Array;
    for (const d of this.#decisions) if (probability >= (single ? d.single : d.limit)) return d.name;
    return '';
  }
}
