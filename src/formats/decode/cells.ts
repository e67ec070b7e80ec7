// Tables of cells that have been located but not decoded, and decoders for the cells of one model column.
import { type ColumnData, MISSING } from '../../core/batch.ts';
import { RECORD_OK } from '../../core/block.ts';
import { type NumberNotation, withoutBlanks } from '../../core/input-declaration.ts';
import type { CellFault, ColumnReader } from '../../inference/encode/column-reader.ts';
import type { RecordBytes, RecordSlice } from './decoder.ts';
import { Dictionary, UNKNOWN_WORD } from './dictionary.ts';
import { numberAt } from './number-bytes.ts';

// Reads cells of inputs with declarations: trims surrounding spaces, and parses numbers in a local notation.

const BLANK = 32;
const TAB = 9;
/** The two UTF-8 bytes of the no-break space. */
const [NO_BREAK_1, NO_BREAK_2] = [0xc2, 0xa0];

/** Position of the first byte of `bytes[start..end)` that is not a space; `end` if there is none. */
function skipBlanks(bytes: Uint8Array, start: number, end: number): number {
  for (;;) {
    if (start < end && (bytes[start] === BLANK || bytes[start] === TAB)) start++;
    else if (start + 1 < end && bytes[start] === NO_BREAK_1 && bytes[start + 1] === NO_BREAK_2) start += 2;
    else return start;
  }
}

/** One past the last byte of `bytes[start..end)` that is not a space; `start` if all bytes are spaces. */
function endWithoutBlanks(bytes: Uint8Array, start: number, end: number): number {
  for (;;) {
    if (end > start && (bytes[end - 1] === BLANK || bytes[end - 1] === TAB)) end--;
    else if (end - 1 > start && bytes[end - 1] === NO_BREAK_2 && bytes[end - 2] === NO_BREAK_1) end -= 2;
    else return end;
  }
}

const CODES = { point: 46, comma: 44, space: 32, apostrophe: 39 } as const;
const POINT = CODES.point;
/** Maximum length in bytes. The ColumnReader parses longer numbers. */
const LONGEST = 40;
const GROUP = 3;

/**
 * Parses numbers in one notation. Accepts only texts that `plainNumber` also accepts, and returns NaN for all others.
 */
class LocalNumbers {
  readonly #decimal: number;
  /** The thousands separator; -1: none. */
  readonly #thousands: number;
  readonly #plain = new Uint8Array(LONGEST);

  constructor({ decimal, thousands }: NumberNotation) {
    this.#decimal = CODES[decimal];
    this.#thousands = thousands === null ? -1 : CODES[thousands];
  }

