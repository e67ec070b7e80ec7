// PostgreSQL as source (a query) and sink (a table) of a run of files. The client is loaded on demand.
import { createHash } from 'node:crypto';
import { SluiceError } from '../core/errors.ts';
import { type Log, words } from '../core/log.ts';
import type { InterpretationSpec } from '../inference/explain/interpretation.ts';
import { seenChunks } from '../io/source/byte-taps.ts';
import type { Manifest } from '../model/package/manifest.ts';
import type { PostgresSink, PostgresSource } from '../pipeline/pipeline-schema.ts';
import { type OpenSink, type OpenSource, withOutput } from './endpoints.ts';

interface QueryInput {
  manifest: Manifest;
  passthrough: readonly string[] | '*';
}

/** @throws SluiceError database_* | usage */
export async function openQuerySource(source: PostgresSource, input: QueryInput): Promise<OpenSource> {
  const { openQuery } = await import('../connectors/postgres/query-source.ts');
  const { chunks, bytesRead, close } = await openQuery(source, input);
  return {
    chunks,
    input: { format: 'delimited', delimiter: ',', tokens: true },
    totalBytes: null,
    bytesRead,
    // Another snapshot, and as whole as the first.
    repeatable: true,
    close,
  };
}

interface TableOutput {
  manifest: Manifest;
  passthrough: readonly string[] | '*';
  interpretation: InterpretationSpec | null;
  /** The input, once all of it was read. */
  digest: () => string;
  log: Log;
}

/** @throws SluiceError database_* | usage */
export async function openTable(sink: PostgresSink, output: TableOutput): Promise<OpenSink> {
  const { manifest, passthrough, interpretation, digest, log } = output;
  if (passthrough === '*')
    throw new SluiceError('usage', 'a table needs the names of its columns: name those passed through');
  const [{ openTableSink }, { predictionLayout }] = await Promise.all([
    import('../connectors/postgres/table-sink.ts'),
    import('../connectors/postgres/table-layout.ts'),
  ]);
  const columns = predictionLayout(manifest, passthrough, interpretation);
  const onRepeated = () => log('warn', 'run_repeated', words`this run was appended before: nothing is added`);
  const bytes = await openTableSink(sink, { columns, inputDigest: digest, onRepeated });
  return withOutput(bytes, { format: 'csv', delimiter: ',', copy: true });
}

/** The same source, whose bytes are digested on their way. */
export function digestedSource(source: OpenSource): { source: OpenSource; digest: () => string } {
  const hash = createHash('sha256');
  return {
    source: { ...source, chunks: seenChunks(source.chunks, (bytes) => hash.update(bytes)) },
    digest: () => hash.digest('hex'),
  };
}
