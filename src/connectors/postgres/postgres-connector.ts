// Connector for PostgreSQL: queries as sources, tables as sinks. The client is loaded when a source or sink is opened.
import { SluiceError } from '../../core/errors.ts';
import { words } from '../../core/log.ts';
import type { Connector, OpenRows, PredictionSink, SinkRun } from '../contract/connector.ts';
import { POSTGRES_ENDS, type PostgresSink, type PostgresSource } from './postgres-options.ts';

export const POSTGRES = {
  capabilities: {
    reads: 'rows',
    writes: 'rows',
    takes: ['bytes', 'rows', 'records'],
    transact: true,
    withhold: true,
  },
  page: 'databases.md',
  options: POSTGRES_ENDS,
  lint: async (pipeline, say) => (await import('./postgres-lint.ts')).lintTables(pipeline, say),
  nameOf: ({ table }: PostgresSource | PostgresSink) => table ?? 'query',
  resumeObstacle: ({ key }: PostgresSource) => (key ? null : 'rows without a key can arrive in another order'),
  openRows,
  openSink,
} satisfies Connector;

/** @throws SluiceError database_* | usage */
async function openRows(source: PostgresSource, input: Pick<SinkRun, 'manifest' | 'passthrough'>): Promise<OpenRows> {
  const { openQuery } = await import('./query-source.ts');
  return { ...(await openQuery(source, input)), input: { format: 'delimited', delimiter: ',', tokens: true } };
}

/** @throws SluiceError database_* | usage */
async function openSink(sink: PostgresSink, run: SinkRun): Promise<PredictionSink> {
  const { manifest, passthrough, interpretation, log } = run;
  if (passthrough === '*')
    throw new SluiceError('usage', 'passthrough * is not supported for a table: list the columns to pass through');
  const [{ openTableSink }, { predictionLayout }] = await Promise.all([
    import('./table-sink.ts'),
    import('./table-layout.ts'),
  ]);
  const columns = predictionLayout(manifest, passthrough, interpretation);
  const onRepeated = () =>
    log(
      'warn',
      'run_repeated',
      words`an identical run already appended these rows; skipping. If the rows were deleted since, delete its entry in sluice_runs, too`,
    );
  const inputDigest = run.digestInput();
  const bytes = await openTableSink(sink, { columns, inputDigest, stored: run.stored, onRepeated });
  return Object.assign(bytes, { output: { format: 'csv', delimiter: ',', copy: true } as const });
}
