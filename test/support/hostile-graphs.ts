// Small graphs that take all the time or all the memory they can get. Each takes `x` [N, 1] and answers `y` [N, 1].
import { type AttributeValue, buildOnnx, type GraphSpec, type NodeSpec, type TensorSpec } from './onnx-build.ts';

type Constant = TensorSpec & { name: string };

const node = (op: string, inputs: string[], outputs: string[], attributes: Record<string, AttributeValue> = {}) =>
  ({ op, inputs, outputs, attributes }) satisfies NodeSpec;
const int64 = (name: string, values: number[]): Constant => ({ name, type: 'int64', dims: [values.length], values });
const scalar = (name: string, value: number, type: 'int64' | 'float32' = 'int64'): Constant => ({ name, type, dims: [], values: [value] }); // biome-ignore format: one line
const yes: Constant = { name: 'yes', type: 'bool', dims: [], values: [1] };

const bytesOf = (nodes: NodeSpec[], constants: Constant[] = []): Uint8Array<ArrayBuffer> =>
  buildOnnx({
    nodes,
    constants,
    inputs: [{ name: 'x', type: 'float32', shape: [null, 1] }],
    outputs: [{ name: 'y', type: 'float32', shape: [null, 1] }],
    opset: 15,
  });

/** `nodes` make `big`, of which the answer depends; nothing can be folded, because x is part of it. */
const big = (nodes: NodeSpec[], constants: Constant[] = []) =>
  bytesOf(
    [...nodes, node('ReduceMax', ['big'], ['one'], { keepdims: { i: 0 } }), node('Add', ['x', 'one'], ['y'])],
    constants,
  );

/** What a loop does at each step: `nodes` make `next` of `carried`. `suffix` tells the names of a loop in a loop apart. */
const body = (nodes: NodeSpec[], constants: Constant[] = [], suffix = ''): Omit<GraphSpec, 'opset'> => ({
  nodes: [node('Identity', [`go${suffix}`], [`goOn${suffix}`]), ...nodes],
  constants,
  inputs: [
    { name: `i${suffix}`, type: 'int64', shape: [] },
    { name: `go${suffix}`, type: 'bool', shape: [] },
    { name: `carried${suffix}`, type: 'float32', shape: [null, null] },
  ],
  outputs: [
    { name: `goOn${suffix}`, type: 'bool', shape: [] },
    { name: `next${suffix}`, type: 'float32', shape: [null, null] },
  ],
});
const step = [node('Sin', ['carried'], ['next'])];
const loop = (times: string, inner: Omit<GraphSpec, 'opset'>, constants: Constant[] = []) =>
  bytesOf(
    [
      node('Loop', [times, 'yes', 'x'], ['last'], { body: { graph: inner } }),
      node('ReduceMax', ['last'], ['one'], { keepdims: { i: 0 } }),
      node('Add', ['x', 'one'], ['y']),
    ],
    [yes, ...constants],
  );

/** A zero that the graph cannot know: x - x, as one number. */
const zero = [
  node('Sub', ['x', 'x'], ['zeros']),
  node('ReduceMax', ['zeros'], ['zero'], { keepdims: { i: 0 } }),
  node('Cast', ['zero'], ['zero64'], { to: { i: 7 } }),
];
/** `size` elements of a shape that is known only when the graph runs. */
const shape = (dims: number[]): [NodeSpec[], Constant[]] => [[...zero, node('Add', ['dims', 'zero64'], ['shape'])], [int64('dims', dims)]]; // biome-ignore format: one line
const of = (dims: number[], make: NodeSpec[], more: Constant[] = []) => {
  const [nodes, constants] = shape(dims);
  return big([...nodes, ...make], [...constants, ...more]);
};
const filled = node('ConstantOfShape', ['shape'], ['big'], { value: { tensor: { type: 'float32', dims: [1], values: [1] } } }); // biome-ignore format: one line
const intoFilled = { ...filled, outputs: ['filled'] };

