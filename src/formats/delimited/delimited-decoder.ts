// Decodes delimited records from bytes, without creating a string per cell.
// The reference decoder reads the records that this decoder declines.
import { QUOTE } from '../../core/ascii.ts';
import type { ColumnBatch } from '../../core/batch.ts';
import type { ColumnReader } from '../../inference/encode/column-reader.ts';
import type { DirectEncoding } from '../../inference/encode/encoder.ts';
import { CellColumn, CellTable, DECLINED, TABLE_ROWS, VALID } from '../decode/cells.ts';
import { beginBatch, type Decoder, RecordBytes, type RecordSlice } from '../decode/decoder.ts';
import { endOfRun, KERNEL_ROWS, readByKernel, settle } from '../decode/kernel-rows.ts';
import { RowKernel } from '../decode/row-kernel.ts';
import { CsvParseDecoder, columnCountMessage, type DelimitedLayout } from './csv-parse-decoder.ts';
import { delimitedRows } from './row-program.ts';

const LOW_BITS = 0x7f7f7f7f;
/**
 * The kernel should read quotes if more than one in this many rows is declined: declining a row takes as long as
 * handling quotes in this many rows.
 */
const QUOTING_SHARE = 32;

/**
 * Gives the same cells and errors as `CsvParseDecoder`. Records are first split into cells. Cells are then decoded
 * column by column in package order, so that the first error of a row is the error of the first such column. The row
 * kernel reads plain rows in one pass; this code reads only the rows that the kernel declines.
 */
export class DelimitedDecoder implements Decoder {
  /** Number of records so far that this decoder declined and the reference decoder read. */
  declined = 0;
  readonly #reference: CsvParseDecoder;
  readonly #readers: readonly ColumnReader[];
  #kernel: RowKernel | null = null;
  /** Number of rows until the kernel is created; negative: its creation was already attempted. */
  #kernelIn: number;
  readonly #direct: DirectEncoding | null;
  #quoting: boolean;
  readonly #layout: DelimitedLayout;
  /** Created for the first row that the kernel declines. */
  #columns: readonly CellColumn[] | null = null;
  readonly #delimiter: number;
  /** The delimiter, repeated in each byte of a 32-bit integer. */
  readonly #delimiters: number;
  readonly #table: CellTable;
  readonly #run = new RecordBytes();
  /** Position of the next quote in the run at or after the current record; -1: unknown. */
  #quoteAt = -1;
  /** Number of fields in each row of the table. */
  readonly #fields = new Int32Array(TABLE_ROWS);

  /**
   * `kernelAfter`: number of rows before the kernel is created. `direct`: model inputs into which the kernel may write
   * numbers instead of into columns. `quoting`: whether the kernel reads quoted fields.
   */
  constructor(
    readers: readonly ColumnReader[],
    layout: DelimitedLayout,
    kernelAfter: number,
    direct: DirectEncoding | null = null,
    quoting = false,
  ) {
    this.#quoting = quoting;
    this.#reference = new CsvParseDecoder(readers, layout);
    this.#layout = layout;
    this.#readers = readers;
    this.#kernelIn = kernelAfter;
    this.#direct = direct;
    this.#delimiter = layout.delimiter.charCodeAt(0);
    this.#delimiters = Math.imul(this.#delimiter, 0x01010101);
    this.#table = new CellTable(layout.fields);
  }

