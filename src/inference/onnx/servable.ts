// What must be known and changed before a graph can be served: refusals, ZipMap taken out, classes, roles of the outputs.
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
import { concat, lengthField, Message } from './wire.ts';

export type ClassLabel = string | number;

/** Operator sets ONNX Runtime has built in. */
const DOMAINS = new Set(['', 'ai.onnx.ml', 'com.microsoft']);
/** Element types the encoder can feed. */
const FEEDABLE = new Set<ElementType>(['float32', 'float64', 'int64', 'int32', 'bool', 'string']);
const NARROW = new Set<ElementType>(['bfloat16', 'float16']);

/**
 * Why a graph cannot be served right, each with what mends it; empty if it can.
 * Only what the file itself shows; raw scores show when rows are scored.
 */
export function refusals(model: OnnxModel): string[] {
  const reasons: string[] = [];
  const custom = new Set<string>();
  for (const n of allNodes(model.graph)) {
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
        `tensor ${t.name} lies in another file: save the model as one file, onnx.save_model(model, path, save_as_external_data=False)`,
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
    reasons.push(
      `it draws random numbers (${chance.op}), so the same application gets other scores each time: export it in evaluation mode`,
    );
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

/** Rows are the first dimension and columns the second; nothing else can be filled from a table. */
function shapeProblems(name: string, shape: readonly Dimension[]): string[] {
  const [rows] = shape;
  if (shape.length === 0) {
    return [
      `input ${name} is a single value and no column of applications (a switch such as training?): make it a constant of the graph`,
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

export interface ZipMapInfo {
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

export interface ServableGraph {
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

/** Operators that hand a tensor on as it is, but for type and shape. */
const PASSING = /^(Identity|Cast|Reshape|Squeeze|Unsqueeze|Flatten)$/;

/** Classes a node lists in its attributes, or null. */
function labelsOf(n: Node): readonly ClassLabel[] | null {
  const ints = n.attributes.get('classlabels_int64s') ?? n.attributes.get('classlabels_ints');
  if (ints && ints.ints.length > 0) return ints.ints;
  const texts = n.attributes.get('classlabels_strings');
  return texts && texts.strings.length > 0 ? texts.strings : null;
}

/**
 * The classes of a classifier in the order of its probability columns: ZipMap's, else the classifier's own, else those the
 * label is picked from. null: the graph says nothing about classes.
 */
export function classesOf(graph: Graph): readonly ClassLabel[] | null {
  for (const z of zipMaps(graph)) if (z.classes.length > 0) return z.classes;
  // The label is picked from a constant by its position: ArrayFeatureExtractor(classes, argmax), then casts and reshapes.
  const producers = new Map(graph.nodes.flatMap((n) => n.outputs.map((o) => [o, n] as const)));
  for (const o of graph.outputs) {
    let n = producers.get(o.name);
    for (let steps = 0; n && PASSING.test(n.op) && steps < 8; steps++) n = producers.get(n.inputs[0] ?? '');
    if (n?.op !== 'ArrayFeatureExtractor' && n?.op !== 'Gather') continue;
    const constant = graph.initializers.get(n.inputs[0] ?? '');
    if (!constant || producers.get(n.inputs[1] ?? '')?.op !== 'ArgMax') continue;
    const texts = constant.strings();
    return texts.length > 0 ? texts : constant.numbers();
  }
  const listed = graph.nodes.flatMap((n) => {
    const labels = labelsOf(n);
    return labels && n.op !== 'LabelEncoder' ? [labels] : [];
  });
  const first = listed[0];
  return first && listed.every((l) => l.length === first.length && l.every((v, i) => v === first[i])) ? first : null;
}

/** True if the probabilities come from calibration by steps (isotonic), which exporters get wrong by up to 0.05. */
export function looksIsotonic(graph: Graph): boolean {
  const producers = new Map(graph.nodes.flatMap((n) => n.outputs.map((o) => [o, n] as const)));
  return graph.nodes.some(
    (n) =>
      n.op === 'ArrayFeatureExtractor' &&
      graph.initializers.has(n.inputs[0] ?? '') &&
      producers.get(n.inputs[1] ?? '')?.op === 'ArgMin',
  );
}

/** Categories that the encoders behind a column of texts know; null where the graph does not show them. */
export interface KnownCategories {
  values: readonly string[];
  /** What the graph does with other texts: 'ignore' (all zeros, or a default), 'error', or 'unknown'. */
  unseen: 'ignore' | 'error' | 'unknown';
  /** The text that an imputer in the graph takes for a missing value. */
  marker?: string;
}

/** A column of a tensor; null: the tensor is one column, or is taken as a whole. */
interface Follow {
  tensor: string;
  column: number | null;
}

/** Deepest chain of nodes between an input and its encoder. */
const MAX_FOLLOW = 12;

/** Follows every column of a string input to the encoder of its text; the key is `categoryKey`. */
export function knownCategories(graph: Graph): ReadonlyMap<string, KnownCategories> {
  const consumers = Map.groupBy(
    graph.nodes.flatMap((n) => n.inputs.map((i) => [i, n] as const)),
    ([i]) => i,
  );
  const widths = new Map<string, number>();
  for (const i of graph.inputs) {
    const width = i.type.kind === 'tensor' ? i.type.shape?.[1] : undefined;
    widths.set(
      i.name,
      i.type.kind === 'tensor' && i.type.shape?.length === 1 ? 1 : typeof width === 'number' ? width : 0,
    );
  }
  const follow = (from: Follow, found: Partial<KnownCategories>, depth: number): void => {
    for (const [, n] of consumers.get(from.tensor) ?? []) {
      const onward = (column = from.column): void => {
        if (depth < MAX_FOLLOW) follow({ tensor: n.outputs[0] ?? '', column }, found, depth + 1);
      };
      const alone = from.column === null;
      const texts = n.attributes.get(n.op === 'OneHotEncoder' ? 'cats_strings' : 'keys_strings')?.strings ?? [];
      if (n.op === 'OneHotEncoder' && alone && texts.length > 0) {
        const zeros = n.attributes.get('zeros');
        found.values ??= texts;
        found.unseen ??= zeros === undefined || zeros.i === 1 ? 'ignore' : 'error';
      } else if (n.op === 'LabelEncoder' && alone && texts.length > 0) {
        const marks = (consumers.get(n.outputs[0] ?? '') ?? []).some(([, next]) => isCondition(next, consumers));
        if (marks && texts.length === 1) found.marker = texts[0]!;
        else {
          found.values ??= texts;
          // Exporters write the number of unknown categories; without one, training refused them.
          found.unseen ??= hasDefault(n) ? 'ignore' : 'error';
        }
      } else if (n.op === 'Concat') {
        const at = n.inputs.indexOf(from.tensor);
        const before = n.inputs.slice(0, at).map((i) => widths.get(i) ?? 0);
        if (alone && before.every((w) => w > 0)) onward(before.reduce((a, b) => a + b, 0));
      } else if (n.op === 'Gather' || n.op === 'ArrayFeatureExtractor') {
        const picked = graph.initializers.get(n.inputs[1] ?? '')?.numbers() ?? [];
        if (n.inputs[0] === from.tensor && picked.length === 1 && picked[0] === (from.column ?? 0)) onward(null);
      } else if (PASSING.test(n.op) || (n.op === 'Where' && n.inputs[2] === from.tensor)) onward();
    }
  };
  const known = new Map<string, KnownCategories>();
  for (const i of graph.inputs) {
    if (i.type.kind !== 'tensor' || i.type.element !== 'string') continue;
    const width = widths.get(i.name) || 1;
    for (let column = 0; column < width; column++) {
      const found: Partial<KnownCategories> = {};
      follow({ tensor: i.name, column: width > 1 ? column : null }, found, 0);
      if (!found.values && found.marker === undefined) continue;
      const { values = [], unseen = 'unknown' } = found;
      known.set(categoryKey(i.name, column), { ...found, values, unseen });
    }
  }
  return known;
}

export const categoryKey = (input: string, column: number): string => `${column} ${input}`;

const hasDefault = (n: Node): boolean =>
  ['default_int64', 'default_float', 'default_string', 'default_tensor'].some((a) => n.attributes.has(a));

/** A node that makes the condition of a Where: 1 for the texts an imputer replaces. */
function isCondition(n: Node, consumers: ReadonlyMap<string, readonly (readonly [string, Node])[]>): boolean {
  if (n.op === 'Where') return true;
  const [first] = n.outputs;
  return (
    n.op === 'Cast' &&
    (consumers.get(first ?? '') ?? []).some(([, next]) => next.op === 'Where' && next.inputs[0] === first)
  );
}

/** A model as it is given to ONNX Runtime, and what must be known of it then: plain data. */
export interface Servable {
  bytes: Uint8Array;
  /** Outputs that were ZipMaps → the tensors behind them. */
  renamed: ReadonlyMap<string, string>;
  inputs: readonly ValueInfo[];
  outputs: readonly string[];
}

/**
 * Takes ZipMap out of a model from `readChecked`.
 * @throws SluiceError model_invalid when the graph is refused
 */
export function servable(model: OnnxModel): Servable {
  const reasons = refusals(model);
  if (reasons.length > 0) throw new SluiceError('model_invalid', reasons.join('; '));
  const { inputs, outputs } = model.graph;
  return { ...withoutZipMap(model), inputs, outputs: outputs.map((o) => o.name) };
}
