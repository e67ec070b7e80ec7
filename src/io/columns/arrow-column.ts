// One column of an Arrow table: from its buffers to what lines and workers take, without a value a cell.
import { type Batch, type Column, type DataType, Type } from '@uwdata/flechette';
import type { ValueKind } from '../../core/block-columns.ts';
import { checkBits, decimalNumber, takeNumbers, validityOf } from './arrow-numbers.ts';
import {
  base64,
  dateText,
  decimalText,
  durationText,
  nonFiniteToken,
  type PerSecond,
  timestampText,
  timeText,
} from './exact-text.ts';
import { Fragments, TokenArena } from './fragments.ts';
import { dataViewOf, InternedWords, outside, type PlainTexts } from './interned-words.ts';
import type { BatchColumn } from './line-batch.ts';
import { NUMBER_BYTES, writeNumber } from './number-text.ts';
import { ESCAPED_BYTES, QUOTE_BYTES, writeTextToken } from './token-text.ts';

const NESTED = new Set<number>([
  Type.List,
  Type.Struct,
  Type.Union,
  Type.FixedSizeList,
  Type.Map,
  Type.LargeList,
  Type.ListView,
  Type.LargeListView,
  Type.Interval,
]);

/** Whether a column has one value a row. */
export function isFlat(type: DataType): boolean {
  if (type.typeId === Type.Dictionary) return isFlat(type.dictionary);
  return !NESTED.has(type.typeId) && !(type.typeId === Type.RunEndEncoded && !isFlat(type.children[1]!.type));
}

const DAY_MS = 86_400_000;
/** Units of Arrow: second, millisecond, microsecond, nanosecond. */
const PER_SECOND: readonly PerSecond[] = [1, 1_000, 1_000_000, 1_000_000_000];

/** The type of the values, whatever they are encoded by. */
function valueType(type: DataType): DataType {
  if (type.typeId === Type.Dictionary) return valueType(type.dictionary);
  return type.typeId === Type.RunEndEncoded ? valueType(type.children[1]!.type) : type;
}

/** What a flat column holds. */
export function kindOfField(type: DataType): ValueKind {
  switch (valueType(type).typeId) {
    case Type.Int:
    case Type.Float:
      return 'number';
    case Type.Decimal:
      return 'decimal';
    case Type.Bool:
      return 'boolean';
    case Type.Date:
      return 'date';
    case Type.Timestamp:
      return 'timestamp';
    case Type.Time:
      return 'time';
    case Type.Duration:
      return 'duration';
    case Type.Null:
      return 'null';
    case Type.Utf8:
    case Type.LargeUtf8:
    case Type.Utf8View:
      return 'text';
    default:
      return 'binary';
  }
}

/** Writes the value of a row as a token. */
type WriteToken = (to: TokenArena, row: number) => void;

export class ArrowColumn {
  /** The model reads it: see `TypedTable.readForModel`. */
  forModel = false;
  readonly #key: Uint8Array;
  #type: DataType | null = null;
  #batch: Batch<unknown> | null = null;
  #row = 0;
  #fragments: Fragments | null = null;
  /** Of which edition the fragments are. */
  #edition = -1;
  #token: WriteToken = () => {};
  /** Of plain texts; made with the first one. null: there are too many different ones. */
  #words: InternedWords | null | undefined;

  constructor(key: Uint8Array) {
    this.#key = key;
  }

