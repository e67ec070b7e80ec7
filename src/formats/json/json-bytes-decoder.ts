// Decodes JSON objects from bytes, without creating an object per record.
// The reference decoder reads the records that this decoder declines.
import { QUOTE } from '../../core/ascii.ts';
import type { ColumnBatch } from '../../core/batch.ts';
import type { ColumnReader } from '../../inference/encode/column-reader.ts';
import type { DirectEncoding } from '../../inference/encode/encoder.ts';
import {
  CellColumn,
  CellTable,
  DECLINED,
  FALSE,
  NULL,
  NUMBER,
  TABLE_ROWS,
  TEXT,
  TRUE,
  VALID,
} from '../decode/cells.ts';
import { beginBatch, type Decoder, RecordBytes, type RecordSlice } from '../decode/decoder.ts';
import { Dictionary } from '../decode/dictionary.ts';
import { InputNames } from '../decode/input-names.ts';
import { endOfRun, KERNEL_ROWS, readByKernel, settle } from '../decode/kernel-rows.ts';
import { RowKernel } from '../decode/row-kernel.ts';
import { JsonDecoder, type JsonLayout } from './json-decoder.ts';
import { jsonRows, MOST_IN_ANY_ORDER } from './json-row-program.ts';

// Compares keys, as JSON.stringify writes them, four bytes at a time.

/** The bytes of a key including its quotes. */
class JsonKey {
  /** Length of the key including its quotes, bytes. */
  readonly length: number;
  readonly #words: Int32Array;
  /** Mask of the bytes in the last 32-bit integer that belong to the key. */
  readonly #mask: number;

  constructor(name: string) {
    const token = Buffer.from(JSON.stringify(name));
    this.length = token.length;
    const bytes = Buffer.alloc(Math.ceil(token.length / 4) * 4);
    bytes.set(token);
    this.#words = Int32Array.from({ length: bytes.length / 4 }, (_, i) => bytes.readInt32LE(i * 4));
    const rest = token.length % 4;
    this.#mask = rest === 0 ? -1 : (1 << (rest * 8)) - 1;
  }

