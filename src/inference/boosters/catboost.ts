// Reads the JSON model of CatBoost (`save_model(format="json")`): symmetric and other trees, one-hot categories. Based
// on catboost/libs/model and catboost/private/libs/options of CatBoost 1.2.
import type { BoosterFinish, BoosterLink } from '../trees/ensemble.ts';
import { below } from '../trees/float.ts';
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

const LIBRARY = 'CatBoost';
const broken = (what: string): Error => damaged(LIBRARY, what);
const refuse = (what: string): Error => refuseBooster(LIBRARY, what);

type Json = Record<string, unknown>;
const list = (v: unknown): unknown[] => (Array.isArray(v) ? v : []);
const map = (v: unknown): Json => (typeof v === 'object' && v !== null && !Array.isArray(v) ? (v as Json) : {});

/** Maximum depth of a symmetric tree; CatBoost trains none that is deeper. */
const MAX_DEPTH = 16;

/** The names in the parts of a file, of CatBoost 0.2 to 1.2. */
const KNOWN = {
  file: new Set(['model_info', 'trees', 'oblivious_trees', 'features_info', 'scale_and_bias', 'ctr_data']),
  // `save_model` with a pool adds cat_features_hash: the texts of the hashes of the training rows.
  features_info: new Set([
    'float_features',
    'categorical_features',
    'text_features',
    'embedding_features',
    'ctrs',
    'cat_features_hash',
  ]),
  symmetric: new Set(['splits', 'leaf_values', 'leaf_weights']),
  node: new Set(['split', 'left', 'right', 'value', 'weight']),
  split: new Set([
    'border',
    'cat_feature_index',
    'ctr_target_border_idx',
    'float_feature_index',
    'split_index',
    'split_type',
    'value',
  ]),
} as const;

const known = (part: string, of: Json, names: ReadonlySet<string>): void =>
  knownOnly(LIBRARY, part, Object.keys(of), names);

/** @throws SluiceError model_invalid */
export function readCatBoost(json: Json): Booster {
  const info = map(json.features_info);
  known('the file', json, KNOWN.file);
  known('features_info', info, KNOWN.features_info);
  const { features, floats, categories, lists } = featuresOf(info);
  const modelInfo = map(json.model_info);
  const [scale, bias] = scaleAndBias(json.scale_and_bias);
  const loss = String(map(map(modelInfo.params).loss_function).type ?? '');
  const meaning = meaningOf(loss);
  checkThreshold(modelInfo);
  const targets = meaning.task === 'multiclass' ? bias.length : 1;
  const reader = new TreeReader(targets, info, floats, categories, lists);
  const symmetric = list(json.oblivious_trees);
  const others = list(json.trees);
  const trees = [...symmetric.map((t) => reader.symmetric(map(t))), ...others.map((t) => reader.other(map(t)))];
  if (trees.length === 0) throw broken('there are no trees');
  if (targets !== bias.length)
    throw refuse(`it has ${bias.length} outputs with the loss ${loss}: train one model for each`);
  return {
    library: LIBRARY,
    version: /release (\d{1,6}(?:\.\d{1,6}){0,3})/.exec(String(modelInfo.catboost_version_info ?? ''))?.[1] ?? '',
    objective: loss,
    task: meaning.task,
    logOdds: false,
    classes: meaning.task === 'regression' ? null : classesIn(map(modelInfo.class_params)),
    features,
    categories: lists,
    compared: 'float32',
    computed: 'float64',
    targets,
    base: bias,
    finish: { baseFirst: false, divisor: 1, scale, link: meaning.link, slope: 1 } satisfies BoosterFinish,
    trees,
    notes: [],
    ambiguity: null,
  };
}

const VALUES = /^(RMSE|MAE|Quantile|LogLinQuantile|MAPE|Lq|Expectile|Huber|SMAPE|MedianAbsoluteError|LogCosh|R2)$/;

function meaningOf(loss: string): { task: Booster['task']; link: BoosterLink } {
  if (loss === 'Logloss' || loss === 'CrossEntropy') return { task: 'binary', link: 'logistic' };
  if (loss === 'MultiClass') return { task: 'multiclass', link: 'softmax' };
  if (loss === 'MultiClassOneVsAll')
    throw refuse('its loss MultiClassOneVsAll gives probabilities that do not add up to 1: train with MultiClass');
  if (loss === 'Poisson' || loss === 'Tweedie') return { task: 'regression', link: 'exp' };
  if (VALUES.test(loss)) return { task: 'regression', link: 'identity' };
  if (/Pair|Rank|Query|YetiRank|StochasticFilter/.test(loss))
    throw refuse(`its loss ${loss} ranks rows within groups: train a classifier`);
  throw refuse(
    `its loss ${loss || '(unknown)'} is not one whose predictions are known: train with Logloss, MultiClass or RMSE`,
  );
}

