// Limits of a table of columns, and their use so far.
import { tooMany } from '../../core/errors.ts';

export interface TableLimits {
  /** Most rows of the table. Default: no limit. */
  rows?: number;
  /** Most columns that are read. Default: no limit. */
  columns?: number;
  /** Most bytes of the text of a row. Longer texts are not copied, and their rows are rejected. Default: 1 MiB. */
  recordBytes?: number;
  /** Most bytes of the whole table after decompression; a long word of a dictionary counts as often as rows refer to it. Default: no limit. */
  expandedBytes?: number;
}

/** Of one record, in every format. */
export const DEFAULT_RECORD_BYTES = 1024 * 1024;

/** Counts the rows and bytes of a table, and ends it at its limits. */
export class TableBudget {
  readonly recordBytes: number;
  readonly #columns: number;
  readonly #rows: number;
  readonly #expandedBytes: number;
  #rowsUsed = 0;
  #bytesUsed = 0;

  constructor({ rows, columns, recordBytes, expandedBytes }: TableLimits = {}) {
    this.recordBytes = recordBytes ?? DEFAULT_RECORD_BYTES;
    this.#columns = columns ?? Infinity;
    this.#rows = rows ?? Infinity;
    this.#expandedBytes = expandedBytes ?? Infinity;
  }

  /** @throws SluiceError limit_exceeded */
  checkColumns(count: number): void {
    if (count > this.#columns) throw tooMany('columns', this.#columns);
  }

  /** @throws SluiceError limit_exceeded */
  addRows(count: number): void {
    this.#rowsUsed += count;
    if (this.#rowsUsed > this.#rows) throw tooMany('rows', this.#rows);
  }

  /** @throws SluiceError limit_exceeded */
  addBytes(count: number): void {
    this.#bytesUsed += count;
    if (this.#bytesUsed > this.#expandedBytes) throw tooMany('expanded_bytes', this.#expandedBytes, 'bytes');
  }
}
