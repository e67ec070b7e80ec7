// Cells whose positions are known but whose values are not decoded yet, and decoding them for a model column.
import { type ColumnData, MISSING } from '../../core/batch.ts';
import { RECORD_OK } from '../../core/block.ts';
import { type NumberNotation, withoutBlanks } from '../../core/input-declaration.ts';
import type { CellFault, ColumnReader } from '../../inference/encode/column-reader.ts';
import type { RecordBytes, RecordSlice } from './decoder.ts';
import { Dictionary, UNKNOWN_WORD } from './dictionary.ts';
import { numberAt } from './number-bytes.ts';

// Cells of an input with declarations: surrounding spaces, and numbers in a local notation.

const BLANK = 32;
const TAB = 9;
/** UTF-8 bytes of the no-break space. */
const [NO_BREAK_1, NO_BREAK_2] = [0xc2, 0xa0];

/** Position of the first byte of `bytes[start..end)` that is not a space; `end` if there is none. */
function skipBlanks(bytes: Uint8Array, start: number, end: number): number {
  for (;;) {
    if (start < end && (bytes[start] === BLANK || bytes[start] === TAB)) start++;
    else if (start + 1 < end && bytes[start] === NO_BREAK_1 && bytes[start + 1] === NO_BREAK_2) start += 2;
    else return start;
  }
}

/** One past the last byte that is not a space; `start` if there is none. */
function endWithoutBlanks(bytes: Uint8Array, start: number, end: number): number {
  for (;;) {
    if (end > start && (bytes[end - 1] === BLANK || bytes[end - 1] === TAB)) end--;
    else if (end - 1 > start && bytes[end - 1] === NO_BREAK_2 && bytes[end - 2] === NO_BREAK_1) end -= 2;
    else return end;
  }
}

const CODES = { point: 46, comma: 44, space: 32, apostrophe: 39 } as const;
const POINT = CODES.point;
/** Longer numbers are left to the ColumnReader. */
const LONGEST = 40;
const GROUP = 3;

/** Reads numbers in one notation: a subset of those that `plainNumber` reads, and NaN for all other text. */
class LocalNumbers {
  readonly #decimal: number;
  /** The mark between thousands; -1: none. */
  readonly #thousands: number;
  readonly #plain = new Uint8Array(LONGEST);

  constructor({ decimal, thousands }: NumberNotation) {
    this.#decimal = CODES[decimal];
    this.#thousands = thousands === null ? -1 : CODES[thousands];
  }

  /** The number in `bytes[start..end)`; NaN if it is not a number or only the ColumnReader can decide. */
  at(bytes: Uint8Array, start: number, end: number): number {
    if (end - start > LONGEST) return Number.NaN;
    const plain = this.#plain;
    let n = 0;
    /** Digits since the last mark between thousands; -1 after the whole part, where no mark may occur. */
    let group = 0;
    let groups = 0;
    for (let p = start; p < end; p++) {
      const c = bytes[p]!;
      if ((c ^ 48) <= 9) {
        if (group >= 0) group++;
        plain[n++] = c;
      } else if (c === this.#thousands) {
        if (groups === 0 ? group < 1 || group > GROUP : group !== GROUP) return Number.NaN;
        groups++;
        group = 0;
      } else {
        if (groups > 0 && group !== GROUP) return Number.NaN;
        if (c === POINT && this.#decimal !== POINT) return Number.NaN;
        // After the point or in an exponent, no mark may follow. A leading sign has no effect.
        if (n > 0 || c === this.#decimal) {
          group = -1;
          groups = 0;
        }
        plain[n++] = c === this.#decimal ? POINT : c;
      }
    }
    return groups > 0 && group !== GROUP ? Number.NaN : numberAt(plain, 0, n);
  }
}

/** Types of cells: a text, or one of the other JSON types. */
export const TEXT = 0;
export const NUMBER = 1;
export const NULL = 2;
export const TRUE = 3;
export const FALSE = 4;

/** State of a row: read without an error, rejected, or declined. */
export const VALID = 0;
const REJECTED = 1;
/** The reference decoder must read the row. */
export const DECLINED = 2;

/** Rows per table, few enough to stay in the CPU cache. */
export const TABLE_ROWS = 128;

/** The cells of up to TABLE_ROWS rows; cell (row, field) is at `row * width + field`. */
export class CellTable {
  readonly width: number;
  /** Bytes of the cells, set by `fill`. */
  bytes: Buffer = Buffer.alloc(0);
  view: DataView = new DataView(this.bytes.buffer);
  /** First byte and one past the last byte of a cell. */
  readonly starts: Int32Array;
  readonly ends: Int32Array;
  /** TEXT … FALSE. */
  readonly types: Uint8Array;
  /** VALID, REJECTED or DECLINED, per row. */
  readonly states = new Uint8Array(TABLE_ROWS);
  /** For a REJECTED row: its first error and the column concerned. */
  readonly faults = new Array<CellFault | null>(TABLE_ROWS).fill(null);
  readonly columns = new Array<string | null>(TABLE_ROWS).fill(null);