  /** Whether the key is at position `p`. May read up to 4 bytes beyond the NUL that ends the record. */
  at(bytes: DataView, p: number): boolean {
    const words = this.#words;
    const last = words.length - 1;
    for (let i = 0; i < last; i++) if (bytes.getInt32(p + i * 4, true) !== words[i]) return false;
    return (bytes.getInt32(p + last * 4, true) & this.#mask) === words[last];
  }
}

// Functions that find white space, numbers and strings of JSON. The bytes must end with NUL.

const MINUS = 45;
const POINT = 46;
const ZERO = 48;
const BACKSLASH = 92;

/** 1 for bytes that cannot occur literally in a string: quote, backslash, control characters. */
const ENDS_PLAIN = Uint8Array.from({ length: 256 }, (_, c) => Number(c === QUOTE || c === BACKSLASH || c < 32));

/** Position of the first byte at or after `p` that is not white space. */
function skipSpace(bytes: Uint8Array, p: number): number {
  let c = bytes[p]!;
  while (c === 32 || c === 10 || c === 13 || c === 9) c = bytes[++p]!;
  return p;
}

/** One past the last byte of the number at `p`; -1: `p` is not the start of a number. */
function endOfNumber(bytes: Uint8Array, p: number): number {
  if (bytes[p] === MINUS) p++;
  if (bytes[p] === ZERO) p++;
  else {
    const first = p;
    p = skipDigits(bytes, p);
    if (p === first) return -1;
  }
  if (bytes[p] === POINT) {
    const first = ++p;
    p = skipDigits(bytes, p);
    if (p === first) return -1;
  }
  if ((bytes[p]! | 32) === 101) {
    p++;
    if (bytes[p] === MINUS || bytes[p] === 43) p++;
    const first = p;
    p = skipDigits(bytes, p);
    if (p === first) return -1;
  }
  return p;
}

function skipDigits(bytes: Uint8Array, p: number): number {
  while ((bytes[p]! ^ ZERO) <= 9) p++;
  return p;
}

/**
 * `p`: first byte inside the quotes of a string. Returns the position of the first quote, backslash or control
 * character. In a string without escapes, this is the closing quote.
 */
function endOfPlainString(bytes: Uint8Array, p: number): number {
  while (ENDS_PLAIN[bytes[p]!] === 0) p++;
  return p;
}

/**
 * `p`: first byte inside the quotes of a string. Returns one past the closing quote; -1 if the string is not closed.
 */
function endOfString(bytes: Uint8Array, p: number): number {
  for (;;) {
    p = endOfPlainString(bytes, p);
    if (bytes[p] === QUOTE) return p + 1;
    if (bytes[p] !== BACKSLASH || bytes[p + 1]! < 32) return -1;
    p += 2;
  }
}

/**
 * Replaces the string token `bytes[start..end)`, including its quotes, in place by its unescaped text. Returns one past
 * the last byte; -1 if the token is not a JSON string or contains an unpaired surrogate.
 */
function unescapeString(bytes: Buffer, start: number, end: number): number {
  let text: unknown;
  try {
    text = JSON.parse(bytes.toString('utf8', start, end));
  } catch {
    return -1;
  }
  if (typeof text !== 'string' || !text.isWellFormed()) return -1;
  return start + bytes.write(text, start, end - start, 'utf8');
}

const COLON = 58;
const COMMA = 44;
const OPEN = 123;
const CLOSE = 125;

/** The first four bytes of null, true and false as little-endian integers. */
const WORD_NULL = 0x6c6c756e;
const WORD_TRUE = 0x65757274;
const WORD_FALS = 0x736c6166;

/** The key order of a kernel that accepts keys in any order. */
const ANY_ORDER = 'any';

/**
 * A kernel is replaced if it declines more than one in this many rows: declining a row takes as long as reading the
 * keys of this many rows in any order.
 */
const REOPENING_SHARE = 8;

/** Maximum number of kernels of a stream. Each kernel is for objects of one shape. */
const MOST_KERNELS = 3;

/**
 * Gives the same cells and errors as `JsonDecoder`. Accepts objects that have each model key exactly once and possibly
 * passthrough keys, and whose values are numbers, strings, null, true or false. Declines all other records: unknown,
 * missing or duplicate keys, unnecessary escapes in keys, escapes in passthrough values, nested values, unpaired
 * surrogates, and invalid JSON. The row kernel, which is built for objects of a known shape, reads plain objects. This
 * code reads only the objects that the kernel declines.
 */
export class JsonBytesDecoder implements Decoder {
  /** Number of records so far that this decoder declined and the reference decoder read. */
  declined = 0;
  readonly #reference: JsonDecoder;
  readonly #readers: readonly ColumnReader[];
  readonly #direct: DirectEncoding | null;
  #kernel: RowKernel | null = null;
  /** Number of rows until a kernel is created. */
  #kernelIn: number;
  /** Kernels by the shape of their objects; null: no kernel is possible. */
  readonly #kernels = new Map<string, RowKernel | null>();
  /**
   * For each set of fields: the key order of the first object with these fields, or ANY_ORDER once another order was
   * found.
   */
  readonly #orders = new Map<string, string>();
  readonly #columns: readonly CellColumn[];
  /**
   * Looks up the field index of a quoted key as JSON.stringify writes it. Fields are the model columns, then
   * passthrough columns, then ignored columns.
   */
  readonly #fields: Dictionary;
  /** The name of each field. `#keys`: its key. */
  readonly #names: readonly string[];
  readonly #keys: readonly JsonKey[];
  readonly #everything: boolean;
  /** Number of passthrough columns; 0 if all columns are passed through. */
  readonly #echoes: number;
  readonly #table: CellTable;
  readonly #run = new RecordBytes();
  /** The fields of the previous record, in the order of its keys. */
  readonly #order: Int32Array;
  /** For each field: the number of the last record in which it occurred. */
  readonly #seen: Float64Array;
  #record = 0;
  /**
   * The fields of the last object that was read completely, in the order of its keys. `#order` may have changed since
   * then.
   */
  #shape = new Int32Array(0);
  #orderChanged = false;
  /** Columns with values of an unusual JSON type: strings in a number column, or numbers in a column of words. */
  readonly #mixed = new Set<ColumnReader>();

