// Reads those parts of ONNX's ModelProto that scoring needs. Field numbers are from the published onnx.proto3.
import { SluiceError } from '../../core/errors.ts';
import { type Field, type KnownText, Message } from './protobuf.ts';

/** Names of TensorProto.DataType by number. */
const ELEMENT_TYPES = [
  'undefined', 'float32', 'uint8', 'int8', 'uint16', 'int16', 'int32', 'int64', 'string', 'bool', 'float16', 'float64',
  'uint32', 'uint64', 'complex64', 'complex128', 'bfloat16',
] as const; // biome-ignore format: the table reads better packed
export type ElementType = (typeof ELEMENT_TYPES)[number] | 'other';

/** A dimension: its size, the name of a dimension of variable size, or null if undeclared. */
export type Dimension = number | string | null;

type ValueType =
  | { kind: 'tensor'; element: ElementType; shape: readonly Dimension[] | null }
  | { kind: 'sequence' | 'map' | 'optional' | 'sparse' | 'unknown' };

export interface ValueInfo {
  name: string;
  type: ValueType;
  /** The position of the whole field in the file. */
  field: Field;
}

export interface Tensor {
  name: string;
  dims: readonly number[];
  element: ElementType;
  /** Whether the data is in another file. */
  external: boolean;
  /** Values of float, double, int and bool tensors, decoded on first use. */
  numbers(): readonly number[];
  strings(): readonly string[];
}

export interface Attribute {
  name: string;
  f: number;
  i: number;
  s: string;
  floats: readonly number[];
  ints: readonly number[];
  strings: readonly string[];
  tensor: Tensor | null;
  /** Graphs in the attribute (If, Loop, Scan). */
  graphs: readonly Graph[];
}

export interface Node {
  name: string;
  op: string;
  /** The domain; '' is ai.onnx. */
  domain: string;
  inputs: readonly string[];
  outputs: readonly string[];
  attributes: ReadonlyMap<string, Attribute>;
  field: Field;
}

export interface Graph {
  name: string;
  nodes: readonly Node[];
  initializers: ReadonlyMap<string, Tensor>;
  /** Inputs that must be fed. Initializers that are listed among the inputs (IR version 3) are not included. */
  inputs: readonly ValueInfo[];
  outputs: readonly ValueInfo[];
}

export interface OnnxModel {
  bytes: Uint8Array;
  /** `booster`: the graph represents a training library's file, which ONNX Runtime cannot open. */
  format: 'onnx' | 'booster';
  irVersion: number;
  producer: string;
  /** Domain → version; the domain '' is ai.onnx. */
  opsets: ReadonlyMap<string, number>;
  metadata: ReadonlyMap<string, string>;
  /** Functions that the file defines, as `domain.name`. */
  functions: readonly string[];
  graph: Graph;
  graphField: Field;
}

/**
 * Reads an ONNX file. Every length is checked against the length of the enclosing message.
 * @throws SluiceError model_invalid
 */
export function readOnnx(bytes: Uint8Array): OnnxModel {
  const message = new Message(bytes);
  let irVersion = 0;
  const producer = ['', ''];
  const opsets = new Map<string, number>();
  const metadata = new Map<string, string>();
  const functions: string[] = [];
  let graphField: Field | null = null;
  for (const f of message.fields()) {
    if (f.number === 1) irVersion = message.integer(f);
    else if (f.number === 2 || f.number === 3) producer[f.number - 2] = message.text(f);
    else if (f.number === 7) graphField = f;
    else if (f.number === 8) {
      const m = message.inside(f);
      let domain = '';
      let version = 0;
      for (const g of m.fields()) {
        if (g.number === 1) domain = m.text(g);
        else if (g.number === 2) version = m.integer(g);
      }
      opsets.set(domain === 'ai.onnx' ? '' : domain, version);
    } else if (f.number === 14) {
      const m = message.inside(f);
      const pair = ['', ''];
      for (const g of m.fields()) if (g.number === 1 || g.number === 2) pair[g.number - 1] = m.text(g);
      metadata.set(pair[0]!, pair[1]!);
    } else if (f.number === 25) {
      const m = message.inside(f);
      let [domain, name] = ['', ''];
      for (const g of m.fields()) {
        if (g.number === 1) name = m.text(g);
        else if (g.number === 10) domain = m.text(g);
      }
      functions.push(`${domain}.${name}`);
    }
  }
  if (graphField === null || irVersion < 1) {
    throw new SluiceError('model_invalid', 'this is not an ONNX file: it contains no graph');
  }
  return {
    bytes,
    format: 'onnx',
    irVersion,
    producer: producer.join(' ').trim(),
    opsets,
    metadata,
    functions,
    graph: readGraph(message.inside(graphField)),
    graphField,
  };
}

