// Chooses the best explanation method that a model allows, exact if possible, and reports why better methods were
// rejected.
import type { Manifest } from '../../model/package/manifest.ts';
import { scoreOutputs } from '../../model/package/model-package.ts';
import { readFileGraph } from '../boosters/read-model.ts';
import type { EncodedInput } from '../encode/encoder.ts';
import type { Evaluator } from '../evaluate/evaluator.ts';
import { Interpreter } from '../evaluate/prediction.ts';
import { type TracedHeads, traceHeads } from '../onnx/heads.ts';
import type { Trace } from '../onnx/traced-model.ts';
import { Unsupported } from '../trees/unsupported.ts';
import { DEFAULT_PAIRS, EXACT_COLUMNS, pairsWithin, tighter, wholeRounds } from './budget.ts';
import { type Asking, exactExplainer, hybridsOf, samplingExplainer } from './coalitions.ts';
import { type Effects, type Explainer, type Method, NotExplainable, type Space } from './explainer.ts';
import { linearExplainer } from './linear.ts';
import { ANSWER_TOLERANCE, answersOf, distance, type LinkFinder, marginsOf } from './link.ts';
import { logisticsExplainer } from './logistics.ts';
import { type Background, placesOf, scoreBackground } from './scored-background.ts';
import { type Covers, treeExplainer } from './trees.ts';

// Averages of models (voting, bagging): the effects are the weighted sum of the effects in each model.

/**
 * @param make creates the explainer of part `i` with the given link
 * @throws NotExplainable if the model's outputs are not the weighted sum of the parts
 */
function sumExplainer(
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
      // With two classes, the leaf weights may all belong to target 0. The sum of target 0 is then the score of the
      // second class.
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
      throw new NotExplainable('its outputs are not an average of the models inside');
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

/**
 * Maximum number of background rows for methods whose time per explained row grows with the number of background rows.
 * Methods for trees and linear models use all rows.
 */
const MOST_ASKED = 1000;

interface ExplainerOptions {
  bytes: Uint8Array;
  manifest: Manifest;
  evaluator: Evaluator;
  /** The encoded background sample, which has at least one row. */
  background: { inputs: readonly EncodedInput[]; rows: number };
  covers: Covers | null;
}

export interface ChosenExplainer {
  explainer: Explainer;
  /** The reasons why better methods were rejected. */
  reasons: string[];
  /**
   * The explainer for a limit of evaluations per row, which applies in addition to the package's limit; null for only
   * the package's limit. To stay within the limit, a black-box model gets fewer pairs.
   * @throws SluiceError interpretation_over_budget
   */
  within(limit: number | null): Explainer;
}

/**
 * Creates an explainer with the method of the manifest (`explain.method`). Without one, uses the first of these methods
 * that works: trees against the background, trees with covers, linear, all subsets (up to 12 columns), sampling.
 * @throws NotExplainable if the manifest's method cannot be used
 * @throws SluiceError interpretation_over_budget if no method fits the package's limit
 */
export async function createExplainer(options: ExplainerOptions): Promise<ChosenExplainer> {
  const { manifest, evaluator, covers } = options;
  const named = manifest.explain?.method as Method | undefined;
  const background = await scoreBackground(evaluator, options.background.inputs, options.background.rows);
  const few = { ...background, rows: Math.min(background.rows, MOST_ASKED) };
  const places = placesOf(manifest.columns, manifest.inputs);
  const interpreter = new Interpreter(manifest);
  const reasons: string[] = [];
  const attempt = (method: Method, make: () => Explainer): Explainer | null => {
    if (named !== undefined && named !== method) return null;
    try {
      return make();
    } catch (e) {
      if (!(e instanceof NotExplainable || e instanceof Unsupported)) throw e;
      if (named !== undefined) throw new NotExplainable(`${method}: ${e.message}`);
      reasons.push(`${method}: ${e.message}`);
      return null;
    }
  };
  // If there is one output per class, any of them leads to the same inner sums.
  const output = scoreOutputs(manifest).at(-1)!;
  const shapes = manifest.inputs.map((i) => ({ name: i.name, type: i.type, width: i.columns?.length ?? 1 }));
  const heads = (() => {
    let found: ReturnType<typeof traceHeads> | null = null;
    return (): TracedHeads => {
      found ??= traceHeads(readFileGraph(options.bytes), output, new Map(shapes.map((s) => [s.name, s.width])));
      if (!found.traced) throw new NotExplainable(found.reason);
      return found.traced;
    };
  })();
  const trace = (): Trace => {
    const [first, ...more] = heads().heads;
    if (more.length > 0) throw new NotExplainable(`the model is made of ${more.length + 1} models`);
    return first!.trace;
  };
  const average = (method: 'tree_interventional' | 'linear'): Explainer => {
    const { heads: parts, linear } = heads();
    const trees = parts.some((p) => p.trace.head.kind === 'trees');
    if (trees !== (method === 'tree_interventional'))
      throw new NotExplainable(trees ? 'the model is not linear' : 'the model is not a tree ensemble');
    if (!linear) throw new NotExplainable(`${parts.length} models are combined by an operation other than an average`);
    return sumExplainer(
      parts.map((p) => p.weight),
      (i, link) => {
        const part = parts[i]!.trace;
        return part.head.kind === 'trees'
          ? treeExplainer(part, shapes, places, interpreter, background, null, link)
          : linearExplainer(part, shapes, places, interpreter, background, link);
      },
      places.length,
      interpreter,
      background,
    );
  };
  const several = (): boolean => heads().heads.length > 1;
  const explainer =
    attempt('tree_interventional', () =>
      several()
        ? average('tree_interventional')
        : treeExplainer(trace(), shapes, places, interpreter, background, null),
    ) ??
    (covers || named === 'tree_path_dependent'
      ? attempt('tree_path_dependent', () => {
          if (!covers) throw new NotExplainable('the package ships no covers.json');
          return treeExplainer(trace(), shapes, places, interpreter, background, covers);
        })
      : null) ??
    attempt('linear', () => {
      if (!several()) return linearExplainer(trace(), shapes, places, interpreter, background);
      const { logistics } = heads();
      if (!logistics) return average('linear');
      return logisticsExplainer(logistics, shapes, places, interpreter, few);
    });
  if (explainer) return { explainer, reasons, within: () => explainer };
  const within = askedWithin({ evaluator, interpreter, places, background: few }, manifest, named);
  return { explainer: within(null), reasons, within };
}

/** Returns the explainer of a black-box model for a limit of evaluations per row. */
function askedWithin(
  own: Asking,
  { explain }: Manifest,
  named: Method | undefined,
): (limit: number | null) => Explainer {
  const asking = { ...own, hybrids: hybridsOf(own) };
  const columns = asking.places.length;
  const { rows } = asking.background;
  const mayBeExact = named === 'exact' || (named === undefined && columns <= EXACT_COLUMNS);
  let exact: Explainer | null = null;
  const sampled = new Map<number, Explainer>();
  const most = wholeRounds(explain?.pairs ?? DEFAULT_PAIRS, rows);
  return (asked) => {
    const limit = tighter(asked, explain?.max_evaluations ?? null);
    if (mayBeExact) {
      exact ??= exactExplainer(asking);
      if (limit === null || limit >= exact.questions) return exact;
    }
    const pairs = limit === null ? most : pairsWithin(limit, columns, mayBeExact ? Infinity : most, rows);
    let explainer = sampled.get(pairs);
    if (!explainer) {
      explainer = samplingExplainer(asking, pairs);
      sampled.set(pairs, explainer);
    }
    return explainer;
  };
}
