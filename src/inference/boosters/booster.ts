// A gradient-boosted or averaged tree model as read from the file of a training library: trees, features, and the steps
// from sums to predictions.
import { SluiceError } from '../../core/errors.ts';
import type { Graph, Node, OnnxModel } from '../onnx/graph.ts';
import { attachEnsemble, type BoosterFinish, type Ensemble, LEAF, MODES } from '../trees/ensemble.ts';

export type Library = 'LightGBM' | 'XGBoost' | 'CatBoost';

/** The documentation page that every error about such a file refers to. */
const PAGE = 'docs/exporting.md';

/** Creates the error for a file that cannot be served. `what` states the obstacle and what to do about it. */
export const refuseBooster = (library: Library, what: string): SluiceError =>
  new SluiceError('model_invalid', `the ${library} model cannot be served: ${what} (${PAGE})`);

/** Creates the error for a damaged file. */
export const damaged = (library: Library, what: string): SluiceError =>
  new SluiceError('model_invalid', `the ${library} file is damaged: ${what} (${PAGE})`);

/**
 * Rejects a part of a file that contains anything unknown. A later release of the library may have added it, and may
 * predict with it.
 * @param part what the file contains these names in, such as `a tree`
 * @throws SluiceError model_invalid
 */
export function knownOnly(library: Library, part: string, names: Iterable<string>, known: ReadonlySet<string>): void {
  for (const name of names)
    if (!known.has(name))
      throw refuseBooster(
        library,
        `${part} contains ${JSON.stringify(name.slice(0, 80))}, which this release does not know and which could change ` +
          `predictions. If a later release of ${library} wrote the file, save the model with an earlier one, or export it to ONNX`,
      );
}

/** Tests of a split. The names are those of the node modes of ONNX ensembles. */
export type SplitTest = 'LEQ' | 'LT' | 'GT' | 'CATEGORY' | 'LEQ_OR_ZERO' | 'LEQ_NOT_ZERO';

/**
 * A tree. The arrays have one entry per split. A child is the index of a split, or ~index of a leaf. A tree without
 * splits is a single leaf.
 */
export interface BoosterTree {
  /** The target to which the leaf weights belong; null if each leaf has a weight for every target. */
  target: number | null;
  feature: Int32Array;
  test: readonly SplitTest[];
  /** The threshold. For CATEGORY: the number that a category code must exceed. */
  value: Float64Array;
  members: ReadonlyMap<number, readonly number[]>;
  /** Whether a missing value passes the test. */
  missingYes: Uint8Array;
  yes: Int32Array;
  no: Int32Array;
  /** Weights, one leaf after the other. */
  leaves: Float64Array;
}

export interface BoosterFeature {
  /** Null if the library saved a generated name. */
  name: string | null;
  /** Whether the model splits the feature by categories. */
  categorical: boolean;
  /** Range or categories of the values that the model was trained on; absent if the file does not contain them. */
  seen?: { codes: readonly number[] } | { min: number; max: number };
  /** Whether the library rejects missing values of this feature, because the training data had none. */
  missingRefused?: boolean;
  /** Whether the file shows that the training data had no missing values of this feature, but the library accepts them. */
  missingUnknown?: boolean;
}

export interface Booster {
  library: Library;
  /** Version of the library, as the file states it. */
  version: string;
  objective: string;
  task: 'binary' | 'multiclass' | 'regression';
  /** Whether the prediction is the log-odds of the positive class. */
  logOdds: boolean;
  /** Classes in the order of the scores; null if the file does not list them. */
  classes: readonly (string | number)[] | null;
  /** Columns of the input matrix, in order. */
  features: readonly BoosterFeature[];
  /** Category lists in the order of their columns. Not every file states which columns these are. */
  categories: readonly CategoryList[];
  /** Precision in which feature values are compared with thresholds. */
  compared: 'float32' | 'float64';
  /** Precision of sums and predictions. */
  computed: 'float32' | 'float64';
  targets: number;
  base: readonly number[];
  finish: BoosterFinish;
  trees: readonly BoosterTree[];
  /** Properties of the file that the report of `model add` mentions. */
  notes: readonly string[];
  /**
   * Why the file does not determine which trees its library evaluates, and what to do; null if it does. `model add`
   * rejects such a file. Packages of earlier releases may contain one.
   */
  ambiguity: string | null;
}

/** The categories of a column. The index of a category is its code. */
export interface CategoryList {
  /** Index of the feature; null if unknown. */
  feature: number | null;
  /** The categories as texts, and numbers as plain texts; null if the file contains only hashes. */
  values: readonly string[] | null;
  /** Whether the categories were texts in training, and not numbers or booleans; false if the file contains hashes. */
  areTexts: boolean;
  /** CatBoost only: hash of a text → category code. */
  codeOfHash?: ReadonlyMap<number, number>;
}

/** A booster together with the ONNX graph that represents it to the tracer and to onboarding. */
export interface BoosterModel extends OnnxModel {
  booster: Booster;
}

