// Effects of a traced linear model in closed form: the contribution of a column minus its average contribution.
import type { EncodedInput } from '../encode/encoder.ts';
import { type InputShape, numberFill, stateFill } from '../evaluate/native/feature-source.ts';
import type { Interpreter } from '../evaluate/prediction.ts';
import type { Feature, LinearHead, Trace } from '../onnx/traced-model.ts';
import { CategoryKeys, categorySlot, categoryValues } from '../trees/slots.ts';
import { type Effects, type Explainer, NotExplainable } from './explainer.ts';
import { answersOf, findLink, type LinkFinder, marginsOf } from './link.ts';
import { type Background, columnFeeding, type Place } from './scored-background.ts';

/** @throws NotExplainable | Unsupported */
export function linearExplainer(
  trace: Trace,
  shapes: readonly InputShape[],
  places: readonly (readonly Place[])[],
  interpreter: Interpreter,
  background: Background,
  linkOf: LinkFinder = findLink,
): Explainer {
  const { head, features } = trace;
  if (head.kind !== 'linear') throw new NotExplainable('the model is not linear');
  const { targets } = head;
  const columns = places.length;
  const contributions = new Contributions(head, features, shapes, places);
  const mean = new Float64Array(targets * columns);
  const sums: Float64Array[] = [];
  const answers: Float64Array[] = [];
  for (let r = 0; r < background.rows; r++) {
    contributions.read(background.inputs, r);
    for (let i = 0; i < mean.length; i++) mean[i]! += contributions.values[i]! / background.rows;
    sums.push(contributions.sums());
    const answer = new Float64Array(interpreter.task === 'multiclass' ? interpreter.classes.length : 1);
    answersOf(interpreter, background.scores, r, answer);
    answers.push(answer);
  }
  const link = linkOf(interpreter, sums, answers);
  const { outputs } = link;
  const base = new Float64Array(outputs);
  contributions.values.set(mean);
  marginsOf(link, contributions.sums(), base);
  let values = new Float64Array(0);
  let margins = new Float64Array(0);
  const rowMargins = new Float64Array(outputs);
  return {
    method: 'linear',
    space: link.space,
    outputs,
    questions: 0,
    base,
    async explain(inputs, rows): Promise<Effects> {
      const n = rows.length;
      if (margins.length < n * outputs) {
        values = new Float64Array(n * outputs * columns);
        margins = new Float64Array(n * outputs);
      }
      for (let i = 0; i < n; i++) {
        contributions.read(inputs, rows[i]!);
        marginsOf(link, contributions.sums(), rowMargins);
        margins.set(rowMargins, i * outputs);
        for (let o = 0; o < outputs; o++) {
          for (let c = 0; c < columns; c++) {
            let v = 0;
            for (let t = 0; t < targets; t++) {
              const k = link.coefficients[o]![t]!;
              if (k !== 0) v += k * (contributions.values[t * columns + c]! - mean[t * columns + c]!);
            }
            values[(i * outputs + o) * columns + c] = v;
          }
        }
      }
      return { values, margins, errors: null, evaluations: 0 };
    },
  };
}

/** Adds the contributions of some features to `out[target * columns + column]`. */
type Part = (inputs: readonly EncodedInput[], row: number, out: Float64Array) => void;

/**
 * Contribution of each column to the sums of a row: coefficient × value, added over all features that are derived from
 * the column.
 */
export class Contributions {
  /** Contributions of the row that was read last: targets × columns. */
  readonly values: Float64Array;
  readonly #parts: Part[] = [];
  readonly #head: LinearHead;
  readonly #features: readonly Feature[];
  readonly #shapes: readonly InputShape[];
  readonly #columns: number;

  /** @throws NotExplainable | Unsupported */
  constructor(
    head: LinearHead,
    features: readonly Feature[],
    shapes: readonly InputShape[],
    places: readonly (readonly Place[])[],
  ) {
    this.#head = head;
    this.#features = features;
    this.#shapes = shapes;
    this.#columns = places.length;
    this.values = new Float64Array(head.targets * places.length);
    const keys = new CategoryKeys();
    const done = new Set<object>();
    features.forEach((feature, j) => {
      if (feature.source === null) throw new NotExplainable('a feature is a constant');
      const column = columnFeeding(feature.source, shapes, places);
      const key = keys.of(feature);
      if (key === null) this.#parts.push(this.#numberPart(feature, j, column));
      else if (!done.has(key)) {
        done.add(key);
        this.#parts.push(this.#categoryPart(feature, keys, column));
      }
    });
  }

  read(inputs: readonly EncodedInput[], row: number): void {
    this.values.fill(0);
    for (const part of this.#parts) part(inputs, row, this.values);
  }

  /** The sums of the row that was read last: intercept plus contributions. */
  sums(): Float64Array {
    const { targets, intercepts } = this.#head;
    return Float64Array.from({ length: targets }, (_, t) => {
      let s = intercepts[t]!;
      for (let c = 0; c < this.#columns; c++) s += this.values[t * this.#columns + c]!;
      return s;
    });
  }

  #numberPart(feature: Feature, j: number, column: number): Part {
    const { targets, coefficients } = this.#head;
    const columns = this.#columns;
    const width = this.#features.length;
    const value = new Float64Array(1);
    const fill = numberFill(feature, this.#shapes, value);
    return (inputs, row, out) => {
      fill(inputs, row, row + 1);
      for (let t = 0; t < targets; t++) out[t * columns + column]! += coefficients[t * width + j]! * value[0]!;
    };
  }

  /** Handles all features of one category column with a table: state → contribution. */
  #categoryPart(feature: Feature, keys: CategoryKeys, column: number): Part {
    const { targets, coefficients } = this.#head;
    const columns = this.#columns;
    const features = this.#features;
    const key = keys.of(feature)!;
    const slot = categorySlot(feature, key, features);
    const table = new Float64Array(targets * slot.states);
    features.forEach((f, k) => {
      if (keys.of(f) !== key) return;
      categoryValues(slot, f).forEach((v, s) => {
        for (let t = 0; t < targets; t++) table[t * slot.states + s]! += coefficients[t * features.length + k]! * v;
      });
    });
    const state = new Uint16Array(1);
    const fill = stateFill(slot, this.#shapes, state, 0, 1);
    return (inputs, row, out) => {
      fill(inputs, row, row + 1);
      for (let t = 0; t < targets; t++) out[t * columns + column]! += table[t * slot.states + state[0]!]!;
    };
  }
}
