// Traces a graph backwards from an output: which columns of the application enter the model, and which steps follow the
// model.
import type { Graph, Node, OnnxModel, Tensor } from './graph.ts';
import { type Columns, columnOps, limited, Untraceable } from './trace-columns.ts';
import type { Feature, OutputStep, RealType, Trace } from './traced-model.ts';

// State that all steps of a trace share: producers of tensors, constants, and the columns before the model.

export interface TraceContext {
  graph: Graph;
  producers: ReadonlyMap<string, Node>;
  opset: number;
  widths: ReadonlyMap<string, number>;
  known: Map<string, Columns>;
  /** Whether the trace only explains outputs of ONNX Runtime. Rows on which the graph fails then never occur. */
  answered: boolean;
}

/** @throws Untraceable */
export function contextOf(model: OnnxModel, widths: ReadonlyMap<string, number>, answered: boolean): TraceContext {
  if (model.functions.length > 0) throw new Untraceable('the model defines functions of its own');
  const producers = new Map<string, Node>();
  for (const n of model.graph.nodes) for (const o of n.outputs) if (o !== '') producers.set(o, n);
  const opset = model.opsets.get('') ?? 1;
  return { graph: model.graph, producers, opset, widths, known: new Map<string, Columns>(), answered };
}

/** Maximum number of nodes after the model, and maximum nesting depth before it. */
const MAX_STEPS = 64;

/** The columns of a tensor before the model. Each tensor is traced only once. */
function columnsOf(c: TraceContext, name: string, depth = 0): Columns {
  const known = c.known.get(name);
  if (known) return known;
  if (depth > MAX_STEPS) throw new Untraceable('the preprocessing is nested too deep');
  const columns = traceColumns(c, name, depth);
  c.known.set(name, columns);
  return columns;
}

function traceColumns(c: TraceContext, name: string, depth: number): Columns {
  const input = c.graph.inputs.find((i) => i.name === name);
  if (input) {
    if (input.type.kind !== 'tensor') throw new Untraceable(`input ${name} is not a tensor`);
    const { element, shape } = input.type;
    const type = (['float32', 'float64', 'int64', 'int32', 'bool', 'string'] as const).find((t) => t === element);
    if (!type) throw new Untraceable(`input ${name} is ${element}`);
    const declared = shape?.[1];
    const width = typeof declared === 'number' && declared > 0 ? declared : c.widths.get(name);
    if (width === undefined || (shape !== null && shape.length !== 2))
      throw new Untraceable(`input ${name} has no known width`);
    const features = Array.from(
      { length: limited(width) },
      (_, column): Feature => ({ source: { input: name, column, type }, steps: [], constant: 0, type }),
    );
    return { features, dims: [width], type };
  }
  const node = c.producers.get(name);
  if (!node) throw new Untraceable(`${name} comes from no node`);
  const op = node.domain === '' ? node.op : `${node.domain}.${node.op}`;
  const trace = columnOps[op];
  if (!trace) throw new Untraceable(`${op} in front of the model`);
  return trace({
    node,
    opset: c.opset,
    columns: (i) => columnsOf(c, node.inputs[i]!, depth + 1),
    constant: (i) => (node.inputs[i] ? (constantOrNull(c, node.inputs[i]) ?? null) : null),
    text: (i) => (node.inputs[i] ? constantText(c, node.inputs[i]) : null),
    answered: c.answered,
  });
}

export function constantOrNull(c: TraceContext, name: string): Tensor | undefined {
  const stored = c.graph.initializers.get(name);
  const tensor =
    stored ??
    (c.producers.get(name)?.op === 'Constant' ? c.producers.get(name)!.attributes.get('value')?.tensor : null);
  if (tensor?.external) throw new Untraceable('constants are stored in another file');
  return tensor ?? undefined;
}

/** A constant text. Also supports the form that exporters write: a LabelEncoder of a constant number. */
function constantText(c: TraceContext, name: string): string | null {
  const stored = constantOrNull(c, name);
  if (stored) return stored.element === 'string' && stored.strings().length === 1 ? stored.strings()[0]! : null;
  const node = c.producers.get(name);
  const key = node?.op === 'LabelEncoder' ? constantOrNull(c, node.inputs[0]!)?.numbers() : undefined;
  if (!node || key?.length !== 1) return null;
  const at = (node.attributes.get('keys_int64s')?.ints ?? []).indexOf(key[0]!);
  return node.attributes.get('values_strings')?.strings[at] ?? node.attributes.get('default_string')?.s ?? null;
}

export function constant(c: TraceContext, name: string): Tensor {
  const tensor = constantOrNull(c, name);
  if (!tensor) throw new Untraceable(`${name} is not a constant`);
  return tensor;
}

// Traces linear heads: LinearClassifier, LinearRegressor, Gemm, and MatMul with an Add.

