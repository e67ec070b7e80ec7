// What every step of a trace needs: who produces a tensor, the constants, the columns in front of the model.
import type { Feature } from './feature.ts';
import type { Graph, Node, OnnxModel, Tensor } from './graph.ts';
import { type Columns, columnOps, limited, Untraceable } from './trace-columns.ts';

export interface TraceContext {
  graph: Graph;
  producers: ReadonlyMap<string, Node>;
  opset: number;
  widths: ReadonlyMap<string, number>;
  known: Map<string, Columns>;
  /** The trace is for explaining answers of ONNX Runtime: rows on which the graph fails never occur. */
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

/** Longest run of nodes after the model, and deepest nesting before it. */
export const MAX_STEPS = 64;

/** The columns of a tensor in front of the model, traced once. */
export function columnsOf(c: TraceContext, name: string, depth = 0): Columns {
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
  if (tensor?.external) throw new Untraceable('constants lie in another file');
  return tensor ?? undefined;
}

/** A constant text, also as exporters write it: a LabelEncoder of a constant number. */
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
  if (!tensor) throw new Untraceable(`${name} is no constant`);
  return tensor;
}
