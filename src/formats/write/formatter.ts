// The narrow interface of every output format.
import type { ColumnBatch } from '../../core/batch.ts';
import type { Scores } from '../../inference/evaluate/evaluator.ts';
import type { BatchInterpretation, InterpretationSpec } from '../../inference/explain/interpretation.ts';
import type { ByteWriter } from './byte-writer.ts';

/** `columns`: frames (`column-frames.ts`) for a sink that writes columns; no format of a file. */
export type OutputFormat = 'csv' | 'tsv' | 'json' | 'ndjson' | 'columns';

export interface OutputSpec {
  format: OutputFormat;
  /** For csv and tsv. */
  delimiter: string;
  /** Names of the passthrough columns, as in the batch. */
  passthrough: readonly string[];
  /** The passthrough texts are JSON tokens already (JSON in), not bare text. */
  passthroughIsJson: boolean;
  /**
   * CSV for the COPY of a database: nothing between two delimiters is NULL, so texts passed through are always in quotes, and none is
   * changed for the sake of spreadsheets.
   */
  copy?: boolean;
  /** NDJSON for a sink that makes columns of its lines: passthrough values are texts, as the cells of a table have them. */
  cells?: boolean;
  /** JSON only, how a record is identified. `row`: by its row number; `model`: the record is read on its own, so it begins with id and
   * version of the model. */
  identity?: 'row' | 'model';
  /** null: predictions only. */
  interpretation: InterpretationSpec | null;
}

export interface Totals {
  rows: number;
  scored: number;
  rejected: number;
}

export interface Formatter {
  /** Writes one record a row of the batch, rejected rows as errors. `firstRow` is 1-based. */
  write(
    out: ByteWriter,
    batch: ColumnBatch,
    scores: Scores | null,
    firstRow: number,
    interpretation: BatchInterpretation | null,
  ): void;
}

/** Head, separator and tail of a whole answer. */
export interface Frame {
  head: string;
  /** Between the records of two blocks. */
  separator: string;
  tail(totals: Totals): string;
}