  /** A record batch begins; `edition`: other than before where a dictionary may have changed. */
  begin(batch: Batch<unknown>, type: DataType, edition: number): void {
    this.#batch = batch;
    this.#type = type;
    this.#row = 0;
    if (type.typeId === Type.Dictionary) {
      if (edition !== this.#edition) this.#fragments = wordsOf(this.#key, dictionaryOf(batch), this.forModel);
      this.#edition = edition;
    } else if (type.typeId === Type.Bool) {
      this.#fragments ??= fragmentsOf(this.#key, 2, (to, i) => to.ascii(i === 0 ? 'false' : 'true'));
    } else this.#token = tokenWriter(batch, type, this.forModel);
  }

  take(out: BatchColumn, rows: number): void {
    const [batch, type, from] = [this.#batch!, this.#type!, this.#row];
    this.#row += rows;
    out.fragments = null;
    if (type.typeId === Type.Dictionary) this.#takeCodes(out, batch, from, rows);
    else if (type.typeId === Type.Bool) this.#takeBooleans(out, batch, from, rows);
    else if (
      takeNumbers(out, batch, { type, forModel: this.forModel }, from, rows) ||
      this.#takeWords(out, batch, type, from, rows)
    )
      return;
    else this.#takeTokens(out, batch, from, rows);
  }

  /** false: they are no plain texts, or too many different ones to be coded. */
  #takeWords(out: BatchColumn, batch: Batch<unknown>, type: DataType, from: number, rows: number): boolean {
    if (this.#words === null || (type.typeId !== Type.Utf8 && type.typeId !== Type.LargeUtf8)) return false;
    this.#words ??= new InternedWords(this.#key);
    const words = this.#words;
    const text = dataViewOf(batch.values as Uint8Array);
    const place = placeOfTexts(batch.offsets as Int32Array | BigInt64Array);
    if (!words.fill(out.codes, rows, { text, ...place, validity: validityOf(batch), from })) {
      // As a rule they are keys, and go on to be all different.
      this.#words = null;
      return false;
    }
    out.kind = 'coded';
    out.fragments = words.fragments;
    return true;
  }

  #takeCodes(out: BatchColumn, batch: Batch<unknown>, from: number, rows: number): void {
    const words = this.#fragments!;
    const none = words.count - 1;
    const keys = batch.values as ArrayLike<number | bigint>;
    const validity = validityOf(batch);
    const { codes } = out;
    for (let i = 0, row = from; i < rows; i++, row++) {
      const code = validity === null || (validity[row >> 3]! & (1 << (row & 7))) !== 0 ? Number(keys[row]) : none;
      if (!(code >= 0 && code <= none)) throw new Error('a code is not in its dictionary');
      codes[i] = code;
    }
    out.kind = 'coded';
    out.fragments = words;
  }

  #takeBooleans(out: BatchColumn, batch: Batch<unknown>, from: number, rows: number): void {
    const bits = batch.values as Uint8Array;
    checkBits(bits, from + rows);
    const validity = validityOf(batch);
    const { codes } = out;
    for (let i = 0, row = from; i < rows; i++, row++) {
      const isNull = validity !== null && (validity[row >> 3]! & (1 << (row & 7))) === 0;
      codes[i] = isNull ? 2 : (bits[row >> 3]! >> (row & 7)) & 1;
    }
    out.kind = 'coded';
    out.fragments = this.#fragments;
  }

  #takeTokens(out: BatchColumn, batch: Batch<unknown>, from: number, rows: number): void {
    const { tokens, ends } = out;
    tokens.length = 0;
    for (let i = 0; i < rows; i++) {
      if (isValid(batch, from + i)) this.#token(tokens, from + i);
      else tokens.ascii('null');
      ends[i] = tokens.length;
    }
    out.kind = 'tokens';
  }
}

function isValid(batch: Batch<unknown>, row: number): boolean {
  const validity = validityOf(batch);
  return validity === null || (validity[row >> 3]! & (1 << (row & 7))) !== 0;
}

function placeOfTexts(offsets: Int32Array | BigInt64Array): Pick<PlainTexts, 'offsets' | 'step'> {
  if (offsets instanceof Int32Array) return { offsets, step: 1 };
  return { offsets: new Int32Array(offsets.buffer, offsets.byteOffset, offsets.length * 2), step: 2 };
}

