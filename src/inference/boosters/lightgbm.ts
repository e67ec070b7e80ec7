// Reads the text file of LightGBM (`booster.save_model`): numeric and categorical splits, directions of missing values,
// objectives. Based on src/io/tree.cpp, include/LightGBM/tree.h and src/objective of LightGBM 4.
import { type BoosterFinish, ZERO } from '../trees/ensemble.ts';
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

const LIBRARY = 'LightGBM';
const broken = (what: string): Error => damaged(LIBRARY, what);
const refuse = (what: string): Error => refuseBooster(LIBRARY, what);

/** Bits of decision_type. */
const CATEGORICAL = 1;
const DEFAULT_LEFT = 2;
const MISSING_ZERO = 1;
const MISSING_NAN = 2;

/** Objectives whose sum is the prediction. */
const IDENTITY = new Set(['regression', 'regression_l2', 'regression_l1', 'huber', 'fair', 'quantile', 'mape']);

/** The names in the header of a file and in a tree, of LightGBM 2 to 4. */
const KNOWN = {
  header: new Set([
    'tree',
    'version',
    'num_class',
    'num_tree_per_iteration',
    'label_index',
    'max_feature_idx',
    'objective',
    'average_output',
    'feature_names',
    'monotone_constraints',
    'feature_infos',
    'tree_sizes',
  ]),
  tree: new Set([
    'num_leaves',
    'num_cat',
    'split_feature',
    'split_gain',
    'threshold',
    'decision_type',
    'left_child',
    'right_child',
    'leaf_value',
    'leaf_weight',
    'leaf_count',
    'internal_value',
    'internal_weight',
    'internal_count',
    'cat_boundaries',
    'cat_threshold',
    'is_linear',
    'leaf_const',
    'num_features',
    'leaf_features',
    'leaf_features_inner',
    'leaf_coeff',
    'shrinkage',
  ]),
} as const;

/** @throws SluiceError model_invalid */
export function readLightgbm(bytes: Uint8Array): Booster {
  const lines = linesOf(bytes);
  const header = section(lines, (line) => line.startsWith('Tree=') || line === 'end of trees');
  knownOnly(LIBRARY, 'the header', [...header.keys.keys(), ...header.flags], KNOWN.header);
  const number = (key: string, otherwise?: number): number => {
    const n = Number(header.keys.get(key) ?? otherwise);
    if (!Number.isSafeInteger(n)) throw broken(`${key} is missing or not a whole number`);
    return n;
  };
  const classes = number('num_class', 1);
  const targets = number('num_tree_per_iteration', classes);
  if (targets < 1 || targets > 10_000) throw broken(`num_tree_per_iteration is ${targets}`);
  const features = featuresOf(header.keys, number('max_feature_idx') + 1);
  const objective = header.keys.get('objective') ?? '';
  const meaning = meaningOf(objective, targets);
  const trees: BoosterTree[] = [];
  const splits = new MissingTypes();
  let line = header.ended;
  while (line?.startsWith('Tree=')) {
    const { keys, flags, ended } = section(lines, (l) => l.startsWith('Tree=') || l === 'end of trees');
    knownOnly(LIBRARY, 'a tree', [...keys.keys(), ...flags], KNOWN.tree);
    trees.push(treeOf(keys, trees.length, trees.length % targets));
    splits.add(trees.at(-1)!, keys.get('decision_type') ?? '');
    line = ended;
  }
  if (line !== 'end of trees') throw broken('the end of the trees is missing: the file is cut off');
  if (trees.length === 0) throw broken('there are no trees');
  if (trees.length % targets !== 0) throw broken(`${trees.length} trees are not a multiple of ${targets}`);
  let pandas = '[]';
  const parameters = new Map<string, string>();
  for (const rest of lines) {
    if (rest.startsWith('pandas_categorical:')) pandas = rest.slice('pandas_categorical:'.length);
    const parameter = /^\[(\w+): (.*)\]$/.exec(rest);
    if (parameter) parameters.set(parameter[1]!, parameter[2]!);
  }
  const averaged = header.flags.has('average_output');
  // With use_missing=false, no split has a direction for missing values.
  if (parameters.get('use_missing') === '1')
    for (const [i, feature] of features.entries()) feature.missingUnknown = splits.areWithoutDirection(i);
  return {
    library: LIBRARY,
    version: header.keys.get('version') ?? '',
    objective,
    ...meaning.answer,
    classes: null,
    features,
    categories: pandasCategories(pandas),
    compared: 'float64',
    computed: 'float64',
    targets,
    base: [],
    finish: {
      baseFirst: false,
      divisor: averaged ? trees.length / targets : 1,
      scale: 1,
      ...meaning.finish,
    },
    trees,
    notes: [
      ...(parameters.get('boosting') === undefined ? [] : [`boosting ${parameters.get('boosting')}`]),
      `${trees.length / targets} iterations`,
    ],
    ambiguity: null,
  };
}