function linearNode(c: TraceContext, node: Node, output: readonly OutputStep[]): Trace {
  const x = columnsOf(c, node.inputs[0]!);
  const coefficients = node.attributes.get('coefficients')?.floats ?? [];
  const targets = coefficients.length / x.features.length;
  const classifier = node.op === 'LinearClassifier';
  const intercepts = node.attributes.get('intercepts')?.floats ?? new Array<number>(targets).fill(0);
  if (!Number.isInteger(targets) || targets < 1 || intercepts.length !== targets) {
    throw new Untraceable(`${node.op} has ${coefficients.length} coefficients for ${x.features.length} features`);
  }
  const labels =
    node.attributes.get('classlabels_strings')?.strings.length || node.attributes.get('classlabels_ints')?.ints.length;
  return {
    features: x.features,
    type: 'float32',
    head: {
      kind: 'linear',
      coefficients,
      intercepts,
      targets,
      type: 'float32',
      secondClass: classifier && targets === 1 && labels === 2,
      postTransform: node.attributes.get('post_transform')?.s || 'NONE',
    },
    output,
  };
}

/** Traces a Gemm, or a MatMul with the Add that follows. */
function matrix(c: TraceContext, node: Node, add: Tensor | null, output: readonly OutputStep[]): Trace {
  const x = columnsOf(c, node.inputs[0]!);
  const weights = constant(c, node.inputs[1]!);
  const flag = (name: string): boolean => (node.attributes.get(name)?.i ?? 0) !== 0;
  const one = (name: string): boolean => (node.attributes.get(name)?.f ?? 1) === 1;
  if (flag('transA') || !one('alpha') || !one('beta')) throw new Untraceable('Gemm with transA, alpha or beta');
  const [rows, columns] = weights.dims.length === 2 ? weights.dims : [weights.dims[0] ?? 0, 1];
  const targets = flag('transB') ? rows! : columns!;
  const width = flag('transB') ? columns! : rows!;
  if (width !== x.features.length) throw new Untraceable(`${node.op} takes ${width} of ${x.features.length} features`);
  const w = weights.numbers();
  const bias = add ?? (node.op === 'Gemm' && node.inputs[2] ? constant(c, node.inputs[2]) : null);
  const b = bias?.numbers() ?? [0];
  if (b.length !== 1 && b.length !== targets) throw new Untraceable('an intercept of another shape');
  const type = real(weights.element);
  return {
    features: x.features,
    type: x.type,
    head: {
      kind: 'linear',
      coefficients: Array.from({ length: targets * width }, (_, i) =>
        flag('transB') ? w[i]! : w[(i % width) * targets + Math.floor(i / width)]!,
      ),
      intercepts: Array.from({ length: targets }, (_, t) => b[b.length === 1 ? 0 : t]!),
      targets,
      type,
      secondClass: false,
      postTransform: 'NONE',
    },
    // Steps that follow double arithmetic are in double precision, too, until a Cast changes the type.
    output: type === 'float64' ? inDouble(output) : output,
  };
}

function inDouble(output: readonly OutputStep[]): OutputStep[] {
  let type: RealType = 'float64';
  return output.map((s) => {
    if (s.op === 'cast') type = s.type;
    return s.op === 'sigmoid' || s.op === 'softmax' || s.op === 'l1' ? { ...s, type } : s;
  });
}

/** The type of traced arithmetic. @throws Untraceable */
function real(element: string): RealType {
  if (element === 'float32' || element === 'float64') return element;
  throw new Untraceable(`arithmetic in ${element}`);
}

type TraceResult = { trace: Trace; reason: null } | { trace: null; reason: string };

/**
 * Traces `output` of the model. `widths`: number of columns of those inputs whose shape the file does not declare. An
 * untraceable model is not an error: `trace` is then null and `reason` states why.
 */
export function traceModel(
  model: OnnxModel,
  output: string,
  widths: ReadonlyMap<string, number> = new Map(),
): TraceResult {
  try {
    return { trace: traceHead(contextOf(model, widths, false), output, []), reason: null };
  } catch (e) {
    if (e instanceof Untraceable) return { trace: null, reason: e.message };
    throw e;
  }
}

