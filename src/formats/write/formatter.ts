// The interface of the formatters of all output formats.
import type { ColumnBatch } from '../../core/batch.ts';
import type { Scores } from '../../inference/evaluate/evaluator.ts';
import type { BatchInterpretation, InterpretationSpec } from '../../inference/explain/interpretation.ts';
import type { ByteWriter } from './byte-writer.ts';

/** Output formats. `columns` is not a file format: it means frames (`column-frames.ts`) for a columnar sink. */
export type OutputFormat = 'csv' | 'tsv' | 'json' | 'ndjson' | 'columns';

export interface OutputSpec {
  format: OutputFormat;
  /** Delimiter of csv and tsv. */
  delimiter: string;
  /** Names of the passthrough columns, as in the batch. */
  passthrough: readonly string[];
  /** Whether passthrough texts are JSON tokens (JSON input) rather than plain text. */
  passthroughIsJson: boolean;
  /**
   * Write CSV for the COPY command of a database. There, an empty unquoted field is NULL, so passthrough texts are
   * always quoted. Texts are not changed to prevent formulas in spreadsheet programs.
   */
  copy?: boolean;
  /** Write NDJSON for a columnar sink: passthrough values are written as texts, as in table cells. */
  cells?: boolean;
  /**
   * JSON only: how to identify a record. `row`: by its row number. `model`: by the ID and version of the model, with
   * which each independent record begins.
   */
  identity?: 'row' | 'model';
  /** null: predictions have no interpretation. */
  interpretation: InterpretationSpec | null;
}

export interface Totals {
  rows: number;
  scored: number;
  rejected: number;
}

export interface Formatter {
  /**
   * Writes one record per row of the batch. The record of a rejected row contains its error. `firstRow`: number of the
   * first row, counted from 1.
   */
  write(
    out: ByteWriter,
    batch: ColumnBatch,
    scores: Scores | null,
    firstRow: number,
    interpretation: BatchInterpretation | null,
  ): void;
}

/** The texts around the records of a whole output. */
export interface Frame {
  head: string;
  /** Text between the records of adjacent blocks. */
  separator: string;
  tail(totals: Totals): string;
}