/** Collects whether the numeric splits of each feature have a direction for missing values. */
class MissingTypes {
  readonly #without = new Set<number>();
  readonly #with = new Set<number>();

  add({ feature }: BoosterTree, decisions: string): void {
    for (const [s, decision] of decisions.split(' ').map(Number).entries()) {
      if (s >= feature.length || decision & CATEGORICAL) continue;
      (((decision >> 2) & 3) === 0 ? this.#without : this.#with).add(feature[s]!);
    }
  }

  /** LightGBM writes no direction for a feature without missing values in the training data. */
  areWithoutDirection = (feature: number): boolean => this.#without.has(feature) && !this.#with.has(feature);
}

/**
 * The lines of a file. A file may be longer than the longest string that V8 supports, so it is not decoded as a whole.
 */
function* linesOf(bytes: Uint8Array): Generator<string, void> {
  const buffer = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length);
  for (let from = 0; from < buffer.length; ) {
    const found = buffer.indexOf(10, from);
    const end = found < 0 ? buffer.length : found;
    const line = buffer.toString('utf8', from, end);
    yield line.endsWith('\r') ? line.slice(0, -1) : line;
    from = end + 1;
  }
}

interface Section {
  keys: ReadonlyMap<string, string>;
  /** Keys of lines without a value. */
  flags: ReadonlySet<string>;
  /** The line after the section; null at the end of the file. */
  ended: string | null;
}

function section(lines: Iterator<string, void>, ends: (line: string) => boolean): Section {
  const keys = new Map<string, string>();
  const flags = new Set<string>();
  for (let next = lines.next(); !next.done; next = lines.next()) {
    const line = next.value;
    if (ends(line)) return { keys, flags, ended: line };
    const at = line.indexOf('=');
    if (at > 0) keys.set(line.slice(0, at), line.slice(at + 1));
    else if (line !== '') flags.add(line);
  }
  return { keys, flags, ended: null };
}

function featuresOf(keys: ReadonlyMap<string, string>, count: number): BoosterFeature[] {
  const names = (keys.get('feature_names') ?? '').split(' ');
  const infos = (keys.get('feature_infos') ?? '').split(' ');
  if (count < 1 || names.length !== count) throw broken(`it names ${names.length} of ${count} features`);
  const generated = names.every((n, i) => n === `Column_${i}`);
  return names.map((name, i) => ({ name: generated ? null : name, ...seenIn(infos[i] ?? '') }));
}

/** Reads an entry of feature_infos: categories such as 1:2:3, a range such as [0:4.5], or none for a constant column. */
function seenIn(info: string): Pick<BoosterFeature, 'categorical' | 'seen'> {
  if (/^-?\d+(:-?\d+)*$/.test(info)) return { categorical: true, seen: { codes: info.split(':').map(Number) } };
  const [min, max] = /^\[([^:]*):([^:]*)\]$/.exec(info)?.slice(1).map(numberOf) ?? [];
  const hasRange = min !== undefined && max !== undefined && min <= max;
  return { categorical: false, ...(hasRange ? { seen: { min, max } } : {}) };
}

