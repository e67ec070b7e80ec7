// Random tree ensembles as ONNX files, and the least manifest that serves them.
import type { Manifest } from '../../src/model/package/manifest.ts';
import { type AttributeValue, buildOnnx, type NodeSpec } from './onnx-build.ts';

export interface ForestSpec {
  seed: number;
  kind: 'classifier' | 'regressor';
  trees: number;
  /** Leaves a tree, at most. */
  leaves: number;
  features: number;
  /** Classes or targets. */
  targets: number;
  /** Every leaf has a weight for every target, or one for the target of its tree, or (two classes) for class 0 only. */
  weights: 'all' | 'one' | 'first';
  modes: readonly string[];
  /** All branches of a level have the same test, as in CatBoost. */
  symmetric?: boolean;
  /** What differs in one branch of the forest from the test of its level. */
  asymmetry?: 'value' | 'mode' | 'feature' | 'missing';
  missing: boolean;
  base: number;
  post: string;
  aggregate?: string;
  double?: boolean;
  /** With `double`: the attributes are floats all the same. */
  floats?: boolean;
  positive?: boolean;
}

/** Few distinct thresholds, so that trees share them and rows lie on them; zeros of both signs and denormals too. */
const THRESHOLDS = [0, -0, 1, 2, 3, -1, 0.5, 0.1, 1e-45, -1e-45, 1e6, -3.25, 16_777_216, 0.30000001192092896, Infinity];

export function randomOf(seed: number): () => number {
  // Small seeds are spread, or the first numbers would be small too.
  let s = Math.imul(seed, 0x9e3779b1) >>> 0 || 1;
  return () => {
    s ^= s << 13;
    s >>>= 0;
    s ^= s >>> 17;
    s ^= s << 5;
    s >>>= 0;
    return s / 4_294_967_296;
  };
}

