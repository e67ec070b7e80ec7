// Types of Parquet columns, with functions that read their values as doubles or as lossless JSON tokens.
import type { SchemaElement } from 'hyparquet';
import { parseFloat16 } from 'hyparquet/src/convert.js';
import type { ValueKind } from '../../core/block.ts';
import {
  base64,
  dateText,
  decimalText,
  durationText,
  intervalText,
  nonFiniteToken,
  type PerSecond,
  timestampText,
  timeText,
  uuidText,
} from '../columns/json-text.ts';

// The functions below read plain numbers of a page as doubles. Each type has its own loop, because a shared loop would
// call a function per value.

/** Reads the value at byte `at`; NaN: the value is not a number. */
type NumberAt = (view: DataView, at: number) => number;

/** Plain values in `view`, starting at byte `at`. `level`: 0 for each null row; null: no row is null. */
interface PlainNumbers {
  view: DataView;
  at: number;
  level: Int32Array | null;
}

/**
 * Reads `rows` values, with NaN for nulls. `next`: position after the last value. `odd`: doubles cannot represent all
 * values exactly, so their texts must be written.
 * @throws RangeError if there are fewer values
 */
type TakeNumbers = (values: Float64Array, rows: number, from: PlainNumbers) => { next: number; odd: boolean };

/** Whether an integer is beyond ±2^53. */
const isBeyondDoubles = (value: number): boolean => value > Number.MAX_SAFE_INTEGER || value < -Number.MAX_SAFE_INTEGER;

const HIGH = 2 ** 32;

/** Reads doubles for the model: an infinity is a value, NaN is a missing value. */
const takeDoubles: TakeNumbers = (values, rows, { view, at, level }) => {
  let next = at;
  for (let i = 0; i < rows; i++) {
    if (level !== null && level[i] === 0) values[i] = Number.NaN;
    else {
      values[i] = view.getFloat64(next, true);
      next += 8;
    }
  }
  return { next, odd: false };
};

const takeLongs: TakeNumbers = (values, rows, { view, at, level }) => {
  let next = at;
  let odd = false;
  for (let i = 0; i < rows; i++) {
    if (level !== null && level[i] === 0) values[i] = Number.NaN;
    else {
      const value = view.getInt32(next + 4, true) * HIGH + view.getUint32(next, true);
      odd ||= isBeyondDoubles(value);
      values[i] = value;
      next += 8;
    }
  }
  return { next, odd };
};

/** Reads values of `width` bytes each with `read`. `isOdd`: a double cannot represent the value. */
const takingBy =
  (read: NumberAt, width: number, isOdd: (value: number) => boolean): TakeNumbers =>
  (values, rows, { view, at, level }) => {
    let next = at;
    let odd = false;
    for (let i = 0; i < rows; i++) {
      if (level !== null && level[i] === 0) values[i] = Number.NaN;
      else {
        const value = read(view, next);
        odd ||= isOdd(value);
        values[i] = value;
        next += width;
      }
    }
    return { next, odd };
  };

/** Formats the value at `at` as a token. If each value follows its length, `at` is the position after the length. */
type Token = (view: DataView, at: number, length: number) => string;

/**
 * A column of numbers. `odd` returns the token of a value that no double represents exactly; null: a double represents
 * the value.
 */
interface Numbers {
  kind: 'numbers';
  read: NumberAt;
  take: TakeNumbers;
  odd: (view: DataView, at: number) => string | null;
}

export type Meaning = Numbers | { kind: 'booleans' } | { kind: 'texts' } | { kind: 'others'; token: Token };

/** Bytes of a value; 0: each value follows its length. */
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

/** `durationsPerSecond`: units per second, if the column has durations. Parquet has no such type. */
export type ParquetElement = SchemaElement & { durationsPerSecond?: PerSecond };

/** The annotation of a column: its logical type, or the older converted type (parquet-format, LogicalTypes.md). */
type Annotation =
  | { of: 'none' | 'text' | 'date' | 'uuid' | 'float16' | 'interval' | 'binary' | 'null' }
  | { of: 'decimal'; scale: number }
  | { of: 'integer'; unsigned: boolean }
  | { of: 'time' | 'duration'; perSecond: PerSecond }
  | { of: 'timestamp'; perSecond: PerSecond; utc: boolean };

const PER_SECOND = { MILLIS: 1_000, MICROS: 1_000_000, NANOS: 1_000_000_000 } as const;

function annotationOf({
  logical_type: logical,
  converted_type: converted,
  scale,
  durationsPerSecond,
}: ParquetElement): Annotation {
  if (durationsPerSecond) return { of: 'duration', perSecond: durationsPerSecond };
  switch (logical?.type) {
    case 'STRING':
    case 'ENUM':
    case 'JSON':
      return { of: 'text' };
    case 'DATE':
      return { of: 'date' };
    case 'UUID':
      return { of: 'uuid' };
    case 'FLOAT16':
      return { of: 'float16' };
    case 'NULL':
      return { of: 'null' };
    case 'DECIMAL':
      return { of: 'decimal', scale: scale ?? logical.scale ?? 0 };
    case 'INTEGER':
      return { of: 'integer', unsigned: !logical.isSigned };
    case 'TIME':
      return { of: 'time', perSecond: PER_SECOND[logical.unit] };
    case 'TIMESTAMP':
      return { of: 'timestamp', perSecond: PER_SECOND[logical.unit], utc: logical.isAdjustedToUTC };
    case undefined:
      return convertedAnnotation(converted, scale ?? 0);
    default:
      return { of: 'binary' };
  }
}

