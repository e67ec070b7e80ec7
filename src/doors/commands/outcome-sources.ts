// Sources of predictions and outcomes for `sluice outcomes`: either files, or topics of a pipeline.

import { STDIO } from '../../connectors/stdio/stdio-connector.ts';
import { SluiceError } from '../../core/errors.ts';
import { isPattern, sidecarKind } from '../../core/file-names.ts';
import type { RowSource } from '../../outcomes/row-batch.ts';
import { tableRows } from '../../outcomes/table-rows.ts';
import type { Pipeline } from '../../pipeline/pipeline-schema.ts';
import type { Endpoint } from '../../runs/endpoint-specs.ts';
import { endpoint, inputsOf } from '../../runs/endpoint-specs.ts';
import { openSource } from '../../runs/endpoints.ts';
import { refuseSameFiles } from '../../runs/same-files.ts';
import { say } from './drive-run.ts';
import type { OutcomesFlags } from './flags/output-flags.ts';

/** A wait for an open transaction is reported after this time in ms. */
const REPORTED_AFTER_MS = 3_000;

/**
 * The files that a name or a pattern refers to. A pattern does not match sidecar files.
 * @throws SluiceError input_not_found | usage
 */
export async function predictionFiles(name: string, { format, delimiter }: OutcomesFlags): Promise<Endpoint[]> {
  if (name === STDIO) return [endpoint(STDIO, { format, delimiter }, 'csv')];
  const said = format ?? (delimiter === undefined ? undefined : 'csv');
  const from = { type: 'file', path: name, ...(said && { format: said }), ...(delimiter && { delimiter }) };
  const kind = sidecarKind(name);
  if (kind !== null && !isPattern(name))
    throw new SluiceError('usage', `${name} contains no predictions: its name is that of a sidecar file (${kind})`);
  return inputsOf(from as Parameters<typeof inputsOf>[0], (names) => predictionsAmong(names, name));
}

/** Removes the sidecar files and reports them. @throws SluiceError usage: all files are sidecar files */
function predictionsAmong(names: readonly string[], pattern: string): string[] {
  const sidecars = names.filter((name) => sidecarKind(name) !== null);
  const listed = sidecars.map((name) => `${name} (${sidecarKind(name)})`).join(', ');
  if (sidecars.length === names.length)
    throw new SluiceError('usage', `${pattern} matches only sidecar files, which contain no predictions: ${listed}`);
  if (sidecars.length > 0) say(`skipped ${sidecars.length} sidecar files of ${pattern}: ${listed}`);
  return names.filter((name) => sidecarKind(name) === null);
}

export async function refuseOverwriting(
  files: readonly Endpoint[],
  { output, metricsFile, html }: OutcomesFlags,
): Promise<void> {
  const read = files.filter(({ name }) => name !== STDIO).map(({ name }) => ({ name, role: 'an input' }));
  const written = [
    ...(output === undefined ? [] : [{ name: output, role: 'the report' }]),
    ...(metricsFile === undefined ? [] : [{ name: metricsFile, role: 'the metrics file' }]),
    ...(html === undefined ? [] : [{ name: html, role: 'the page' }]),
  ];
  await refuseSameFiles(read, written);
}

export const fileSource = (from: Endpoint): RowSource => ({
  name: from.name === STDIO ? 'standard input' : from.name,
  rows: (columns, signal) => tableRows({ name: from.name, open: () => openSource(from) }, columns, signal),
});

/** The output topics of a pipeline. @throws SluiceError usage: the pipeline does not write to a topic */
export async function predictionTopics(pipeline: Pipeline): Promise<RowSource[]> {
  const { sink } = pipeline;
  if (sink.type !== 'kafka')
    throw new SluiceError('usage', 'the pipeline writes to no topic: name files with predictions');
  const { topicsOf } = await import('../../connectors/kafka/topics.ts');
  return Promise.all(topicsOf(sink).map((topic) => topicSource(pipeline, topic, sink.format)));
}

export const labelTopic = (pipeline: Pipeline, topic: string): Promise<RowSource> =>
  topicSource(pipeline, topic, 'json');

/** The Kafka modules are imported only when a topic is read. */
async function topicSource(
  pipeline: Pipeline,
  topic: string,
  format: 'json' | 'avro' | 'json_schema' | 'protobuf',
): Promise<RowSource> {
  const [{ topicRows }, { connectionOf }, { valueReader }] = await Promise.all([
    import('../../outcomes/topic-rows.ts'),
    import('../../connectors/kafka/connection-settings.ts'),
    import('../../connectors/kafka/record-values.ts'),
  ]);
  let reported = false;
  const table = {
    topic,
    connection: connectionOf(pipeline.kafka),
    decode: await valueReader(format, pipeline.schema_registry),
    onWait: (partition: number, ms: number) => {
      if (reported || ms < REPORTED_AFTER_MS) return;
      reported = true;
      say(`waiting for an open transaction in partition ${partition} of ${topic}`);
    },
  };
  return { name: topic, rows: (columns, signal) => topicRows(table, columns, signal) };
}
