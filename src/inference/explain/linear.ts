// Effects of a traced linear model in closed form: what a column contributes, less what it contributes on average.
import type { EncodedInput } from '../encode/encoder.ts';
import { type InputShape, numberFill, stateFill } from '../evaluate/native/source.ts';
import type { Interpreter } from '../evaluate/prediction.ts';
import type { Trace } from '../onnx/trace.ts';
import { CategoryKeys, categorySlot, categoryValues } from '../trees/slots.ts';
import type { Background, Place } from './background.ts';
import { type Effects, type Explainer, NotExplainable } from './explainer.ts';
import { answersOf, findLink, type LinkFinder, marginsOf } from './link.ts';

/** Adds what some features contribute to `out[target * columns + column]`. */
type Part = (inputs: readonly EncodedInput[], row: number, out: Float64Array) => void;

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
  const { targets, coefficients, intercepts } = head;
  const columns = places.length;
  const parts: Part[] = [];
  const keys = new CategoryKeys();
  const done = new Set<object>();
  features.forEach((feature, j) => {
    if (feature.source === null) throw new NotExplainable('a feature is a constant');
    const { source } = feature;
    const input = shapes.findIndex((s) => s.name === source.input);
    const column = places.findIndex((list) => list.some((p) => p.input === input && p.at === source.column));
    if (column < 0) throw new NotExplainable(`input ${source.input} belongs to no column`);
    const key = keys.of(feature);
    if (key === null) {
      const out = new Float64Array(1);
      const fill = numberFill(feature, shapes, out);
      parts.push((inputs, row, sums) => {
        fill(inputs, row, row + 1);
        for (let t = 0; t < targets; t++)
          sums[t * columns + column]! += coefficients[t * features.length + j]! * out[0]!;
      });
      return;
    }
    if (done.has(key)) return;
    done.add(key);
    const slot = categorySlot(feature, key, features);
    const table = new Float64Array(targets * slot.states);
    features.forEach((f, k) => {
      if (keys.of(f) !== key) return;
      categoryValues(slot, f).forEach((v, s) => {
        for (let t = 0; t < targets; t++) table[t * slot.states + s]! += coefficients[t * features.length + k]! * v;
      });
    });
    const state = new Uint16Array(1);
    const fill = stateFill(slot, shapes, state, 0, 1);
    parts.push((inputs, row, sums) => {
      fill(inputs, row, row + 1);
      for (let t = 0; t < targets; t++) sums[t * columns + column]! += table[t * slot.states + state[0]!]!;
    });
  });

  const contributions = new Float64Array(targets * columns);
  const contribute = (inputs: readonly EncodedInput[], row: number): void => {
    contributions.fill(0);
    for (const part of parts) part(inputs, row, contributions);
  };
  const sumsOf = (): Float64Array =>
    Float64Array.from({ length: targets }, (_, t) => {
      let s = intercepts[t]!;
      for (let c = 0; c < columns; c++) s += contributions[t * columns + c]!;
      return s;
    });
  const mean = new Float64Array(targets * columns);
  const sums: Float64Array[] = [];
  const answers: Float64Array[] = [];
  for (let r = 0; r < background.rows; r++) {
    contribute(background.inputs, r);
    for (let i = 0; i < mean.length; i++) mean[i]! += contributions[i]! / background.rows;
    sums.push(sumsOf());
    const answer = new Float64Array(interpreter.task === 'multiclass' ? interpreter.classes.length : 1);
    answersOf(interpreter, background.scores, r, answer);
    answers.push(answer);
  }
  const link = linkOf(interpreter, sums, answers);
  const { outputs } = link;
  contributions.set(mean);
  const base = new Float64Array(outputs);
  marginsOf(link, sumsOf(), base);
  let values = new Float64Array(0);
  let margins = new Float64Array(0);
  const rowMargins = new Float64Array(outputs);
  return {
    method: 'linear',
    space: link.space,
    outputs,
    base,
    async explain(inputs, rows): Promise<Effects> {
      const n = rows.length;
      if (margins.length < n * outputs) {
        values = new Float64Array(n * outputs * columns);
        margins = new Float64Array(n * outputs);
      }
      for (let i = 0; i < n; i++) {
        contribute(inputs, rows[i]!);
        marginsOf(link, sumsOf(), rowMargins);
        margins.set(rowMargins, i * outputs);
        for (let o = 0; o < outputs; o++) {
          for (let c = 0; c < columns; c++) {
            let v = 0;
            for (let t = 0; t < targets; t++) {
              const k = link.coefficients[o]![t]!;
              if (k !== 0) v += k * (contributions[t * columns + c]! - mean[t * columns + c]!);
            }
            values[(i * outputs + o) * columns + c] = v;
          }
        }
      }
      return { values, margins, errors: null };
    },
  };
}
