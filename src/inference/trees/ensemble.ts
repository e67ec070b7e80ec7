// Tree ensembles of ai.onnx.ml as typed arrays. Every node is checked, because a damaged ensemble can crash or hang
// ONNX Runtime.
import { SluiceError } from '../../core/errors.ts';
import { type Attribute, allNodes, type Node, type OnnxModel, readOnnx } from '../onnx/graph.ts';

const invalid = (what: string): SluiceError => new SluiceError('model_invalid', `tree ensemble: ${what}`);

/** @throws SluiceError model_invalid */
function same(what: string, length: number, expected: number): void {
  if (length !== expected) throw invalid(`${what} has ${length} entries, ${expected} are needed`);
}

/** Checks an integer from 0 to `below` - 1. @throws SluiceError model_invalid */
function index(what: string, n: number, below: number): number {
  if (!Number.isInteger(n) || n < 0 || n >= below) throw invalid(`${what} is ${n}, allowed are 0 to ${below - 1}`);
  return n;
}

/** @throws SluiceError model_invalid */
function finite(what: string, values: readonly number[]): void {
  if (!values.every(Number.isFinite)) throw invalid(`${what} contains a number that is not finite`);
}

/** Checks that a text is one of the allowed texts; `otherwise` is the default. @throws SluiceError model_invalid */
function enumerated<T extends string>(what: string, text: string | undefined, all: readonly T[], otherwise: T): T {
  if (text === undefined) return otherwise;
  const found = all.find((t) => t === text);
  if (found === undefined) throw invalid(`${what} ${text} is not known`);
  return found;
}

/**
 * Finds nodes by tree and ID. Exporters usually number the nodes of each tree from 0; other numberings need a table.
 */
class NodeIndex {
  readonly #trees: readonly number[];
  readonly #ids: readonly number[];
  readonly #starts = new Map<number, number>();
  #table: Map<string, number> | null = null;

