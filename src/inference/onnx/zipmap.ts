// ZipMap makes a list of dictionaries out of a tensor of scores; it is taken out so that the tensor is served.
import { SluiceError } from '../../core/errors.ts';
import type { Graph, Node, OnnxModel } from './graph.ts';
import { type ClassLabel, labelsOf } from './nodes.ts';
import { concat, lengthField, Message } from './protobuf.ts';

interface ZipMapInfo {
  /** Name of the graph output. */
  output: string;
  /** The tensor [rows, classes] it is made of. */
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
  /** Graph output of the file → output to fetch instead of it. */
  renamed: ReadonlyMap<string, string>;
}

/**
 * The graph without ZipMap: the tensor it was made of becomes the output. All other bytes stay as they are.
 * @throws SluiceError model_invalid
 */
export function withoutZipMap(model: OnnxModel): ServableGraph {
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
        // A name alone: ONNX Runtime finds out the type, which is double where the inputs are.
        inner.push(lengthField(12, lengthField(1, z.tensor)));
        present.add(z.tensor);
      }
    }
    pieces.push(lengthField(7, concat(inner)));
  }
  return { bytes: concat(pieces), renamed };
}