function readGraph(message: Message): Graph {
  const nodes: Node[] = [];
  const initializers = new Map<string, Tensor>();
  const inputs: ValueInfo[] = [];
  const outputs: ValueInfo[] = [];
  let name = '';
  for (const f of message.fields()) {
    if (f.number === 1) nodes.push(readNode(message.inside(f), f));
    else if (f.number === 2) name = message.text(f);
    else if (f.number === 5) {
      const t = readTensor(message.inside(f));
      initializers.set(t.name, t);
    } else if (f.number === 11) inputs.push(readValueInfo(message.inside(f), f));
    else if (f.number === 12) outputs.push(readValueInfo(message.inside(f), f));
  }
  return { name, nodes, initializers, inputs: inputs.filter((i) => !initializers.has(i.name)), outputs };
}

function readNode(message: Message, field: Field): Node {
  const inputs: string[] = [];
  const outputs: string[] = [];
  const attributes = new Map<string, Attribute>();
  let [name, op, domain] = ['', '', ''];
  for (const f of message.fields()) {
    if (f.number === 1) inputs.push(message.text(f));
    else if (f.number === 2) outputs.push(message.text(f));
    else if (f.number === 3) name = message.text(f);
    else if (f.number === 4) op = message.text(f);
    else if (f.number === 7) domain = message.text(f);
    else if (f.number === 5) {
      const a = readAttribute(message.inside(f));
      attributes.set(a.name, a);
    }
  }
  return { name, op, domain: domain === 'ai.onnx' ? '' : domain, inputs, outputs, attributes, field };
}

function readAttribute(message: Message): Attribute {
  const floats: number[] = [];
  const ints: number[] = [];
  const strings: string[] = [];
  const graphs: Graph[] = [];
  let [name, s] = ['', ''];
  let [f32, i64] = [0, 0];
  let tensor: Tensor | null = null;
  const known: KnownText[] = [];
  for (const f = message.cursor(); f.next(); ) {
    if (f.number === 1) name = message.text(f);
    else if (f.number === 2) f32 = message.float(f);
    else if (f.number === 3) i64 = message.integer(f);
    else if (f.number === 4) s = message.text(f);
    else if (f.number === 5) tensor = readTensor(message.inside(f));
    else if (f.number === 6 || f.number === 11) graphs.push(readGraph(message.inside(f)));
    else if (f.number === 7 && f.wire === 5) f.run(floats);
    else if (f.number === 7) message.floats(f, floats);
    else if (f.number === 8 && f.wire === 0) f.run(ints);
    else if (f.number === 8) message.integers(f, ints);
    else if (f.number === 9) strings.push(message.textAgain(f, known));
  }
  return { name, f: f32, i: i64, s, floats, ints, strings, tensor, graphs };
}

const RAW_BYTES: Partial<Record<ElementType, number>> = {
  float32: 4, float64: 8, int64: 8, int32: 4, bool: 1, uint8: 1, int8: 1, uint64: 8, uint32: 4,
}; // biome-ignore format: the table reads better packed