/** Follows the output back to the head that computes it. @throws Untraceable */
export function traceHead(c: TraceContext, name: string, output: readonly OutputStep[]): Trace {
  if (output.length > MAX_STEPS) throw new Untraceable('too many steps after the model');
  const node = c.producers.get(name);
  if (!node) throw new Untraceable(`output ${name} comes from no node`);
  const before = (...steps: OutputStep[]): readonly OutputStep[] => [...steps, ...output];
  const follow = (...steps: OutputStep[]): Trace => traceHead(c, node.inputs[0]!, before(...steps));
  const at = node.outputs.indexOf(name);
  const op = node.domain === '' ? node.op : `${node.domain}.${node.op}`;
  switch (op) {
    case 'sluice.booster.Trees': {
      const x = columnsOf(c, node.inputs[0]!);
      return { features: x.features, type: x.type, head: { kind: 'trees', node }, output };
    }
    case 'ai.onnx.ml.TreeEnsembleClassifier':
    case 'ai.onnx.ml.TreeEnsembleRegressor':
    case 'ai.onnx.ml.TreeEnsemble': {
      if (at !== (node.op === 'TreeEnsembleClassifier' ? 1 : 0)) throw new Untraceable('the output is a label');
      const x = columnsOf(c, node.inputs[0]!);
      return { features: x.features, type: x.type, head: { kind: 'trees', node }, output };
    }
    case 'ai.onnx.ml.LinearClassifier':
    case 'ai.onnx.ml.LinearRegressor':
      if (at !== (node.op === 'LinearClassifier' ? 1 : 0)) throw new Untraceable('the output is a label');
      return linearNode(c, node, output);
    case 'Identity':
    case 'ai.onnx.ml.ZipMap':
      return follow();
    case 'Cast': {
      const to = realOf(node.attributes.get('to')?.i ?? 0);
      return follow({ op: 'cast', type: to });
    }
    case 'Sigmoid':
      return follow({ op: 'sigmoid', type: 'float32' });
    case 'Softmax': {
      const axis = node.attributes.get('axis')?.i ?? (c.opset >= 13 ? -1 : 1);
      if (axis !== 1 && axis !== -1) throw new Untraceable('Softmax over rows');
      return follow({ op: 'softmax', type: 'float32' });
    }
    case 'ai.onnx.ml.Normalizer':
      if (node.attributes.get('norm')?.s !== 'L1') throw new Untraceable('a Normalizer that is not L1');
      return follow({ op: 'l1', type: 'float32' });
    case 'Div':
      return follow(...l1Division(c, node));
    case 'ai.onnx.ml.ArrayFeatureExtractor':
    case 'Gather': {
      const picked = constant(c, node.inputs[1]!).numbers();
      const axis = node.op === 'Gather' ? (node.attributes.get('axis')?.i ?? 0) : 1;
      if (picked.length !== 1 || (axis !== 1 && axis !== -1)) throw new Untraceable(`${node.op} of several columns`);
      return follow({ op: 'column', column: picked[0]! });
    }
    case 'Slice': {
      const [start, end, axis] = sliceBounds(c, node);
      if (axis !== 1 || end - start !== 1) throw new Untraceable('Slice of several columns');
      return follow({ op: 'column', column: start });
    }
    case 'Squeeze':
    case 'Flatten':
    case 'Reshape':
      // The order of the elements does not change. The comparison with ONNX Runtime verifies the meaning of the
      // columns.
      return follow();
    case 'Gemm':
    case 'MatMul':
      return matrix(c, node, null, output);
    case 'Mul':
    case 'Add': {
      const [x, k] = c.graph.initializers.has(node.inputs[0]!) ? [1, 0] : [0, 1];
      const by = constant(c, node.inputs[k]!);
      const product = c.producers.get(node.inputs[x]!);
      if (op === 'Add' && product?.op === 'MatMul') return matrix(c, product, by, output);
      const values = by.numbers();
      if (values.length !== 1) throw new Untraceable(`${op} with several numbers`);
      const step = { op: op === 'Mul' ? 'mul' : 'add', by: values[0]!, type: real(by.element) } as const;
      const identity = step.by === (op === 'Mul' ? 1 : 0);
      return traceHead(c, node.inputs[x]!, identity ? output : before(step));
    }
    default:
      throw new Untraceable(`${op} after the model`);
  }
}

/** x / sum(|x|), which exporters write as separate nodes instead of a Normalizer. */
function l1Division(c: TraceContext, node: Node): OutputStep[] {
  const sum = c.producers.get(node.inputs[1]!);
  const abs = sum?.op === 'ReduceSum' || sum?.op === 'ReduceL1' ? c.producers.get(sum.inputs[0]!) : undefined;
  const plain = sum?.op === 'ReduceL1' && sum.inputs[0] === node.inputs[0];
  if (!plain && !(abs?.op === 'Abs' && abs.inputs[0] === node.inputs[0])) throw new Untraceable('Div after the model');
  return [{ op: 'l1', type: 'float32' }];
}

function sliceBounds(c: TraceContext, node: Node): [number, number, number] {
  const of = (i: number, name: string): number | undefined =>
    node.inputs[i] ? constant(c, node.inputs[i]).numbers()[0] : node.attributes.get(name)?.ints[0];
  return [of(1, 'starts') ?? 0, of(2, 'ends') ?? 0, of(3, 'axes') ?? 0];
}

const realOf = (to: number): RealType => {
  if (to === 1) return 'float32';
  if (to === 11) return 'float64';
  throw new Untraceable('a Cast of the scores to whole numbers or text');
};
