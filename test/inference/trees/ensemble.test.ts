// A damaged ensemble is refused before ONNX Runtime sees it.
import { expect, test } from 'vitest';
import { SluiceError } from '../../../src/core/errors.ts';
import { chooseEvaluator } from '../../../src/inference/evaluate/choose-evaluator.ts';
import { readChecked } from '../../../src/inference/trees/ensemble.ts';
import { type ForestSpec, forestFile, matrixManifest } from '../../support/forest.ts';
import { type AttributeValue, buildOnnx, type NodeSpec } from '../../support/onnx-build.ts';

const spec: ForestSpec = { seed: 7, kind: 'classifier', trees: 3, leaves: 8, features: 4, targets: 3, weights: 'all', modes: ['BRANCH_LEQ'], missing: true, base: 3, post: 'SOFTMAX' }; // biome-ignore format: one line

const change =
  (name: string, to: (old: AttributeValue) => AttributeValue) =>
  (node: NodeSpec): NodeSpec => ({
    ...node,
    attributes: { ...node.attributes, [name]: to(node.attributes![name]!) },
  });
const ints = (to: (old: number[]) => number[]) => (v: AttributeValue) => ({
  ints: to([...(v as { ints: number[] }).ints]),
});
const floats = (to: (old: number[]) => number[]) => (v: AttributeValue) => ({
  floats: to([...(v as { floats: number[] }).floats]),
});
const set =
  (i: number, x: number) =>
  (old: number[]): number[] =>
    old.with(i, x);
const cut = (old: number[]): number[] => old.slice(1);

const damages: [string, (node: NodeSpec) => NodeSpec, RegExp][] = [
  ['a child that does not exist', change('nodes_truenodeids', ints(set(0, 999))), /child/],
  ['a negative child', change('nodes_falsenodeids', ints(set(0, -1))), /child/],
  ['a node that is its own child', change('nodes_truenodeids', ints(set(0, 0))), /cycle/],
  ['a cycle further down', change('nodes_falsenodeids', ints((v) => v.map((x) => (x > 2 ? 0 : x)))), /cycle|not reachable/],
  ['a negative feature', change('nodes_featureids', ints(set(0, -3))), /feature/],
  ['a negative feature of a leaf', change('nodes_featureids', ints((v) => set(v.length - 1, -3)(v))), /feature/],
  ['a class that does not exist', change('class_ids', ints(set(0, 3))), /target/],
  ['a negative class', change('class_ids', ints(set(0, -1))), /target/],
  ['a weight of a node that does not exist', change('class_nodeids', ints(set(0, 500))), /missing leaf/],
  ['fewer modes than nodes', change('nodes_modes', (v) => ({ strings: cut((v as { strings: string[] }).strings as never) as never })), /nodes_modes has/],
  ['a mode that is not known', change('nodes_modes', (v) => ({ strings: ['BRANCH_MAYBE', ...(v as { strings: string[] }).strings.slice(1)] })), /mode/],
  ['fewer values than nodes', change('nodes_values', floats(cut)), /nodes_values has/],
  ['fewer features than nodes', change('nodes_featureids', ints(cut)), /nodes_featureids has/],
  ['fewer weights than leaves named', change('class_weights', floats(cut)), /weights/],
  ['a threshold that is NaN', change('nodes_values', floats(set(0, Number.NaN))), /NaN/],
  ['a weight that is infinite', change('class_weights', floats(set(0, Infinity))), /finite/],
  ['more base values than classes', change('base_values', floats((v) => [...v, 1])), /base_values|has 4 entries/],
  ['the same node twice', change('nodes_nodeids', ints((v) => set(1, v[0]!)(v))), /twice/],
  ['a tree in two pieces', change('nodes_treeids', ints((v) => set(0, 2)(v))), /adjacent|child/],
  ['a node nobody reaches', change('nodes_truenodeids', ints((v) => set(0, (v[0]! % 2) + 3)(v))), /not reachable|reaches|cycle/],
]; // biome-ignore format: a table

test.each(damages)('%s is refused', (_, damage, reason) => {
  const check = () => readChecked(forestFile(spec, damage));
  expect(check).toThrow(SluiceError);
  expect(check).toThrow(reason);
});

test('the undamaged ensemble is taken', () => {
  expect(() => readChecked(forestFile(spec))).not.toThrow();
});

test('a chain deeper than the stack of ONNX Runtime is refused', () => {
  const n = 5_001;
  const inner = Array.from({ length: (n - 1) / 2 }, (_, i) => i * 2);
  const attributes: Record<string, AttributeValue> = {
    nodes_treeids: { ints: new Array<number>(n).fill(0) },
    nodes_nodeids: { ints: Array.from({ length: n }, (_, i) => i) },
    nodes_featureids: { ints: new Array<number>(n).fill(0) },
    nodes_modes: { strings: Array.from({ length: n }, (_, i) => (i % 2 === 0 && i < n - 1 ? 'BRANCH_LEQ' : 'LEAF')) },
    nodes_truenodeids: { ints: Array.from({ length: n }, (_, i) => (inner.includes(i) ? i + 1 : 0)) },
    nodes_falsenodeids: { ints: Array.from({ length: n }, (_, i) => (inner.includes(i) ? i + 2 : 0)) },
    nodes_values: { floats: new Array<number>(n).fill(1) },
    target_treeids: { ints: [0] },
    target_nodeids: { ints: [1] },
    target_ids: { ints: [0] },
    target_weights: { floats: [1] },
    n_targets: { i: 1 },
  };
  const bytes = buildOnnx({
    nodes: [{ op: 'TreeEnsembleRegressor', domain: 'ai.onnx.ml', inputs: ['x'], outputs: ['y'], attributes }],
    inputs: [{ name: 'x', type: 'float32', shape: [null, 1] }],
    outputs: [{ name: 'y', type: 'float32', shape: [null, 1] }],
  });
  expect(() => readChecked(bytes)).toThrow(/deep/);
});

test('the choice of an evaluator checks ensembles first, whatever the policy', async () => {
  const bytes = forestFile(spec, damages[2]![1]);
  await expect(chooseEvaluator(bytes, matrixManifest(spec), 'onnxruntime')).rejects.toThrow(/cycle/);
});
