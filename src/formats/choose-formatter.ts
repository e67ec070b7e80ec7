// Creates the formatter of an output format.

import { Interpreter } from '../inference/evaluate/prediction.ts';
import type { Manifest } from '../model/package/manifest.ts';
import { ColumnsFormatter } from './columns/columns-formatter.ts';
import { DelimitedFormatter } from './delimited/delimited-formatter.ts';
import { JsonFormatter, modelKeys } from './json/json-formatter.ts';
import type { Formatter, Frame, OutputSpec } from './write/formatter.ts';

/**
 * Creates a formatter. `kernelAfter`: number of rows after which a kernel writes plain predictions; default: enough
 * rows that it saves time.
 */
export function createFormatter(spec: OutputSpec, manifest: Manifest, kernelAfter?: number): Formatter {
  const interpreter = new Interpreter(manifest);
  if (spec.format === 'columns') return new ColumnsFormatter(spec, interpreter, manifest);
  return spec.format === 'json' || spec.format === 'ndjson'
    ? new JsonFormatter(spec, interpreter, manifest, kernelAfter)
    : new DelimitedFormatter(spec, interpreter, manifest.columns, kernelAfter);
}

/** The bytes before, between and after the block results of an output in this format. */
export function frameOf(spec: OutputSpec, manifest: Manifest): Frame {
  if (spec.format === 'json') {
    return {
      head: `{${modelKeys(manifest)},"predictions":[`,
      separator: ',',
      tail: (t) => `],"summary":{"rows":${t.rows},"scored":${t.scored},"rejected":${t.rejected}}}\n`,
    };
  }
  if (spec.format === 'ndjson' || spec.format === 'columns') return { head: '', separator: '', tail: () => '' };
  return {
    head: DelimitedFormatter.header(spec, new Interpreter(manifest), manifest.columns),
    separator: '',
    tail: () => '',
  };
}