  constructor(trees: readonly number[], ids: readonly number[]) {
    this.#trees = trees;
    this.#ids = ids;
    let counted = true;
    for (let i = 0; i < trees.length; i++) {
      if (!this.#starts.has(trees[i]!)) this.#starts.set(trees[i]!, i);
      counted &&= ids[i] === i - this.#starts.get(trees[i]!)!;
    }
    if (counted) return;
    this.#table = new Map();
    for (let i = 0; i < trees.length; i++) {
      const key = `${trees[i]} ${ids[i]}`;
      if (this.#table.has(key)) throw invalid(`node ${ids[i]} of tree ${trees[i]} occurs twice`);
      this.#table.set(key, i);
    }
  }

  /** Returns undefined if the node does not exist. */
  find(tree: number, id: number): number | undefined {
    if (this.#table) return this.#table.get(`${tree} ${id}`);
    const at = (this.#starts.get(tree) ?? -1) + id;
    return this.#trees[at] === tree && this.#ids[at] === id ? at : undefined;
  }
}

/** Tests of a node in ONNX files. MEMBER occurs only in TreeEnsemble (ai.onnx.ml 5). */
const ONNX_MODES = ['LEAF', 'LEQ', 'LT', 'GTE', 'GT', 'EQ', 'NEQ', 'MEMBER'] as const;
/**
 * All tests of a node. The last three occur only in files of training libraries. CATEGORY: the truncated number is a
 * member, and the number itself is above `value`. LEQ_OR_ZERO and LEQ_NOT_ZERO: the number is at most `value`, but
 * numbers within `ZERO` of 0 always pass (LEQ_OR_ZERO) or never pass (LEQ_NOT_ZERO).
 */
export const MODES = [...ONNX_MODES, 'CATEGORY', 'LEQ_OR_ZERO', 'LEQ_NOT_ZERO'] as const;
export type Mode = (typeof MODES)[number];
export const LEAF = 0;
export const EQ = MODES.indexOf('EQ');
/** Largest magnitude that LightGBM treats as 0. */
export const ZERO = Math.fround(1e-35);

const POST_TRANSFORMS = ['NONE', 'SOFTMAX', 'LOGISTIC', 'SOFTMAX_ZERO', 'PROBIT'] as const;
type PostTransform = (typeof POST_TRANSFORMS)[number];
const AGGREGATES = ['AVERAGE', 'SUM', 'MIN', 'MAX'] as const;
export type Aggregate = (typeof AGGREGATES)[number];

/** How a training library converts the sums of its trees to predictions. */
export interface BoosterFinish {
  /** Whether the base values are the initial values of the sums; otherwise they are added at the end. */
  baseFirst: boolean;
  /** Divisor of the sums: the number of averaged trees, or 1. */
  divisor: number;
  scale: number;
  link: BoosterLink;
  /** Factor of the sum within a logistic function. */
  slope: number;
}

/**
 * Functions that convert sums to predictions. `logistic` with several targets gives one probability per class, not
 * normalised.
 */
export type BoosterLink = 'identity' | 'logistic' | 'softmax' | 'exp' | 'log1p_exp' | 'signed_square';

/** An ensemble. Arrays over nodes have one entry per node, in file order. */
export interface Ensemble {
  kind: 'classifier' | 'regressor' | 'booster';
  /** Set only for the kind `booster`: how the training library finishes predictions. */
  booster?: BoosterFinish;
  /**
   * Whether thresholds and weights are double tensors. For a booster: whether sums and predictions have double
   * precision.
   */
  double: boolean;
  /** Number of classes or targets, which is the number of output columns. */
  targets: number;
  aggregate: Aggregate;
  postTransform: PostTransform;
  base: readonly number[];
  /** Classifiers only: whether no weight is negative. ONNX Runtime then treats the sum as a probability. */
  allPositive: boolean;
  /** Number of distinct targets to which leaves refer. */
  named: number;
  /** Minimum number of features that the input must have. */
  features: number;
  /** Root node of every tree, in the order in which the trees are added up. */
  roots: Int32Array;
  mode: Uint8Array;
  feature: Int32Array;
  value: Float64Array;
  missingTrue: Uint8Array;
  onTrue: Int32Array;
  onFalse: Int32Array;
  /** Sets of MEMBER and CATEGORY nodes, by node. */
  members: ReadonlyMap<number, readonly number[]>;
  /** Leaf i has `weightCount[i]` weights, from entry `weightFirst[i]` of weightTarget and weightValue on. */
  weightFirst: Int32Array;
  weightCount: Int32Array;
  weightTarget: Int32Array;
  weightValue: Float64Array;
}

/**
 * Maximum length of a path from a root; consecutive BRANCH_EQ nodes on one feature count once. ONNX Runtime follows
 * paths by recursion, and a longer path would overflow its stack.
 */
const MAX_DEPTH = 2_000;
const INT32 = 2_147_483_647;

const isEnsemble = (node: Node): boolean =>
  node.domain === 'ai.onnx.ml' && /^TreeEnsemble(Classifier|Regressor)?$/.test(node.op);

/**
 * Reads a model and checks all its tree ensembles, including ensembles in branches and loops. Damaged ensembles make
 * ONNX Runtime crash or hang.
 * @throws SluiceError model_invalid with the error of the file or of the first damaged ensemble
 */
export function readChecked(bytes: Uint8Array): OnnxModel {
  const model = readOnnx(bytes);
  for (const node of allNodes(model.graph)) if (isEnsemble(node)) readEnsemble(node);
  return model;
}

const read = new WeakMap<Node, Ensemble>();

/**
 * Reads TreeEnsembleClassifier, TreeEnsembleRegressor (ai.onnx.ml 1 to 3) or TreeEnsemble (5). Each node is read only
 * once.
 * @throws SluiceError model_invalid
 */
export function readEnsemble(node: Node): Readonly<Ensemble> {
  let ensemble = read.get(node);
  if (!ensemble) {
    ensemble = node.op === 'TreeEnsemble' ? readFlat(node) : readClassic(node);
    checkShape(ensemble);
    read.set(node, ensemble);
  }
  return ensemble;
}

const ints = (node: Node, name: string): readonly number[] => node.attributes.get(name)?.ints ?? [];

/** The numbers of the attribute `name`, or of the tensor `name_as_tensor` if the node has one. */
function reals(node: Node, name: string): { values: readonly number[]; double: boolean } {
  const tensor = node.attributes.get(`${name}_as_tensor`)?.tensor;
  if (!tensor) return { values: node.attributes.get(name)?.floats ?? [], double: false };
  if (tensor.element !== 'float64' && tensor.element !== 'float32') throw invalid(`${name}_as_tensor is not real`);
  return { values: tensor.numbers(), double: tensor.element === 'float64' };
}

/** Attaches an ensemble to a node that has no attributes to read it from. @throws SluiceError model_invalid */
export function attachEnsemble(node: Node, ensemble: Ensemble): void {
  checkShape(ensemble);
  read.set(node, ensemble);
}

/** `BRANCH_…` or `LEAF` → number of the mode. */
const MODE_OF = new Map(
  ONNX_MODES.flatMap((m, i) => (m === 'LEAF' ? [['LEAF', i]] : m === 'MEMBER' ? [] : [[`BRANCH_${m}`, i]])) as [
    string,
    number,
  ][],
);

/** The node tables of the classic operators. All have the same length. */
interface ClassicNodes {
  trees: readonly number[];
  ids: readonly number[];
  features: readonly number[];
  modes: readonly string[];
  yes: readonly number[];
  no: readonly number[];
  values: readonly number[];
  double: boolean;
  /** Empty, or one number per node. */
  missing: readonly number[];
}

function classicNodes(node: Node): ClassicNodes {
  const trees = ints(node, 'nodes_treeids');
  const n = trees.length;
  if (n === 0) throw invalid('there are no nodes');
  const ids = ints(node, 'nodes_nodeids');
  const features = ints(node, 'nodes_featureids');
  const modes = node.attributes.get('nodes_modes')?.strings ?? [];
  const yes = ints(node, 'nodes_truenodeids');
  const no = ints(node, 'nodes_falsenodeids');
  const { values, double } = reals(node, 'nodes_values');
  const missing = ints(node, 'nodes_missing_value_tracks_true');
  same('nodes_nodeids', ids.length, n);
  same('nodes_featureids', features.length, n);
  same('nodes_modes', modes.length, n);
  same('nodes_truenodeids', yes.length, n);
  same('nodes_falsenodeids', no.length, n);
  same('nodes_values', values.length, n);
  if (missing.length > 0) same('nodes_missing_value_tracks_true', missing.length, n);
  return { trees, ids, features, modes, yes, no, values, double, missing };
}

/** Copies the nodes, tree by tree. Returns the root of each tree. */
function fillClassic(e: Columns, { trees, ids, features, modes, values, missing }: ClassicNodes): number[] {
  const roots: number[] = [];
  const seen = new Set<number>();
  for (let i = 0; i < trees.length; i++) {
    const tree = index('a tree id', trees[i]!, INT32);
    index('a node id', ids[i]!, INT32);
    if (i === 0 || trees[i - 1] !== tree) {
      if (seen.has(tree)) throw invalid(`the nodes of tree ${tree} are not adjacent`);
      seen.add(tree);
      roots.push(i);
    }
    // Leaves are checked, too, because ONNX Runtime reads the feature of a leaf if modes are mixed.
    e.feature[i] = index('a feature id', features[i]!, INT32);
    const mode = MODE_OF.get(modes[i]!);
    if (mode === undefined) throw invalid(`mode ${modes[i]} is not known`);
    e.mode[i] = mode;
    if (e.mode[i] !== LEAF && Number.isNaN(values[i]!)) throw invalid('a threshold is NaN');
    e.value[i] = values[i]!;
    e.missingTrue[i] = missing[i] === 1 ? 1 : 0;
  }
  return roots;
}

/** Links the children, which are identified by tree and ID. */
function linkClassic(e: Columns, { trees, ids, yes, no }: ClassicNodes, at: NodeIndex): void {
  const n = trees.length;
  const childOf = (i: number, id: number): number => {
    const child = at.find(trees[i]!, index('a child', id, n));
    if (child === undefined) throw invalid(`node ${ids[i]} of tree ${trees[i]} has a missing child`);
    return child;
  };
  for (let i = 0; i < n; i++) {
    if (e.mode[i] === LEAF) continue;
    e.onTrue[i] = childOf(i, yes[i]!);
    e.onFalse[i] = childOf(i, no[i]!);
  }
}

function readClassic(node: Node): Ensemble {
  const classifier = node.op === 'TreeEnsembleClassifier';
  const weightsOf = classifier ? 'class' : 'target';
  const nodes = classicNodes(node);
  const labels = node.attributes.get('classlabels_strings')?.strings ?? [];
  const targets = classifier
    ? labels.length || ints(node, 'classlabels_int64s').length
    : (node.attributes.get('n_targets')?.i ?? 0);
  if (targets < 1 || targets > INT32) throw invalid('there are no classes or targets');

  const e = empty(nodes.trees.length, classifier ? 'classifier' : 'regressor', targets);
  const roots = fillClassic(e, nodes);
  const at = new NodeIndex(nodes.trees, nodes.ids);
  linkClassic(e, nodes, at);
  const weights = reals(node, `${weightsOf}_weights`);
  const weightTrees = ints(node, `${weightsOf}_treeids`);
  const weightNodes = ints(node, `${weightsOf}_nodeids`).map((id, i) => {
    const leaf = at.find(weightTrees[i] ?? -1, id);
    if (leaf === undefined) throw invalid('a weight belongs to a missing leaf');
    return leaf;
  });
  const weightIds = ints(node, `${weightsOf}_ids`);
  readWeights(e, weights.values, { nodes: weightNodes, trees: weightTrees.length, ids: weightIds });
  const base = reals(node, 'base_values');
  const post = node.attributes.get('post_transform')?.s || undefined;
  const aggregate = node.attributes.get('aggregate_function')?.s || undefined;
  return {
    ...e,
    roots: Int32Array.from(roots),
    base: checkedBase(base.values, targets),
    double: nodes.double || weights.double || base.double,
    postTransform: enumerated('post_transform', post, POST_TRANSFORMS, 'NONE'),
    aggregate: enumerated('aggregate_function', aggregate, AGGREGATES, 'SUM'),
    allPositive: weights.values.every((w) => w >= 0),
    named: new Set(weightIds).size,
    features: 1 + e.feature.reduce((a, b) => Math.max(a, b), 0),
  };
}

type Columns = Omit<Ensemble, 'roots' | 'base' | 'double' | 'postTransform' | 'aggregate' | 'allPositive' | 'named'>;

const empty = (n: number, kind: Ensemble['kind'], targets: number): Columns => ({
  kind,
  targets,
  features: 0,
  mode: new Uint8Array(n),
  feature: new Int32Array(n),
  value: new Float64Array(n),
  missingTrue: new Uint8Array(n),
  onTrue: new Int32Array(n),
  onFalse: new Int32Array(n),
  members: new Map(),
  weightFirst: new Int32Array(n),
  weightCount: new Int32Array(n),
  weightTarget: new Int32Array(0),
  weightValue: new Float64Array(0),
});

/**
 * Rejects base values whose number differs from the number of classes; surplus values would be written beyond the
 * scores.
 */
function checkedBase(base: readonly number[], targets: number): readonly number[] {
  finite('base_values', base);
  if (base.length > 1) same('base_values', base.length, targets);
  return base;
}

/**
 * Sorts the weights by leaf; the weights of a leaf stay in file order. Weights of inner nodes are ignored, as in ONNX
 * Runtime.
 */
function readWeights(
  e: Columns,
  values: readonly number[],
  of: { nodes: readonly number[]; trees: number; ids: readonly number[] },
): void {
  same('weights: node ids', of.nodes.length, values.length);
  same('weights: tree ids', of.trees, values.length);
  same('weights: target ids', of.ids.length, values.length);
  finite('weights', values);
  for (const id of of.ids) index('a target', id, e.targets);
  for (const leaf of of.nodes) if (e.mode[leaf] === LEAF) e.weightCount[leaf]!++;
  let total = 0;
  for (let i = 0; i < e.mode.length; i++) {
    e.weightFirst[i] = total;
    total += e.weightCount[i]!;
  }
  e.weightTarget = new Int32Array(total);
  e.weightValue = new Float64Array(total);
  const next = e.weightFirst.slice();
  of.nodes.forEach((leaf, i) => {
    if (e.mode[leaf] !== LEAF) return;
    const slot = next[leaf]!++;
    e.weightTarget[slot] = of.ids[i]!;
    e.weightValue[slot] = values[i]!;
  });
}

/**
 * Reads TreeEnsemble of ai.onnx.ml 5, which has inner nodes and leaves in two tables, and explicit roots. The leaves
 * become nodes after the inner nodes.
 */
function readFlat(node: Node): Ensemble {
  const numbers = (a: Attribute | undefined): readonly number[] => a?.tensor?.numbers() ?? [];
  const modes = numbers(node.attributes.get('nodes_modes'));
  const splits = numbers(node.attributes.get('nodes_splits'));
  const weights = numbers(node.attributes.get('leaf_weights'));
  const ids = ints(node, 'leaf_targetids');
  const n = modes.length;
  const features = ints(node, 'nodes_featureids');
  const missing = ints(node, 'nodes_missing_value_tracks_true');
  const targets = node.attributes.get('n_targets')?.i ?? 0;
  if (n === 0 || weights.length === 0 || targets < 1 || targets > INT32)
    throw invalid('there are no nodes, leaves or targets');
  same('nodes_splits', splits.length, n);
  same('nodes_featureids', features.length, n);
  if (missing.length > 0) same('nodes_missing_value_tracks_true', missing.length, n);
  const e = empty(n + weights.length, 'regressor', targets);
  const sides = [
    [e.onTrue, ints(node, 'nodes_truenodeids'), ints(node, 'nodes_trueleafs')],
    [e.onFalse, ints(node, 'nodes_falsenodeids'), ints(node, 'nodes_falseleafs')],
  ] as const;
  const sets = splitSets(numbers(node.attributes.get('membership_values')));
  const members = new Map<number, readonly number[]>();
  for (const [, children, leaves] of sides) {
    same('children', children.length, n);
    same('children that are leaves', leaves.length, n);
  }
  for (let i = 0; i < n; i++) {
    e.mode[i] = 1 + index('a mode', modes[i]!, ONNX_MODES.length - 1);
    e.feature[i] = index('a feature id', features[i]!, INT32);
    e.value[i] = splits[i]!;
    e.missingTrue[i] = missing[i] === 1 ? 1 : 0;
    if (MODES[e.mode[i]!] === 'MEMBER') {
      const set = sets[members.size];
      if (set === undefined || set.length === 0) throw invalid('a membership node has no values');
      members.set(i, set);
    } else if (Number.isNaN(splits[i]!)) throw invalid('a threshold is NaN');
    for (const [side, children, leaves] of sides) {
      side[i] = leaves[i] === 1 ? n + index('a leaf', children[i]!, weights.length) : index('a child', children[i]!, n);
    }
  }
  readWeights(e, weights, { nodes: weights.map((_, i) => n + i), trees: weights.length, ids });
  const roots = ints(node, 'tree_roots').map((r) => index('a root', r, n));
  if (roots.length === 0) throw invalid('there are no roots');
  return {
    ...e,
    members,
    // A tree with a single leaf is written as a node, both of whose children are that leaf.
    roots: Int32Array.from(roots),
    base: [],
    double: node.attributes.get('nodes_splits')?.tensor?.element === 'float64',
    postTransform: POST_TRANSFORMS[index('post_transform', node.attributes.get('post_transform')?.i ?? 0, 5)]!,
    aggregate: AGGREGATES[index('aggregate_function', node.attributes.get('aggregate_function')?.i ?? 1, 4)]!,
    allPositive: false,
    named: new Set(ids).size,
    features: 1 + e.feature.reduce((a, b) => Math.max(a, b), 0),
  };
}

/** Splits the numbers into sets; NaN separates two sets. */
function splitSets(values: readonly number[]): number[][] {
  const sets: number[][] = [[]];
  for (const v of values) if (Number.isNaN(v)) sets.push([]);
  else sets.at(-1)!.push(v); // biome-ignore format: one line a case
  return sets;
}

/**
 * Checks that every path ends, that every node is reached from exactly one root, and that no path is too deep for ONNX
 * Runtime.
 */
function checkShape(e: Ensemble): void {
  // State of each node: 0 not visited, 1 on the current path, 2 done.
  const state = new Uint8Array(e.mode.length);
  const depth = new Int32Array(e.mode.length);
  const owner = new Int32Array(e.mode.length).fill(-1);
  const { mode, onTrue, onFalse } = e;
  const stack: number[] = [];
  const below = (i: number, child: number): number =>
    depth[child]! + (child === onFalse[i] && mode[i] === EQ && mode[child] === EQ ? 0 : 1);
  for (let tree = 0; tree < e.roots.length; tree++) {
    const meet = (child: number): void => {
      if (state[child] === 1) throw invalid(`tree ${tree} has a cycle`);
      if (state[child] === 0) stack.push(child);
      else if (owner[child] !== tree) throw invalid(`tree ${tree} reaches into tree ${owner[child]}`);
    };
    stack.push(e.roots[tree]!);
    while (stack.length > 0) {
      const i = stack[stack.length - 1]!;
      if (state[i] === 2 && owner[i] !== tree) throw invalid(`tree ${tree} reaches into tree ${owner[i]}`);
      if (mode[i] === LEAF || state[i] !== 0) {
        stack.pop();
        if (state[i] !== 2 && mode[i] !== LEAF) {
          depth[i] = Math.max(below(i, onTrue[i]!), below(i, onFalse[i]!));
          if (depth[i]! > MAX_DEPTH) throw invalid(`tree ${tree} is more than ${MAX_DEPTH} nodes deep`);
        }
        state[i] = 2;
        owner[i] = tree;
        continue;
      }
      state[i] = 1;
      meet(onTrue[i]!);
      meet(onFalse[i]!);
    }
  }
  if (state.includes(0)) throw invalid('a node is not reachable from a root');
}