  /** The number in `bytes[start..end)`. NaN: the text is not a number, or only the ColumnReader can decide. */
  at(bytes: Uint8Array, start: number, end: number): number {
    if (end - start > LONGEST) return Number.NaN;
    const plain = this.#plain;
    let n = 0;
    /** Digits since the last thousands separator; -1 after the integer digits, where no separator may occur. */
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
        // After the decimal separator or in an exponent, no thousands separator may follow. A leading sign changes
        // nothing.
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

/** Cell types: TEXT, or one of the other JSON types. */
export const TEXT = 0;
export const NUMBER = 1;
export const NULL = 2;
export const TRUE = 3;
export const FALSE = 4;

/** Row states. VALID: no error was found. */
export const VALID = 0;
const REJECTED = 1;
/** The reference decoder must decode the row. */
export const DECLINED = 2;

/** Number of rows per table, small enough for the table to stay in the CPU cache. */
export const TABLE_ROWS = 128;

/** The cells of up to TABLE_ROWS rows; cell (row, field) is at `row * width + field`. */
export class CellTable {
  readonly width: number;
  /** The bytes of all cells, set by `fill`. */
  bytes: Buffer = Buffer.alloc(0);
  view: DataView = new DataView(this.bytes.buffer);
  /** Position of the first byte of each cell. `ends`: one past its last byte. */
  readonly starts: Int32Array;
  readonly ends: Int32Array;
  /** The type of each cell, TEXT to FALSE. */
  readonly types: Uint8Array;
  /** VALID, REJECTED or DECLINED, per row. */
  readonly states = new Uint8Array(TABLE_ROWS);
  /** For each REJECTED row: its first error. `columns`: the column with this error. */
  readonly faults = new Array<CellFault | null>(TABLE_ROWS).fill(null);
  readonly columns = new Array<string | null>(TABLE_ROWS).fill(null);

  constructor(width: number) {
    this.width = width;
    this.starts = new Int32Array(TABLE_ROWS * width);
    this.ends = new Int32Array(TABLE_ROWS * width);
    this.types = new Uint8Array(TABLE_ROWS * width);
  }

  /**
   * Copies records `from` to `to - 1` of a block into `run` and makes them the rows of the table, starting at row 0.
   * `find` stores the cells of the record `bytes[start..end)` of the run as row `row`, and returns VALID or DECLINED.
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

  /** The text of the cell at index `at`. No other code creates a string from a cell. */
  text(at: number): string {
    return this.bytes.toString('utf8', this.starts[at]!, this.ends[at]!);
  }
}

/**
 * Maximum number of categories that are looked up by their bytes. Building a larger hash table takes more time than it
 * saves in most runs.
 */
export const MOST_WORDS = 5_000;

/**
 * Decodes one column of a table into a batch. Numbers, known words and missing values are decoded from bytes. The
 * ColumnReader decodes every other cell.
 */
export class CellColumn {
  readonly #reader: ColumnReader;
  readonly #field: number;
  /**
   * The texts that mean a missing value (code MISSING). In columns with category codes, also all known words, unless
   * there are too many.
   */
  readonly #words: Dictionary;
  /** Whether `#words` contains all known words. If it does not, the ColumnReader decodes words that are not found. */
  readonly #complete: boolean;
  readonly #emptyIsMissing: boolean;
  /** 1 for each cell type that can be parsed directly as a number. */
  readonly #plain: Uint8Array;
  /** Whether all cells can be trimmed before the lookup, because no known word has surrounding spaces. */
  readonly #trimsAll: boolean;
  /** Parses texts in the declared local notation; null: the numbers use a decimal point. */
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
    const noneMissing = reader.nullNumbers.size === 0;
    this.#plain[TEXT] = Number(!reader.missingNumbers && noneMissing && !this.#local);
    this.#plain[NUMBER] = Number(noneMissing);
  }

  /**
   * Decodes the first `rows` rows of the table into `out`, starting at row `first`. The state of a row with an error
   * becomes REJECTED.
   */
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
    // Cells of other types are looked up as well. This is safe, because their bytes are inside the run.
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

  /** Trims a cell, unless the cell including its spaces is a known word. Returns false if the cell is unchanged. */
  #trimmed({ bytes, view, starts, ends }: CellTable, at: number): boolean {
    const [from, to] = [starts[at]!, ends[at]!];
    const start = skipBlanks(bytes, from, to);
    const end = endWithoutBlanks(bytes, start, to);
    if ((start === from && end === to) || this.#words.find(view, from, to) !== UNKNOWN_WORD) return false;
    starts[at] = start;
    ends[at] = end;
    return true;
  }

  /** Decodes a cell that the fast loops do not decode: a missing value, another type, or a possible error. */
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
          // Such a number has the same text in JSON and in JavaScript.
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

/** Parses numbers with a decimal point. */
const PLAIN_NUMBERS: Pick<LocalNumbers, 'at'> = { at: numberAt };

/** Whether a JSON integer has the same text in JavaScript: at most 15 digits, no exponent, not -0. */
function isShortWhole(bytes: Uint8Array, start: number, end: number): boolean {
  const first = bytes[start] === 45 ? start + 1 : start;
  if (end - first > 15 || (bytes[first] === 48 && end - start > 1)) return false;
  for (let p = first; p < end; p++) if ((bytes[p]! ^ 48) > 9) return false;
  return true;
}
