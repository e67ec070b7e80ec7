// Reads the model of XGBoost (`save_model` as .json or .ubj): gbtree and dart, categories, base scores, objectives.
// Based on src/tree/tree_model.cc, src/gbm/gbtree.cc, src/common/categorical.h and src/objective of XGBoost 3.
import type { BoosterFinish, BoosterLink } from '../trees/ensemble.ts';
import { below, logf } from '../trees/float.ts';
import {
  type Booster,
  type BoosterFeature,
  type BoosterTree,
  type CategoryList,
  damaged,
  knownOnly,
  refuseBooster,
  type SplitTest,
} from './booster.ts';

const LIBRARY = 'XGBoost';
const broken = (what: string): Error => damaged(LIBRARY, what);
const refuse = (what: string): Error => refuseBooster(LIBRARY, what);
const f = Math.fround;

type Json = Record<string, unknown>;

function mapIn(of: Json, key: string): Json {
  const value = of[key];
  if (typeof value !== 'object' || value === null || Array.isArray(value)) throw broken(`${key} is missing`);
  return value as Json;
}

function listIn(of: Json, key: string): unknown[] {
  const value = of[key];
  if (!Array.isArray(value)) throw broken(`${key} is missing`);
  return value;
}

/** The names in the parts of a file, of XGBoost 1.0 to 3.4. */
const KNOWN = {
  learner: new Set([
    'attributes',
    'feature_names',
    'feature_types',
    'gradient_booster',
    'learner_model_param',
    'objective',
  ]),
  learner_model_param: new Set(['base_score', 'boost_from_average', 'num_class', 'num_feature', 'num_target']),
  // DART: before 3.4 a forest with the weights of its trees, since then a part of the forest.
  gradient_booster: new Set(['name', 'model', 'gbtree', 'weight_drop']),
  model: new Set(['gbtree_model_param', 'trees', 'tree_info', 'iteration_indptr', 'cats', 'weight_drop']),
  gbtree_model_param: new Set([
    'num_trees',
    'num_parallel_tree',
    'num_feature',
    'size_leaf_vector',
    'num_roots',
    'num_output_group',
    'pad_32bit',
  ]),
  tree: new Set([
    'base_weights',
    'categories',
    'categories_nodes',
    'categories_segments',
    'categories_sizes',
    'default_left',
    'id',
    'leaf_child_counts',
    'leaf_weights',
    'left_children',
    'loss_changes',
    'parents',
    'right_children',
    'split_conditions',
    'split_indices',
    'split_type',
    'sum_hessian',
    'tree_param',
  ]),
  tree_param: new Set(['num_deleted', 'num_feature', 'num_nodes', 'num_roots', 'size_leaf_vector']),
} as const;

const known = (part: keyof typeof KNOWN, of: unknown): void => {
  if (typeof of === 'object' && of !== null)
    knownOnly(LIBRARY, part === 'tree' ? 'a tree' : part, Object.keys(of), KNOWN[part]);
};

/** A list of numbers; booleans count as 0 and 1. */
function numbersIn(of: Json, key: string): number[] {
  return listIn(of, key).map((v) => {
    const n = Number(v);
    if (v === null || typeof v === 'object' || Number.isNaN(n))
      throw broken(`${key} contains something other than numbers`);
    return n;
  });
}