function convertedAnnotation(converted: SchemaElement['converted_type'], scale: number): Annotation {
  switch (converted) {
    case undefined:
      return { of: 'none' };
    case 'UTF8':
    case 'ENUM':
    case 'JSON':
      return { of: 'text' };
    case 'DATE':
      return { of: 'date' };
    case 'INTERVAL':
      return { of: 'interval' };
    case 'DECIMAL':
      return { of: 'decimal', scale };
    case 'INT_8':
    case 'INT_16':
    case 'INT_32':
    case 'INT_64':
      return { of: 'integer', unsigned: false };
    case 'UINT_8':
    case 'UINT_16':
    case 'UINT_32':
    case 'UINT_64':
      return { of: 'integer', unsigned: true };
    case 'TIME_MILLIS':
    case 'TIME_MICROS':
      return { of: 'time', perSecond: converted === 'TIME_MILLIS' ? 1_000 : 1_000_000 };
    case 'TIMESTAMP_MILLIS':
    case 'TIMESTAMP_MICROS':
      return { of: 'timestamp', perSecond: converted === 'TIMESTAMP_MILLIS' ? 1_000 : 1_000_000, utc: true };
    default:
      return { of: 'binary' };
  }
}

/**
 * The kind of values in a column. Bytes without an annotation count as text, because old writers do not annotate text,
 * and newer writers can be configured not to.
 */
export function kindOfElement(element: ParquetElement): ValueKind {
  const { type } = element;
  const annotation = annotationOf(element);
  if (type === 'BOOLEAN') return 'boolean';
  if (type === 'INT96') return 'timestamp';
  switch (annotation.of) {
    case 'none':
      if (type === 'BYTE_ARRAY') return 'text';
      return type === 'FIXED_LEN_BYTE_ARRAY' ? 'binary' : 'number';
    case 'integer':
    case 'float16':
      return 'number';
    case 'uuid':
      return 'text';
    case 'interval':
      return 'duration';
    default:
      return annotation.of;
  }
}

/** How to read the values of a column. `forModel`: the model reads the column; see `TypedTable.readForModel`. */
export function meaningOf(element: ParquetElement, forModel: boolean): Meaning {
  const { type } = element;
  const annotation = annotationOf(element);
  if (type === 'BOOLEAN') return { kind: 'booleans' };
  if (annotation.of === 'decimal') return decimals(element, annotation.scale, forModel);
  if (annotation.of === 'float16') return floats(float16, widthOf(element), forModel);
  if (annotation.of === 'none' || annotation.of === 'integer') {
    const unsigned = annotation.of === 'integer' && annotation.unsigned;
    if (type === 'DOUBLE' && forModel) return { kind: 'numbers', read: float64, take: takeDoubles, odd: held };
    if (type === 'DOUBLE') return floats(float64, 8, false);
    if (type === 'FLOAT') return floats(float32, 4, forModel);
    if (type === 'INT32') return numbersBy(unsigned ? uint32 : int32, 4);
    if (type === 'INT64') return { kind: 'numbers', ...(unsigned ? UINT64 : INT64) };
  }
  if (type === 'BYTE_ARRAY' && (annotation.of === 'none' || annotation.of === 'text')) return { kind: 'texts' };
  return { kind: 'others', token: tokenOf(element, annotation) };
}

const held = (): null => null;
const never = (): boolean => false;

const numbersBy = (read: NumberAt, width: number): Numbers => ({
  kind: 'numbers',
  read,
  take: takingBy(read, width, never),
  odd: held,
});

const isNotFinite = (value: number): boolean => !Number.isFinite(value);

/** How to read floating-point numbers. In columns outside the model, NaN and infinities must differ from nulls. */
function floats(read: NumberAt, width: number, forModel: boolean): Numbers {
  if (forModel) return numbersBy(read, width);
  const odd = (view: DataView, at: number) => {
    const value = read(view, at);
    return isNotFinite(value) ? nonFiniteToken(value) : null;
  };
  return { kind: 'numbers', read, take: takingBy(read, width, isNotFinite), odd };
}

const float64: NumberAt = (view, at) => view.getFloat64(at, true);
const float32: NumberAt = (view, at) => view.getFloat32(at, true);
const int32: NumberAt = (view, at) => view.getInt32(at, true);
const uint32: NumberAt = (view, at) => view.getUint32(at, true);
const float16: NumberAt = (view, at) =>
  parseFloat16(new Uint8Array(view.buffer, view.byteOffset + at, 2)) ?? Number.NaN;