function tokenWriter(batch: Batch<unknown>, type: DataType, forModel: boolean): WriteToken {
  switch (type.typeId) {
    case Type.Utf8:
    case Type.LargeUtf8: {
      const [bytes, offsets] = [batch.values as Uint8Array, batch.offsets as ArrayLike<number | bigint>];
      return (to, row) => writeText(to, bytes, Number(offsets[row]), Number(offsets[row + 1]));
    }
    case Type.Utf8View: {
      // Its bytes: as a string, a text that is not UTF-8 would be another one.
      const view = batch as unknown as { view(row: number): Uint8Array };
      return (to, row) => {
        const bytes = view.view(row);
        writeText(to, bytes, 0, bytes.length);
      };
    }
    case Type.Date: {
      // Days, or milliseconds; raw, because the library makes milliseconds of both.
      const values = batch.values as ArrayLike<number | bigint>;
      const perDay = type.unit === 0 ? 1 : DAY_MS;
      return (to, row) => to.ascii(`"${dateText(Math.floor(Number(values[row]) / perDay))}"`);
    }
    case Type.RunEndEncoded: {
      const values = valueType(type);
      return (to, row) => writeValue(to, batch.at(row), values, forModel);
    }
    default:
      return (to, row) => writeValue(to, batch.at(row), type, forModel);
  }
}

function writeText(to: TokenArena, bytes: Uint8Array, start: number, end: number): void {
  if (!(start >= 0 && start <= end && end <= bytes.length)) throw outside();
  const room = to.room((end - start) * ESCAPED_BYTES + QUOTE_BYTES);
  to.length = writeTextToken(room, to.length, bytes, start, end);
}

/** A value as flechette gives it: units of times as whole numbers, decimals unscaled, days of dates in milliseconds. */
function writeValue(to: TokenArena, value: unknown, type: DataType, forModel: boolean): void {
  if (value === null || value === undefined) to.ascii('null');
  else if (value instanceof Uint8Array) to.ascii(`"${base64(value)}"`);
  else if (typeof value === 'number' || typeof value === 'bigint') writeUnits(to, value, type, forModel);
  else to.utf8(JSON.stringify(value) ?? 'null');
}

function writeUnits(to: TokenArena, value: number | bigint, type: DataType, forModel: boolean): void {
  switch (type.typeId) {
    case Type.Decimal:
      if (forModel) writeNumberToken(to, decimalNumber(value, type.scale));
      else to.ascii(`"${decimalText(BigInt(value), type.scale)}"`);
      break;
    case Type.Date:
      to.ascii(`"${dateText(Math.floor(Number(value) / DAY_MS))}"`);
      break;
    case Type.Timestamp:
      to.ascii(`"${timestampText(BigInt(value), PER_SECOND[type.unit]!, type.timezone !== null)}"`);
      break;
    case Type.Time:
      to.ascii(`"${timeText(BigInt(value), PER_SECOND[type.unit]!)}"`);
      break;
    case Type.Duration:
      to.ascii(`"${durationText(BigInt(value), PER_SECOND[type.unit]!)}"`);
      break;
    default:
      // Whole numbers beyond 2^53 keep their digits; a NaN that the model reads is a missing value.
      if (typeof value === 'bigint') to.ascii(String(value));
      else if (Number.isFinite(value) || (forModel && Number.isNaN(value))) writeNumberToken(to, value);
      else to.ascii(nonFiniteToken(value));
  }
}

function writeNumberToken(to: TokenArena, value: number): void {
  to.length = writeNumber(to.room(NUMBER_BYTES), to.length, value);
}

const dictionaryOf = (batch: Batch<unknown>): Column<unknown> =>
  (batch as unknown as { dictionary: Column<unknown> }).dictionary;

/** The words of a dictionary, which may have come in several pieces. */
function wordsOf(key: Uint8Array, dictionary: Column<unknown>, forModel: boolean): Fragments {
  const type = dictionary.type as DataType;
  const pieces = dictionary.data as readonly Batch<unknown>[];
  const words = pieces.flatMap((piece): [Batch<unknown>, WriteToken, number][] => {
    const write = tokenWriter(piece, type, forModel);
    return Array.from({ length: piece.length }, (_, row) => [piece, write, row]);
  });
  return fragmentsOf(key, words.length, (to, i) => {
    const [piece, write, row] = words[i]!;
    if (isValid(piece, row)) write(to, row);
    else to.ascii('null');
  });
}

function fragmentsOf(key: Uint8Array, count: number, write: (to: TokenArena, i: number) => void): Fragments {
  const tokens = new TokenArena();
  const ends = new Int32Array(count);
  for (let i = 0; i < count; i++) {
    write(tokens, i);
    ends[i] = tokens.length;
  }
  return new Fragments(key, tokens, ends);
}
