// The narrow interface of every output format, and the choice of one.
import type { ColumnBatch } from '../core/batch.ts';
import type { Manifest } from '../model/manifest.ts';
import type { Scores } from '../score/evaluator.ts';
import { Interpreter } from '../score/prediction.ts';
import type { ByteWriter } from './byte-writer.ts';
import { DelimitedFormatter } from './delimited.ts';
import { JsonFormatter } from './json.ts';

export type OutputFormat = 'csv' | 'tsv' | 'json' | 'ndjson';

export interface OutputSpec {
  format: OutputFormat;
  /** For csv and tsv. */
  delimiter: string;
  /** Names of the passthrough columns, as in the batch. */
  passthrough: readonly string[];
  /** The passthrough texts are JSON tokens already (JSON in), not bare text. */
  passthroughIsJson: boolean;
}

export interface Totals {
  rows: number;
  scored: number;
  rejected: number;
}

export interface Formatter {
  /** Writes one record a row of the batch, rejected rows as errors. `firstRow` is 1-based. `any`: records were written before. */
  write(out: ByteWriter, batch: ColumnBatch, scores: Scores | null, firstRow: number): void;
}

/** What stands around the records of a whole answer. */
export interface Frame {
  head: string;
  /** Between the records of two blocks. */
  separator: string;
  tail(totals: Totals): string;
}

export function createFormatter(spec: OutputSpec, manifest: Manifest): Formatter {
  const interpreter = new Interpreter(manifest);
  return spec.format === 'json' || spec.format === 'ndjson'
    ? new JsonFormatter(spec, interpreter)
    : new DelimitedFormatter(spec, interpreter);
}

/** Head, separator and tail of an answer in this format. */
export function frameOf(spec: OutputSpec, manifest: Manifest): Frame {
  if (spec.format === 'json') {
    const ids = `"modelId":${JSON.stringify(manifest.id)},"modelVersion":${JSON.stringify(String(manifest.version))}`;
    return {
      head: `{${ids},"predictions":[`,
      separator: ',',
      tail: (t) => `],"summary":{"rows":${t.rows},"scored":${t.scored},"rejected":${t.rejected}}}\n`,
    };
  }
  if (spec.format === 'ndjson') return { head: '', separator: '', tail: () => '' };
  return { head: DelimitedFormatter.header(spec, new Interpreter(manifest)), separator: '', tail: () => '' };
}
