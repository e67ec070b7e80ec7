// Contradictions of standard input and standard output in a pipeline.
import type { LintedPipeline, Say } from '../contract/connector.ts';
import { lintParquet } from '../file/file-lint.ts';
import type { StdioSink } from './stdio-options.ts';

export function lintStandardStreams({ sink }: LintedPipeline, say: Say): void {
  if (sink.type !== 'stdio') return;
  const { format, compression } = sink as StdioSink;
  if (format === 'parquet') lintParquet('sink', compression, say);
}
