// Rows of any table as the texts of some named columns: what labels and predictions are read from, whatever they came as.
import type { ErrorCode, ErrorDetail } from '../core/errors.ts';
import { SluiceError } from '../core/errors.ts';

export interface WantedColumn {
  /** Empty: none is asked for, its place is kept. */
  name: string;
  /** A header without it is refused; of JSON each row is asked. */
  required?: true;
  /** An object of JSON that has neither this member nor `error` is refused: it is no prediction. */
  orError?: true;
  /** Numbers of JSON as they are written: `1.50` is another key than `1.5`. */
  asWritten?: true;
}

export interface RowFault {
  /** Row of the batch, from 0. */
  readonly row: number;
  readonly code: ErrorCode;
  /** One of the columns asked for; null: the row as a whole. */
  readonly column: string | null;
  /** Never holds a value of the row. */
  readonly message: string;
}

export interface RowBatch {
  readonly rows: number;
  /** Which row of its input (from 1) a row of the batch is; of a topic: its offset. */
  placeOf(row: number): number;
  /** Per column asked for: the text of each row; null: it has none. */
  readonly texts: readonly (readonly (string | null)[])[];
  /** Per column asked for: whether the input has it, as its header or its first record says. */
  readonly has: readonly boolean[];
  /** Rows that could not be read, in order; their texts mean nothing. */
  readonly faults: readonly RowFault[];
  /** What records of a topic have beside their value. */
  readonly records?: {
    readonly keys: readonly (string | null)[];
    /** Of the application, ms since 1970. */
    readonly times: readonly number[];
    /** From the headers; null: they do not say. */
    readonly models: readonly (string | null)[];
    /** The record has no value: what its key stood for is gone. */
    readonly gone: readonly boolean[];
  };
}

/** A file or a topic. */
export interface RowSource {
  /** For messages. */
  readonly name: string;
  rows(columns: readonly WantedColumn[], signal: AbortSignal | undefined): AsyncIterable<RowBatch>;
}

/** Faults that are told with their rows. */
const TOLD = 20;

/** Rows of an input that cannot be used: counted, and the first of them told. */
export class RowFaults {
  #count = 0;
  readonly #told: ErrorDetail[] = [];

  get count(): number {
    return this.#count;
  }

  /** `row`: of the input, from 1. */
  add(row: number, { code, column, message }: Omit<RowFault, 'row'>): void {
    this.#count++;
    if (this.#told.length < TOLD) this.#told.push({ code, message, row, ...(column === null ? {} : { column }) });
  }

  /** @throws SluiceError outcomes_invalid, if there were any */
  refuse(name: string): void {
    if (this.#count === 0) return;
    const rows = this.#count === 1 ? 'one row' : `${this.#count} rows`;
    throw new SluiceError('outcomes_invalid', `${name}: ${rows} cannot be used`, { details: this.#told });
  }
}
