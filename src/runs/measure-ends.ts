// Metrics of source and sink: certificate expiry, and free disk space for the output.
import path from 'node:path';
import { measureCertificates, watchDisks } from '../monitor/host-limits.ts';
import type { Metrics } from '../monitor/metrics.ts';
import type { Pipeline } from '../pipeline/pipeline-schema.ts';
import { isObject } from '../storage/providers.ts';

type Ends = Pick<Pipeline, 'kafka' | 'schema_registry'>;

/** Measures the certificates of all pipelines in this process. */
export function measureCertificatesOf(pipelines: readonly Ends[], metrics: Metrics): void {
  const filesOf = (tls: Ends['kafka']['tls']): string[] =>
    typeof tls === 'object' && tls.certificate_file !== undefined ? [tls.certificate_file] : [];
  measureCertificates(
    metrics,
    'kafka',
    pipelines.flatMap(({ kafka }) => filesOf(kafka.tls)),
  );
  measureCertificates(
    metrics,
    'registry',
    pipelines.flatMap(({ schema_registry }) => filesOf(schema_registry?.tls)),
  );
}

/**
 * Measures the free space in the output's folder. If the path contains `{partition}`, measures the deepest folder
 * before that placeholder. Returns a function that stops measuring.
 */
export function watchOutput({ sink }: Pick<Pipeline, 'sink'>, metrics: Metrics): () => void {
  if (sink.type !== 'file' || isObject(sink.path)) return () => {};
  const [fixed = ''] = sink.path.split('{');
  const folder = path.dirname(sink.path.includes('{') ? `${fixed}x` : sink.path);
  return watchDisks(metrics, { output: folder });
}
