// Effects of an average of models (voting, bagging): effects of each, added up with its weight.
import type { Interpreter } from '../evaluate/prediction.ts';
import { type Effects, type Explainer, type Method, NotExplainable, type Space } from './explainer.ts';
import { ANSWER_TOLERANCE, answersOf, distance, type LinkFinder, marginsOf } from './link.ts';
import type { Background } from './scored-background.ts';

/**
 * @param make makes the explainer of part `i`; its link is the one given
 * @throws NotExplainable if the answers are not the weighted sum of the parts
 */
export function sumExplainer(
  weights: readonly number[],
  make: (i: number, link: LinkFinder) => Explainer,
  columns: number,
  interpreter: Interpreter,
  background: Background,
): Explainer {
  const classes = interpreter.task === 'multiclass' ? interpreter.classes.length : 1;
  const space: Space = interpreter.task === 'binary' || interpreter.task === 'multiclass' ? 'probability' : 'value';
  const total = Array.from({ length: background.rows }, () => new Float64Array(classes));
  const parts = weights.map((weight, i) =>
    make(i, (_interpreter, sums) => {
      const targets = sums[0]!.length;
      if (classes > 1 && targets !== classes) throw new NotExplainable('a part answers for other classes');
      const unit = (t: number) => Array.from({ length: targets }, (_, k) => (k === t ? 1 : 0));
      // Two classes: trees whose weights all stand at the first number mean the second class by it.
      const varies = (t: number) => sums.some((s) => s[t] !== sums[0]![t]);
      const last = interpreter.task === 'binary' && targets === 2 && !varies(1) ? 0 : targets - 1;
      const sign = interpreter.task === 'binary' && interpreter.positive === 0 ? -1 : 1;
      const coefficients =
        classes > 1 ? Array.from({ length: classes }, (_, o) => unit(o)) : [unit(last).map((k) => k * sign)];
      const link = {
        space,
        kind: 'identity' as const,
        outputs: classes,
        coefficients,
        offset: new Array<number>(classes).fill(0),
      };
      const margins = new Float64Array(classes);
      sums.forEach((s, r) => {
        marginsOf(link, s, margins);
        for (let o = 0; o < classes; o++) total[r]![o]! += weight * margins[o]!;
      });
      return link;
    }),
  );
  const want = new Float64Array(classes);
  const offset = new Float64Array(classes);
  total.forEach((got, r) => {
    answersOf(interpreter, background.scores, r, want);
    if (r === 0) for (let o = 0; o < classes; o++) offset[o] = want[o]! - got[o]!;
    for (let o = 0; o < classes; o++) got[o]! += offset[o]!;
    if (!(distance(got, want) <= ANSWER_TOLERANCE))
      throw new NotExplainable('its answers are no average of the models inside');
  });
  const base = offset.slice();
  parts.forEach((p, i) => {
    for (let o = 0; o < classes; o++) base[o]! += weights[i]! * p.base[o]!;
  });
  const methods = new Set<Method>(parts.map((p) => p.method));
  return {
    method: methods.has('tree_interventional') ? 'tree_interventional' : 'linear',
    space,
    outputs: classes,
    questions: 0,
    base,
    async explain(inputs, rows): Promise<Effects> {
      const values = new Float64Array(rows.length * classes * columns);
      const margins = new Float64Array(rows.length * classes);
      for (let i = 0; i < margins.length; i++) margins[i] = offset[i % classes]!;
      for (const [i, part] of parts.entries()) {
        const weight = weights[i]!;
        const own = await part.explain(inputs, rows);
        for (let k = 0; k < values.length; k++) values[k]! += weight * own.values[k]!;
        for (let k = 0; k < margins.length; k++) margins[k]! += weight * own.margins[k]!;
      }
      return { values, margins, errors: null, evaluations: 0 };
    },
  };
}