/** Returns the task of an objective, and how its sums become predictions. */
function meaningOf(
  objective: string,
  targets: number,
): { answer: Pick<Booster, 'task' | 'logOdds'>; finish: Pick<BoosterFinish, 'link' | 'slope'> } {
  const [name = '', ...options] = objective.split(' ');
  const sigmoid = options.find((o) => o.startsWith('sigmoid:'));
  const slope = sigmoid === undefined ? 1 : Number(sigmoid.slice('sigmoid:'.length));
  if (!(slope > 0)) throw broken(`sigmoid of the objective is ${slope}`);
  const answer = (task: Booster['task']) => ({ task, logOdds: false });
  const link = (l: BoosterFinish['link']) => ({ link: l, slope });
  if (/rank|lambdarank|xendcg/.test(name))
    throw refuse(
      `its objective ${name} ranks rows within groups and gives no probability or value: train a classifier`,
    );
  if (name === '' || name === 'none' || name === 'custom')
    throw refuse(
      'it was trained with an objective of your own, so the file does not state how sums become predictions: train with objective="binary" or another built-in one, or export to ONNX',
    );
  if (name === 'binary' || name === 'cross_entropy' || name === 'xentropy')
    return { answer: answer('binary'), finish: link('logistic') };
  if (name === 'multiclass' || name === 'softmax') return { answer: answer('multiclass'), finish: link('softmax') };
  if (name === 'multiclassova' || name === 'multiclass_ova' || name === 'ova' || name === 'ovr')
    throw refuse(
      'its objective multiclassova gives probabilities that do not add up to 1: train with objective="multiclass"',
    );
  if (targets !== 1) throw refuse(`its objective ${name} has ${targets} outputs`);
  if (name === 'cross_entropy_lambda' || name === 'xentlambda')
    return { answer: answer('regression'), finish: link('log1p_exp') };
  if (name === 'poisson' || name === 'gamma' || name === 'tweedie')
    return { answer: answer('regression'), finish: link('exp') };
  if (IDENTITY.has(name)) {
    const squared = options.includes('sqrt');
    return { answer: answer('regression'), finish: link(squared ? 'signed_square' : 'identity') };
  }
  throw refuse(`its objective ${name} is not supported: export the model to ONNX`);
}