function readTensor(message: Message): Tensor {
  const dims: number[] = [];
  let name = '';
  let element: ElementType = 'undefined';
  let external = false;
  let raw: Field | null = null;
  const data: Field[] = [];
  for (const f of message.fields()) {
    if (f.number === 1) message.integers(f, dims);
    else if (f.number === 2) element = ELEMENT_TYPES[message.integer(f)] ?? 'other';
    else if (f.number === 8) name = message.text(f);
    else if (f.number === 9) raw = f;
    else if (f.number === 13) external = true;
    else if (f.number === 14) external = message.integer(f) === 1;
    else if (f.number === 4 || f.number === 5 || f.number === 6 || f.number === 7 || f.number === 10) data.push(f);
  }
  let numbers: number[] | null = null;
  return {
    name,
    dims,
    element,
    external,
    numbers() {
      if (numbers) return numbers;
      numbers = [];
      for (const f of data) {
        if (f.number === 4) message.floats(f, numbers);
        else if (f.number === 10) message.doubles(f, numbers);
        else if (f.number !== 6) message.integers(f, numbers);
      }
      if (raw) readRaw(message, raw, element, numbers);
      return numbers;
    },
    strings: () => data.filter((f) => f.number === 6).map((f) => message.text(f)),
  };
}

function readRaw(message: Message, raw: Field, element: ElementType, out: number[]): void {
  const size = RAW_BYTES[element];
  if (size === undefined || raw.wire !== 2 || (raw.end - raw.start) % size !== 0) {
    throw new SluiceError('model_invalid', `the ONNX file is damaged: raw data of ${element}`);
  }
  const view = new DataView(message.bytes.buffer, message.bytes.byteOffset, message.bytes.byteLength);
  for (let p = raw.start; p < raw.end; p += size) {
    if (element === 'float32') out.push(view.getFloat32(p, true));
    else if (element === 'float64') out.push(view.getFloat64(p, true));
    else if (element === 'int64') out.push(Number(view.getBigInt64(p, true)));
    else if (element === 'uint64') out.push(Number(view.getBigUint64(p, true)));
    else if (element === 'int32') out.push(view.getInt32(p, true));
    else if (element === 'uint32') out.push(view.getUint32(p, true));
    else if (element === 'int8') out.push(view.getInt8(p));
    else out.push(view.getUint8(p));
  }
}

function readValueInfo(message: Message, field: Field): ValueInfo {
  let name = '';
  let type: ValueType = { kind: 'unknown' };
  for (const f of message.fields()) {
    if (f.number === 1) name = message.text(f);
    else if (f.number === 2) type = readType(message.inside(f));
  }
  return { name, type, field };
}

function readType(message: Message): ValueType {
  for (const f of message.fields()) {
    if (f.number === 4) return { kind: 'sequence' };
    if (f.number === 5) return { kind: 'map' };
    if (f.number === 8) return { kind: 'sparse' };
    if (f.number === 9) return { kind: 'optional' };
    if (f.number !== 1) continue;
    const tensor = message.inside(f);
    let element: ElementType = 'undefined';
    let shape: Dimension[] | null = null;
    for (const g of tensor.fields()) {
      if (g.number === 1) element = ELEMENT_TYPES[tensor.integer(g)] ?? 'other';
      else if (g.number === 2) {
        const dims = tensor.inside(g);
        shape = [];
        for (const h of dims.fields()) if (h.number === 1) shape.push(readDimension(dims.inside(h)));
      }
    }
    return { kind: 'tensor', element, shape };
  }
  return { kind: 'unknown' };
}

function readDimension(message: Message): Dimension {
  for (const f of message.fields()) {
    if (f.number === 1) return message.integer(f);
    if (f.number === 2) return message.text(f);
  }
  return null;
}

/** All nodes of the graph, including the nodes of graphs in attributes. */
export function* allNodes(graph: Graph): Generator<Node> {
  for (const n of graph.nodes) {
    yield n;
    for (const a of n.attributes.values()) for (const g of a.graphs) yield* allNodes(g);
  }
}

/** All tensors stored in the file. */
export function* allTensors(graph: Graph): Generator<Tensor> {
  yield* graph.initializers.values();
  for (const n of allNodes(graph)) {
    for (const a of n.attributes.values()) {
      if (a.tensor) yield a.tensor;
      for (const g of a.graphs) yield* g.initializers.values();
    }
  }
}
