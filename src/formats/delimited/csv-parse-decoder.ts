// Decodes delimited records with csv-parse. This is the reference implementation.
import { isUtf8 } from 'node:buffer';
import { createRequire } from 'node:module';
import type * as CsvParse from 'csv-parse/sync';
import type { ColumnBatch } from '../../core/batch.ts';
import { RECORD_OK } from '../../core/block.ts';
import type { ColumnReader } from '../../inference/encode/column-reader.ts';
import { beginBatch, type Decoder, notTextMessage, type RecordSlice, reject, rejectFaulty } from '../decode/decoder.ts';

// csv-parse is loaded when a record first needs it. Most streams never need it, and loading its ten modules would take
// a twelfth of a worker's startup time.

let loaded: typeof CsvParse | null = null;

/** Parses records with csv-parse/sync. @throws CsvError */
export function parseCsv(bytes: string | Buffer, options: CsvParse.Options): string[][] {
  loaded ??= createRequire(import.meta.url)('csv-parse/sync') as typeof CsvParse;
  return loaded.parse(bytes, options) as unknown as string[][];
}

// Functions that parse a whole small CSV file, such as a file of a package.

interface Table {
  header: string[];
  rows: string[][];
}

/** Parses comma-separated text with a header row. @throws CsvError */
export function readTable(text: string | Buffer): Table {
  const [header = [], ...rows] = parseCsv(text, {
    bom: true,
    skip_empty_lines: true,
    record_delimiter: ['\r\n', '\n', '\r'],
  });
  return { header, rows };
}

/** The message for a record whose number of fields differs from the header. */
export const columnCountMessage = (fields: number, wanted: number): string =>
  `${fields} ${fields === 1 ? 'field' : 'fields'} where the header has ${wanted}`;

export interface DelimitedLayout {
  delimiter: string;
  /** Required number of fields per record. */
  fields: number;
  /** Field index of each model column. */
  columns: readonly number[];
  /** Field index of each passthrough column. */
  passthrough: readonly number[];
  /** The original encoding, if the input was converted to UTF-8. */
  encoding?: string;
}

const RECORD_DELIMITERS = ['\r\n', '\n', '\r'];

export class CsvParseDecoder implements Decoder {
  readonly #readers: readonly ColumnReader[];
  readonly #layout: DelimitedLayout;

  constructor(readers: readonly ColumnReader[], layout: DelimitedLayout) {
    this.#readers = readers;
    this.#layout = layout;
  }

  decode(block: RecordSlice, from: number, to: number, batch: ColumnBatch): void {
    beginBatch(batch, to - from);
    const bytes = Buffer.from(block.slab);
    const { spans, faults } = block;
    // Adjacent valid records are parsed together. An invalid record between them would affect its neighbours.
    for (let i = from; i < to; ) {
      if (rejectFaulty(batch, i - from, faults[i]!)) {
        i++;
        continue;
      }
      let end = i + 1;
      while (end < to && faults[end] === RECORD_OK) end++;
      const slice = bytes.subarray(spans[i * 2]!, spans[end * 2 - 1]!);
      const rows = isUtf8(slice) ? this.#parse(slice) : null;
      if (rows && rows.length === end - i) {
        for (let k = 0; k < rows.length; k++) this.#row(rows[k]!, i + k - from, batch);
      } else {
        for (let k = i; k < end; k++) this.decodeOne(block, k, k - from, batch);
      }
      i = end;
    }
  }

  /**
   * Decodes a single record `i` of a block into row `row` of a partly filled batch, so that an error of csv-parse
   * affects only one row.
   */
  decodeOne(block: RecordSlice, i: number, row: number, batch: ColumnBatch): void {
    const start = block.spans[i * 2]!;
    const record = Buffer.from(block.slab, start, block.spans[i * 2 + 1]! - start);
    if (!isUtf8(record)) {
      reject(batch, row, 'invalid_utf8', null, notTextMessage(this.#layout.encoding));
      return;
    }
    const rows = this.#parse(record);
    if (rows?.length === 1) this.#row(rows[0]!, row, batch);
    else reject(batch, row, 'malformed_record', null, 'the record breaks the quoting rules');
  }

  #parse(bytes: Buffer): string[][] | null {
    try {
      return parseCsv(bytes, {
        delimiter: this.#layout.delimiter,
        record_delimiter: RECORD_DELIMITERS,
        relax_column_count: true,
        relax_quotes: true,
        skip_empty_lines: true,
      });
    } catch {
      return null;
    }
  }

  #row(fields: string[], row: number, batch: ColumnBatch): void {
    const layout = this.#layout;
    const passed = batch.passthrough;
    for (let p = 0; p < passed.length; p++) passed[p]![row] = fields[layout.passthrough[p]!] ?? null;
    if (fields.length !== layout.fields) {
      reject(batch, row, 'column_count', null, columnCountMessage(fields.length, layout.fields));
      return;
    }
    const readers = this.#readers;
    for (let c = 0; c < readers.length; c++) {
      const reader = readers[c]!;
      const fault = reader.readText(fields[layout.columns[c]!]!, batch.columns[c]!, row);
      if (fault) {
        reject(batch, row, fault.code, reader.name, fault.message);
        return;
      }
    }
  }
}