/** The class of a prediction is the one with the larger probability, as in CatBoost without this setting. */
function checkThreshold({ binclass_probability_threshold: threshold }: Json): void {
  if (threshold !== undefined && Number(threshold) !== 0.5)
    throw refuse(
      `its predict compares the probability with ${String(threshold)}, a package with 0.5: call model.set_probability_threshold(None) before saving, and add the threshold to decisions of the policy (min_probability)`,
    );
}

function scaleAndBias(value: unknown): [number, number[]] {
  const [scale, bias] = list(value);
  const biases = Array.isArray(bias) ? bias : [bias];
  if (typeof scale !== 'number' || !biases.every((b) => typeof b === 'number'))
    throw broken('scale_and_bias is missing');
  return [scale, biases];
}

function classesIn(params: Json): (string | number)[] | null {
  const names = list(params.class_names);
  const labels = names.length > 0 ? names : list(params.class_to_label);
  if (labels.length < 2) return null;
  return labels.map((l) => (typeof l === 'number' ? l : String(l)));
}

/** What CatBoost does with a missing value: the value fails every test, passes every test, or is an error. */
type MissingValue = 'AsFalse' | 'AsTrue' | 'AsIs';

interface FloatFeature {
  column: number;
  missing: MissingValue;
}

interface Features {
  features: BoosterFeature[];
  /** By index among the numeric features. */
  floats: FloatFeature[];
  /** Columns by index among the categorical features. */
  categories: number[];
  lists: CategoryList[];
}

function featuresOf(info: Json): Features {
  for (const kind of ['text_features', 'embedding_features'])
    if (list(info[kind]).length > 0)
      throw refuse(`it reads ${kind.replace('_', ' ')}: only numbers and categories can be served`);
  const floats: FloatFeature[] = [];
  const categories: number[] = [];
  const lists: CategoryList[] = [];
  const features: BoosterFeature[] = [];
  const place = (feature: Json, categorical: boolean): number => {
    const column = Number(feature.flat_feature_index);
    if (!(Number.isSafeInteger(column) && column >= 0 && column < 1_000_000)) throw broken('a feature has no index');
    const id = String(feature.feature_id ?? '');
    const missingRefused = !categorical && (feature.nan_value_treatment ?? 'AsIs') === 'AsIs';
    features[column] = { name: id === '' || id === String(column) ? null : id, categorical, missingRefused };
    return column;
  };
  for (const f of list(info.float_features).map(map))
    floats[Number(f.feature_index)] = {
      column: place(f, false),
      missing: (f.nan_value_treatment as MissingValue | undefined) ?? 'AsIs',
    };
  for (const f of list(info.categorical_features).map(map)) {
    const column = place(f, true);
    categories[Number(f.feature_index)] = column;
    const hashes = list(f.values).map(Number);
    lists.push({ feature: column, values: null, areTexts: false, codeOfHash: new Map(hashes.map((h, i) => [h, i])) });
  }
  // A feature that the file does not list is a column that no tree uses.
  for (let i = 0; i < features.length; i++) features[i] ??= { name: null, categorical: false };
  if (features.length === 0) throw broken('it lists no features');
  return { features, floats, categories, lists };
}

/** A split in the file. */
interface Split {
  feature: number;
  test: SplitTest;
  value: number;
  member: number | null;
  missingYes: boolean;
}

class TreeReader {
  readonly #targets: number;
  readonly #floats: readonly FloatFeature[];
  readonly #categories: readonly number[];
  readonly #codes: ReadonlyMap<number, ReadonlyMap<number, number>>;
  readonly #names: readonly string[];

  constructor(
    targets: number,
    info: Json,
    floats: readonly FloatFeature[],
    categories: readonly number[],
    lists: readonly CategoryList[],
  ) {
    this.#targets = targets;
    this.#floats = floats;
    this.#categories = categories;
    this.#codes = new Map(lists.map((l) => [l.feature!, l.codeOfHash!]));
    this.#names = list(info.categorical_features).map((f) => String(map(f).feature_id ?? ''));
  }

