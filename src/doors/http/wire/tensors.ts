// Converts tensors of the Open Inference Protocol (V2) to applications and back. A tensor is a column; its n-th element
// belongs to row n.
import type { ValueKind } from '../../../core/block.ts';
import { SluiceError, tooMany } from '../../../core/errors.ts';
import {
  answerColumnsOf,
  type PredictionColumn,
  type PredictionJson,
} from '../../../formats/write/prediction-fields.ts';
import type { Manifest } from '../../../model/package/manifest.ts';
import { BinaryTensors, bytesOfTensor, splitBody } from './binary-tensors.ts';
import type { TensorColumn } from './tensor-table.ts';

interface NamedTensor {
  name: string;
  shape: number[];
  datatype: string;
  data: unknown[];
}

interface InferRequest {
  id: string | null;
  rows: number;
  /** The input tensors. */
  columns: readonly TensorColumn[];
  wanted: WantedOutputs;
}

interface WantedOutputs {
  /** Names of the requested outputs; null for all. */
  names: readonly string[] | null;
  /** Whether this output is requested in binary form. */
  binary(name: string): boolean;
}

const integerOf = (bits: number, signed: boolean) => {
  const least = signed ? -(2n ** BigInt(bits - 1)) : 0n;
  const most = 2n ** BigInt(signed ? bits - 1 : bits) - 1n;
  const [low, high] = [Number(least), Number(most)];
  return (value: unknown): boolean => {
    if (Number.isSafeInteger(value)) return (value as number) >= low && (value as number) <= high;
    if (!Number.isInteger(value) && typeof value !== 'bigint') return false;
    const exact = BigInt(value as number | bigint);
    return exact >= least && exact <= most;
  };
};

const isFloat = (value: unknown): boolean => Number.isFinite(value) || typeof value === 'bigint';

/** Checks of elements, by datatype. A missing value is null. */
const ELEMENTS: Readonly<Record<string, (value: unknown) => boolean>> = {
  BOOL: (v) => typeof v === 'boolean',
  ...Object.fromEntries([8, 16, 32, 64].map((bits) => [`INT${bits}`, integerOf(bits, true)])),
  ...Object.fromEntries([8, 16, 32, 64].map((bits) => [`UINT${bits}`, integerOf(bits, false)])),
  ...Object.fromEntries(['FP16', 'FP32', 'FP64'].map((t) => [t, isFloat])),
  BYTES: (v) => typeof v === 'string',
};

const wrong = (what: string): SluiceError => new SluiceError('bad_request', what);

const isObject = (value: unknown): value is Record<string, unknown> =>
  typeof value === 'object' && value !== null && !Array.isArray(value);

interface InferLimits {
  /** Maximum number of rows and of inputs. */
  rows: number;
  columns: number;
  /** The header of the extension for binary tensors; absent if the client did not send it. */
  jsonLength?: string | string[] | undefined;
}

/**
 * @throws SluiceError bad_request: the body is not a request of the protocol, or not readable as a table;
 * limit_exceeded
 */
export function readInferRequest(bytes: Uint8Array, limits: InferLimits): InferRequest {
  const [json, behind] = splitBody(bytes, limits.jsonLength);
  const body = parsed(json);
  if (!isObject(body) || !Array.isArray(body.inputs) || body.inputs.length === 0) {
    throw wrong('the body must be {"inputs": [{"name", "shape", "datatype", "data"}, …]}');
  }
  if (body.inputs.length > limits.columns) throw tooMany('columns', limits.columns);
  const tensors = new BinaryTensors(behind);
  const columns = body.inputs.map((input, i) => columnOf(input, `inputs[${i}]`, tensors));
  tensors.end();
  const rows = columns[0]!.data.length;
  if (rows > limits.rows) throw tooMany('rows', limits.rows);
  if (columns.some(({ data }) => data.length !== rows)) throw wrong('all inputs must have the same number of rows');
  if (rows === 0) throw wrong('the inputs have no rows');
  if (new Set(columns.map((c) => c.name)).size < columns.length) throw wrong('two inputs have the same name');
  const { id = null } = body;
  if (id !== null && typeof id !== 'string') throw wrong('id must be a string');
  return { id, rows, wanted: wantedOf(body), columns };
}