  constructor(width: number) {
    this.width = width;
    this.starts = new Int32Array(TABLE_ROWS * width);
    this.ends = new Int32Array(TABLE_ROWS * width);
    this.types = new Uint8Array(TABLE_ROWS * width);
  }

  /**
   * Copies records `from` to `to - 1` of a block into `run` and makes them rows 0 and following of the table. `find`
   * stores the cells of the record `bytes[start..end)` of the run as row `row`, and returns VALID or DECLINED.
   */
  fill(
    run: RecordBytes,
    block: RecordSlice,
    from: number,
    to: number,
    find: (start: number, end: number, row: number) => number,
  ): void {
    const { spans, faults } = block;
    run.load(block, from, to);
    this.bytes = run.bytes;
    this.view = run.view;
    for (let row = 0; row < to - from; row++) {
      const start = spans[(from + row) * 2]! - run.base;
      const end = spans[(from + row) * 2 + 1]! - run.base;
      if (faults[from + row] !== RECORD_OK) this.states[row] = REJECTED;
      else this.states[row] = run.isUtf8(start, end) ? find(start, end, row) : DECLINED;
      this.faults[row] = null;
    }
  }

  refuse(row: number, fault: CellFault, column: string | null): void {
    this.states[row] = REJECTED;
    this.faults[row] = fault;
    this.columns[row] = column;
  }

  /** The text of cell `at`. The only place where a cell becomes a string. */
  text(at: number): string {
    return this.bytes.toString('utf8', this.starts[at]!, this.ends[at]!);
  }
}

/**
 * Maximum number of categories that are looked up by their bytes. Building a larger table takes longer than most runs
 * would save.
 */
export const MOST_WORDS = 5_000;

/**
 * Decodes one column of a table into a batch. Numbers, known words and missing values are read from bytes. Anything
 * else goes to the ColumnReader, whose rules decide.
 */
export class CellColumn {
  readonly #reader: ColumnReader;
  readonly #field: number;
  /** Words for missing values (MISSING) and, in columns with codes, the known words, unless there are too many. */
  readonly #words: Dictionary;
  /** Whether the dictionary has all known words; otherwise the ColumnReader decides. */
  readonly #complete: boolean;
  readonly #emptyIsMissing: boolean;
  /** 1 for each cell type that can be parsed directly as a number. */
  readonly #plain: Uint8Array;
  /** Whether spaces can be trimmed from all cells at once, because no known word has surrounding spaces. */
  readonly #trimsAll: boolean;
  /** The local number notation of texts; null: decimal point. */
  readonly #local: LocalNumbers | null;

  /** `field`: index of the column in the table. */
  constructor(reader: ColumnReader, field: number) {
    this.#reader = reader;
    this.#field = field;
    const missing = [...reader.missingTexts];
    this.#complete = reader.codes.size <= MOST_WORDS;
    const known = this.#complete && reader.kind !== 'number' ? reader.codes : [];
    this.#words = new Dictionary([...missing.map((word): [string, number] => [word, MISSING]), ...known]);
    this.#emptyIsMissing = reader.missingTexts.has('');
    const words = [...missing, ...reader.codes.keys()];
    this.#trimsAll = reader.trims && words.every((word) => withoutBlanks(word) === word);
    this.#local = reader.notation && new LocalNumbers(reader.notation);
    this.#plain = new Uint8Array(FALSE + 1);
    this.#plain[TEXT] = Number(!reader.missingNumbers && !this.#local);
    this.#plain[NUMBER] = Number(reader.nullNumbers.size === 0);
  }