/** @throws SluiceError model_invalid */
export function readXgboost(json: Json): Booster {
  const learner = mapIn(json, 'learner');
  const booster = mapIn(learner, 'gradient_booster');
  const kind = String(booster.name ?? '');
  if (kind === 'gblinear')
    throw refuse('its booster is gblinear: train with booster="gbtree", or export a linear model to ONNX');
  if (kind !== 'gbtree' && kind !== 'dart') throw refuse(`its booster ${kind} is not supported`);
  const forest = kind === 'dart' ? mapIn(booster, 'gbtree') : booster;
  const model = mapIn(forest, 'model');
  const params = mapIn(learner, 'learner_model_param');
  known('learner', learner);
  known('learner_model_param', params);
  known('gradient_booster', booster);
  known('gradient_booster', forest);
  known('model', model);
  known('gbtree_model_param', model.gbtree_model_param);
  const classes = Math.max(1, Number(params.num_class ?? 0));
  const outputs = Number(params.num_target ?? 1);
  if (!(Number.isSafeInteger(classes) && classes <= 10_000)) throw broken(`num_class is ${params.num_class}`);
  if (outputs > 1) throw refuse(`it predicts ${outputs} targets at once: train one model for each`);
  const objective = String(mapIn(learner, 'objective').name ?? '');
  const meaning = meaningOf(objective);
  const features = featuresOf(learner, Number(params.num_feature));
  const targetOf = numbersIn(model, 'tree_info');
  const drops = kind === 'dart' ? numbersIn(booster, 'weight_drop') : dropsIn(model);
  const all = listIn(model, 'trees') as Json[];
  if (targetOf.length !== all.length || (drops !== null && drops.length !== all.length))
    throw broken('tree_info or weight_drop do not match the trees');
  if (all.length === 0) throw broken('there are no trees');
  const { used, notes, ambiguity } = bestTrees(learner, model, all.length, classes);
  const trees = all.slice(0, used).map((tree, i) => treeOf(tree, i, targetOf[i]!, drops === null ? 1 : drops[i]!));
  if (targetOf.some((t) => !(t >= 0 && t < classes))) throw broken('tree_info names a class that does not exist');
  for (const t of trees)
    for (let s = 0; s < t.test.length; s++)
      if (t.test[s] === 'CATEGORY') features[t.feature[s]!] = { ...features[t.feature[s]!]!, categorical: true };
  if (isWithoutMissing(trees)) for (const feature of features) if (!feature.categorical) feature.missingUnknown = true;
  return {
    library: LIBRARY,
    version: listOrEmpty(json.version).join('.'),
    objective,
    task: meaning.task,
    logOdds: objective === 'binary:logitraw',
    classes: null,
    features,
    categories: categoriesOf(model, features),
    compared: 'float32',
    computed: 'float32',
    targets: classes,
    base: baseOf(String(params.base_score ?? '0.5'), classes, meaning.link),
    finish: { baseFirst: true, divisor: 1, scale: 1, link: meaning.link, slope: 1 } satisfies BoosterFinish,
    trees,
    notes: [`booster ${drops === null ? kind : 'dart'}`, ...notes],
    ambiguity,
  };
}

/** The weights of the trees of DART, as XGBoost 3.4 writes them. */
const dropsIn = (model: Json): number[] | null =>
  listOrEmpty(model.weight_drop).length === 0 ? null : numbersIn(model, 'weight_drop');

const listOrEmpty = (v: unknown): unknown[] => (Array.isArray(v) ? v : []);

const MEANINGS: Readonly<Record<string, { task: Booster['task']; link: BoosterLink }>> = {
  'binary:logistic': { task: 'binary', link: 'logistic' },
  'reg:logistic': { task: 'binary', link: 'logistic' },
  'binary:logitraw': { task: 'binary', link: 'identity' },
  'multi:softprob': { task: 'multiclass', link: 'softmax' },
  'multi:softmax': { task: 'multiclass', link: 'softmax' },
  'reg:squarederror': { task: 'regression', link: 'identity' },
  'reg:linear': { task: 'regression', link: 'identity' },
  'reg:squaredlogerror': { task: 'regression', link: 'identity' },
  'reg:absoluteerror': { task: 'regression', link: 'identity' },
  'reg:pseudohubererror': { task: 'regression', link: 'identity' },
  'reg:quantileerror': { task: 'regression', link: 'identity' },
  'count:poisson': { task: 'regression', link: 'exp' },
  'reg:gamma': { task: 'regression', link: 'exp' },
  'reg:tweedie': { task: 'regression', link: 'exp' },
};

function meaningOf(objective: string): { task: Booster['task']; link: BoosterLink } {
  if (Object.hasOwn(MEANINGS, objective)) return MEANINGS[objective]!;
  if (objective.startsWith('rank:'))
    throw refuse(`its objective ${objective} ranks rows within groups: train a classifier`);
  if (objective.startsWith('survival:'))
    throw refuse(`its objective ${objective} predicts survival times: train a classifier or a regression`);
  if (objective === 'binary:hinge')
    throw refuse('its objective binary:hinge gives labels instead of probabilities: train with binary:logistic');
  throw refuse(
    `its objective ${objective || 'of your own'} is not one whose predictions are known: train with a built-in one such as binary:logistic`,
  );
}

function featuresOf(learner: Json, count: number): BoosterFeature[] {
  if (!Number.isSafeInteger(count) || count < 1 || count > 1_000_000) throw broken(`num_feature is ${count}`);
  const names = listOrEmpty(learner.feature_names);
  const types = listOrEmpty(learner.feature_types);
  return Array.from({ length: count }, (_, i) => ({
    name: typeof names[i] === 'string' ? names[i] : null,
    categorical: types[i] === 'c',
  }));
}

/** Minimum number of splits by which the treatment of missing values is judged. */
const FEWEST_SPLITS = 8;

/**
 * Whether training had no missing values. XGBoost then sends missing values in the same direction at every split: to the
 * right, or to the left with `tree_method="exact"`. Otherwise it learns the directions. For a single feature, all of them
 * may be the same.
 */
