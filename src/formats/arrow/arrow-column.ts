// Converts the buffers of an Arrow column into batch columns, without creating an object per cell.
import { type Batch, type DataType, Type } from '@uwdata/flechette';
import type { EventLoopTurns } from '../../core/async.ts';
import type { ValueKind } from '../../core/block.ts';
import {
  base64,
  dateText,
  decimalText,
  durationText,
  ESCAPED_BYTES,
  Fragments,
  fragmentsOf,
  NUMBER_BYTES,
  nonFiniteToken,
  QUOTE_BYTES,
  TokenArena,
  timestampText,
  timeText,
  uuidText,
  writeNumber,
  writeTextToken,
} from '../columns/json-text.ts';
import type { BatchColumn, RowMarks, SizedColumn } from '../columns/line-batch.ts';
import { extensionOf } from './arrow-batches.ts';
import { ArrowDictionary, dataViewOf, InternedWords, outside, type PlainTexts } from './arrow-dictionary.ts';
import { PER_SECOND } from './arrow-messages.ts';

// Functions that read the numbers of a column as doubles. NaN marks a null.

/** Validity bits, one per row; null: all rows are valid. @throws Error if there are fewer bits than rows */
function validityOf({ nullCount, validity, length }: Batch<unknown>): Uint8Array | null {
  if (!nullCount || !validity) return null;
  checkBits(validity as Uint8Array, length);
  return validity as Uint8Array;
}

/** @throws Error if there are fewer bits than rows */
function checkBits(bits: Uint8Array, rows: number): void {
  if (bits.length * 8 < rows) throw new Error('a column ends before its rows');
}

/** The rows to convert next: `rows` rows starting at row `from` of the column, into `values`. */
interface Span {
  values: Float64Array;
  validity: Uint8Array | null;
  from: number;
  rows: number;
  forModel: boolean;
}

/**
 * Writes the next numbers; returns false if doubles cannot represent them. `forModel`: the model reads the column.
 * Decimals then become the nearest doubles and NaN is a missing value. In other columns, such values keep their exact
 * text.
 */