/** The booster of a model; null for ONNX files. */
export const boosterOf = (model: OnnxModel): Booster | null => (model as Partial<BoosterModel>).booster ?? null;

/** Domain of the only node in the graph of a booster; its operator is `Trees`. */
const BOOSTER_DOMAIN = 'sluice.booster';
/** Name of the input: the matrix of all features. */
export const BOOSTER_INPUT = 'features';

/** Name of the output: `probabilities` for classes, otherwise `value`. */
export const boosterOutput = ({ task }: Booster): string => (task === 'regression' ? 'value' : 'probabilities');

const NO_FIELD = { number: 0, wire: 2, value: 0, start: 0, end: 0, from: 0 } as const;

/**
 * Represents a booster as a graph with one node, which maps the feature matrix to predictions.
 * @throws SluiceError model_invalid: trees are damaged
 */
export function boosterModel(bytes: Uint8Array, booster: Booster): BoosterModel {
  const output = boosterOutput(booster);
  const node: Node = {
    name: 'trees',
    op: 'Trees',
    domain: BOOSTER_DOMAIN,
    inputs: [BOOSTER_INPUT],
    outputs: [output],
    attributes: new Map(),
    field: NO_FIELD,
  };
  attachEnsemble(node, ensembleOf(booster));
  const tensor = (name: string, element: 'float32' | 'float64', width: number) => ({
    name,
    type: { kind: 'tensor' as const, element, shape: [null, width] },
    field: NO_FIELD,
  });
  const graph: Graph = {
    name: booster.library,
    nodes: [node],
    initializers: new Map(),
    inputs: [tensor(BOOSTER_INPUT, booster.compared, booster.features.length)],
    outputs: [tensor(output, booster.computed, booster.targets)],
  };
  return {
    bytes,
    format: 'booster',
    irVersion: 0,
    producer: `${booster.library} ${booster.version}`.trim(),
    opsets: new Map(),
    metadata: new Map(),
    functions: [],
    graph,
    graphField: NO_FIELD,
    booster,
  };
}

const MODE_OF_TEST = new Map(MODES.map((mode, i) => [mode as string, i]));

/** The trees as one table of nodes. */
function ensembleOf(b: Booster): Ensemble {
  const { library, trees, targets } = b;
  let nodes = 0;
  let weights = 0;
  for (const t of trees) {
    nodes += t.test.length + t.leaves.length / (t.target === null ? targets : 1);
    weights += t.leaves.length;
  }
  const e = {
    mode: new Uint8Array(nodes),
    feature: new Int32Array(nodes),
    value: new Float64Array(nodes),
    missingTrue: new Uint8Array(nodes),
    onTrue: new Int32Array(nodes),
    onFalse: new Int32Array(nodes),
    members: new Map<number, readonly number[]>(),
    weightFirst: new Int32Array(nodes),
    weightCount: new Int32Array(nodes),
    weightTarget: new Int32Array(weights),
    weightValue: new Float64Array(weights),
  };
  const roots = new Int32Array(trees.length);
  let at = 0;
  let weight = 0;
  for (const [i, t] of trees.entries()) {
    const width = t.target === null ? targets : 1;
    const splits = t.test.length;
    const leaves = t.leaves.length / width;
    roots[i] = at;
    const childOf = (child: number): number => {
      const [index, limit] = child < 0 ? [~child, leaves] : [child, splits];
      if (index >= limit) throw damaged(library, `tree ${i} has a child that does not exist`);
      return child < 0 ? at + splits + index : at + index;
    };
    for (let s = 0; s < splits; s++) {
      const n = at + s;
      const feature = t.feature[s]!;
      if (!(feature >= 0 && feature < b.features.length))
        throw damaged(library, `tree ${i} splits feature ${feature} of ${b.features.length}`);
      if (Number.isNaN(t.value[s]!)) throw damaged(library, `tree ${i} has a threshold that is not a number`);
      e.mode[n] = MODE_OF_TEST.get(t.test[s]!)!;
      e.feature[n] = feature;
      e.value[n] = t.value[s]!;
      e.missingTrue[n] = t.missingYes[s]!;
      e.onTrue[n] = childOf(t.yes[s]!);
      e.onFalse[n] = childOf(t.no[s]!);
      const members = t.members.get(s);
      if (members) e.members.set(n, members);
    }
    for (let l = 0; l < leaves; l++) {
      const n = at + splits + l;
      e.mode[n] = LEAF;
      e.weightFirst[n] = weight;
      e.weightCount[n] = width;
      for (let k = 0; k < width; k++, weight++) {
        e.weightTarget[weight] = t.target ?? k;
        e.weightValue[weight] = t.leaves[l * width + k]!;
      }
    }
    at += splits + leaves;
  }
  if (!e.weightValue.every(Number.isFinite)) throw damaged(library, 'the value of a leaf is not a finite number');
  return {
    ...e,
    kind: 'booster',
    booster: b.finish,
    double: b.computed === 'float64',
    targets,
    aggregate: 'SUM',
    postTransform: 'NONE',
    base: b.base,
    allPositive: false,
    named: targets,
    features: b.features.length,
    roots,
  };
}
