// Prepares a model for an evaluator session: removes ZipMap, and rejects graphs that cannot be served correctly.
import { SluiceError } from '../../core/errors.ts';
import {
  allNodes,
  allTensors,
  type Dimension,
  type ElementType,
  type Graph,
  type Node,
  type OnnxModel,
  type ValueInfo,
} from './graph.ts';
import { concat, lengthField, Message } from './protobuf.ts';

export type ClassLabel = string | number;

/** Operators that pass a tensor on and change at most its type and its shape. */
export const PASSING = /^(Identity|Cast|Reshape|Squeeze|Unsqueeze|Flatten)$/;

/** Classes listed in a node's attributes, or null. */
export function labelsOf(n: Node): readonly ClassLabel[] | null {
  const ints = n.attributes.get('classlabels_int64s') ?? n.attributes.get('classlabels_ints');
  if (ints && ints.ints.length > 0) return ints.ints;
  const texts = n.attributes.get('classlabels_strings');
  return texts && texts.strings.length > 0 ? texts.strings : null;
}

// A ZipMap converts a tensor of scores to a list of dictionaries. If the ZipMap is removed, the tensor itself is
// served.

interface ZipMapInfo {
  /** Name of the graph output that the ZipMap produces. */
  output: string;
  /** Name of the tensor [rows, classes] that the ZipMap converts. */
  tensor: string;
  classes: readonly ClassLabel[];
  node: Node;
}

/** The ZipMap nodes whose result is an output of the graph. */
export function zipMaps(graph: Graph): ZipMapInfo[] {
  const outputs = new Set(graph.outputs.map((o) => o.name));
  return graph.nodes
    .filter((n) => n.op === 'ZipMap' && n.domain === 'ai.onnx.ml' && outputs.has(n.outputs[0] ?? ''))
    .map((n) => ({ output: n.outputs[0]!, tensor: n.inputs[0] ?? '', classes: labelsOf(n) ?? [], node: n }));
}

interface ServableGraph {
  bytes: Uint8Array;
  /** Graph output in the file → output to fetch instead. */
  renamed: ReadonlyMap<string, string>;
}

/**
 * The graph without its ZipMap nodes: their input tensors become the outputs. All other bytes stay unchanged.
 * @throws SluiceError model_invalid
 */
function withoutZipMap(model: OnnxModel): ServableGraph {
  const zips = zipMaps(model.graph);
  const renamed = new Map(zips.map((z) => [z.output, z.tensor]));
  if (zips.length === 0) return { bytes: model.bytes, renamed };
  const made = new Set(model.graph.nodes.flatMap((n) => n.outputs));
  for (const z of zips) {
    if (!made.has(z.tensor)) throw new SluiceError('model_invalid', `ZipMap ${z.output} has no input that is computed`);
    if (model.graph.nodes.some((n) => n.inputs.includes(z.output))) {
      throw new SluiceError('model_invalid', `the map ${z.output} is used inside the graph: export without ZipMap`);
    }
  }
  const dropped = new Set(zips.map((z) => z.node.field.from));
  const byOutputField = new Map(
    model.graph.outputs.flatMap((o) => {
      const z = zips.find((x) => x.output === o.name);
      return z ? [[o.field.from, z] as const] : [];
    }),
  );
  const present = new Set(model.graph.outputs.map((o) => o.name));
  const { bytes } = model;
  const pieces: Uint8Array[] = [];
  for (const f of new Message(bytes).fields()) {
    if (f.from !== model.graphField.from) {
      pieces.push(bytes.subarray(f.from, f.end));
      continue;
    }
    const inner: Uint8Array[] = [];
    for (const g of new Message(bytes, f.start, f.end).fields()) {
      if (g.number === 1 && dropped.has(g.from)) continue;
      const z = g.number === 12 ? byOutputField.get(g.from) : undefined;
      if (!z) inner.push(bytes.subarray(g.from, g.end));
      else if (!present.has(z.tensor)) {
        // The name suffices, because ONNX Runtime infers the type: double if the inputs are double.
        inner.push(lengthField(12, lengthField(1, z.tensor)));
        present.add(z.tensor);
      }
    }
    pieces.push(lengthField(7, concat(inner)));
  }
  return { bytes: concat(pieces), renamed };
}

// Reasons to reject a graph that can be found by reading the file alone.

/** Operator domains that ONNX Runtime includes. */
const DOMAINS = new Set(['', 'ai.onnx.ml', 'com.microsoft']);
/** Element types that the encoder supports. */
const FEEDABLE = new Set<ElementType>(['float32', 'float64', 'int64', 'int32', 'bool', 'string']);
const NARROW = new Set<ElementType>(['bfloat16', 'float16']);