/** The attributes of the tree node, and the node with input `x` and the output `scores`. */
export function forestNode(spec: ForestSpec): NodeSpec {
  const next = randomOf(spec.seed);
  const pick = <T>(from: readonly T[]): T => from[Math.floor(next() * from.length)]!;
  const t: Record<'trees' | 'ids' | 'features' | 'yes' | 'no' | 'missing', number[]> = { trees: [], ids: [], features: [], yes: [], no: [], missing: [] }; // biome-ignore format: one line
  const modes: string[] = [];
  const values: number[] = [];
  const w: Record<'trees' | 'nodes' | 'ids' | 'values', number[]> = { trees: [], nodes: [], ids: [], values: [] };
  const weight = (): number => (spec.positive ? next() : (next() - 0.5) * 2 * 10 ** Math.floor(next() * 3));
  for (let tree = 0; tree < spec.trees; tree++) {
    const start = modes.length;
    const add = (mode: string, feature: number, value: number): number => {
      t.trees.push(tree);
      t.features.push(feature);
      t.yes.push(0);
      t.no.push(0);
      t.missing.push(spec.missing && mode !== 'LEAF' && next() < 0.4 ? 1 : 0);
      modes.push(mode);
      values.push(value);
      return t.ids.push(modes.length - 1 - start) - 1;
    };
    const leaf = (): number => {
      const i = add('LEAF', 0, 0);
      const targets =
        spec.weights === 'all'
          ? Array.from({ length: spec.targets }, (_, k) => k)
          : [spec.weights === 'one' ? tree % spec.targets : 0];
      for (const target of targets) {
        w.trees.push(tree);
        w.nodes.push(t.ids[i]!);
        w.ids.push(target);
        w.values.push(weight());
      }
      return i;
    };
    const grow = (leaves: number): number => {
      if (leaves <= 1) return leaf();
      const mode = pick(spec.modes);
      const value = next() < 0.7 ? pick(THRESHOLDS) : Math.round(next() * 400 - 200) / 8;
      const i = add(mode, Math.floor(next() * spec.features), value);
      const left = next() < 0.2 ? 1 : 1 + Math.floor(next() * (leaves - 1));
      t.yes[i] = t.ids[grow(left)]!;
      // A chain of == on one feature with one true child, as LightGBM's categories are exported.
      if (mode === 'BRANCH_EQ' && next() < 0.5) {
        let last = i;
        const length = next() < 0.3 ? 45 : 4;
        const whole = next() < 0.5;
        for (let k = 0; k < length; k++) {
          const more = add(mode, t.features[i]!, whole ? Math.floor(next() * 80) - 10 : pick(THRESHOLDS));
          t.missing[more] = t.missing[i]!;
          t.yes[more] = t.yes[i]!;
          t.no[last] = t.ids[more]!;
          last = more;
        }
        t.no[last] = t.ids[grow(leaves - left)]!;
      } else t.no[i] = t.ids[grow(leaves - left)]!;
      return i;
    };
    const growLevels = (
      levels: readonly { mode: string; feature: number; value: number; missing: number }[],
    ): number => {
      const [level, ...below] = levels;
      if (!level) return leaf();
      const i = add(level.mode, level.feature, level.value);
      t.missing[i] = level.missing;
      t.yes[i] = t.ids[growLevels(below)]!;
      t.no[i] = t.ids[growLevels(below)]!;
      return i;
    };
    if (!spec.symmetric) grow(next() < 0.1 ? 1 : 1 + Math.floor(next() * spec.leaves));
    else {
      const depth = Math.floor(next() * (Math.log2(spec.leaves) + 1));
      const levels = Array.from({ length: depth }, () => ({
        mode: pick(spec.modes),
        feature: Math.floor(next() * spec.features),
        value: next() < 0.7 ? pick(THRESHOLDS) : Math.round(next() * 400 - 200) / 8,
        missing: spec.missing && next() < 0.4 ? 1 : 0,
      }));
      growLevels(levels);
    }
  }
  if (spec.asymmetry) {
    const changed = pick(modes.flatMap((mode, i) => (mode === 'LEAF' ? [] : [i])));
    if (spec.asymmetry === 'value') values[changed]! += 1;
    else if (spec.asymmetry === 'mode') modes[changed] = modes[changed] === 'BRANCH_GT' ? 'BRANCH_LEQ' : 'BRANCH_GT';
    else if (spec.asymmetry === 'feature') t.features[changed] = (t.features[changed]! + 1) % spec.features;
    else t.missing[changed] = 1 - t.missing[changed]!;
  }
  const real = (name: string, numbers: readonly number[]): Record<string, AttributeValue> =>
    numbers.length === 0
      ? {}
      : spec.double && !spec.floats
        ? { [`${name}_as_tensor`]: { tensor: { name, type: 'float64', dims: [numbers.length], values: numbers } } }
        : { [name]: { floats: numbers } };
  const prefix = spec.kind === 'classifier' ? 'class' : 'target';
  return {
    op: spec.kind === 'classifier' ? 'TreeEnsembleClassifier' : 'TreeEnsembleRegressor',
    domain: 'ai.onnx.ml',
    inputs: ['x'],
    outputs: spec.kind === 'classifier' ? ['label', 'scores'] : ['scores'],
    attributes: {
      nodes_treeids: { ints: t.trees },
      nodes_nodeids: { ints: t.ids },
      nodes_featureids: { ints: t.features },
      nodes_modes: { strings: modes },
      nodes_truenodeids: { ints: t.yes },
      nodes_falsenodeids: { ints: t.no },
      ...(spec.missing ? { nodes_missing_value_tracks_true: { ints: t.missing } } : {}),
      ...real('nodes_values', values),
      [`${prefix}_treeids`]: { ints: w.trees },
      [`${prefix}_nodeids`]: { ints: w.nodes },
      [`${prefix}_ids`]: { ints: w.ids },
      ...real(`${prefix}_weights`, w.values),
      ...real(
        'base_values',
        Array.from({ length: spec.base }, () => Math.fround(next() - 0.5)),
      ),
      post_transform: { s: spec.post },
      ...(spec.kind === 'classifier'
        ? { classlabels_int64s: { ints: Array.from({ length: spec.targets }, (_, k) => k) } }
        : { n_targets: { i: spec.targets }, ...(spec.aggregate ? { aggregate_function: { s: spec.aggregate } } : {}) }),
    },
  };
}

/** The file of a forest with one float (or double) matrix as input. */
export function forestFile(spec: ForestSpec, change: (node: NodeSpec) => NodeSpec = (n) => n): Uint8Array<ArrayBuffer> {
  return buildOnnx({
    nodes: [change(forestNode(spec))],
    inputs: [{ name: 'x', type: spec.double ? 'float64' : 'float32', shape: [null, spec.features] }],
    outputs: [
      { name: 'scores', type: 'float32', shape: [null, spec.targets] },
      ...(spec.kind === 'classifier' ? [{ name: 'label', type: 'int64', shape: [null] } as const] : []),
    ],
  });
}

