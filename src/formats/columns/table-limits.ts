// Limits of a columnar table, and the counters that are checked against them.
import { tooMany } from '../../core/errors.ts';

export interface TableLimits {
  /** Maximum rows of the table. Default: no limit. */
  rows?: number;
  /** Maximum number of columns that are read. Default: no limit. */
  columns?: number;
  /** Maximum text length of a row, bytes. Longer texts are not copied, and their rows are rejected. Default: 1 MiB. */
  recordBytes?: number;
  /**
   * Maximum bytes of the decompressed table. A long dictionary word is counted once per row that refers to it. Default:
   * no limit.
   */
  expandedBytes?: number;
}

/** Maximum bytes of one record, in all formats. */
export const DEFAULT_RECORD_BYTES = 1024 * 1024;

/** Counts the rows and bytes of a table. Throws when a count exceeds its limit. */
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