  /**
   * Whether this decoder supports the stream: the delimiter must be one ASCII character other than a quote or a line
   * break.
   */
  static serves({ delimiter }: DelimitedLayout): boolean {
    return /^[\x01-\x7f]$/.test(delimiter) && !/["\r\n]/.test(delimiter);
  }

  decode(block: RecordSlice, from: number, to: number, batch: ColumnBatch): void {
    beginBatch(batch, to - from);
    if (this.#kernelIn >= 0) {
      this.#kernelIn -= to - from;
      if (this.#kernelIn < 0) this.#openKernel();
    }
    for (let i = from, end = from; i < to; i = end) {
      end = endOfRun(block, i, to);
      if (!this.#fastPath(block, i, end, i - from, batch)) this.#fallback(block, i, end, i - from, batch);
    }
  }

  #openKernel(): void {
    this.#kernel = RowKernel.open({
      readers: this.#readers,
      layout: this.#layout,
      capacity: KERNEL_ROWS,
      direct: this.#direct,
      syntax: delimitedRows(this.#layout.delimiter, this.#quoting),
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
    if (run && run.declined * QUOTING_SHARE > to - from && !this.#quoting && run.bytes.includes(QUOTE)) {
      // Reading quotes makes the kernel slower, so this is enabled only if quotes are not rare, and from the next rows
      // on.
      this.#quoting = true;
      this.#openKernel();
    }
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
    this.#quoteAt = -1;
    table.fill(run, block, from, to, (start, end, row) => this.#split(run, start, end, row));
    this.#echo(rows, first, batch);
    for (let r = 0; r < rows; r++) {
      const fields = this.#fields[r]!;
      if (table.states[r] === VALID && fields !== this.#layout.fields) {
        const message = columnCountMessage(fields, this.#layout.fields);
        table.refuse(r, { code: 'column_count', message }, null);
      }
    }
    this.#columns ??= this.#readers.map((reader, c) => new CellColumn(reader, this.#layout.columns[c]!));
    for (let c = 0; c < this.#columns.length; c++) this.#columns[c]!.read(table, rows, batch.columns[c]!, first);
    this.declined += settle(table, rows, block, from, batch, first, this.#reference);
  }

  /** Splits the record `bytes[start..end)` into row `row` of the table; returns VALID or DECLINED. */
  #split(run: RecordBytes, start: number, end: number, row: number): number {
    const { bytes, view } = run;
    if (this.#quoteAt < start) {
      // Bytes after the run remain from an earlier, longer run. Searching them too would make every run as slow as the
      // longest.
      const at = run.used.indexOf(QUOTE, start);
      this.#quoteAt = at < 0 ? bytes.length : at;
    }
    return this.#quoteAt >= end && this.#plain(view, start, end, row) ? VALID : this.#general(bytes, start, end, row);
  }

  /** Splits a record without quotes, four bytes at a time. Returns false if it has too many fields. */
  #plain(view: DataView, start: number, end: number, row: number): boolean {
    const { starts, ends, width } = this.#table;
    const delimiters = this.#delimiters;
    let at = row * width;
    const last = at + width - 1;
    let from = start;
    for (let p = start; p < end; p += 4) {
      // Bytes equal to the delimiter are zero in `x` and have their highest bit set in `hits`.
      const x = view.getInt32(p, true) ^ delimiters;
      let hits = ~(((x & LOW_BITS) + LOW_BITS) | x | LOW_BITS);
      for (; hits !== 0; hits &= hits - 1) {
        const stop = p + ((31 - Math.clz32(hits & -hits)) >> 3);
        if (stop >= end) break;
        if (at >= last) return false;
        starts[at] = from;
        ends[at++] = stop;
        from = stop + 1;
      }
    }
    starts[at] = from;
    ends[at++] = end;
    this.#fields[row] = at - row * width;
    return true;
  }

  /**
   * Splits any record. Temporarily replaces the byte after the record by a delimiter, so that the last field needs no
   * special case.
   */
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
          // The field is rewritten in place, with one quote for each pair of quotes.
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
    return VALID;
  }

  /** Copies the texts of the passthrough columns that the input has. */
  #echo(rows: number, first: number, batch: ColumnBatch): void {
    const table = this.#table;
    for (let p = 0; p < batch.passthrough.length; p++) {
      const field = this.#layout.passthrough[p]!;
      const texts = batch.passthrough[p]!;
      for (let r = 0; r < rows; r++) {
        if (table.states[r] === VALID && field < this.#fields[r]!)
          texts[first + r] = table.text(r * table.width + field);
      }
    }
  }
}