/** A manifest for a model with the inputs named. */
export function manifestFor(inputs: Manifest['inputs'], targets: number, output = 'scores'): Manifest {
  const names = inputs.flatMap((i) => i.columns ?? [i.column!]);
  return {
    id: 'test',
    version: 1,
    task: targets > 1 ? 'multiclass' : 'regression',
    ...(targets > 1 ? { classes: Array.from({ length: targets }, (_, k) => k) } : {}),
    onnx: {
      file: 'model.onnx',
      sha256: '0'.repeat(64),
      ...(targets > 1 ? { probabilities: output } : { value: output }),
    },
    columns: names.map((name) => ({ name, kind: 'number' as const })),
    inputs,
  };
}

export const matrixManifest = (spec: ForestSpec): Manifest =>
  manifestFor(
    [
      {
        name: 'x',
        type: spec.double ? 'float64' : 'float32',
        columns: Array.from({ length: spec.features }, (_, k) => `c${k}`),
      },
    ],
    spec.targets,
  );

/** The same forest as TreeEnsemble of ai.onnx.ml 5; `null` where a root has a leaf and a branch of one number, which ONNX Runtime takes for a leaf. */
export function flatForestFile(spec: ForestSpec): Uint8Array<ArrayBuffer> | null {
  const { attributes } = forestNode(spec);
  const of = (name: string): number[] => (attributes![name] as { ints: number[] }).ints;
  const modes = (attributes!.nodes_modes as { strings: string[] }).strings;
  const values = (attributes!.nodes_values as { floats: number[] }).floats;
  const weights = (attributes!.target_weights as { floats: number[] }).floats;
  const [trees, yes, no, features] = ['nodes_treeids', 'nodes_truenodeids', 'nodes_falsenodeids', 'nodes_featureids'].map(of) as [number[], number[], number[], number[]]; // biome-ignore format: one line
  const missing = spec.missing ? of('nodes_missing_value_tracks_true') : [];
  const start = (tree: number): number => trees.indexOf(tree);
  const branches: number[] = [];
  const leaves: number[] = [];
  const place = modes.map((m, i) => (m === 'LEAF' ? leaves.push(i) : branches.push(i)) - 1);
  const NAMES = ['BRANCH_LEQ', 'BRANCH_LT', 'BRANCH_GTE', 'BRANCH_GT', 'BRANCH_EQ', 'BRANCH_NEQ'];
  const nodes: [mode: number, feature: number, value: number, missing: number, yes: number, yesLeaf: number, no: number, noLeaf: number][] = []; // biome-ignore format: one line
  const isLeaf = (i: number): number => (modes[i] === 'LEAF' ? 1 : 0);
  for (const i of branches) {
    const [y, n] = [start(trees[i]!) + yes[i]!, start(trees[i]!) + no[i]!];
    nodes.push([NAMES.indexOf(modes[i]!), features[i]!, values[i]!, missing[i] ?? 0, place[y]!, isLeaf(y), place[n]!, isLeaf(n)]); // biome-ignore format: one line
  }
  const roots = [...new Set(trees)].map((t) => {
    if (modes[start(t)] !== 'LEAF') return place[start(t)]!;
    const leaf = place[start(t)]!;
    return nodes.push([0, 0, 0, 0, leaf, 1, leaf, 1]) - 1;
  });
  if (roots.some((r) => nodes[r]![4] === nodes[r]![6] && nodes[r]![5] !== nodes[r]![7])) return null;
  const ints = (c: number): AttributeValue => ({ ints: nodes.map((n) => n[c]!) });
  const tensor = (type: 'uint8' | 'float32', numbers: number[]): AttributeValue => ({ tensor: { type, dims: [numbers.length], values: numbers } }); // biome-ignore format: one line
  return buildOnnx({
    nodes: [
      {
        op: 'TreeEnsemble',
        domain: 'ai.onnx.ml',
        inputs: ['x'],
        outputs: ['scores'],
        attributes: {
          nodes_modes: tensor('uint8', nodes.map((n) => n[0])),
          nodes_featureids: ints(1),
          nodes_splits: tensor('float32', nodes.map((n) => n[2])),
          nodes_missing_value_tracks_true: ints(3),
          nodes_truenodeids: ints(4),
          nodes_trueleafs: ints(5),
          nodes_falsenodeids: ints(6),
          nodes_falseleafs: ints(7),
          leaf_targetids: { ints: leaves.map(() => 0) },
          leaf_weights: tensor('float32', weights),
          n_targets: { i: 1 },
          tree_roots: { ints: roots },
          aggregate_function: { i: 1 },
          post_transform: { i: 0 },
        },
      },
    ],
    inputs: [{ name: 'x', type: 'float32', shape: [null, spec.features] }],
    outputs: [{ name: 'scores', type: 'float32', shape: [null, 1] }],
    opset: 21,
    opsetMl: 5,
  });
} // biome-ignore format: lists of columns
