// Decodes delimited records from their bytes, without a string a cell; what is unusual goes to the reference decoder.
import type { ColumnBatch } from '../core/batch.ts';
import { RECORD_OK } from '../core/block.ts';
import type { ColumnReader } from '../model/column-reader.ts';
import { CellColumn, CellTable, DECLINED, REJECTED, SOUND, TABLE_ROWS, TABLE_SLACK } from './cells.ts';
import { CsvParseDecoder, type DelimitedLayout } from './csv-parse-decoder.ts';
import { beginBatch, type Decoder, type RecordSlice } from './decoder.ts';
import { RecordBytes } from './record-bytes.ts';
import { settle } from './settle.ts';

const QUOTE = 34;

/**
 * Answers as CsvParseDecoder does, cell by cell and fault by fault. Records are split into cells first, then read a column
 * at a time, so that the first fault of a row is that of its first column in the order of the package.
 */
export class DelimitedDecoder implements Decoder {
  /** Records that were left to the reference decoder so far. */
  declined = 0;
  readonly #reference: CsvParseDecoder;
  readonly #layout: DelimitedLayout;
  readonly #columns: readonly CellColumn[];
  readonly #delimiter: number;
  readonly #table: CellTable;
  readonly #run = new RecordBytes();
  /** The next quote in the run at or behind the record at hand; -1: not looked for. */
  #quoteAt = -1;
  /** Fields of each row of the table. */
  readonly #fields = new Int32Array(TABLE_ROWS);

  constructor(readers: readonly ColumnReader[], layout: DelimitedLayout) {
    this.#reference = new CsvParseDecoder(readers, layout);
    this.#layout = layout;
    this.#columns = readers.map((reader, c) => new CellColumn(reader, layout.columns[c]!));
    this.#delimiter = layout.delimiter.charCodeAt(0);
    this.#table = new CellTable(layout.fields);
  }

  /** true if this decoder can take records of a stream: the delimiter is one ASCII character, no quote and no line break. */
  static serves({ delimiter }: DelimitedLayout): boolean {
    return /^[\x01-\x7f]$/.test(delimiter) && !/["\r\n]/.test(delimiter);
  }

  decode(block: RecordSlice, from: number, to: number, batch: ColumnBatch): void {
    beginBatch(batch, to - from);
    for (let i = from; i < to; i += TABLE_ROWS) this.#rows(block, i, Math.min(to, i + TABLE_ROWS), i - from, batch);
  }

  /** Decodes records `from`..`to - 1` into rows `first`.. of the batch. */
  #rows(block: RecordSlice, from: number, to: number, first: number, batch: ColumnBatch): void {
    const { spans, faults } = block;
    const table = this.#table;
    const run = this.#run;
    const rows = to - from;
    run.load(block, from, to);
    table.load(run);
    this.#quoteAt = -1;
    for (let r = 0; r < rows; r++) {
      const start = spans[(from + r) * 2]! - run.base;
      const end = spans[(from + r) * 2 + 1]! - run.base;
      if (faults[from + r] !== RECORD_OK) table.states[r] = REJECTED;
      else table.states[r] = run.isUtf8(start, end) ? this.#split(run.bytes, start, end, r) : DECLINED;
      table.faults[r] = null;
    }
    this.#echo(rows, first, batch);
    for (let r = 0; r < rows; r++) {
      const fields = this.#fields[r]!;
      if (table.states[r] === SOUND && fields !== this.#layout.fields) {
        const message = `${fields} fields where the header has ${this.#layout.fields}`;
        table.refuse(r, { code: 'column_count', message }, null);
      }
    }
    for (let c = 0; c < this.#columns.length; c++) this.#columns[c]!.read(table, rows, batch.columns[c]!, first);
    this.declined += settle(table, rows, block, from, batch, first, this.#reference);
  }

  /** Finds the fields of the record `bytes[start..end)` and notes them as row `row` of the table: SOUND or DECLINED. */
  #split(bytes: Buffer, start: number, end: number, row: number): number {
    if (this.#quoteAt < start) {
      const at = bytes.indexOf(QUOTE, start);
      this.#quoteAt = at < 0 ? bytes.length : at;
    }
    return this.#quoteAt >= end && this.#plain(bytes, start, end, row) ? SOUND : this.#general(bytes, start, end, row);
  }

  /**
   * Splits a record without quotes. Every byte is noted as the end of the field and the next byte overwrites it, unless it
   * was one: no branch a byte, so none is mispredicted. false if the record has too many fields.
   */
  #plain(bytes: Uint8Array, start: number, end: number, row: number): boolean {
    const { starts, ends, width } = this.#table;
    const delimiter = this.#delimiter;
    const first = row * width;
    const last = first + width;
    let at = first;
    for (let p = start; p < end; ) {
      const stop = Math.min(end, p + TABLE_SLACK - 4);
      for (; p < stop; p++) {
        ends[at] = p;
        at += ((bytes[p]! ^ delimiter) - 1) >>> 31;
      }
      if (at >= last) return false;
    }
    ends[at] = end;
    for (let cell = first, from = start; cell <= at; cell++) {
      starts[cell] = from;
      from = ends[cell]! + 1;
    }
    this.#fields[row] = at + 1 - first;
    return true;
  }

  /** Splits any record; the end of the record looks like that of a field meanwhile. */
  #general(bytes: Uint8Array, start: number, end: number, row: number): number {
    const { starts, ends, width } = this.#table;
    const delimiter = this.#delimiter;
    const at = row * width;
    let field = 0;
    const behind = bytes[end]!;
    bytes[end] = delimiter;
    for (let p = start; p <= end; p++) {
      let s = p;
      let e: number;
      if (bytes[p] === QUOTE) {
        s = ++p;
        while (p < end && bytes[p] !== QUOTE) p++;
        e = p;
        while (p + 1 < end && bytes[p + 1] === QUOTE) {
          // A doubled quote: from here on the field is written over itself, with one quote for two.
          bytes[e++] = QUOTE;
          for (p += 2; p < end && bytes[p] !== QUOTE; p++) bytes[e++] = bytes[p]!;
        }
        if (p >= end || bytes[++p] !== delimiter) {
          bytes[end] = behind;
          return DECLINED;
        }
      } else {
        while (bytes[p] !== delimiter) p++;
        e = p;
      }
      if (field < width) {
        starts[at + field] = s;
        ends[at + field] = e;
      }
      field++;
    }
    bytes[end] = behind;
    this.#fields[row] = field;
    return SOUND;
  }

  /** The texts of the passthrough columns, as far as a record has them. */
  #echo(rows: number, first: number, batch: ColumnBatch): void {
    const table = this.#table;
    for (let p = 0; p < batch.passthrough.length; p++) {
      const field = this.#layout.passthrough[p]!;
      const texts = batch.passthrough[p]!;
      for (let r = 0; r < rows; r++) {
        if (table.states[r] === SOUND && field < this.#fields[r]!)
          texts[first + r] = table.text(r * table.width + field);
      }
    }
  }
}