/** @throws SluiceError header_mismatch: an input is not a column of the model; outcome_present */
export function refuseUnknownInputs(columns: readonly TensorColumn[], manifest: Manifest): void {
  if (columns.some(({ name }) => name === manifest.outcome)) {
    throw new SluiceError('outcome_present', 'an input is the outcome column');
  }
  const known = new Set(manifest.columns.map(({ name }) => name));
  const unknown = columns.findIndex(({ name }) => !known.has(name));
  if (unknown >= 0) throw new SluiceError('header_mismatch', `inputs[${unknown}] is not a column of the model`);
}

/** Integers with at least this many digits may not be representable as doubles. */
const LONG_INTEGER = /[[,:\s-][0-9]{16}/;

/** Parses JSON. Whole numbers that a double cannot represent become bigints. @throws SluiceError bad_request */
function parsed(bytes: Uint8Array): unknown {
  try {
    const text = new TextDecoder('utf-8', { fatal: true }).decode(bytes);
    if (!LONG_INTEGER.test(text)) return JSON.parse(text);
    const exactly = (_key: string, value: unknown, context?: { source?: string }) =>
      Number.isInteger(value) && !Number.isSafeInteger(value) && /^-?[0-9]+$/.test(context?.source ?? '')
        ? BigInt(context!.source!)
        : value;
    return JSON.parse(text, exactly);
  } catch (cause) {
    throw new SluiceError('bad_request', 'the body is not JSON', { cause });
  }
}

const kindOfTensor = (datatype: string): ValueKind =>
  datatype === 'BYTES' ? 'text' : datatype === 'BOOL' ? 'boolean' : 'number';

const isColumn = (shape: unknown): shape is [number] | [number, 1] =>
  Array.isArray(shape) &&
  shape.length >= 1 &&
  shape.length <= 2 &&
  Number.isSafeInteger(shape[0]) &&
  (shape[1] ?? 1) === 1;

/** A column of the table. The shape of the tensor must be [rows] or [rows, 1]. */
function columnOf(input: unknown, at: string, tensors: BinaryTensors): TensorColumn {
  if (!isObject(input) || typeof input.name !== 'string') throw wrong(`${at} has no name`);
  const { name, shape, parameters } = input;
  const datatype = String(input.datatype);
  const fits = Object.hasOwn(ELEMENTS, datatype) ? ELEMENTS[datatype]! : null;
  if (fits === null) throw wrong(`${at}: datatype must be one of ${Object.keys(ELEMENTS).join(', ')}`);
  if (!isColumn(shape)) {
    throw wrong(`${at}: the shape of an input must be [rows] or [rows, 1]`);
  }
  const data = input.data ?? null;
  const size = isObject(parameters) ? parameters.binary_data_size : undefined;
  if (size !== undefined) {
    if (data !== null) throw wrong(`${at}: set either data or binary_data_size`);
    return { name, kind: kindOfTensor(datatype), data: inInput(at, () => tensors.take(size, datatype, shape[0])) };
  }
  if (!Array.isArray(data)) throw wrong(`${at}: data must be a list unless binary_data_size is set`);
  const flat = data.some(Array.isArray) ? data.flat(1) : data;
  if (flat.length !== shape[0]) throw wrong(`${at}: data must have as many elements as the shape`);
  if (!flat.every((value) => value === null || fits(value)))
    throw wrong(`${at}: an element is not of type ${datatype}`);
  return { name, kind: kindOfTensor(datatype), data: flat };
}

function inInput<T>(at: string, read: () => T): T {
  try {
    return read();
  } catch (cause) {
    throw cause instanceof SluiceError ? new SluiceError(cause.code, `${at}: ${cause.message}`, { cause }) : cause;
  }
}

/** The requested outputs. @throws SluiceError bad_request */
function wantedOf({ outputs = null, parameters }: Record<string, unknown>): WantedOutputs {
  if (
    outputs !== null &&
    !(Array.isArray(outputs) && outputs.every((o) => isObject(o) && typeof o.name === 'string'))
  ) {
    throw wrong('outputs must be a list of {"name": …}');
  }
  const all = flagOf(parameters, 'binary_data_output') ?? false;
  const each = new Map((outputs ?? []).map((o) => [o.name as string, flagOf(o.parameters, 'binary_data') ?? all]));
  return { names: each.size === 0 ? null : [...each.keys()], binary: (name) => each.get(name) ?? all };
}

function flagOf(parameters: unknown, key: string): boolean | undefined {
  const flag = isObject(parameters) ? parameters[key] : undefined;
  if (flag !== undefined && typeof flag !== 'boolean') throw wrong(`${key} must be true or false`);
  return flag;
}

const DATATYPES: Readonly<Record<PredictionColumn['kind'], string>> = {
  boolean: 'BOOL',
  integer: 'INT64',
  number: 'FP64',
  text: 'BYTES',
};

const COLUMN_DATATYPES = { number: 'FP64', boolean: 'BOOL', category: 'BYTES', text: 'BYTES' } as const;

/** The outputs of a request, which are filled row by row. */
export class OutputTensors {
  readonly #columns: readonly { column: PredictionColumn; data: unknown[] }[];

  /** @throws SluiceError bad_request: the model does not have a requested output */
  constructor(manifest: Manifest, { names }: WantedOutputs) {
    const all = answerColumnsOf(manifest);
    const strange = names?.some((name) => !all.some((column) => column.name === name));
    if (strange) throw wrong(`the outputs of the model are ${all.map(({ name }) => name).join(', ')}`);
    const columns = all.filter(({ name }) => names?.includes(name) ?? true);
    this.#columns = columns.map((column) => ({ column, data: [] }));
  }

  add(prediction: PredictionJson): void {
    for (const { column, data } of this.#columns) data.push(column.of(prediction) ?? null);
  }

  get tensors(): NamedTensor[] {
    return this.#columns.map(({ column: { name, kind }, data }) => ({
      name,
      shape: [data.length],
      datatype: DATATYPES[kind],
      data,
    }));
  }
}

