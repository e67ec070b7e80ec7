// The numbers of an Arrow column as doubles; NaN is a cell without a value.
import { type Batch, type DataType, Type } from '@uwdata/flechette';
import type { BatchColumn } from './line-batch.ts';

/** A bit a row; null: all are valid. @throws Error: there are fewer bits */
export function validityOf({ nullCount, validity, length }: Batch<unknown>): Uint8Array | null {
  if (!nullCount || !validity) return null;
  checkBits(validity as Uint8Array, length);
  return validity as Uint8Array;
}

/** @throws Error: there are fewer bits than rows */
export function checkBits(bits: Uint8Array, rows: number): void {
  if (bits.length * 8 < rows) throw new Error('a column ends before its rows');
}

/** The next numbers of a column: `rows` from row `from` on. */
interface Span {
  values: Float64Array;
  validity: Uint8Array | null;
  from: number;
  rows: number;
  forModel: boolean;
}

/**
 * false: doubles do not hold them. `forModel`: the model reads the column, so that decimals become the nearest doubles and NaN is a
 * missing value; otherwise they are left to their exact text.
 */
export function takeNumbers(
  out: BatchColumn,
  batch: Batch<unknown>,
  { type, forModel }: { type: DataType; forModel: boolean },
  from: number,
  rows: number,
): boolean {
  const span: Span = { values: out.values, validity: validityOf(batch), from, rows, forModel };
  if (!fill(span, batch, type)) return false;
  out.kind = 'numbers';
  return true;
}

function fill(span: Span, batch: Batch<unknown>, type: DataType): boolean {
  const source = batch.values;
  switch (type.typeId) {
    case Type.Float:
      if (type.precision === 0) return fillBy(span, (row) => Number(batch.at(row)));
      return fillDoubles(span, source as Float64Array | Float32Array);
    case Type.Decimal:
      return span.forModel && fillBy(span, (row) => decimalNumber(batch.at(row), type.scale));
    case Type.Int:
      if (source instanceof BigInt64Array || source instanceof BigUint64Array) return fillWide(span, source);
      return fillBy(span, (row) => (source as Int32Array)[row]!);
    default:
      return false;
  }
}

/** false: a value that is there is not finite, and is not for the model. */
function fillDoubles(span: Span, source: Float64Array | Float32Array): boolean {
  const { values, validity, from, rows, forModel } = span;
  checkRows(source, from, rows);
  values.set(source.subarray(from, from + rows));
  if (validity !== null) {
    for (let i = 0, row = from; i < rows; i++, row++) {
      if ((validity[row >> 3]! & (1 << (row & 7))) === 0) values[i] = Number.NaN;
    }
  }
  return forModel || areFinite(span);
}

function areFinite({ values, validity, from, rows }: Span): boolean {
  for (let i = 0, row = from; i < rows; i++, row++) {
    if (values[i]! * 0 !== 0 && (validity === null || (validity[row >> 3]! & (1 << (row & 7))) !== 0)) return false;
  }
  return true;
}

function checkRows(source: { length: number }, from: number, rows: number): void {
  if (from + rows > source.length) throw new Error('a column ends before its rows');
}

const HIGH = 2 ** 32;

/** 64 bits as two halves: a BigInt a cell would be garbage. false: one is beyond what doubles hold. */
function fillWide({ values, validity, from, rows }: Span, source: BigInt64Array | BigUint64Array): boolean {
  checkRows(source, from, rows);
  const halves = new Int32Array(source.buffer, source.byteOffset, source.length * 2);
  const unsigned = source instanceof BigUint64Array;
  for (let i = 0, row = from; i < rows; i++, row++) {
    if (validity !== null && (validity[row >> 3]! & (1 << (row & 7))) === 0) values[i] = Number.NaN;
    else {
      const high = halves[row * 2 + 1]!;
      const value = (unsigned ? high >>> 0 : high) * HIGH + (halves[row * 2]! >>> 0);
      if (value > Number.MAX_SAFE_INTEGER || value < -Number.MAX_SAFE_INTEGER) return false;
      values[i] = value;
    }
  }
  return true;
}

function fillBy(span: Span, read: (row: number) => number): boolean {
  const { values, validity, from, rows, forModel } = span;
  for (let i = 0, row = from; i < rows; i++, row++) {
    const isNull = validity !== null && (validity[row >> 3]! & (1 << (row & 7))) === 0;
    values[i] = isNull ? Number.NaN : read(row);
  }
  return forModel || areFinite(span);
}

/** Powers of ten that are exact. */
const EXACT_POWERS = 22;

/** Of a decimal the nearest number: an unscaled integer comes in. */
export function decimalNumber(value: unknown, scale: number): number {
  const unscaled = BigInt(value as bigint | number);
  const exact = Number(unscaled);
  if (Number.isSafeInteger(exact) && scale >= 0 && scale <= EXACT_POWERS) return exact / 10 ** scale;
  return Number(`${unscaled}e${-scale}`);
}
