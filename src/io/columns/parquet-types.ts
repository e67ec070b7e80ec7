// What the values of a Parquet column are: numbers, texts, or something that only hyparquet's conversions tell.
import type { ParquetParsers, SchemaElement } from 'hyparquet';
import { convert, DEFAULT_PARSERS, parseFloat16 } from 'hyparquet/src/convert.js';
import { type NumberAt, type TakeNumbers, takeDoubles, takeLongs, takingBy } from './parquet-numbers.ts';

type Digits = (view: DataView, at: number) => string | null;

export type Meaning =
  /** `digits`: of a whole number that no double holds. */
  | { kind: 'numbers'; read: NumberAt; take: TakeNumbers; digits: Digits | null }
  | { kind: 'booleans' }
  | { kind: 'texts' }
  /** `token`: the value as JSON. Of a type with lengths `at` is behind the length. */
  | { kind: 'others'; token: (view: DataView, at: number, length: number) => string };

/** Bytes of a value; 0: each says its own length in front. */
export function widthOf({ type, type_length: length }: SchemaElement): number {
  switch (type) {
    case 'INT32':
    case 'FLOAT':
      return 4;
    case 'INT64':
    case 'DOUBLE':
      return 8;
    case 'INT96':
      return 12;
    case 'FIXED_LEN_BYTE_ARRAY':
      return length ?? 0;
    default:
      return 0;
  }
}

const UNSIGNED = new Set(['UINT_8', 'UINT_16', 'UINT_32', 'UINT_64']);
const WHOLE = new Set(['INT_8', 'INT_16', 'INT_32', 'INT_64', 'TIME_MILLIS', 'TIME_MICROS']);
const PLAIN_LOGICAL = new Set(['INTEGER', 'TIME']);

export function meaningOf(element: SchemaElement): Meaning {
  const { type, converted_type: converted, logical_type: logical } = element;
  if (type === 'BOOLEAN') return { kind: 'booleans' };
  if (type === 'BYTE_ARRAY' && (converted === 'UTF8' || logical?.type === 'STRING' || (!converted && !logical))) {
    return { kind: 'texts' };
  }
  if (type === 'BYTE_ARRAY' && (converted === 'ENUM' || logical?.type === 'ENUM')) return { kind: 'texts' };
  if (converted === 'DECIMAL' || logical?.type === 'DECIMAL') return decimals(element);
  if (logical?.type === 'FLOAT16') return numbersBy(float16, widthOf(element));
  const isNumber =
    (converted === undefined || WHOLE.has(converted) || UNSIGNED.has(converted)) &&
    (logical === undefined || PLAIN_LOGICAL.has(logical.type));
  if (isNumber) {
    const unsigned =
      UNSIGNED.has(converted ?? '') ||
      (logical?.type === 'INTEGER' && (logical as { isSigned?: boolean }).isSigned === false);
    if (type === 'DOUBLE') return { kind: 'numbers', read: float64, take: takeDoubles, digits: null };
    if (type === 'FLOAT') return numbersBy(float32, 4);
    if (type === 'INT32') return numbersBy(unsigned ? uint32 : int32, 4);
    if (type === 'INT64') return { kind: 'numbers', ...(unsigned ? UINT64 : INT64) };
  }
  return { kind: 'others', token: tokens(element) };
}

function numbersBy(read: NumberAt, width: number): Meaning {
  return { kind: 'numbers', read, take: takingBy(read, width), digits: null };
}

const float64: NumberAt = (view, at) => view.getFloat64(at, true);
const float32: NumberAt = (view, at) => view.getFloat32(at, true);
const int32: NumberAt = (view, at) => view.getInt32(at, true);
const uint32: NumberAt = (view, at) => view.getUint32(at, true);
const float16: NumberAt = (view, at) =>
  parseFloat16(new Uint8Array(view.buffer, view.byteOffset + at, 2)) ?? Number.NaN;