  /** A symmetric tree has one split per level. Bit i of a leaf's number is the result of split i. */
  symmetric(tree: Json): BoosterTree {
    known('a tree', tree, KNOWN.symmetric);
    const splits = list(tree.splits).map((s) => this.#split(map(s)));
    const depth = splits.length;
    if (depth > MAX_DEPTH) throw broken(`a symmetric tree has ${depth} levels`);
    const inner = 2 ** depth - 1;
    const build = new TreeBuilder(inner);
    // The split at `level` and `path` has the number 2^level - 1 + path. The last split in the file is tested first.
    for (let level = 0; level < depth; level++) {
      const split = splits[depth - 1 - level]!;
      for (let path = 0; path < 2 ** level; path++) {
        const at = 2 ** level - 1 + path;
        const child = (bit: number): number =>
          level === depth - 1 ? ~(path * 2 + bit) : 2 ** (level + 1) - 1 + path * 2 + bit;
        build.set(at, split, child(1), child(0));
      }
    }
    return build.done(null, this.#weights(list(tree.leaf_values), 2 ** depth));
  }

  /** A tree of nested nodes. If a test is true, it leads to `right`. */
  other(tree: Json): BoosterTree {
    const splits: { split: Split; yes: number; no: number }[] = [];
    const leaves: unknown[] = [];
    const walk = (node: Json, depth: number): number => {
      if (depth > 1000) throw broken('a tree is too deep');
      known('a tree', node, KNOWN.node);
      if (node.split === undefined) {
        const value = node.value;
        leaves.push(...(Array.isArray(value) ? value : [value]));
        return ~(leaves.length / this.#targets - 1);
      }
      const at = splits.push({ split: this.#split(map(node.split)), yes: 0, no: 0 }) - 1;
      splits[at]!.no = walk(map(node.left), depth + 1);
      splits[at]!.yes = walk(map(node.right), depth + 1);
      return at;
    };
    walk(tree, 0);
    const build = new TreeBuilder(splits.length);
    for (const [at, { split, yes, no }] of splits.entries()) build.set(at, split, yes, no);
    return build.done(null, this.#weights(leaves, splits.length + 1));
  }

  #weights(values: readonly unknown[], leaves: number): Float64Array {
    if (values.length !== leaves * this.#targets) throw broken(`a tree has ${values.length} leaf values`);
    return Float64Array.from(values, Number);
  }

  #split(split: Json): Split {
    known('a split', split, KNOWN.split);
    if (split.split_type === 'FloatFeature') {
      const feature = this.#floats[Number(split.float_feature_index)];
      if (!feature || typeof split.border !== 'number') throw broken('a split names a feature that is not listed');
      const missingYes = feature.missing === 'AsTrue';
      return { feature: feature.column, test: 'GT', value: split.border, member: null, missingYes };
    }
    if (split.split_type === 'OneHotFeature') {
      const column = this.#categories[Number(split.cat_feature_index)];
      const code = column === undefined ? undefined : this.#codes.get(column)?.get(Number(split.value));
      if (column === undefined || code === undefined) throw broken('a split names a category that is not listed');
      return { feature: column, test: 'CATEGORY', value: below(0, false), member: code, missingYes: false };
    }
    const names = this.#names.join(', ');
    throw refuse(
      `it uses target statistics of categories (${String(split.split_type)} on ${names || 'categories'}), which depend on hashes: train with one_hot_max_size of at least the number of categories, or with categories encoded as numbers`,
    );
  }
}

/** Collects the splits of one tree. */
class TreeBuilder {
  readonly #test: SplitTest[];
  readonly #tree;

  constructor(splits: number) {
    this.#test = new Array<SplitTest>(splits);
    this.#tree = {
      feature: new Int32Array(splits),
      value: new Float64Array(splits),
      members: new Map<number, readonly number[]>(),
      missingYes: new Uint8Array(splits),
      yes: new Int32Array(splits),
      no: new Int32Array(splits),
    };
  }

  set(at: number, split: Split, yes: number, no: number): void {
    this.#test[at] = split.test;
    this.#tree.feature[at] = split.feature;
    this.#tree.value[at] = split.value;
    if (split.member !== null) this.#tree.members.set(at, [split.member]);
    this.#tree.missingYes[at] = split.missingYes ? 1 : 0;
    this.#tree.yes[at] = yes;
    this.#tree.no[at] = no;
  }

  done(target: number | null, leaves: Float64Array): BoosterTree {
    return { ...this.#tree, target, test: this.#test, leaves };
  }
}