const nestedIf = (depth: number): Omit<GraphSpec, 'opset'> => {
  let inner: Omit<GraphSpec, 'opset'> = {
    nodes: [node('Identity', ['x'], ['out'])],
    inputs: [],
    outputs: [{ name: 'out', type: 'float32', shape: [null, 1] }],
  };
  for (let d = 0; d < depth; d++) {
    const branch = { graph: inner };
    inner = {
      nodes: [node('If', ['yes'], ['out'], { then_branch: branch, else_branch: branch })],
      inputs: [],
      outputs: [{ name: 'out', type: 'float32', shape: [null, 1] }],
    };
  }
  return inner;
};

const doubling = (op: 'Concat' | 'Add', steps: number): NodeSpec[] =>
  Array.from(
    { length: steps },
    (_, i) =>
    node(op, [i === 0 ? 'x' : `t${i}`, i === 0 ? 'x' : `t${i}`], [i === steps - 1 ? 'big' : `t${i + 1}`], op === 'Concat' ? { axis: { i: 0 } } : {}), // biome-ignore format: one line
  );

const BIG = 2 ** 31;

/** Name → bytes. */
export const HOSTILE: Readonly<Record<string, () => Uint8Array<ArrayBuffer>>> = {
  'a Loop without an end': () => loop('', body(step)),
  'a Loop of 2^60 steps': () => loop('times', body(step), [scalar('times', 2 ** 60)]),
  'a Loop in a Loop': () =>
    loop(
      'times',
      body([node('Loop', ['times', 'yes', 'carried'], ['next'], { body: { graph: body([node('Sin', ['carried2'], ['next2'])], [], '2') } })]), // biome-ignore format: one line
      [scalar('times', 1e6)],
    ),
  'a Loop that doubles what it carries': () =>
    loop('', body([node('Concat', ['carried', 'carried'], ['next'], { axis: { i: 0 } })])),
  'a Loop that squares a matrix': () =>
    loop('', body([node('MatMul', ['m', 'm'], ['product']), node('ReduceMax', ['product'], ['peak'], { keepdims: { i: 0 } }), node('Add', ['carried', 'peak'], ['next'])], [{ name: 'm', type: 'float32', dims: [64, 64], values: new Array(4096).fill(1e-3) }])), // biome-ignore format: one line
  'a Loop over a tensor of 100 MB': () =>
    loop('', body([node('Expand', ['carried', 'size'], ['wide']), node('ReduceMean', ['wide'], ['next'], { axes: { ints: [1] } })], [int64('size', [1, 1.5e6])])), // biome-ignore format: one line
  'a Scan over a hundred million steps': () =>
    of([1e8, 1], [
      node('ConstantOfShape', ['shape'], ['steps'], { value: { tensor: { type: 'bool', dims: [1], values: [1] } } }),
      node('Scan', ['x', 'steps'], ['big'], { num_scan_inputs: { i: 1 }, body: { graph: { nodes: [node('Sin', ['state'], ['stateOut'])], inputs: [{ name: 'state', type: 'float32', shape: [null, 1] }, { name: 'step', type: 'bool', shape: [1] }], outputs: [{ name: 'stateOut', type: 'float32', shape: [null, 1] }] } } }), // biome-ignore format: one line
    ]), // biome-ignore format: one line
  'If in If, 12 deep, both ways': () => bytesOf([...nestedIf(12).nodes, node('Identity', ['out'], ['y'])], [yes]),
  'If in If, 300 deep': () => {
    let inner = nestedIf(0);
    for (let d = 0; d < 300; d++) inner = { nodes: [node('If', ['yes'], ['out'], { then_branch: { graph: inner }, else_branch: { graph: nestedIf(0) } })], inputs: [], outputs: inner.outputs }; // biome-ignore format: one line
    return bytesOf([...inner.nodes, node('Identity', ['out'], ['y'])], [yes]);
  },
  Expand: () => of([BIG], [node('ReduceMax', ['x'], ['peak'], { keepdims: { i: 0 } }), node('Expand', ['peak', 'shape'], ['big'])]), // biome-ignore format: one line
  'Expand of a constant, folded as it is loaded': () =>
    big([node('Expand', ['c', 'size'], ['big'])], [scalar('c', 1, 'float32'), int64('size', [BIG])]),
  Tile: () => of([BIG, 1], [node('Tile', ['x', 'shape'], ['big'])]),
  Range: () => big([...zero, node('Add', ['from', 'zero64'], ['start']), node('Range', ['start', 'limit', 'delta'], ['n']), node('Cast', ['n'], ['big'], { to: { i: 1 } })], [scalar('from', 0), scalar('limit', BIG), scalar('delta', 1)]), // biome-ignore format: one line
  ConstantOfShape: () => of([BIG], [filled]),
  'ConstantOfShape of a constant': () => big([{ ...filled, inputs: ['size'] }], [int64('size', [BIG])]),
  'ConstantOfShape of a negative size': () => of([-5], [filled]),
  'an initializer without its data': () => bytesOf([node('Add', ['x', 'w'], ['y'])], [{ name: 'w', type: 'float32', dims: [2 ** 40], values: [] }]), // biome-ignore format: one line
  'an initializer whose size overflows': () => bytesOf([node('Add', ['x', 'w'], ['y'])], [{ name: 'w', type: 'float32', dims: [2 ** 32, 2 ** 32], values: [] }]), // biome-ignore format: one line
  Pad: () => of([0, BIG, 0, 0], [node('Pad', ['x', 'shape'], ['big'])]),
  Resize: () => of([1, 1, 1, BIG], [node('Unsqueeze', ['x', 'axes'], ['four']), node('Resize', ['four', '', '', 'shape'], ['big'], { mode: { s: 'nearest' } })], [int64('axes', [2, 3])]), // biome-ignore format: one line
  'a chain that doubles its memory': () => big(doubling('Concat', 40)),
  'a chain that our own tracer could follow twice at each step': () => big(doubling('Add', 64)),
  'a sum of 64 sums, and a Loop behind': () =>
    loop('', body([...doubling('Add', 64).map((n) => ({ ...n, inputs: n.inputs.map((i) => (i === 'x' ? 'carried' : i)) })), node('Identity', ['big'], ['next'])])), // biome-ignore format: one line
  'a product of large matrices': () => of([8000, 8000], [intoFilled, node('MatMul', ['filled', 'filled'], ['big'])]),
  'a hundred products of matrices': () => {
    const chain = Array.from({ length: 100 }, (_, i) => node('MatMul', [i === 0 ? 'filled' : `p${i}`, 'filled'], [i === 99 ? 'big' : `p${i + 1}`])); // biome-ignore format: one line
    return of([2500, 2500], [intoFilled, ...chain]);
  },
  'two vectors that broadcast to a matrix': () =>
    of([1e5, 1], [intoFilled, node('Transpose', ['filled'], ['across']), node('Add', ['filled', 'across'], ['big'])]),
  RandomNormal: () => big([node('RandomNormal', [], ['random'], { shape: { ints: [BIG] } }), node('ReduceMax', ['random'], ['r'], { keepdims: { i: 0 } }), node('Add', ['x', 'r'], ['big'])]), // biome-ignore format: one line
  OneHot: () => big([...zero, node('Add', ['many', 'zero64'], ['depth']), node('Cast', ['x'], ['at'], { to: { i: 7 } }), node('OneHot', ['at', 'depth', 'offOn'], ['big'])], [scalar('many', BIG), { name: 'offOn', type: 'float32', dims: [2], values: [0, 1] }]), // biome-ignore format: one line
  EyeLike: () => of([60_000, 60_000], [node('ConstantOfShape', ['shape'], ['square'], { value: { tensor: { type: 'uint8', dims: [1], values: [1] } } }), node('EyeLike', ['square'], ['big'], { dtype: { i: 1 } })]), // biome-ignore format: one line
  CumSum: () => of([3e8], [intoFilled, node('CumSum', ['filled', 'axis'], ['big'])], [scalar('axis', 0)]),
  Gather: () => of([BIG], [node('ConstantOfShape', ['shape'], ['at'], { value: { tensor: { type: 'int64', dims: [1], values: [0] } } }), node('Gather', ['x', 'at'], ['big'])]), // biome-ignore format: one line
  TopK: () => of([3e8], [intoFilled, node('TopK', ['filled', 'k'], ['big', 'where'])], [int64('k', [1e8])]),
  Conv: () => of([1, 1, 2e5, 64], [intoFilled, node('Conv', ['filled', 'w'], ['big'], { pads: { ints: [500, 20, 500, 20] } })], [{ name: 'w', type: 'float32', dims: [1, 1, 400, 40], values: new Array(16_000).fill(1) }]), // biome-ignore format: one line
};
