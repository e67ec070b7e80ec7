// Writes ONNX files for tests: just enough of onnx.proto3 to make graphs of nodes, constants and float inputs.
import { concat, integerField, lengthField } from '../../src/inference/onnx/protobuf.ts';

export type AttributeValue =
  | { f: number }
  | { i: number }
  | { s: string }
  | { floats: readonly number[] }
  | { ints: readonly number[] }
  | { strings: readonly string[] }
  | { tensor: TensorSpec }
  | { graph: Omit<GraphSpec, 'opset' | 'opsetMl'> };

export interface TensorSpec {
  name?: string;
  type: 'float32' | 'float64' | 'int64' | 'uint8' | 'bool' | 'string';
  dims: readonly number[];
  values: readonly (number | string)[];
}

export interface NodeSpec {
  op: string;
  domain?: string;
  inputs: readonly string[];
  outputs: readonly string[];
  attributes?: Readonly<Record<string, AttributeValue>>;
}

export interface ValueSpec {
  name: string;
  type: 'float32' | 'float64' | 'int64' | 'bool' | 'string';
  /** null: free. */
  shape: readonly (number | null)[];
}

export interface GraphSpec {
  nodes: readonly NodeSpec[];
  inputs: readonly ValueSpec[];
  outputs: readonly ValueSpec[];
  constants?: readonly (TensorSpec & { name: string })[];
  /** Versions of ai.onnx and ai.onnx.ml. */
  opset?: number;
  opsetMl?: number;
}

const TYPES = { float32: 1, uint8: 2, int64: 7, string: 8, bool: 9, float64: 11 } as const;

const bytesOf = (n: number, write: (view: DataView) => void): Uint8Array => {
  const out = new Uint8Array(n);
  write(new DataView(out.buffer));
  return out;
};
const float32s = (values: readonly number[]): Uint8Array =>
  bytesOf(values.length * 4, (v) => values.forEach((x, i) => void v.setFloat32(i * 4, x, true)));

/** A varint of a signed 64-bit number. */
function varint(n: number): Uint8Array {
  let rest = BigInt.asUintN(64, BigInt(n));
  const out: number[] = [];
  do {
    const low = Number(rest & 127n);
    rest >>= 7n;
    out.push(rest === 0n ? low : low | 128);
  } while (rest !== 0n);
  return Uint8Array.from(out);
}

function attribute(name: string, value: AttributeValue): Uint8Array {
  const [type, ...parts] = ((): [number, ...Uint8Array[]] => {
    if ('f' in value) return [1, Uint8Array.of(0x15), float32s([value.f])];
    if ('i' in value) return [2, Uint8Array.of(0x18), varint(value.i)];
    if ('s' in value) return [3, lengthField(4, value.s)];
    if ('tensor' in value) return [4, lengthField(5, tensor(value.tensor))];
    if ('graph' in value) return [5, lengthField(6, graphOf(value.graph))];
    if ('floats' in value) return [6, lengthField(7, float32s(value.floats))];
    if ('ints' in value) return [7, lengthField(8, concat(value.ints.map(varint)))];
    return [8, ...value.strings.map((s) => lengthField(9, s))];
  })();
  return concat([lengthField(1, name), ...parts, integerField(20, type)]);
}

function tensor(t: TensorSpec): Uint8Array {
  const numbers = t.values as readonly number[];
  const size = { float32: 4, float64: 8, int64: 8, uint8: 1, bool: 1, string: 0 }[t.type];
  const raw = bytesOf(numbers.length * size, (v) => {
    for (const [i, x] of numbers.entries()) {
      if (t.type === 'float32') v.setFloat32(i * 4, x, true);
      else if (t.type === 'float64') v.setFloat64(i * 8, x, true);
      else if (t.type === 'int64') v.setBigInt64(i * 8, BigInt(x), true);
      else if (t.type === 'uint8' || t.type === 'bool') v.setUint8(i, x);
    }
  });
  return concat([
    ...t.dims.map((d) => integerField(1, d)),
    integerField(2, TYPES[t.type]),
    ...(t.type === 'string' ? t.values.map((s) => lengthField(6, s as string)) : [lengthField(9, raw)]),
    ...(t.name ? [lengthField(8, t.name)] : []),
  ]);
}

function node(n: NodeSpec): Uint8Array {
  return concat([
    ...n.inputs.map((i) => lengthField(1, i)),
    ...n.outputs.map((o) => lengthField(2, o)),
    lengthField(4, n.op),
    ...Object.entries(n.attributes ?? {}).map(([name, value]) => lengthField(5, attribute(name, value))),
    ...(n.domain ? [lengthField(7, n.domain)] : []),
  ]);
}

function value(v: ValueSpec): Uint8Array {
  const shape = concat(v.shape.map((d) => lengthField(1, d === null ? lengthField(2, 'N') : integerField(1, d))));
  return concat([
    lengthField(1, v.name),
    lengthField(2, lengthField(1, concat([integerField(1, TYPES[v.type]), lengthField(2, shape)]))),
  ]);
}

const graphOf = (g: GraphSpec): Uint8Array =>
  concat([
    ...g.nodes.map((n) => lengthField(1, node(n))),
    lengthField(2, 'test'),
    ...(g.constants ?? []).map((t) => lengthField(5, tensor(t))),
    ...g.inputs.map((v) => lengthField(11, value(v))),
    ...g.outputs.map((v) => lengthField(12, value(v))),
  ]);

/** The bytes of a model. */
export function buildOnnx(g: GraphSpec): Uint8Array<ArrayBuffer> {
  const opset = (domain: string, version: number): Uint8Array =>
    lengthField(8, concat([lengthField(1, domain), integerField(2, version)]));
  return concat([
    integerField(1, 8),
    lengthField(7, graphOf(g)),
    opset('', g.opset ?? 15),
    opset('ai.onnx.ml', g.opsetMl ?? 3),
  ]);
}
