// Collects a group of table rows, column by column in typed arrays.

import type { PredictionColumn } from '../write/prediction-fields.ts';
import { type Cells, type ColumnFrame, type FrameColumn, NO_TEXT } from './column-frames.ts';

/** Bytes of text at which a group is written before it has the maximum number of rows. */
const MOST_TEXT_BYTES = 16 * 1024 * 1024;
const FIRST_ROWS = 512;
const FIRST_TEXT_BYTES = 4096;

export type OutputColumn = Pick<PredictionColumn, 'name' | 'kind' | 'words'>;

const cellsOf = ({ kind }: OutputColumn, rows: number): Cells =>
  kind === 'number' ? new Float64Array(rows) : kind === 'boolean' ? new Uint8Array(rows) : new Int32Array(rows);

/** One column of the group. For a row without a value, the cell is 0 or an empty text. */
export class HeldColumn {
  readonly column: OutputColumn;
  rows = 0;
  nulls = 0;
  /** 1 for each row with a value. */
  valid = new Uint8Array(FIRST_ROWS);
  /**
   * One cell per row: an integer, a number, a boolean (0 or 1), a word index, or the end position of a text in `text`.
   */
  cells: Cells;
  /** The texts of a column without a word list, concatenated in UTF-8. */
  text: Buffer = Buffer.alloc(0);
  textBytes = 0;
  readonly #wordAt: ReadonlyMap<string, number> | null;

  constructor(column: OutputColumn) {
    this.column = column;
    this.cells = cellsOf(column, FIRST_ROWS);
    this.#wordAt = column.words ? new Map(column.words.map((word, i) => [word, i])) : null;
  }

  /** Whether the cells of the column are end positions in `text`. */
  get isPlainText(): boolean {
    return this.column.kind === 'text' && !this.column.words;
  }

  /**
   * Appends rows `from` to `to - 1` of a frame. `textFrom`: start of the text of row `from`. Returns the start of the
   * text of row `to`.
   */
  take({ valid, cells, text }: FrameColumn, from: number, to: number, textFrom: number): number {
    const at = this.rows;
    this.#reserve(to - from);
    this.rows = at + to - from;
    if (this.isPlainText) return this.#takeTexts(cells as Int32Array | null, text, from, to, textFrom);
    if (cells === null) {
      this.valid.fill(0, at, this.rows);
      this.cells.fill(0, at, this.rows);
      this.nulls += to - from;
      return 0;
    }
    this.cells.set(cells.subarray(from, to), at);
    if (valid === null) this.valid.fill(1, at, this.rows);
    else {
      this.valid.set(valid.subarray(from, to), at);
      for (let r = from; r < to; r++) if (valid[r] === 0) this.nulls++;
    }
    return 0;
  }

  #takeTexts(lengths: Int32Array | null, text: Uint8Array | null, from: number, to: number, textFrom: number): number {
    let at = this.rows - (to - from);
    if (lengths === null) {
      this.valid.fill(0, at, this.rows);
      this.cells.fill(this.textBytes, at, this.rows);
      this.nulls += to - from;
      return textFrom;
    }
    let end = this.textBytes;
    for (let r = from; r < to; r++, at++) {
      const length = lengths[r]!;
      if (length === NO_TEXT) this.nulls++;
      else end += length;
      this.valid[at] = length === NO_TEXT ? 0 : 1;
      this.cells[at] = end;
    }
    const bytes = end - this.textBytes;
    this.#reserveText(bytes);
    this.text.set(text!.subarray(textFrom, textFrom + bytes), this.textBytes);
    this.textBytes = end;
    return textFrom + bytes;
  }

  /** Appends a row; null or undefined: the row has no value. */
  push(value: unknown): void {
    this.#reserve(1);
    const at = this.rows++;
    const has = value !== null && value !== undefined;
    if (!has) this.nulls++;
    this.valid[at] = has ? 1 : 0;
    if (!this.isPlainText) {
      this.cells[at] = !has ? 0 : this.#wordAt ? this.#wordAt.get(value as string)! : Number(value) + 0;
      return;
    }
    if (has) {
      const text = value as string;
      this.#reserveText(text.length * 3);
      this.textBytes += this.text.write(text, this.textBytes, 'utf8');
    }
    this.cells[at] = this.textBytes;
  }

  clear(): void {
    this.rows = 0;
    this.nulls = 0;
    this.textBytes = 0;
  }

  #reserve(rows: number): void {
    const needed = this.rows + rows;
    if (needed <= this.valid.length) return;
    const capacity = Math.max(needed, this.valid.length * 2);
    const [valid, cells] = [this.valid, this.cells];
    this.valid = new Uint8Array(capacity);
    this.valid.set(valid);
    this.cells = cellsOf(this.column, capacity);
    this.cells.set(cells);
  }

  #reserveText(bytes: number): void {
    const needed = this.textBytes + bytes;
    if (needed <= this.text.length) return;
    const larger = Buffer.allocUnsafe(Math.max(FIRST_TEXT_BYTES, needed, this.text.length * 2));
    this.text.copy(larger, 0, 0, this.textBytes);
    this.text = larger;
  }
}