  /** Reads the table's first `rows` rows into `out`, starting at row `first`. A row with an error becomes REJECTED. */
  read(table: CellTable, rows: number, out: ColumnData, first: number): void {
    const { kind } = this.#reader;
    if (this.#trimsAll) this.#trimAll(table, rows);
    if (kind === 'number') this.#numbers(table, rows, out, first);
    else if (kind === 'text') this.#texts(table, rows, out, first);
    else this.#codes(table, rows, out, first);
  }

  #numbers(table: CellTable, rows: number, out: ColumnData, first: number): void {
    const { bytes, starts, ends, types, states, width } = table;
    const { min, max, wholeNumbers } = this.#reader;
    const { numbers } = out;
    const plain = this.#plain;
    for (let r = 0, at = this.#field; r < rows; r++, at += width) {
      if (states[r] !== VALID) continue;
      if (plain[types[at]!] === 1) {
        const value = numberAt(bytes, starts[at]!, ends[at]!);
        if (value >= min && value <= max && !(wholeNumbers && !Number.isInteger(value))) {
          numbers[first + r] = value;
          continue;
        }
      }
      const fault = this.#fallback(table, at, out, first + r);
      if (fault) table.refuse(r, fault, this.#reader.name);
    }
  }

  #codes(table: CellTable, rows: number, out: ColumnData, first: number): void {
    const { view, starts, ends, types, states, width } = table;
    const { codes } = out;
    // Cells of other types may have any bytes, but they are inside the run, so they can be looked up too.
    this.#words.findAll(view, starts, ends, this.#field, width, rows, states, codes, first);
    const boolean = this.#reader.kind === 'boolean';
    for (let r = 0, at = this.#field; r < rows; r++, at += width) {
      const type = types[at]!;
      if (type === TEXT && codes[first + r]! >= 0) continue;
      if (states[r] !== VALID) continue;
      if (boolean && type >= TRUE) {
        codes[first + r] = type === TRUE ? 1 : 0;
        continue;
      }
      const fault = this.#fallback(table, at, out, first + r);
      if (fault) table.refuse(r, fault, this.#reader.name);
    }
  }

  #texts(table: CellTable, rows: number, out: ColumnData, first: number): void {
    const { states, width } = table;
    for (let r = 0, at = this.#field; r < rows; r++, at += width) {
      if (states[r] !== VALID) continue;
      const fault = this.#fallback(table, at, out, first + r);
      if (fault) table.refuse(r, fault, this.#reader.name);
    }
  }

  #trimAll({ bytes, starts, ends, types, states, width }: CellTable, rows: number): void {
    for (let r = 0, at = this.#field; r < rows; r++, at += width) {
      if (states[r] !== VALID || types[at] !== TEXT) continue;
      const end = ends[at]!;
      const start = skipBlanks(bytes, starts[at]!, end);
      starts[at] = start;
      ends[at] = endWithoutBlanks(bytes, start, end);
    }
  }

  /** Trims the spaces of a cell, unless it is a known word with them. Returns false if nothing was trimmed. */
  #trimmed({ bytes, view, starts, ends }: CellTable, at: number): boolean {
    const [from, to] = [starts[at]!, ends[at]!];
    const start = skipBlanks(bytes, from, to);
    const end = endWithoutBlanks(bytes, start, to);
    if ((start === from && end === to) || this.#words.find(view, from, to) !== UNKNOWN_WORD) return false;
    starts[at] = start;
    ends[at] = end;
    return true;
  }

  /** Decodes everything that the fast loops decline: missing values, other types, and possible errors. */
  #fallback(table: CellTable, at: number, out: ColumnData, row: number): CellFault | null {
    const reader = this.#reader;
    const start = table.starts[at]!;
    const end = table.ends[at]!;
    switch (table.types[at]) {
      case TEXT:
        if (start === end ? this.#emptyIsMissing : this.#words.find(table.view, start, end) === MISSING) {
          return reader.readMissing(out, row);
        }
        if (reader.trims && this.#complete && this.#trimmed(table, at)) return this.#fallback(table, at, out, row);
        if (reader.kind === 'number' && (reader.missingNumbers || reader.trims || this.#local)) {
          const value = (this.#local ?? PLAIN_NUMBERS).at(table.bytes, start, end);
          if (!Number.isNaN(value)) return reader.readNumber(value, out, row);
        }
        if (reader.trims && reader.kind !== 'number') {
          const code = this.#words.find(table.view, start, end);
          if (code >= 0) {
            out.codes[row] = code;
            return null;
          }
        }
        return reader.readText(table.text(at), out, row);
      case NUMBER:
        if (reader.kind !== 'number' && reader.takesNumbers && isShortWhole(table.bytes, start, end)) {
          // The text of such a number is the same in JSON and JavaScript.
          const code = this.#words.find(table.view, start, end);
          if (code === MISSING) return reader.readMissing(out, row);
          if (code !== UNKNOWN_WORD) {
            out.codes[row] = code;
            return null;
          }
        }
        return reader.readNative(numberAt(table.bytes, start, end), out, row);
      case NULL:
        return reader.readMissing(out, row);
      default:
        return reader.readNative(table.types[at] === TRUE, out, row);
    }
  }
}

/** Numbers with a decimal point. */
const PLAIN_NUMBERS: Pick<LocalNumbers, 'at'> = { at: numberAt };

/** Whether a JSON integer has the same text in JavaScript: at most 15 digits, no exponent, not -0. */
function isShortWhole(bytes: Uint8Array, start: number, end: number): boolean {
  const first = bytes[start] === 45 ? start + 1 : start;
  if (end - first > 15 || (bytes[first] === 48 && end - start > 1)) return false;
  for (let p = first; p < end; p++) if ((bytes[p]! ^ 48) > 9) return false;
  return true;
}
