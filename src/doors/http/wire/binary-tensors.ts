// The extension of the Open Inference Protocol for binary tensors: their bytes follow the JSON of a request or
// response.
import { isUtf8 } from 'node:buffer';
import { SluiceError } from '../../../core/errors.ts';
import type { Elements } from './tensor-table.ts';

/** Name of the extension in the server metadata. */
export const BINARY_TENSORS = 'binary_tensor_data';
/** Header with the length in bytes of the JSON with which a body with binary tensors begins. */
export const JSON_LENGTH_HEADER = 'inference-header-content-length';

const wrong = (what: string): SluiceError => new SluiceError('bad_request', what);

interface Fixed {
  /** Bytes per element. */
  width: number;
  /** Reads a little-endian element; null for a missing value. */
  read(view: DataView, at: number): unknown;
  /** Throws if an element is invalid. Default: all elements are valid. */
  check?(view: DataView, at: number): void;
}

const finite = (value: number): number | null => (Number.isNaN(value) ? null : value);

/** A datatype for floating-point numbers. */
function floating(width: number, read: (view: DataView, at: number) => number): Fixed {
  return {
    width,
    read: (view, at) => finite(read(view, at)),
    check: (view, at) => {
      if (Math.abs(read(view, at)) === Infinity) throw wrong('an element is infinite');
    },
  };
}

const FIXED: Readonly<Record<string, Fixed>> = {
  BOOL: {
    width: 1,
    read: (view, at) => view.getUint8(at) === 1,
    check: (view, at) => {
      if (view.getUint8(at) > 1) throw wrong('a byte of BOOL must be 0 or 1');
    },
  },
  INT8: { width: 1, read: (view, at) => view.getInt8(at) },
  INT16: { width: 2, read: (view, at) => view.getInt16(at, true) },
  INT32: { width: 4, read: (view, at) => view.getInt32(at, true) },
  INT64: { width: 8, read: (view, at) => view.getBigInt64(at, true) },
  UINT8: { width: 1, read: (view, at) => view.getUint8(at) },
  UINT16: { width: 2, read: (view, at) => view.getUint16(at, true) },
  UINT32: { width: 4, read: (view, at) => view.getUint32(at, true) },
  UINT64: { width: 8, read: (view, at) => view.getBigUint64(at, true) },
  FP16: floating(2, (view, at) => ofHalf(view.getUint16(at, true))),
  FP32: floating(4, (view, at) => view.getFloat32(at, true)),
  FP64: floating(8, (view, at) => view.getFloat64(at, true)),
};

/** Converts a number from IEEE 754 binary16. */
function ofHalf(bits: number): number {
  const sign = bits & 0x8000 ? -1 : 1;
  const exponent = (bits >> 10) & 31;
  const fraction = bits & 0x3ff;
  if (exponent === 31) return fraction === 0 ? sign * Infinity : Number.NaN;
  return exponent === 0 ? sign * fraction * 2 ** -24 : sign * (1024 + fraction) * 2 ** (exponent - 25);
}

/**
 * Splits a body into its JSON and the bytes that follow. Without the header, the whole body is JSON. `header`: as Node
 * provides it; Node joins repeated headers with a comma.
 * @throws SluiceError bad_request
 */
export function splitBody(bytes: Uint8Array, header: string | string[] | undefined): [Uint8Array, Uint8Array] {
  if (header === undefined) return [bytes, bytes.subarray(bytes.length)];
  if (typeof header !== 'string' || !/^[0-9]{1,15}$/.test(header)) {
    throw wrong('Inference-Header-Content-Length must be a whole number of bytes');
  }
  const length = Number(header);
  if (length > bytes.length) throw wrong('Inference-Header-Content-Length is longer than the body');
  return [bytes.subarray(0, length), bytes.subarray(length)];
}

/** Reads the binary tensors of a request in order. */
export class BinaryTensors {
  readonly #bytes: Uint8Array;
  #at = 0;

  constructor(bytes: Uint8Array) {
    this.#bytes = bytes;
  }

  /**
   * Returns the `rows` elements of the next tensor, which takes `size` bytes. The elements are read from the body only
   * when they are accessed.
   * @throws SluiceError bad_request
   */
  take(size: unknown, datatype: string, rows: number): Elements {
    if (!Number.isSafeInteger(size) || (size as number) < 0) {
      throw wrong('binary_data_size must be a whole number of bytes');
    }
    const end = this.#at + (size as number);
    if (end > this.#bytes.length) throw wrong('binary_data_size exceeds the bytes after the JSON');
    const bytes = this.#bytes.subarray(this.#at, end);
    this.#at = end;
    return datatype === 'BYTES' ? textsOf(bytes, rows) : numbersOf(FIXED[datatype]!, datatype, bytes, rows);
  }

  /** Checks that all bytes were read. @throws SluiceError bad_request: some bytes belong to no tensor */
  end(): void {
    if (this.#at < this.#bytes.length) throw wrong('the body has bytes after the JSON that belong to no input');
  }
}

function numbersOf({ width, read, check }: Fixed, datatype: string, bytes: Uint8Array, rows: number): Elements {
  if (bytes.length !== rows * width) {
    throw wrong(`binary_data_size must be ${width} bytes for each ${datatype} element of the shape`);
  }
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.length);
  if (check) for (let r = 0; r < rows; r++) check(view, r * width);
  return { length: rows, at: (row) => read(view, row * width) };
}

/** The length of each text precedes it, in 4 bytes. */
function textsOf(bytes: Uint8Array, rows: number): Elements {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.length);
  // Each element takes at least the 4 bytes of its length, so a large shape alone cannot cause a large allocation.
  const ends = new Int32Array(Math.min(rows, bytes.length >> 2));
  let count = 0;
  for (let at = 0; at < bytes.length; count++) {
    const begin = at + 4;
    const end = begin <= bytes.length ? begin + view.getUint32(at, true) : Infinity;
    if (end > bytes.length) throw wrong('a BYTES element is longer than the rest of binary_data_size');
    if (!isUtf8(bytes.subarray(begin, end))) throw wrong('a BYTES element is not valid UTF-8');
    ends[count] = end;
    at = end;
  }
  if (count !== rows) throw wrong('binary_data_size must contain as many BYTES elements as the shape');
  const decoder = new TextDecoder('utf-8', { ignoreBOM: true });
  const at = (row: number) => decoder.decode(bytes.subarray((row === 0 ? 0 : ends[row - 1]!) + 4, ends[row]));
  return { length: rows, at };
}

/** The bytes of an output. Null if a value is missing, because the binary form cannot represent that. */
export function bytesOfTensor(datatype: string, data: readonly unknown[]): Buffer | null {
  if (datatype === 'BYTES') return data.every((v) => typeof v === 'string') ? bytesOfTexts(data) : null;
  if (datatype === 'BOOL') {
    return data.every((v) => typeof v === 'boolean') ? Buffer.from(data.map(Number)) : null;
  }
  const out = Buffer.alloc(data.length * 8);
  for (const [i, value] of data.entries()) {
    if (datatype === 'INT64' && Number.isSafeInteger(value)) out.writeBigInt64LE(BigInt(value as number), i * 8);
    else if (datatype === 'FP64' && typeof value === 'number') out.writeDoubleLE(value, i * 8);
    else return null;
  }
  return out;
}

function bytesOfTexts(texts: readonly string[]): Buffer {
  return Buffer.concat(
    texts.flatMap((text) => {
      const bytes = Buffer.from(text);
      const length = Buffer.alloc(4);
      length.writeUInt32LE(bytes.length);
      return [length, bytes];
    }),
  );
}