function isWithoutMissing(trees: readonly BoosterTree[]): boolean {
  const splits = [0, 0];
  for (const { test, missingYes } of trees)
    for (let s = 0; s < test.length; s++) if (test[s] !== 'CATEGORY') splits[missingYes[s]!]!++;
  const [no, yes] = splits as [number, number];
  return Math.min(no, yes) === 0 && no + yes >= FEWEST_SPLITS;
}

/**
 * The number of trees to evaluate. Like the scikit-learn interface of XGBoost, stops at the best iteration of early
 * stopping. A Booster itself evaluates all trees. Only `save_model` of the scikit-learn interface writes the attribute
 * `scikit_learn`.
 */
function bestTrees(
  learner: Json,
  model: Json,
  trees: number,
  classes: number,
): Pick<Booster, 'notes' | 'ambiguity'> & { used: number } {
  const attributes = learner.attributes as Json | undefined;
  const best = attributes?.best_iteration;
  const bounds = listOrEmpty(model.iteration_indptr).map(Number);
  const end = Number(best) + 1;
  // Releases before 1.6 do not state the number of parallel trees. They state the number of trees up to the best
  // iteration.
  const stated = Number((model.gbtree_model_param as Json | undefined)?.num_parallel_tree ?? 0);
  const upToBest = Number(attributes?.best_ntree_limit ?? end) / end;
  const parallel = stated > 0 ? stated : Number.isInteger(upToBest) && upToBest > 0 ? upToBest : 1;
  const iterations = bounds.length > 1 ? bounds.length - 1 : trees / (classes * parallel);
  if (best === undefined) return { used: trees, notes: [`${iterations} iterations`], ambiguity: null };
  const used = bounds.length > 1 ? bounds[end] : end * classes * parallel;
  if (!Number.isSafeInteger(used) || used! < 1 || used! > trees) throw broken(`best_iteration is ${best}`);
  const ambiguity =
    used === trees || attributes?.scikit_learn !== undefined
      ? null
      : `the file of an XGBoost Booster has ${iterations} iterations and the best_iteration ${best}, and does not state ` +
        'which trees to use: save booster[: booster.best_iteration + 1] for the best iteration, or call ' +
        'booster.set_attr(best_iteration=None, best_score=None) before saving for all trees. Save an XGBClassifier or ' +
        'XGBRegressor with its own save_model';
  return { used: used!, notes: [`the best ${end} of ${iterations} iterations (early stopping)`], ambiguity };
}

/** The initial sums: the base scores, which the file states as predictions, converted to sums. */
function baseOf(text: string, classes: number, link: BoosterLink): number[] {
  const given = text
    .replace(/[[\]]/g, '')
    .split(',')
    .map((x) => f(Number(x)));
  if (given.length === 0 || given.some((x) => Number.isNaN(x)) || (given.length !== 1 && given.length !== classes))
    throw broken(`base_score is ${text}`);
  const toSum = (x: number): number => {
    if (link === 'logistic') return -logf(f(f(1 / x) - 1));
    return link === 'exp' ? logf(x) : x;
  };
  const base = Array.from({ length: classes }, (_, t) => toSum(given.length === 1 ? given[0]! : given[t]!));
  if (!base.every(Number.isFinite)) throw broken(`base_score ${text} is outside the range of the objective`);
  return base;
}