  /**
   * `kernelAfter`: number of rows before a kernel is created. `direct`: model inputs into which the kernel may write
   * numbers instead of into columns.
   */
  constructor(
    readers: readonly ColumnReader[],
    layout: JsonLayout,
    kernelAfter = Infinity,
    direct: DirectEncoding | null = null,
  ) {
    this.#readers = readers;
    this.#direct = direct;
    this.#kernelIn = kernelAfter;
    this.#reference = new JsonDecoder(readers, layout);
    const names = JsonBytesDecoder.#namesOf(readers, layout);
    this.#columns = readers.map((reader, c) => new CellColumn(reader, c));
    this.#fields = new Dictionary(names.map((name, field): [string, number] => [JSON.stringify(name), field]));
    this.#names = names;
    this.#keys = names.map((name) => new JsonKey(name));
    this.#everything = layout.passthrough === '*';
    this.#echoes = layout.passthrough === '*' ? 0 : layout.passthrough.length;
    this.#table = new CellTable(names.length);
    this.#order = Int32Array.from(names, (_, field) => field);
    this.#seen = new Float64Array(names.length);
  }

  /** Whether this decoder supports the stream. If it does not, it would decline every record. */
  static serves(readers: readonly ColumnReader[], layout: JsonLayout): boolean {
    const names = JsonBytesDecoder.#namesOf(readers, layout);
    return (
      names.length <= layout.maxColumns &&
      new Set(names).size === names.length &&
      !readers.some(({ fromDecimals }) => fromDecimals) &&
      !JsonBytesDecoder.#echoesOutcome(readers, layout)
    );
  }

  static #echoesOutcome(readers: readonly ColumnReader[], { outcome, passthrough }: JsonLayout): boolean {
    if (outcome === null || passthrough === '*') return false;
    return passthrough.includes(outcome) && !readers.some(({ name }) => name === outcome);
  }