const HIGH = 2 ** 32;
const INT64 = {
  read: (view: DataView, at: number): number => view.getInt32(at + 4, true) * HIGH + view.getUint32(at, true),
  take: takeLongs,
  digits: (view: DataView, at: number): string | null => unsafe(view.getBigInt64(at, true)),
};
const uint64: NumberAt = (view, at) => view.getUint32(at + 4, true) * HIGH + view.getUint32(at, true);
const UINT64 = {
  read: uint64,
  take: takingBy(uint64, 8),
  digits: (view: DataView, at: number): string | null => unsafe(view.getBigUint64(at, true)),
};

const unsafe = (value: bigint): string | null => (Number.isSafeInteger(Number(value)) ? null : String(value));

/** Powers of ten that are exact, as are the quotients of what is divided by them. */
const EXACT_POWERS = 22;

function decimals(element: SchemaElement): Meaning {
  const scale = element.scale ?? (element.logical_type as { scale?: number } | undefined)?.scale ?? 0;
  const power = 10 ** scale;
  const scaled = (unscaled: number): number =>
    Number.isSafeInteger(unscaled) && scale >= 0 && scale <= EXACT_POWERS ? unscaled / power : Number.NaN;
  const of = (unscaled: bigint): number => {
    const quotient = scaled(Number(unscaled));
    return Number.isNaN(quotient) ? Number(`${unscaled}e${-scale}`) : quotient;
  };
  const { type } = element;
  if (type === 'INT32') return numbersBy((view, at) => of1(scaled, of, view.getInt32(at, true)), 4);
  if (type === 'INT64') return numbersBy((view, at) => of(view.getBigInt64(at, true)), 8);
  const width = widthOf(element);
  if (width > 0) return numbersBy((view, at) => of(bigEndian(view, at, width)), width);
  return { kind: 'others', token: (view, at, length) => JSON.stringify(of(bigEndian(view, at, length))) };
}

function of1(scaled: (n: number) => number, of: (n: bigint) => number, value: number): number {
  const quotient = scaled(value);
  return Number.isNaN(quotient) ? of(BigInt(value)) : quotient;
}

function bigEndian(view: DataView, at: number, length: number): bigint {
  if (length === 0) return 0n;
  if (length <= 4) return BigInt(smallBigEndian(view, at, length));
  let value = 0n;
  for (let i = 0; i < length; i++) value = (value << 8n) | BigInt(view.getUint8(at + i));
  return BigInt.asIntN(8 * length, value);
}

function smallBigEndian(view: DataView, at: number, length: number): number {
  let value = view.getInt8(at);
  for (let i = 1; i < length; i++) value = value * 256 + view.getUint8(at + i);
  return value;
}

/** hyparquet's conversion of one value, as JSON. */
function tokens(element: SchemaElement): (view: DataView, at: number, length: number) => string {
  const decoder = { element, parsers: DEFAULT_PARSERS as Required<ParquetParsers>, schemaPath: [] };
  return (view, at, length) => {
    const value = physical(element.type, view, at, length);
    const [converted] = convert(value as never, decoder as never) as unknown[];
    return JSON.stringify(converted, plainJson) ?? 'null';
  };
}

function physical(type: SchemaElement['type'], view: DataView, at: number, length: number): unknown {
  switch (type) {
    case 'INT32':
      return [view.getInt32(at, true)];
    case 'INT64':
      return BigInt64Array.of(view.getBigInt64(at, true));
    case 'INT96':
      return [(BigInt(view.getInt32(at + 8, true)) << 64n) | view.getBigInt64(at, true)];
    case 'FLOAT':
      return [view.getFloat32(at, true)];
    case 'DOUBLE':
      return [view.getFloat64(at, true)];
    default:
      return [new Uint8Array(view.buffer as ArrayBuffer, view.byteOffset + at, length)];
  }
}

/** Whole numbers beyond 2^53 keep their digits as text; dates were made texts by JSON before. */
export function plainJson(_key: string, value: unknown): unknown {
  if (typeof value === 'bigint') return Number.isSafeInteger(Number(value)) ? Number(value) : String(value);
  if (typeof value === 'number' && !Number.isFinite(value)) return null;
  return value === undefined ? null : value;
}