/**
 * The reasons why a graph cannot be served correctly, each with a fix; empty if the graph can be served. Only
 * properties of the file are checked. Whether the outputs are raw scores is known only after rows were scored.
 */
export function refusals(model: OnnxModel): string[] {
  const reasons: string[] = [];
  const custom = new Set<string>();
  for (const n of model.format === 'onnx' ? allNodes(model.graph) : []) {
    const name = `${n.domain}.${n.op}`;
    if (!DOMAINS.has(n.domain) && !model.functions.includes(name)) custom.add(name);
  }
  if (custom.size > 0) {
    reasons.push(
      `it uses custom operators (${[...custom].join(', ')}) that ONNX Runtime does not have: export with operators of ai.onnx and ai.onnx.ml only`,
    );
  }
  for (const t of allTensors(model.graph)) {
    if (t.external) {
      reasons.push(
        `tensor ${t.name} is stored in another file: save the model as one file, onnx.save_model(model, path, save_as_external_data=False)`,
      );
      break;
    }
  }
  for (const i of model.graph.inputs) {
    if (i.type.kind !== 'tensor') reasons.push(`input ${i.name} is a ${i.type.kind}, not a tensor`);
    else if (NARROW.has(i.type.element)) {
      reasons.push(`input ${i.name} is ${i.type.element}, which loses digits of amounts: export with float32 inputs`);
    } else if (!FEEDABLE.has(i.type.element)) {
      reasons.push(`input ${i.name} is ${i.type.element}: export with float32, float64, int64, int32, bool or string`);
    }
    if (i.type.kind === 'tensor' && i.type.shape) reasons.push(...shapeProblems(i.name, i.type.shape));
  }
  if (model.graph.inputs.length === 0) reasons.push('it has no inputs');
  const chance = [...allNodes(model.graph)].find((n) => n.domain === '' && RANDOM.test(n.op));
  if (chance) {
    reasons.push(`it draws random numbers (${chance.op}), so scores are not repeatable: export it in evaluation mode`);
  }
  const zips = new Set(zipMaps(model.graph).map((z) => z.output));
  for (const o of model.graph.outputs) {
    if (o.type.kind === 'tensor') {
      if (NARROW.has(o.type.element)) {
        reasons.push(`output ${o.name} is ${o.type.element}, which keeps 2 or 3 digits: export with float32`);
      }
    } else if (!zips.has(o.name)) {
      reasons.push(
        `output ${o.name} is a ${o.type.kind} that is not made by ZipMap and cannot be turned into a tensor: export with options={'zipmap': False}`,
      );
    }
  }
  return reasons;
}

const RANDOM = /^(Random(Normal|Uniform)(Like)?|Bernoulli|Multinomial)$/;

/** Rejects input shapes other than rows × columns. Only these shapes can be filled from a table. */
function shapeProblems(name: string, shape: readonly Dimension[]): string[] {
  const [rows] = shape;
  if (shape.length === 0) {
    return [
      `input ${name} is a single value, not a column of applications (a switch such as training?): make it a constant of the graph`,
    ];
  }
  if (shape.length > 2) {
    return [
      `input ${name} has ${shape.length} dimensions: applications are tables, export it as [rows, columns] and reshape inside the graph`,
    ];
  }
  if (typeof rows === 'number' && rows > 1) {
    return [
      `input ${name} takes exactly ${rows} rows at once: leave the number of rows open when exporting (torch.onnx.export: dynamic_axes={'${name}': {0: 'rows'}}; initial types: [None, columns])`,
    ];
  }
  return [];
}

/**
 * A model for an evaluator session: the file, the names and types of its inputs, and the names of its outputs. Plain
 * data.
 */
export interface Servable {
  bytes: Uint8Array;
  format: OnnxModel['format'];
  /** Former outputs of ZipMap nodes → the tensors that the nodes converted. */
  renamed: ReadonlyMap<string, string>;
  inputs: readonly ValueInfo[];
  outputs: readonly string[];
}

/**
 * Removes the ZipMap nodes from a model that `readModel` returned.
 * @throws SluiceError model_invalid if the graph is rejected
 */
export function servable(model: OnnxModel): Servable {
  const reasons = refusals(model);
  if (reasons.length > 0) throw new SluiceError('model_invalid', reasons.join('; '));
  const { inputs, outputs } = model.graph;
  return { ...withoutZipMap(model), format: model.format, inputs, outputs: outputs.map((o) => o.name) };
}
