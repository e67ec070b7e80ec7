// Checks the use of standard input and output in a pipeline for contradictory settings.
import type { LintedPipeline, Say } from '../contract/connector.ts';
import { lintParquet } from '../file/file-lint.ts';
import type { StdioSink } from './stdio-options.ts';

export function lintStandardStreams({ sink }: LintedPipeline, say: Say): void {
  if (sink.type !== 'stdio') return;
  const { format, compression } = sink as StdioSink;
  if (format === 'parquet') lintParquet('sink', compression, say);
}