  static #namesOf(readers: readonly ColumnReader[], layout: JsonLayout): string[] {
    const columns = [...readers.map((r) => r.name), ...(layout.passthrough === '*' ? [] : layout.passthrough)];
    if (!layout.declared) return columns;
    const names = new InputNames(layout.declared);
    return [...columns.map((name) => names.inInput(name)), ...names.ignored];
  }

  decode(block: RecordSlice, from: number, to: number, batch: ColumnBatch): void {
    beginBatch(batch, to - from);
    let i = from;
    if (this.#kernelIn >= 0) {
      this.#kernelIn -= to - from;
      if (this.#kernelIn < 0) {
        // Some objects are read first, because the kernel is built for their shape.
        i = Math.min(to, from + TABLE_ROWS);
        this.#fallback(block, from, i, 0, batch);
        this.#openKernel();
      }
    }
    for (let end = i; i < to; i = end) {
      end = endOfRun(block, i, to);
      if (!this.#fastPath(block, i, end, i - from, batch)) this.#fallback(block, i, end, i - from, batch);
    }
  }

  /** Selects the kernel for the shape of the last object, and creates it if it is new. */
  #openKernel(): void {
    if (this.#shape.length === 0) {
      // No object was read completely yet, so the creation is tried again after the next rows.
      this.#kernelIn = 0;
      return;
    }
    const shape = [...this.#shape];
    const sorted = shape.toSorted((a, b) => a - b);
    const [order, fields] = [shape.join(), sorted.join()];
    const known = this.#orders.get(fields);
    const anyOrder = known !== undefined && known !== order && shape.length <= MOST_IN_ANY_ORDER;
    this.#orders.set(fields, anyOrder ? ANY_ORDER : order);
    const mixed = this.#readers.map((reader) => this.#mixed.has(reader));
    const key = JSON.stringify([anyOrder ? ANY_ORDER : order, fields, mixed]);
    if (this.#kernels.has(key)) this.#kernel = this.#kernels.get(key)!;
    else if (this.#kernels.size < MOST_KERNELS) {
      this.#kernel = this.#makeKernel(anyOrder ? sorted : shape, anyOrder);
      this.#kernels.set(key, this.#kernel);
    }
  }

  #makeKernel(order: readonly number[], anyOrder: boolean): RowKernel | null {
    const columns = this.#columns.length;
    const members = order.map((field) => ({
      key: Buffer.from(JSON.stringify(this.#names[field])),
      isText: this.#readers[field]?.kind === 'text',
    }));
    return RowKernel.open({
      readers: this.#readers,
      layout: {
        fields: order.length,
        columns: this.#readers.map((_, c) => order.indexOf(c)),
        passthrough: Array.from({ length: this.#echoes }, (_, p) => order.indexOf(columns + p)),
      },
      capacity: KERNEL_ROWS,
      direct: this.#direct,
      syntax: jsonRows(members, this.#mixed, anyOrder),
    });
  }

  /**
   * Fast path: the kernel reads plain rows, and the cell decoder reads the rows that the kernel declines. Returns false
   * if no row was read.
   */
  #fastPath(block: RecordSlice, from: number, to: number, first: number, batch: ColumnBatch): boolean {
    if (!this.#kernel) return false;
    const run = readByKernel(this.#kernel, this.#readers, { block, from, to, batch, first }, (start, end, row) =>
      this.#fallback(block, start, end, row, batch),
    );
    if (run && this.#everything) {
      const { states } = run;
      for (let r = 0; r < states.length; r++) if (states[r] === VALID) batch.passthrough[0]![first + r] = '';
    }
    if (run && run.declined * REOPENING_SHARE > to - from) this.#openKernel();
    return run !== null;
  }

  #fallback(block: RecordSlice, from: number, to: number, first: number, batch: ColumnBatch): void {
    for (let i = from; i < to; i += TABLE_ROWS) {
      this.#rows(block, i, Math.min(to, i + TABLE_ROWS), first + i - from, batch);
    }
  }

  /** Decodes records `from` to `to - 1` into the batch, starting at row `first`. */
  #rows(block: RecordSlice, from: number, to: number, first: number, batch: ColumnBatch): void {
    const table = this.#table;
    const run = this.#run;
    const rows = to - from;
    table.fill(run, block, from, to, (start, end, row) => this.#walk(run, start, end, row));
    this.#echo(rows, first, batch);
    this.#noteSorts(rows);
    for (let c = 0; c < this.#columns.length; c++) this.#columns[c]!.read(table, rows, batch.columns[c]!, first);
    this.declined += settle(table, rows, block, from, batch, first, this.#reference);
  }

  /**
   * Records which columns have values of an unusual JSON type. Must be called before columns are read, because reading
   * may change cells.
   */
  #noteSorts(rows: number): void {
    if (this.#kernelIn >= 0) return;
    const { starts, ends, types, states, width } = this.#table;
    for (const [c, reader] of this.#readers.entries()) {
      if (reader.kind === 'text' || this.#mixed.has(reader)) continue;
      const other = reader.kind === 'number' ? TEXT : NUMBER;
      for (let r = 0, at = c; r < rows; r++, at += width) {
        if (states[r] === VALID && types[at] === other && starts[at] !== ends[at]) this.#mixed.add(reader);
      }
    }
  }

  /**
   * Finds the values of the object in `bytes[start..end)` and stores them as row `row` of the table; returns VALID or
   * DECLINED.
   */
  #walk({ bytes, view }: RecordBytes, start: number, end: number, row: number): number {
    const behind = bytes[end]!;
    // No JSON token continues at a NUL, so no loop needs to check for the end.
    bytes[end] = 0;
    const valid = this.#findMembers(bytes, view, start, end, row * this.#table.width);
    bytes[end] = behind;
    return valid ? VALID : DECLINED;
  }

  #findMembers(bytes: Buffer, view: DataView, start: number, end: number, at: number): boolean {
    const { starts, ends, types } = this.#table;
    const columns = this.#columns.length;
    const width = this.#table.width;
    const seen = this.#seen;
    const record = ++this.#record;
    // Passthrough keys are optional, so their cells are marked as missing first.
    for (let field = columns; field < width; field++) starts[at + field] = -1;
    let found = 0;
    let p = skipSpace(bytes, start);
    if (bytes[p] !== OPEN) return false;
    for (let member = 0; ; member++) {
      p = skipSpace(bytes, p + 1);
      const field = this.#key(bytes, view, p, member);
      if (field < 0 || seen[field] === record) return false;
      seen[field] = record;
      p = skipSpace(bytes, p + this.#keys[field]!.length);
      if (bytes[p] !== COLON) return false;
      p = skipSpace(bytes, p + 1);
      let s = p;
      let e: number;
      let type = TEXT;
      const c = bytes[p]!;
      if (c === QUOTE) {
        s = p + 1;
        e = endOfPlainString(bytes, s);
        p = e + 1;
        if (bytes[e] === BACKSLASH) {
          p = endOfString(bytes, s--);
          if (p < 0 || field >= columns) return false;
          e = unescapeString(bytes, s, p);
          if (e < 0) return false;
        } else if (bytes[e] !== QUOTE) return false;
      } else if (c <= 57) {
        type = NUMBER;
        e = p = endOfNumber(bytes, p);
        if (p < 0) return false;
      } else {
        const word = c | (bytes[p + 1]! << 8) | (bytes[p + 2]! << 16) | (bytes[p + 3]! << 24);
        if (word === WORD_NULL) type = NULL;
        else if (word === WORD_TRUE) type = TRUE;
        else if (word === WORD_FALS && bytes[p + 4] === 101) type = FALSE;
        else return false;
        e = p += type === FALSE ? 5 : 4;
      }
      const cell = at + field;
      starts[cell] = s;
      ends[cell] = e;
      types[cell] = type;
      if (field < columns) found++;
      p = skipSpace(bytes, p);
      if (bytes[p] === COMMA) continue;
      if (bytes[p] !== CLOSE) return false;
      if (found !== columns || skipSpace(bytes, p + 1) !== end) return false;
      if (this.#orderChanged || this.#shape.length !== member + 1) this.#noteShape(member + 1);
      return true;
    }
  }

  /**
   * The field of the key at `p`; -1: the key is unknown. Tries the key order of the previous record first, because it
   * rarely changes.
   */
  #key(bytes: Uint8Array, view: DataView, p: number, member: number): number {
    const order = this.#order;
    if (member >= order.length) return -1;
    const guess = order[member]!;
    if (this.#keys[guess]!.at(view, p)) return guess;
    if (bytes[p] !== QUOTE) return -1;
    const end = endOfString(bytes, p + 1);
    if (end < 0) return -1;
    const field = this.#fields.find(view, p, end);
    if (field < 0) return -1;
    order[member] = field;
    this.#orderChanged = true;
    return field;
  }

  #noteShape(members: number): void {
    this.#shape = this.#order.slice(0, members);
    this.#orderChanged = false;
  }

  /** Copies the passthrough tokens unchanged. */
  #echo(rows: number, first: number, batch: ColumnBatch): void {
    const { bytes, starts, ends, types, states, width } = this.#table;
    const columns = this.#columns.length;
    for (let p = 0; p < batch.passthrough.length; p++) {
      const texts = batch.passthrough[p]!;
      for (let r = 0; r < rows; r++) {
        if (states[r] !== VALID) continue;
        if (this.#everything) {
          texts[first + r] = '';
          continue;
        }
        const cell = r * width + columns + p;
        if (starts[cell]! < 0) continue;
        const quotes = types[cell] === TEXT ? 1 : 0;
        texts[first + r] = bytes.toString('utf8', starts[cell]! - quotes, ends[cell]! + quotes);
      }
    }
  }
}
