// Exact effects for an average of logistic functions of linear models (calibration, voting), without evaluating the
// model.
import type { InputShape } from '../evaluate/native/feature-source.ts';
import type { Interpreter } from '../evaluate/prediction.ts';
import type { Logistic } from '../onnx/heads.ts';
import { type Effects, type Explainer, NotExplainable } from './explainer.ts';
import { Contributions } from './linear.ts';
import { ANSWER_TOLERANCE, answersOf } from './link.ts';
import { LogisticGames, logisticOf, wavesFor } from './logistic-games.ts';
import type { Background, Place } from './scored-background.ts';

/** Work of games between two progress reports: about 200 ms. */
const REPORTED_WORK = 2 ** 24;

/**
 * Effects on the probability: the mean over the background of exact Shapley values, added up over the parts.
 * @throws NotExplainable | Unsupported
 */
export function logisticsExplainer(
  logistics: readonly Logistic[],
  shapes: readonly InputShape[],
  places: readonly (readonly Place[])[],
  interpreter: Interpreter,
  background: Background,
): Explainer {
  if (interpreter.task !== 'binary')
    throw new NotExplainable('an average of logistics answers for more than two classes');
  const parts = logistics.map((l) => new Part(l, shapes, places));
  const others = parts.map((part) => part.rowsOf(background));
  const answers = Float64Array.from({ length: background.rows }, (_, z) => {
    const answer = new Float64Array(1);
    answersOf(interpreter, background.scores, z, answer);
    return answer[0]!;
  });
  const { offset, scale } = classOf(parts, others, answers);
  const columns = places.length;
  const games = new LogisticGames(columns, wavesFor(reachOf(others, columns)));
  const terms = new Float64Array(columns);
  let base = offset;
  for (const [k, part] of parts.entries()) {
    for (const { margin } of others[k]!) base += (scale * part.weight * logisticOf(margin)) / background.rows;
  }
  return {
    method: 'linear',
    space: 'probability',
    outputs: 1,
    questions: 0,
    lengthy: true,
    base: Float64Array.of(base),
    async explain(inputs, rows, onExplained): Promise<Effects> {
      const values = new Float64Array(rows.length * columns);
      const margins = new Float64Array(rows.length);
      const share = 1 / (parts.length * background.rows);
      for (const [i, x] of rows.entries()) {
        const effects = values.subarray(i * columns, (i + 1) * columns);
        margins[i] = offset;
        let [reported, unreported, reportedWork] = [0, 0, games.work];
        for (const [k, part] of parts.entries()) {
          const own = part.read(inputs, x);
          margins[i]! += scale * part.weight * logisticOf(own.margin);
          for (const { margin, terms: theirs } of others[k]!) {
            for (let c = 0; c < columns; c++) terms[c] = own.terms[c]! - theirs[c]!;
            games.add(margin, terms, (scale * part.weight) / background.rows, effects);
            unreported += share;
            if (games.work - reportedWork < REPORTED_WORK) continue;
            await onExplained?.(unreported, 0);
            [reported, unreported, reportedWork] = [reported + unreported, 0, games.work];
          }
        }
        await onExplained?.(1 - reported, 0);
      }
      return { values, margins, errors: null, evaluations: 0 };
    },
  };
}

/** Maximum magnitude of the argument of a logistic function, for rows whose values all occur in the background. */
function reachOf(others: readonly Terms[][], columns: number): number {
  let reach = 0;
  for (const rows of others) {
    let own = rows.reduce((most, { margin }) => Math.max(most, Math.abs(margin)), 0);
    for (let c = 0; c < columns; c++) {
      let [low, high] = [Infinity, -Infinity];
      for (const { terms } of rows) [low, high] = [Math.min(low, terms[c]!), Math.max(high, terms[c]!)];
      own += high - low;
    }
    reach = Math.max(reach, own);
  }
  return reach;
}

/** The argument of a logistic function for a row, and the contribution of each column to it. */
interface Terms {
  terms: Float64Array;
  margin: number;
}

class Part {
  readonly weight: number;
  readonly #logistic: Logistic;
  readonly #contributions: Contributions;
  readonly #target: number;
  readonly #columns: number;
  /** Sign of the sum: 1 or -1. The graph does not show to which of the two classes the sum belongs. */
  #sign = 1;

  /** @throws NotExplainable | Unsupported */
  constructor(logistic: Logistic, shapes: readonly InputShape[], places: readonly (readonly Place[])[]) {
    const { head, features } = logistic.trace;
    if (head.kind !== 'linear') throw new NotExplainable('the model is not linear');
    this.weight = logistic.weight;
    this.#logistic = logistic;
    this.#contributions = new Contributions(head, features, shapes, places);
    this.#target = head.targets - 1;
    this.#columns = places.length;
  }

  read(inputs: Background['inputs'], row: number): Terms {
    this.#contributions.read(inputs, row);
    const slope = this.#sign * this.#logistic.slope;
    const from = this.#target * this.#columns;
    const terms = this.#contributions.values.slice(from, from + this.#columns);
    for (let c = 0; c < terms.length; c++) terms[c]! *= slope;
    return { terms, margin: slope * this.#contributions.sums()[this.#target]! + this.#logistic.offset };
  }

  /** The argument of the logistic function if the sum belongs to the other class. */
  turned(margin: number): number {
    return 2 * this.#logistic.offset - margin;
  }

  /** Assigns the sum to the other class, and adapts the terms of these rows. */
  turn(rows: Terms[]): void {
    this.#sign = -this.#sign;
    for (const row of rows) {
      row.margin = this.turned(row.margin);
      for (let c = 0; c < row.terms.length; c++) row.terms[c] = -row.terms[c]!;
    }
  }

  rowsOf({ inputs, rows }: Background): Terms[] {
    return Array.from({ length: rows }, (_, z) => this.read(inputs, z));
  }
}

/** Compares the sums with the outputs, to determine to which class the sums belong. @throws NotExplainable */
function classOf(parts: readonly Part[], others: Terms[][], answers: Float64Array): { offset: number; scale: number } {
  const fits = (offset: number, scale: number, sign: number): boolean =>
    answers.every((answer, z) => {
      let sum = offset;
      for (const [k, part] of parts.entries()) {
        const { margin } = others[k]![z]!;
        sum += scale * part.weight * logisticOf(sign > 0 ? margin : part.turned(margin));
      }
      return Math.abs(sum - answer) <= ANSWER_TOLERANCE;
    });
  for (const sign of [1, -1]) {
    for (const [offset, scale] of [
      [0, 1],
      [1, -1],
    ] as const) {
      if (!fits(offset, scale, sign)) continue;
      if (sign < 0) for (const [k, part] of parts.entries()) part.turn(others[k]!);
      return { offset, scale };
    }
  }
  throw new NotExplainable('its outputs are not an average of the logistic functions inside');
}
