// Decodes delimited records from their bytes, without a string per cell; whatever it declines goes to the reference decoder.
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
 * Answers as CsvParseDecoder does, cell by cell and fault by fault. Records are split into cells first, then read a column
 * at a time, so that the first fault of a row is that of its first column in the order of the package. Plain rows are read by
 * the row kernel in one pass; only those it declines go this way.
 */
export class DelimitedDecoder implements Decoder {
  /** Records declined so far: those that the reference decoder read. */
  declined = 0;
  readonly #reference: CsvParseDecoder;
  readonly #readers: readonly ColumnReader[];
  #kernel: RowKernel | null = null;
  /** Rows until the kernel is made; below 0: it was tried. */
  #kernelIn: number;
  readonly #direct: DirectEncoding | null;
  #quoting: boolean;
  readonly #layout: DelimitedLayout;
  /** Made for the first row that the kernel declines. */
  #columns: readonly CellColumn[] | null = null;
  readonly #delimiter: number;
  /** The delimiter in each byte of a word. */
  readonly #delimiters: number;
  readonly #table: CellTable;
  readonly #run = new RecordBytes();
  /** The next quote in the run at or behind the record at hand; -1: not looked for. */
  #quoteAt = -1;
  /** Fields of each row of the table. */
  readonly #fields = new Int32Array(TABLE_ROWS);

  /** `kernelAfter`: rows. `direct`: where the kernel may write numbers instead of into columns. `quoting`: see RowKernel. */
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

  /** true if this decoder can take records of a stream: the delimiter is one ASCII character, no quote and no line break. */
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

  /** The fast path: the kernel reads plain rows, the rest fall back to cells. false: nothing was read. */
  #fastPath(block: RecordSlice, from: number, to: number, first: number, batch: ColumnBatch): boolean {
    if (!this.#kernel) return false;
    const run = readByKernel(this.#kernel, this.#readers, { block, from, to, batch, first }, (start, end, row) =>
      this.#fallback(block, start, end, row, batch),
    );
    if (run && run.declined * 2 > to - from && !this.#quoting && run.bytes.includes(QUOTE)) {
      // Looking for quotes costs a little, so that it is done only where they are the rule; from the next rows on.
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

  /** Decodes records `from`..`to - 1` into rows `first`.. of the batch. */
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

  /** Finds the fields of the record `bytes[start..end)` and notes them as row `row` of the table: VALID or DECLINED. */
  #split(run: RecordBytes, start: number, end: number, row: number): number {
    const { bytes, view } = run;
    if (this.#quoteAt < start) {
      // The bytes after the run belong to an earlier, longer one: searching there would make every run as slow as the
      // longest.
      const at = run.used.indexOf(QUOTE, start);
      this.#quoteAt = at < 0 ? bytes.length : at;
    }
    return this.#quoteAt >= end && this.#plain(view, start, end, row) ? VALID : this.#general(bytes, start, end, row);
  }

  /** Splits a record without quotes, four bytes at a time; false if it has too many fields. */
  #plain(view: DataView, start: number, end: number, row: number): boolean {
    const { starts, ends, width } = this.#table;
    const delimiters = this.#delimiters;
    let at = row * width;
    const last = at + width - 1;
    let from = start;
    for (let p = start; p < end; p += 4) {
      // The bytes that are the delimiter are zero in `x` and have their highest bit set in `hits`.
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
    return VALID;
  }

  /** The texts of the passthrough columns, as far as a record has them. */
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
