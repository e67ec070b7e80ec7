// Bodies of the binary extension of the Open Inference Protocol, made and read by other code than the service's.
export interface Tensor {
  name: string;
  shape: number[];
  datatype: string;
  data: readonly unknown[];
}

const WRITE: Record<string, (value: never) => Buffer> = {
  BOOL: (v: boolean) => Buffer.from([v ? 1 : 0]),
  INT8: (v: bigint) => Buffer.from(Int8Array.of(Number(v)).buffer),
  INT16: (v: bigint) => Buffer.from(Int16Array.of(Number(v)).buffer),
  INT32: (v: bigint) => Buffer.from(Int32Array.of(Number(v)).buffer),
  INT64: (v: bigint) => Buffer.from(BigInt64Array.of(v).buffer),
  UINT8: (v: bigint) => Buffer.from(Uint8Array.of(Number(v)).buffer),
  UINT16: (v: bigint) => Buffer.from(Uint16Array.of(Number(v)).buffer),
  UINT32: (v: bigint) => Buffer.from(Uint32Array.of(Number(v)).buffer),
  UINT64: (v: bigint) => Buffer.from(BigUint64Array.of(v).buffer),
  FP32: (v: number) => Buffer.from(Float32Array.of(v).buffer),
  FP64: (v: number) => Buffer.from(Float64Array.of(v).buffer),
  BYTES: (v: string) => {
    const text = Buffer.from(v);
    return Buffer.concat([Buffer.from(Uint32Array.of(text.length).buffer), text]);
  },
};

export const bytesOf = ({ datatype, data }: Tensor): Buffer =>
  Buffer.concat(data.map((value) => WRITE[datatype]!(value as never)));

/** A body, and the header that says where its JSON ends. `binary` chooses the tensors that come as bytes. */
export function frame(inputs: readonly Tensor[], binary: (tensor: Tensor) => boolean, more: object = {}) {
  const behind: Buffer[] = [];
  const said = inputs.map((tensor) => {
    const { data, ...rest } = tensor;
    if (!binary(tensor)) return tensor;
    behind.push(bytesOf(tensor));
    return { ...rest, parameters: { binary_data_size: behind.at(-1)!.length } };
  });
  return framed({ ...more, inputs: said }, Buffer.concat(behind));
}

export function framed(json: object, behind: Uint8Array) {
  const head = Buffer.from(jsonOf(json));
  return {
    body: Buffer.concat([head, behind]),
    headers: { 'inference-header-content-length': String(head.length) } as Record<string, string>,
  };
}

/** JSON with the digits of bigints and the sign of zero. */
export const jsonOf = (value: unknown): string => {
  if (Array.isArray(value)) return `[${value.map(jsonOf).join()}]`;
  if (typeof value === 'bigint') return String(value);
  if (Object.is(value, -0)) return '-0';
  if (typeof value !== 'object' || value === null) return JSON.stringify(value);
  return `{${Object.entries(value)
    .filter(([, member]) => member !== undefined)
    .map(([key, member]) => `${JSON.stringify(key)}:${jsonOf(member)}`)
    .join()}}`;
};

const READ: Record<string, (bytes: Buffer) => unknown[]> = {
  BOOL: (bytes) => [...bytes].map((byte) => byte === 1),
  INT64: (bytes) => Array.from({ length: bytes.length / 8 }, (_, i) => Number(bytes.readBigInt64LE(i * 8))),
  FP64: (bytes) => Array.from({ length: bytes.length / 8 }, (_, i) => bytes.readDoubleLE(i * 8)),
  BYTES: (bytes) => {
    const texts: string[] = [];
    for (let at = 0; at < bytes.length; ) {
      const end = at + 4 + bytes.readUInt32LE(at);
      texts.push(bytes.subarray(at + 4, end).toString());
      at = end;
    }
    return texts;
  },
};

/** The outputs of an answer as its client understands them, and which of them came as bytes. */
export function outputsOf(bytes: Buffer, header: string | string[] | undefined) {
  const length = header === undefined ? bytes.length : Number(header);
  const json = JSON.parse(bytes.subarray(0, length).toString());
  const binary: string[] = [];
  let at = length;
  const outputs: Tensor[] = json.outputs.map((output: Tensor & { parameters?: { binary_data_size: number } }) => {
    const size = output.parameters?.binary_data_size;
    if (size === undefined) return output;
    binary.push(output.name);
    at += size;
    const { parameters, ...rest } = output;
    return { ...rest, data: READ[output.datatype]!(bytes.subarray(at - size, at)) };
  });
  return { json, outputs, binary, left: bytes.length - at };
}