function takeNumbers(
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

/** Copies the values. Returns false if a value is not finite and the model does not read the column. */
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

/**
 * Reads 64-bit integers as two halves, which avoids allocating a BigInt per cell. Returns false if a value exceeds the
 * exact range of doubles.
 */
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

/** Exponent of the largest power of ten that a double represents exactly. */
const EXACT_POWERS = 22;

/** The double nearest to a decimal, given as an unscaled integer and a scale. */
function decimalNumber(value: unknown, scale: number): number {
  const unscaled = BigInt(value as bigint | number);
  const exact = Number(unscaled);
  if (Number.isSafeInteger(exact) && scale >= 0 && scale <= EXACT_POWERS) return exact / 10 ** scale;
  return Number(`${unscaled}e${-scale}`);
}

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

/** Whether a column has a single value per row. */
export function isFlat(type: DataType): boolean {
  if (type.typeId === Type.Dictionary) return isFlat(type.dictionary);
  return !NESTED.has(type.typeId) && !(type.typeId === Type.RunEndEncoded && !isFlat(type.children[1]!.type));
}

const DAY_MS = 86_400_000;

const isUuid = (type: DataType): boolean =>
  extensionOf(type) === 'arrow.uuid' && type.typeId === Type.FixedSizeBinary && type.stride === 16;

/** The type of the values, without dictionary or run-end encoding. */
function valueType(type: DataType): DataType {
  if (type.typeId === Type.Dictionary) return valueType(type.dictionary);
  return type.typeId === Type.RunEndEncoded ? valueType(type.children[1]!.type) : type;
}

/** The kind of values in a flat column. */
export function kindOfField(type: DataType): ValueKind {
  if (isUuid(type)) return 'text';
  // A month or quarter of pandas, stored as a number.
  if (extensionOf(type) === 'pandas.period') return 'date';
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

/** Writes the value of a row as a JSON token. */
type WriteToken = (to: TokenArena, row: number) => void;

/**
 * Maximum size of a dictionary that is sent to the workers once as a word list, with its columns as codes. For a larger
 * dictionary, the text of each cell is written instead.
 */
const MOST_LISTED_BYTES = 4 * 1024 * 1024;
const MOST_LISTED_WORDS = 1024 * 1024;
/** An extended dictionary is listed again at once if its words have at most this many bytes per row of the batch. */
const LISTED_BYTES_PER_ROW = 64;
/** Number of words to write before yielding to the event loop. */
const STEP_WORDS = 1024;

export class ArrowColumn implements SizedColumn {
  /** Whether the model reads the column; see `TypedTable.readForModel`. */
  forModel = false;
  readonly #key: Uint8Array;
  readonly #type: DataType;
  readonly #recordBytes: number;
  #batch: Batch<unknown> | null = null;
  #row = 0;
  /** The dictionary of the column, or of its run values if it is run-end encoded; null: the column has no codes. */
  #dictionary: ArrowDictionary | null = null;
  #list: Fragments | null = null;
  /** The dictionary whose first words `#list` contains. */
  #listOf: ArrowDictionary | null = null;
  #booleans: Fragments | null = null;
  #nulls: Fragments | null = null;
  #token: WriteToken = () => {};
  /** One token writer for each piece of the dictionary. */
  #wordWriters: WriteToken[] = [];
  /**
   * The distinct texts of a column without dictionary, as codes. undefined: no text was read yet. null: there are too
   * many distinct texts.
   */
  #words: InternedWords | null | undefined;

  /** `recordBytes`: texts longer than this are not copied. */
  constructor(key: Uint8Array, type: DataType, recordBytes: number) {
    this.#key = key;
    this.#type = type;
    this.#recordBytes = recordBytes;
  }

  /** Starts a record batch. `dictionary`: the dictionary of a column with codes, else null. */
  begin(batch: Batch<unknown>, dictionary: ArrowDictionary | null): void {
    const before = this.#dictionary;
    this.#batch = batch;
    this.#row = 0;
    this.#dictionary = dictionary;
    if (dictionary === null && this.#type.typeId === Type.RunEndEncoded) {
      // The type of the column: that of the bytes has no scale (`storedType`).
      this.#dictionary = new ArrowDictionary(this.#type.children[1]!.type);
      this.#dictionary.add(runsOf(batch)[1], Infinity);
    }
    if (this.#dictionary !== before) this.#wordWriters = [];
    if (this.#dictionary === null) this.#token = this.#writerOf(batch, this.#type);
  }

  /** Whether `list` must be called before rows of the batch are taken. `rows`: number of rows in the batch. */
  mustList(rows: number): boolean {
    const dictionary = this.#dictionary;
    if (dictionary === null || dictionary.bytes > MOST_LISTED_BYTES || dictionary.count > MOST_LISTED_WORDS)
      return false;
    if (this.#listOf !== dictionary) return true;
    const listed = this.#list!.count - 1;
    if (listed === dictionary.count) return false;
    // A large extended dictionary is listed again only when it has doubled. Listing it after every message that adds
    // one word would take quadratic time.
    const isCheap = dictionary.count <= rows && dictionary.bytes <= LISTED_BYTES_PER_ROW * rows;
    return isCheap || dictionary.count >= 2 * listed;
  }

  /** Lists the words of the dictionary. */
  async list(turns: EventLoopTurns): Promise<void> {
    const dictionary = this.#dictionary!;
    const { count } = dictionary;
    const tokens = new TokenArena(Math.min(dictionary.bytes, MOST_LISTED_BYTES) + count);
    const ends = new Int32Array(count);
    const tooLong = new Set<number>();
    for (let code = 0; code < count; code++) {
      if (code % STEP_WORDS === 0) await turns.pass();
      if (this.#wordBytes(code) > this.#recordBytes) {
        tooLong.add(code);
        tokens.ascii('null');
      } else this.#writeWord(tokens, code);
      ends[code] = tokens.length;
    }
    this.#list = new Fragments(this.#key, tokens, ends, tooLong);
    this.#listOf = dictionary;
  }

  /** Number of text bytes that taking the next rows would copy. */
  textBytes(rows: number): number {
    const [batch, from] = [this.#batch!, this.#row];
    const dictionary = this.#dictionary;
    if (dictionary === null) return rangeBytes(batch, this.#type, from, rows);
    if (this.#listed === dictionary.count) return 0;
    let bytes = 0;
    for (let row = from; row < from + rows; row++) {
      const code = this.#codeAt(row);
      if (code >= this.#listed) bytes += this.#wordBytes(code);
    }
    return bytes;
  }

  /** Fills `out` with the next rows. A text that `marks` rejects as too long becomes `null`. */
  take(out: BatchColumn, rows: number, marks: RowMarks): void {
    const [batch, from] = [this.#batch!, this.#row];
    const type = this.#type;
    this.#row += rows;
    out.fragments = null;
    if (this.#dictionary) this.#takeCodes(out, from, rows, marks);
    else if (type.typeId === Type.Null) this.#takeNulls(out, rows);
    else if (type.typeId === Type.Bool) this.#takeBooleans(out, batch, from, rows);
    else if (
      takeNumbers(out, batch, { type, forModel: this.forModel }, from, rows) ||
      this.#takeWords(out, batch, type, from, rows)
    )
      return;
    else this.#takeTokens(out, from, rows, marks);
  }

  get #hasRuns(): boolean {
    return this.#type.typeId === Type.RunEndEncoded;
  }

  /** Number of dictionary words that are listed. */
  get #listed(): number {
    return this.#list !== null && this.#listOf === this.#dictionary ? this.#list.count - 1 : 0;
  }

  #writerOf(batch: Batch<unknown>, type: DataType): WriteToken {
    return tokenWriter(batch, type, this.forModel);
  }

  /** The dictionary code of a row; -1: the cell is null. @throws Error if the code is not in the dictionary */
  #codeAt(row: number): number {
    const batch = this.#batch!;
    let code: number;
    if (this.#hasRuns) {
      const [ends, values] = runsOf(batch);
      const run = runAt(ends.values as ArrayLike<number | bigint>, row);
      if (run >= values.length) throw new Error('the runs of a column end before its rows');
      if (!isValid(values, run)) return -1;
      code = hasCodes(this.#type) ? Number((values.values as ArrayLike<number | bigint>)[run]) : run;
    } else if (isValid(batch, row)) code = Number((batch.values as ArrayLike<number | bigint>)[row]);
    else return -1;
    if (!(code >= 0 && code < this.#dictionary!.count)) throw new Error('a code is not in its dictionary');
    return code;
  }

  #writeWord(to: TokenArena, code: number): void {
    const dictionary = this.#dictionary!;
    const at = dictionary.pieceOf(code);
    const { words, first } = dictionary.pieces[at]!;
    const row = code - first;
    this.#wordWriters[at] ??= this.#writerOf(words, dictionary.type);
    if (isValid(words, row)) this.#wordWriters[at](to, row);
    else to.ascii('null');
  }

  #wordBytes(code: number): number {
    const dictionary = this.#dictionary!;
    const { words, first } = dictionary.pieces[dictionary.pieceOf(code)]!;
    return rangeBytes(words, dictionary.type, code - first, 1);
  }

  /**
   * Writes the rows as codes of interned texts. Returns false if the column has another type, or too many distinct
   * texts.
   */
  #takeWords(out: BatchColumn, batch: Batch<unknown>, type: DataType, from: number, rows: number): boolean {
    if (this.#words === null || (type.typeId !== Type.Utf8 && type.typeId !== Type.LargeUtf8)) return false;
    this.#words ??= new InternedWords(this.#key);
    const words = this.#words;
    const text = dataViewOf(batch.values as Uint8Array);
    const place = placeOfTexts(batch.offsets as Int32Array | BigInt64Array);
    if (!words.fill(out.codes, rows, { text, ...place, validity: validityOf(batch), from })) {
      // A column with many distinct texts usually holds unique keys, so interning is not tried again.
      this.#words = null;
      return false;
    }
    out.kind = 'coded';
    out.fragments = words.fragments;
    return true;
  }

  #takeCodes(out: BatchColumn, from: number, rows: number, marks: RowMarks): void {
    const { codes } = out;
    const list = this.#list;
    if (list === null || this.#listOf !== this.#dictionary || !this.#fillCodes(codes, from, rows)) {
      this.#takeCodedTokens(out, from, rows, marks);
      return;
    }
    if (list.tooLong.size > 0) for (let i = 0; i < rows; i++) if (list.tooLong.has(codes[i]!)) marks.mark(i);
    out.kind = 'coded';
    out.fragments = list;
  }

  /** Writes the codes of the rows. Returns false if the list lacks a word that a row refers to. */
  #fillCodes(codes: Int32Array, from: number, rows: number): boolean {
    const listed = this.#listed;
    if (this.#hasRuns || listed < this.#dictionary!.count) {
      for (let i = 0; i < rows; i++) {
        const code = this.#codeAt(from + i);
        if (code >= listed) return false;
        codes[i] = code < 0 ? listed : code;
      }
      return true;
    }
    const batch = this.#batch!;
    const keys = batch.values as ArrayLike<number | bigint>;
    const validity = validityOf(batch);
    for (let i = 0, row = from; i < rows; i++, row++) {
      const isNull = validity !== null && (validity[row >> 3]! & (1 << (row & 7))) === 0;
      const code = isNull ? listed : Number(keys[row]);
      if (!(code >= 0 && code <= listed)) throw new Error('a code is not in its dictionary');
      codes[i] = code;
    }
    return true;
  }

  #takeCodedTokens(out: BatchColumn, from: number, rows: number, marks: RowMarks): void {
    const { tokens, ends } = out;
    out.kind = 'tokens';
    out.repeats = true;
    tokens.length = 0;
    for (let i = 0; i < rows; i++) {
      const code = this.#codeAt(from + i);
      if (code >= 0 && marks.admits(i, this.#wordBytes(code))) this.#writeWord(tokens, code);
      else tokens.ascii('null');
      ends[i] = tokens.length;
    }
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
    this.#booleans ??= fragmentsOf(this.#key, ['false', 'true']);
    out.kind = 'coded';
    out.fragments = this.#booleans;
  }

  #takeNulls(out: BatchColumn, rows: number): void {
    this.#nulls ??= fragmentsOf(this.#key, []);
    out.codes.fill(0, 0, rows);
    out.kind = 'coded';
    out.fragments = this.#nulls;
  }

  #takeTokens(out: BatchColumn, from: number, rows: number, marks: RowMarks): void {
    const batch = this.#batch!;
    // Several views can refer to the same text.
    out.repeats = this.#type.typeId === Type.Utf8View || this.#type.typeId === Type.BinaryView;
    const type = this.#type;
    const validity = validityOf(batch);
    const views = out.repeats ? viewsOf(batch) : null;
    const { tokens, ends } = out;
    tokens.length = 0;
    for (let i = 0, row = from; i < rows; i++, row++) {
      const isNull = validity !== null && (validity[row >> 3]! & (1 << (row & 7))) === 0;
      const bytes = isNull ? 0 : views === null ? rangeBytes(batch, type, row, 1) : views[row * VIEW_INTS]!;
      if (isNull || !marks.admits(i, bytes)) tokens.ascii('null');
      else this.#token(tokens, row);
      ends[i] = tokens.length;
    }
    out.kind = 'tokens';
  }
}

/** The run ends and values of a run-end encoded column. */
function runsOf(batch: Batch<unknown>): readonly [ends: Batch<unknown>, values: Batch<unknown>] {
  const [ends, values] = (batch as unknown as { children: Batch<unknown>[] }).children;
  return [ends!, values!];
}

/** The index of the run that contains a row. */
function runAt(ends: ArrayLike<number | bigint>, row: number): number {
  let [low, high] = [0, ends.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (Number(ends[middle]) > row) high = middle;
    else low = middle + 1;
  }
  return low;
}

/** Whether the values of a column or of its runs are dictionary codes. */
const hasCodes = (type: DataType): boolean =>
  type.typeId === Type.Dictionary || (type.typeId === Type.RunEndEncoded && hasCodes(type.children[1]!.type));

/**
 * Number of 32-bit integers in a view: the length, then either the text itself or its first bytes, buffer index and
 * offset.
 */
const VIEW_INTS = 4;
/** Maximum length of texts stored inside their view, bytes. */
const INLINE_BYTES = 12;

const viewsOf = ({ values }: Batch<unknown>): Int32Array => {
  const { buffer, byteOffset, length } = values as Uint8Array;
  return new Int32Array(buffer, byteOffset, length >> 2);
};

/** Bytes of the texts in some rows; 0 for other types. */
function rangeBytes(batch: Batch<unknown>, type: DataType, from: number, rows: number): number {
  switch (type.typeId) {
    case Type.Utf8:
    case Type.LargeUtf8:
    case Type.Binary:
    case Type.LargeBinary: {
      const offsets = batch.offsets as ArrayLike<number | bigint>;
      const bytes = Number(offsets[from + rows]) - Number(offsets[from]);
      // Invalid offsets are detected when the texts are taken.
      return bytes > 0 ? bytes : 0;
    }
    case Type.Utf8View:
    case Type.BinaryView: {
      const views = viewsOf(batch);
      let bytes = 0;
      for (let row = from; row < from + rows; row++) bytes += Math.max(0, views[row * VIEW_INTS] ?? 0);
      return bytes;
    }
    case Type.FixedSizeBinary:
      return type.stride * rows;
    default:
      return 0;
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
      // Copies the bytes, because decoding to a string would change text that is not valid UTF-8.
      const inline = batch.values as Uint8Array;
      const views = viewsOf(batch);
      const { data } = batch as unknown as { data: readonly Uint8Array[] };
      return (to, row) => {
        const at = row * VIEW_INTS;
        const length = views[at]!;
        if (length <= INLINE_BYTES) writeText(to, inline, at * 4 + 4, at * 4 + 4 + length);
        else writeText(to, data[views[at + 2]!]!, views[at + 3]!, views[at + 3]! + length);
      };
    }
    case Type.FixedSizeBinary:
      if (isUuid(type)) return (to, row) => to.ascii(`"${uuidText(batch.at(row) as Uint8Array)}"`);
      return (to, row) => writeValue(to, batch.at(row), type, forModel);
    case Type.Date: {
      // Reads the raw days or milliseconds, because the library converts days to milliseconds.
      const values = batch.values as ArrayLike<number | bigint>;
      const perDay = type.unit === 0 ? 1 : DAY_MS;
      return (to, row) => to.ascii(`"${dateText(Math.floor(Number(values[row]) / perDay))}"`);
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

/** Writes a value as flechette returns it: times in their own unit, decimals unscaled, dates in milliseconds. */
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
      // Integers beyond 2^53 keep all digits. NaN in a column that the model reads is a missing value.
      if (typeof value === 'bigint') to.ascii(String(value));
      else if (Number.isFinite(value) || (forModel && Number.isNaN(value))) writeNumberToken(to, value);
      else to.ascii(nonFiniteToken(value));
  }
}

function writeNumberToken(to: TokenArena, value: number): void {
  to.length = writeNumber(to.room(NUMBER_BYTES), to.length, value);
}