const INT64 = {
  read: (view: DataView, at: number): number => view.getInt32(at + 4, true) * HIGH + view.getUint32(at, true),
  take: takeLongs,
  odd: (view: DataView, at: number): string | null => unsafe(view.getBigInt64(at, true)),
};
const uint64: NumberAt = (view, at) => view.getUint32(at + 4, true) * HIGH + view.getUint32(at, true);
const UINT64 = {
  read: uint64,
  take: takingBy(uint64, 8, isBeyondDoubles),
  odd: (view: DataView, at: number): string | null => unsafe(view.getBigUint64(at, true)),
};

/**
 * The token of an integer beyond the exact range of doubles: all digits, as a JSON number, because smaller values of
 * the column are JSON numbers too.
 */
const unsafe = (value: bigint): string | null => (Number.isSafeInteger(Number(value)) ? null : String(value));

/**
 * Exponent of the largest power of ten that a double represents exactly. Dividing an exact double by such a power
 * rounds correctly.
 */
const EXACT_POWERS = 22;

/** How to read decimals: the nearest doubles for the model, otherwise the digits as text. */
function decimals(element: SchemaElement, scale: number, forModel: boolean): Meaning {
  const unscaled = unscaledOf(element);
  if (!forModel) return { kind: 'others', token: (...at) => `"${decimalText(unscaled(...at), scale)}"` };
  const power = 10 ** scale;
  const nearest = (value: bigint): number => {
    const exact = Number(value);
    const divides = Number.isSafeInteger(exact) && scale >= 0 && scale <= EXACT_POWERS;
    return divides ? exact / power : Number(`${value}e${-scale}`);
  };
  const width = widthOf(element);
  if (width > 0) return numbersBy((view, at) => nearest(unscaled(view, at, width)), width);
  return { kind: 'others', token: (...at) => String(nearest(unscaled(...at))) };
}

function unscaledOf({ type }: SchemaElement): (view: DataView, at: number, length: number) => bigint {
  if (type === 'INT32') return (view, at) => BigInt(view.getInt32(at, true));
  if (type === 'INT64') return (view, at) => view.getBigInt64(at, true);
  return bigEndian;
}

/**
 * Maximum bytes of a decimal. The format allows 32. A limit is needed because the decoding time grows with the square
 * of the length.
 */
const MOST_DECIMAL_BYTES = 256;

function bigEndian(view: DataView, at: number, length: number): bigint {
  if (length === 0) return 0n;
  if (length <= 4) return BigInt(smallBigEndian(view, at, length));
  if (length > MOST_DECIMAL_BYTES) throw new Error('a decimal has more digits than any format allows');
  let value = 0n;
  for (let i = 0; i < length; i++) value = (value << 8n) | BigInt(view.getUint8(at + i));
  return BigInt.asIntN(8 * length, value);
}

function smallBigEndian(view: DataView, at: number, length: number): number {
  let value = view.getInt8(at);
  for (let i = 1; i < length; i++) value = value * 256 + view.getUint8(at + i);
  return value;
}

/** Nanoseconds per day, and the Julian day of 1970-01-01, which define the two fields of an INT96. */
const DAY_NANOS = 86_400_000_000_000n;
const JULIAN_EPOCH = 2_440_588n;

/**
 * Returns the function that formats values that are neither numbers nor plain text.
 * @throws Error if the physical type does not fit its annotation
 */
function tokenOf({ type }: SchemaElement, annotation: Annotation): Token {
  const isWide = type === 'INT64';
  const units = (view: DataView, at: number): bigint =>
    isWide ? view.getBigInt64(at, true) : BigInt(view.getInt32(at, true));
  // INT96 is deprecated and has no defined time zone. pyarrow and DuckDB treat it as local time.
  if (type === 'INT96') {
    return (view, at) => {
      const day = BigInt(view.getInt32(at + 8, true)) - JULIAN_EPOCH;
      return `"${timestampText(day * DAY_NANOS + view.getBigInt64(at, true), 1_000_000_000, false)}"`;
    };
  }
  const isWhole = type === 'INT32' || type === 'INT64';
  switch (annotation.of) {
    case 'date':
      if (isWhole) return (view, at) => `"${dateText(Number(units(view, at)))}"`;
      break;
    case 'time':
      if (isWhole) return (view, at) => `"${timeText(units(view, at), annotation.perSecond)}"`;
      break;
    case 'duration':
      if (isWhole) return (view, at) => `"${durationText(units(view, at), annotation.perSecond)}"`;
      break;
    case 'timestamp':
      if (isWhole) return (view, at) => `"${timestampText(units(view, at), annotation.perSecond, annotation.utc)}"`;
      break;
    case 'null':
      return () => 'null';
    case 'uuid':
      return (view, at, length) => `"${uuidText(bytesAt(view, at, length))}"`;
    case 'interval':
      return (view, at) => `"${intervalText(view, at)}"`;
  }
  if (isWhole || type === 'FLOAT' || type === 'DOUBLE') throw new Error(`${type} values do not fit their annotation`);
  return (view, at, length) => `"${base64(bytesAt(view, at, length))}"`;
}

const bytesAt = (view: DataView, at: number, length: number): Uint8Array =>
  new Uint8Array(view.buffer, view.byteOffset + at, length);