interface InferAnswer {
  /** The outputs. An output in binary form has `parameters.binary_data_size` instead of `data`. */
  outputs: object[];
  /** The bytes of the outputs in binary form, in order; null if there are none. */
  behind: Buffer | null;
}

/**
 * The outputs in the requested form. An output with a missing value is sent as JSON, because the binary form cannot
 * represent a missing value.
 */
export function asWanted(tensors: readonly NamedTensor[], wanted: WantedOutputs): InferAnswer {
  const behind: Buffer[] = [];
  const outputs = tensors.map(({ data, ...tensor }) => {
    const bytes = wanted.binary(tensor.name) ? bytesOfTensor(tensor.datatype, data) : null;
    if (!bytes) return { ...tensor, data };
    behind.push(bytes);
    return { ...tensor, parameters: { binary_data_size: bytes.length } };
  });
  return { outputs, behind: behind.length > 0 ? Buffer.concat(behind) : null };
}

/** Model metadata of the protocol. In a shape, -1 means any number of rows. */
export function tensorMetadata(manifest: Manifest) {
  const shape = [-1];
  return {
    inputs: manifest.columns.map(({ name, kind }) => ({ name, datatype: COLUMN_DATATYPES[kind], shape })),
    outputs: answerColumnsOf(manifest).map(({ name, kind }) => ({ name, datatype: DATATYPES[kind], shape })), // biome-ignore format: one line
  };
}
