// The minimal interface of all output formats.
import type { ColumnBatch } from '../../core/batch.ts';
import type { Scores } from '../../inference/evaluate/evaluator.ts';
import type { BatchInterpretation, InterpretationSpec } from '../../inference/explain/interpretation.ts';
import type { ByteWriter } from './byte-writer.ts';

/** `columns`: frames (`column-frames.ts`) for a columnar sink; not a file format. */
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
   * CSV for a database's COPY. An empty unquoted field is NULL, so passthrough texts are always quoted, and no text is
   * changed to protect spreadsheet programs.
   */
  copy?: boolean;
  /** NDJSON for a columnar sink: passthrough values are written as text, as in table cells. */
  cells?: boolean;
  /**
   * JSON only: how to identify a record. `row`: by its row number. `model`: the record is independent, so it begins
   * with the model's ID and version.
   */
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
  /** Writes one record per row of the batch; rejected rows as errors. `firstRow` counts from 1. */
  write(
    out: ByteWriter,
    batch: ColumnBatch,
    scores: Scores | null,
    firstRow: number,
    interpretation: BatchInterpretation | null,
  ): void;
}

/** Head, separator and tail of a whole output. */
export interface Frame {
  head: string;
  /** Separator between the records of two blocks. */
  separator: string;
  tail(totals: Totals): string;
}
