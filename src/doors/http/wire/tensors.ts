// Tensors of the Open Inference Protocol (V2, JSON) as applications and back: an input tensor is a column, its n-th element that of the n-th row.
import { SluiceError } from '../../../core/errors.ts';
import { answerColumnsOf, type PredictionColumn, type PredictionJson } from '../../../io/format/prediction-fields.ts';
import type { Manifest } from '../../../model/package/manifest.ts';

export interface NamedTensor {
  name: string;
  shape: number[];
  datatype: string;
  data: unknown[];
}

export interface InferRequest {
  id: string | null;
  rows: number;
  /** One JSON object a line. */
  lines: Buffer;
  /** Names of the outputs that are wanted; null: all. */
  wanted: readonly string[] | null;
}

/** What the elements of a tensor have to be; null is a missing value. */
const ELEMENTS: Readonly<Record<string, (value: unknown) => boolean>> = {
  BOOL: (v) => typeof v === 'boolean',
  ...Object.fromEntries(
    ['INT8', 'INT16', 'INT32', 'INT64', 'UINT8', 'UINT16', 'UINT32', 'UINT64'].map((t) => [t, Number.isInteger]),
  ),
  ...Object.fromEntries(['FP16', 'FP32', 'FP64'].map((t) => [t, (v: unknown) => typeof v === 'number'])),
  BYTES: (v) => typeof v === 'string',
};

const wrong = (what: string): SluiceError => new SluiceError('bad_request', what);

const isObject = (value: unknown): value is Record<string, unknown> =>
  typeof value === 'object' && value !== null && !Array.isArray(value);

/** @throws SluiceError bad_request: it is no request of the protocol, or one that cannot be read as a table */
export function readInferRequest(bytes: Uint8Array): InferRequest {
  let body: unknown;
  try {
    body = JSON.parse(new TextDecoder('utf-8', { fatal: true }).decode(bytes));
  } catch (cause) {
    throw new SluiceError('bad_request', 'the body is no JSON', { cause });
  }
  if (!isObject(body) || !Array.isArray(body.inputs) || body.inputs.length === 0) {
    throw wrong('the body must be {"inputs": [{"name", "shape", "datatype", "data"}, …]}');
  }
  const columns = body.inputs.map(columnOf);
  const rows = columns[0]!.data.length;
  if (columns.some(({ data }) => data.length !== rows)) throw wrong('all inputs must have the same number of rows');
  if (rows === 0) throw wrong('the inputs have no row');
  if (new Set(columns.map((c) => c.name)).size < columns.length) throw wrong('the name of an input is there twice');
  const lines: string[] = [];
  for (let r = 0; r < rows; r++) {
    const members = columns.map(({ name, data }) => [name, data[r]]);
    lines.push(JSON.stringify(Object.fromEntries(members)));
  }
  const { id = null, outputs = null } = body;
  if (id !== null && typeof id !== 'string') throw wrong('id must be a text');
  if (
    outputs !== null &&
    !(Array.isArray(outputs) && outputs.every((o) => isObject(o) && typeof o.name === 'string'))
  ) {
    throw wrong('outputs must be a list of {"name": …}');
  }
  const wanted = outputs === null || outputs.length === 0 ? null : outputs.map((o) => o.name as string);
  return { id, rows, lines: Buffer.from(`${lines.join('\n')}\n`), wanted };
}

/** One column of a table: of shape [rows] or [rows, 1]. */
function columnOf(input: unknown, i: number): { name: string; data: unknown[] } {
  const at = `inputs[${i}]`;
  if (!isObject(input) || typeof input.name !== 'string') throw wrong(`${at} has no name`);
  const { name, shape, datatype, data } = input;
  const fits = Object.hasOwn(ELEMENTS, String(datatype)) ? ELEMENTS[String(datatype)]! : null;
  if (fits === null) throw wrong(`${at}: datatype must be one of ${Object.keys(ELEMENTS).join(', ')}`);
  if (!Array.isArray(shape) || !(shape.length === 1 || (shape.length === 2 && shape[1] === 1))) {
    throw wrong(`${at}: an input is a column: its shape must be [rows] or [rows, 1]`);
  }
  if (!Array.isArray(data)) throw wrong(`${at}: data must be a list; binary data is not taken`);
  const flat = data.flat(1);
  if (flat.length !== shape[0]) throw wrong(`${at}: data must have as many elements as shape says`);
  if (!flat.every((value) => value === null || fits(value))) throw wrong(`${at}: an element is no ${datatype}`);
  return { name, data: flat };
}

const DATATYPES: Readonly<Record<PredictionColumn['kind'], string>> = {
  boolean: 'BOOL',
  integer: 'INT64',
  number: 'FP64',
  text: 'BYTES',
};

const COLUMN_DATATYPES = { number: 'FP64', boolean: 'BOOL', category: 'BYTES', text: 'BYTES' } as const;

/** @throws SluiceError bad_request: an output that the model does not have */
export function outputTensors(
  manifest: Manifest,
  wanted: readonly string[] | null,
  predictions: readonly PredictionJson[],
): NamedTensor[] {
  const all = answerColumnsOf(manifest);
  const strange = wanted?.some((name) => !all.some((column) => column.name === name));
  if (strange) throw wrong(`the outputs of the model are ${all.map(({ name }) => name).join(', ')}`);
  return all
    .filter(({ name }) => wanted?.includes(name) ?? true)
    .map((column) => ({
      name: column.name,
      shape: [predictions.length],
      datatype: DATATYPES[column.kind],
      data: predictions.map((prediction) => column.of(prediction) ?? null),
    }));
}

/** What the protocol calls the metadata of a model; -1 stands for any number of rows. */
export function tensorMetadata(manifest: Manifest) {
  const shape = [-1];
  return {
    inputs: manifest.columns.map(({ name, kind }) => ({ name, datatype: COLUMN_DATATYPES[kind], shape })),
    outputs: answerColumnsOf(manifest).map(({ name, kind }) => ({ name, datatype: DATATYPES[kind], shape })), // biome-ignore format: one line
  };
}