function treeOf(tree: Json, index: number, target: number, drop: number): BoosterTree {
  const fail = (what: string): Error => broken(`tree ${index}: ${what}`);
  known('tree', tree);
  known('tree_param', tree.tree_param);
  const left = numbersIn(tree, 'left_children');
  const right = numbersIn(tree, 'right_children');
  const feature = numbersIn(tree, 'split_indices');
  const condition = numbersIn(tree, 'split_conditions');
  const defaultLeft = numbersIn(tree, 'default_left');
  const type = listOrEmpty(tree.split_type).map(Number);
  const nodes = left.length;
  const vector = Number((tree.tree_param as Json | undefined)?.size_leaf_vector ?? 1);
  if (vector > 1)
    throw refuse('its leaves hold vectors (multi_strategy="multi_output_tree"): train with one_output_per_tree');
  for (const list of [right, feature, condition, defaultLeft])
    if (list.length !== nodes) throw fail('its lists have different lengths');
  if (nodes === 0) throw fail('it has no nodes');
  const sets = setsOf(tree, fail);
  // Splits and leaves are numbered separately, each in the order of the nodes.
  const place = new Int32Array(nodes);
  let splits = 0;
  let leaves = 0;
  const live = liveNodes(tree, left, right, fail);
  for (let n = 0; n < nodes; n++) if (live[n]) place[n] = left[n] === -1 ? ~leaves++ : splits++;
  if (splits > 0 && place[0]! !== 0) throw fail('its root is a leaf');
  const test: SplitTest[] = [];
  const value = new Float64Array(splits);
  const members = new Map<number, readonly number[]>();
  const missingYes = new Uint8Array(splits);
  const features = new Int32Array(splits);
  const yes = new Int32Array(splits);
  const no = new Int32Array(splits);
  const weights = new Float64Array(leaves);
  const child = (n: number): number => {
    if (!(n >= 0 && n < nodes)) throw fail('a child is missing');
    return place[n]!;
  };
  for (let n = 0; n < nodes; n++) {
    if (!live[n]) continue;
    const at = place[n]!;
    if (at < 0) {
      weights[~at] = f(f(condition[n]!) * f(drop));
      continue;
    }
    features[at] = feature[n]!;
    const [onLeft, onRight] = [child(left[n]!), child(right[n]!)];
    if (type[n] === 1) {
      // In XGBoost, the categories of a set go right. The test is therefore true on the right.
      const set = sets.get(n);
      if (!set) throw fail('a set of categories is missing');
      test.push('CATEGORY');
      value[at] = below(0, false);
      members.set(at, set);
      missingYes[at] = defaultLeft[n] === 0 ? 1 : 0;
      yes[at] = onRight;
      no[at] = onLeft;
    } else {
      test.push('LT');
      value[at] = f(condition[n]!);
      missingYes[at] = defaultLeft[n] === 0 ? 0 : 1;
      yes[at] = onLeft;
      no[at] = onRight;
    }
  }
  return { target, feature: features, test, value, members, missingYes, yes, no, leaves: weights };
}

/** Marks the nodes of a tree. XGBoost keeps the nodes that pruning deleted, and counts them from release 1.1 on. */
function liveNodes(
  tree: Json,
  left: readonly number[],
  right: readonly number[],
  fail: (what: string) => Error,
): Uint8Array {
  const live = new Uint8Array(left.length);
  const next = [0];
  let found = 0;
  for (let n = next.pop(); n !== undefined; n = next.pop()) {
    if (!(n >= 0 && n < left.length)) throw fail('a child is missing');
    if (live[n]) throw fail('a node has two parents');
    live[n] = 1;
    found++;
    if (left[n] !== -1) next.push(left[n]!, right[n]!);
  }
  const deleted = (tree.tree_param as Json | undefined)?.num_deleted;
  if (deleted !== undefined && left.length - found !== Number(deleted))
    throw fail(`${left.length - found} nodes are not reachable`);
  return live;
}

/** Maps a node to its set of categories. */
function setsOf(tree: Json, fail: (what: string) => Error): Map<number, number[]> {
  const nodes = listOrEmpty(tree.categories_nodes).map(Number);
  const starts = listOrEmpty(tree.categories_segments).map(Number);
  const sizes = listOrEmpty(tree.categories_sizes).map(Number);
  const all = listOrEmpty(tree.categories).map(Number);
  return new Map(
    nodes.map((n, i) => {
      const [start, size] = [starts[i]!, sizes[i]!];
      if (!(start >= 0 && size >= 0 && start + size <= all.length)) throw fail('its categories are incomplete');
      return [n, all.slice(start, start + size)];
    }),
  );
}

/** The category lists that XGBoost 3.1 and later saves for data frames. */
function categoriesOf(model: Json, features: readonly BoosterFeature[]): CategoryList[] {
  const cats = model.cats as Json | undefined;
  const enc = listOrEmpty(cats?.enc) as Json[];
  if (enc.length !== features.length) return [];
  return enc.flatMap((e, feature) => {
    const values = categoryTexts(e);
    return values === null ? [] : [{ feature, values, areTexts: listOrEmpty(e.offsets).length > 0 }];
  });
}

/**
 * The categories of a column. XGBoost saves texts as bytes with offsets, and numbers as a list. Returns null without a
 * list, or if a text contains non-ASCII letters: XGBoost 3 truncates such texts, because it counts characters instead
 * of bytes.
 */
function categoryTexts(e: Json): string[] | null {
  const values = listOrEmpty(e.values);
  const offsets = listOrEmpty(e.offsets).map(Number);
  if (values.length === 0 && offsets.length < 2) return null;
  if (offsets.length === 0) return values.map(String);
  const bytes = Buffer.from(values.map((v) => Number(v) & 255));
  if (bytes.some((b) => b > 127)) return null;
  return offsets.slice(0, -1).map((from, i) => bytes.toString('utf8', from, offsets[i + 1]));
}
