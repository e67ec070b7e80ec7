// Picks the best explanation method a model allows, exact where possible, and says why better ones were not taken.
import type { Manifest } from '../../model/package/manifest.ts';
import { scoreOutputs } from '../../model/package/model-package.ts';
import type { EncodedInput } from '../encode/encoder.ts';
import type { Evaluator } from '../evaluate/evaluator.ts';
import { Interpreter } from '../evaluate/prediction.ts';
import { readOnnx } from '../onnx/graph.ts';
import { type TracedHeads, traceHeads } from '../onnx/heads.ts';
import type { Trace } from '../onnx/traced-model.ts';
import { Unsupported } from '../trees/unsupported.ts';
import { DEFAULT_PAIRS, EXACT_COLUMNS, pairsWithin, tighter, wholeRounds } from './budget.ts';
import { type Asking, exactExplainer, hybridsOf, samplingExplainer } from './coalitions.ts';
import { type Explainer, type Method, NotExplainable } from './explainer.ts';
import { linearExplainer } from './linear.ts';
import { logisticsExplainer } from './logistics.ts';
import { placesOf, scoreBackground } from './scored-background.ts';
import { sumExplainer } from './sum.ts';
import { type Covers, treeExplainer } from './trees.ts';

/** Rows of the background where each of them costs time for each row explained; trees and linear models take all of it. */
const MOST_ASKED = 1000;

interface ExplainerOptions {
  bytes: Uint8Array;
  manifest: Manifest;
  evaluator: Evaluator;
  /** The background sample, encoded; at least one row. */
  background: { inputs: readonly EncodedInput[]; rows: number };
  covers: Covers | null;
}

export interface ChosenExplainer {
  explainer: Explainer;
  /** Why better methods were not taken, in words. */
  reasons: string[];
  /**
   * The same within a limit of evaluations a row, besides that of the package; null: that of the package. A model that has to be asked
   * is asked for fewer pairs then.
   * @throws SluiceError interpretation_over_budget
   */
  within(limit: number | null): Explainer;
}

/**
 * The method the manifest names (`explain.method`), or the best that works: trees against the background (or against
 * covers if only they are asked for), linear, all subsets up to 12 columns, sampling.
 * @throws NotExplainable when the method named cannot be used
 * @throws SluiceError interpretation_over_budget when nothing fits the limit of the package
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
  // With one output per class, any of them leads to the sums inside.
  const output = scoreOutputs(manifest).at(-1)!;
  const shapes = manifest.inputs.map((i) => ({ name: i.name, type: i.type, width: i.columns?.length ?? 1 }));
  const heads = (() => {
    let found: ReturnType<typeof traceHeads> | null = null;
    return (): TracedHeads => {
      found ??= traceHeads(readOnnx(options.bytes), output, new Map(shapes.map((s) => [s.name, s.width])));
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
      throw new NotExplainable(trees ? 'the model is not linear' : 'the model is no tree ensemble');
    if (!linear) throw new NotExplainable(`${parts.length} models are combined in a way that is no average`);
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

/** Explainers of a model that has to be asked, by the limit of evaluations a row. */
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
