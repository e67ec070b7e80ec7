// Traces a graph backwards from an output: which cells of the application enter the model, and what follows the model.
import type { RealType } from './feature.ts';
import type { Node, OnnxModel } from './graph.ts';
import { Untraceable } from './trace-columns.ts';
import { columnsOf, constant, contextOf, MAX_STEPS, type TraceContext } from './trace-context.ts';
import { linearNode, matrix, real } from './trace-linear.ts';
import type { OutputStep, Trace } from './traced-model.ts';

type TraceResult = { trace: Trace; reason: null } | { trace: null; reason: string };

/**
 * Traces `output` of the model. `widths`: columns of inputs whose shape the file leaves open.
 * Not traceable is not an error: `trace` is null and the reason is given.
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

/** Follows the output back to its head. @throws Untraceable */
export function traceHead(c: TraceContext, name: string, output: readonly OutputStep[]): Trace {
  if (output.length > MAX_STEPS) throw new Untraceable('too many steps after the model');
  const node = c.producers.get(name);
  if (!node) throw new Untraceable(`output ${name} comes from no node`);
  const before = (...steps: OutputStep[]): readonly OutputStep[] => [...steps, ...output];
  const follow = (...steps: OutputStep[]): Trace => traceHead(c, node.inputs[0]!, before(...steps));
  const at = node.outputs.indexOf(name);
  const op = node.domain === '' ? node.op : `${node.domain}.${node.op}`;
  switch (op) {
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
      // The elements stay where they are; what the columns mean is checked against ONNX Runtime.
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

/** x / sum(|x|) as exporters write a Normalizer out in single nodes. */
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