/** The rows of a group. Where a group ends depends only on the rows, not on their division into frames. */
export class HeldTable {
  readonly columns: readonly HeldColumn[];
  readonly #mostRows: number;
  rows = 0;
  #text = 0;

  constructor(columns: readonly OutputColumn[], mostRows: number) {
    this.columns = columns.map((column) => new HeldColumn(column));
    this.#mostRows = mostRows;
  }

  /** Whether the group is full and must be written. */
  get full(): boolean {
    return this.rows >= this.#mostRows || this.#text >= MOST_TEXT_BYTES;
  }

  /**
   * Appends rows of a frame, starting at a cursor, until the group is full or the frame ends. Returns the next cursor.
   * The cursor for a new frame is `beginningOf`.
   */
  take(frame: ColumnFrame, { row, texts }: FrameCursor): FrameCursor {
    const to = this.#fitting(frame, row);
    const next = this.columns.map((column, i) => column.take(frame.columns[i]!, row, to, texts[i]!));
    this.rows += to - row;
    this.#text = this.columns.reduce((sum, column) => sum + column.textBytes, 0);
    return { row: to, texts: next };
  }

  /** Appends a row, with its values in column order. */
  push(values: readonly unknown[]): void {
    this.#text = 0;
    this.columns.forEach((column, i) => {
      column.push(values[i]);
      this.#text += column.textBytes;
    });
    this.rows++;
  }

  clear(): void {
    this.rows = 0;
    this.#text = 0;
    for (const column of this.columns) column.clear();
  }

  /** One past the last row of the frame that fits into the group. */
  #fitting({ rows, columns }: ColumnFrame, from: number): number {
    const to = Math.min(rows, from + this.#mostRows - this.rows);
    const all = columns.reduce((sum, column) => sum + (column.text?.length ?? 0), 0);
    if (this.#text + all < MOST_TEXT_BYTES) return to;
    const lengths = columns.filter((column) => column.text !== null).map((column) => column.cells as Int32Array);
    let text = this.#text;
    for (let r = from; r < to; r++) {
      for (const of of lengths) text += Math.max(0, of[r]!);
      if (text >= MOST_TEXT_BYTES) return r + 1;
    }
    return to;
  }
}

/** A row of a frame, and the start positions of its texts. */
interface FrameCursor {
  readonly row: number;
  readonly texts: readonly number[];
}

export const beginningOf = ({ columns }: ColumnFrame): FrameCursor => ({ row: 0, texts: columns.map(() => 0) });

// The functions below convert columns to the layout of files: rows without a value are omitted, and flags are bits.

/** The present integers, numbers, booleans or word indexes; a view if every row has a value. */
export function presentCells({ cells, valid, rows, nulls }: HeldColumn): Cells {
  if (nulls === 0) return cells.subarray(0, rows);
  const present = cells.slice(0, rows - nulls);
  for (let r = 0, to = 0; r < rows; r++) if (valid[r] === 1) present[to++] = cells[r]!;
  return present;
}

/** Start and end of each text in `bytes`. */
export interface PresentTexts {
  readonly bytes: Buffer;
  readonly starts: Int32Array;
  readonly ends: Int32Array;
}

export function presentTexts({ cells, valid, rows, nulls, text }: HeldColumn): PresentTexts {
  const starts = new Int32Array(rows - nulls);
  const ends = new Int32Array(rows - nulls);
  for (let r = 0, to = 0, from = 0; r < rows; r++) {
    const end = cells[r]!;
    if (valid[r] === 1) {
      starts[to] = from;
      ends[to++] = end;
    }
    from = end;
  }
  return { bytes: text, starts, ends };
}

/** Packs flags (0 or 1) into bits, lowest bit first. Writes into `bits` if it is large enough. */
export function bitsOf(flags: Cells, rows: number, bits = new Uint8Array(0)): Uint8Array<ArrayBuffer> {
  const length = (rows + 7) >> 3;
  const to = bits.length < length ? new Uint8Array(length) : bits.fill(0, 0, length);
  for (let r = 0; r < rows; r++) if (flags[r] === 1) to[r >> 3]! |= 1 << (r & 7);
  return to;
}

/** Compares two ranges of `bytes` byte by byte; negative if the first sorts before the second. */
export function compareBytes(bytes: Uint8Array, from: number, to: number, from2: number, to2: number): number {
  const common = Math.min(to - from, to2 - from2);
  for (let i = 0; i < common; i++) {
    const difference = bytes[from + i]! - bytes[from2 + i]!;
    if (difference !== 0) return difference;
  }
  return to - from - (to2 - from2);
}