function treeOf(keys: ReadonlyMap<string, string>, index: number, target: number): BoosterTree {
  const fail = (what: string): Error => broken(`tree ${index}: ${what}`);
  const numbers = (key: string, length: number): number[] => {
    const text = keys.get(key);
    const values = text === undefined || text.trim() === '' ? [] : text.trim().split(' ').map(numberOf);
    if (values.length !== length) throw fail(`${key} has ${values.length} entries, ${length} are needed`);
    return values;
  };
  if (keys.get('is_linear') !== undefined && keys.get('is_linear') !== '0')
    throw refuse('its leaves are linear models (linear_tree): train with linear_tree=False');
  const leaves = Number(keys.get('num_leaves'));
  if (!Number.isSafeInteger(leaves) || leaves < 1) throw fail('num_leaves is missing');
  const splits = leaves - 1;
  const feature = numbers('split_feature', splits);
  const threshold = numbers('threshold', splits);
  const decision = numbers('decision_type', splits);
  const left = numbers('left_child', splits);
  const right = numbers('right_child', splits);
  const categories = Number(keys.get('num_cat') ?? 0);
  const boundaries = categories > 0 ? numbers('cat_boundaries', categories + 1) : [];
  const words = categories > 0 ? numbers('cat_threshold', boundaries.at(-1)!) : [];
  const test: SplitTest[] = [];
  const value = new Float64Array(splits);
  const missingYes = new Uint8Array(splits);
  const members = new Map<number, readonly number[]>();
  for (let s = 0; s < splits; s++) {
    const t = threshold[s]!;
    if (decision[s]! & CATEGORICAL) {
      test.push('CATEGORY');
      // LightGBM truncates a number before comparing it with 0, so -0.5 is category 0.
      value[s] = -1;
      const [from, to] = [boundaries[t], boundaries[t + 1]];
      if (from === undefined || to === undefined || !(from <= to)) throw fail('a set of categories is missing');
      members.set(s, bitsOf(words.slice(from, to)));
      continue;
    }
    value[s] = t;
    const missing = (decision[s]! >> 2) & 3;
    const left = (decision[s]! & DEFAULT_LEFT) !== 0;
    if (missing === MISSING_ZERO) {
      missingYes[s] = left ? 1 : 0;
      zeroSplit(s, t, left, test, value);
    } else {
      test.push('LEQ');
      // If the split has no direction for missing values, LightGBM reads NaN as 0.
      missingYes[s] = (missing === MISSING_NAN ? left : 0 <= t) ? 1 : 0;
    }
  }
  return {
    target,
    feature: Int32Array.from(feature),
    test,
    value,
    members,
    missingYes,
    yes: Int32Array.from(left),
    no: Int32Array.from(right),
    leaves: Float64Array.from(numbers('leaf_value', leaves)),
  };
}

/** Parses a number as C++ prints it. Returns NaN if the text is not a number. */
const numberOf = (text: string): number =>
  text === 'inf' ? Infinity : text === '-inf' ? -Infinity : text === '' ? Number.NaN : Number(text);

/** Adds a split for which 0 counts as missing. */
function zeroSplit(s: number, t: number, zeroPasses: boolean, test: SplitTest[], value: Float64Array): void {
  if (zeroPasses) {
    if (t < -ZERO) test.push('LEQ_OR_ZERO');
    else {
      test.push('LEQ');
      value[s] = Math.max(t, ZERO);
    }
  } else if (t > ZERO) test.push('LEQ_NOT_ZERO');
  else {
    test.push('LEQ');
    value[s] = Math.min(t, below(-ZERO, true));
  }
}

/** Positions of the set bits in a list of 32-bit words. */
function bitsOf(words: readonly number[]): number[] {
  const bits: number[] = [];
  for (const [w, word] of words.entries()) for (let b = 0; b < 32; b++) if ((word >>> b) & 1) bits.push(w * 32 + b);
  return bits;
}

/** A whole number beyond 2^53, with its text in the file. */
class LargeNumber {
  readonly #source: string;
  constructor(source: string) {
    this.#source = source;
  }
  toString(): string {
    return this.#source;
  }
}

/** TypeScript does not know the third parameter of a reviver. */
const exactNumber = ((_key: string, value: unknown, { source }: { source: string }) =>
  Number.isInteger(value) && !Number.isSafeInteger(value) ? new LargeNumber(source) : value) as (
  key: string,
  value: unknown,
) => unknown;

/**
 * The categories of the pandas columns with dtype category. The model was trained on the codes of these categories.
 * These columns need not be those that the model splits by categories, so the lists are not assigned here.
 */
function pandasCategories(json: string): CategoryList[] {
  let lists: unknown;
  try {
    lists = JSON.parse(json, exactNumber);
  } catch {
    throw broken('pandas_categorical is not JSON');
  }
  lists ??= [];
  if (!Array.isArray(lists) || !lists.every(Array.isArray)) throw broken('pandas_categorical is not a list of lists');
  return lists.map((values: unknown[]) => ({
    feature: null,
    // String(-0) is 0.
    values: values.map((v) => (typeof v === 'boolean' ? (v ? 'True' : 'False') : String(v))),
    areTexts: values.some((v) => typeof v === 'string'),
  }));
}
