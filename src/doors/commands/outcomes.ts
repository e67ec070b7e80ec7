// `sluice outcomes`: compares predictions with the outcomes of their applications.
import type { Command } from 'commander';
import { STDIO } from '../../connectors/stdio/stdio-connector.ts';
import { SluiceError } from '../../core/errors.ts';
import { isPattern, sidecarKind } from '../../core/file-names.ts';
import { putFile } from '../../io/sink/file-sink.ts';
import { measureOutcomes } from '../../outcomes/measure-outcomes.ts';
import type { OutcomeReport } from '../../outcomes/outcome-report.ts';
import type { MonthColumn } from '../../outcomes/read-labels.ts';
import { isModelName } from '../../outcomes/read-predictions.ts';
import type { RowSource } from '../../outcomes/row-batch.ts';
import { tableRows } from '../../outcomes/table-rows.ts';
import { readPipeline } from '../../pipeline/pipeline-config.ts';
import type { Pipeline } from '../../pipeline/pipeline-schema.ts';
import { type Endpoint, endpoint, inputsOf } from '../../runs/endpoint-specs.ts';
import { openSource } from '../../runs/endpoints.ts';
import { refuseSameFiles } from '../../runs/same-files.ts';
import { say } from './drive-run.ts';
import { COMMAND_TABLES, type OutcomesFlags } from './flag-tables.ts';
import { addFlags } from './flags.ts';
import { joinWords, outcomeTables } from './outcome-words.ts';
import { signalled } from './signals.ts';

export function addOutcomesCommand(program: Command): void {
  addFlags(program.command('outcomes'), COMMAND_TABLES.outcomes).action(outcomes);
}

async function outcomes(patterns: string[], flags: OutcomesFlags): Promise<void> {
  refuseContradictions(patterns, flags);
  const files = (await Promise.all(patterns.map((name) => predictionFiles(name, flags)))).flat();
  const labelsFile = flags.labels === undefined ? null : endpoint(flags.labels, labelFormat(flags), 'csv');
  await refuseOverwriting([...files, ...(labelsFile ? [labelsFile] : [])], flags);
  const pipeline = flags.pipeline === undefined ? null : await readPipeline(flags.pipeline);
  const sources = files.length > 0 ? files.map(fileSource) : await predictionTopics(pipeline!);
  const fromTopics = files.length === 0;
  const labels = labelsFile ? fileSource(labelsFile) : await labelTopic(pipeline!, flags.labelsTopic!);
  const { signal, dispose } = signalled();
  try {
    const report = await measureOutcomes({
      labels: {
        ...labels,
        key: flags.labelKey ?? (labelsFile ? (flags.key ?? null) : null),
        outcome: flags.outcome,
        positive: words(flags.positive),
        negative: words(flags.negative),
        onDuplicate: flags.onDuplicate ?? (labelsFile ? 'refuse' : 'last'),
      },
      predictions: {
        sources,
        key: flags.key ?? null,
        probability: flags.probability,
        model: flags.model ?? null,
        modelColumn: flags.modelColumn ?? null,
        onDuplicate: flags.onDuplicate ?? (fromTopics ? 'last' : 'refuse'),
      },
      month: monthColumn(flags),
      signal,
    });
    await hand(report, flags);
  } catch (error) {
    // The interrupted reader reports the error itself.
    signal.throwIfAborted();
    throw error;
  } finally {
    dispose();
  }
}

/** Writes and prints the report. */
async function hand(report: OutcomeReport, flags: OutcomesFlags): Promise<void> {
  const json = `${JSON.stringify(report)}\n`;
  if (flags.output !== undefined) await putFile(flags.output, json);
  if (flags.metricsFile !== undefined) {
    const { OutcomeMetrics } = await import('../../monitor/left-metrics.ts');
    await putFile(flags.metricsFile, await new OutcomeMetrics(report.groups).text());
  }
  process.stderr.write(`${joinWords(report)}\n`);
  process.stdout.write(flags.json ? json : `${outcomeTables(report)}\n`);
}

/** @throws SluiceError usage */
function refuseContradictions(patterns: readonly string[], flags: OutcomesFlags): void {
  const wrong = [
    (flags.labels === undefined) === (flags.labelsTopic === undefined) && 'say where the outcomes are: --labels or --labels-topic',
    patterns.length === 0 && flags.pipeline === undefined && 'name files of predictions, or the --pipeline whose topics have them',
    flags.labelsTopic !== undefined && flags.pipeline === undefined && '--labels-topic needs the --pipeline that names the brokers',
    patterns.length > 0 && flags.key === undefined && 'files of predictions need --key, the column that names the application',
    flags.labels !== undefined && flags.labelKey === undefined && flags.key === undefined && '--labels needs --label-key, the column that names the application',
    flags.month !== undefined && flags.time !== undefined && 'the month comes from --month or from --time, not from both',
    flags.model !== undefined && flags.modelColumn !== undefined && 'the model comes from --model or from --model-column, not from both',
    flags.model !== undefined && !isModelName(flags.model) && '--model takes id:version: an alias may mean another version today',
  ].find((words) => words !== false); // biome-ignore format: a table
  if (wrong) throw new SluiceError('usage', wrong);
}

const words = (list: string): string[] => list.split(',').filter((word) => word !== '');

const monthColumn = ({ month, time }: OutcomesFlags): MonthColumn | null =>
  month !== undefined ? { column: month, kind: 'month' } : time !== undefined ? { column: time, kind: 'time' } : null;

const labelFormat = ({ labelsFormat: format, labelsDelimiter: delimiter }: OutcomesFlags) => ({
  format: format ?? (delimiter === undefined ? undefined : ('csv' as const)),
  delimiter,
});

/** The files that a name or a pattern means; sidecar files are left out of a pattern. @throws SluiceError input_not_found | usage */
async function predictionFiles(name: string, { format, delimiter }: OutcomesFlags): Promise<Endpoint[]> {
  if (name === STDIO) return [endpoint(STDIO, { format, delimiter }, 'csv')];
  const said = format ?? (delimiter === undefined ? undefined : 'csv');
  const from = { type: 'file', path: name, ...(said && { format: said }), ...(delimiter && { delimiter }) };
  const kind = sidecarKind(name);
  if (kind !== null && !isPattern(name))
    throw new SluiceError('usage', `${name} holds no predictions: it is named like a sidecar file (${kind})`);
  return inputsOf(from as Parameters<typeof inputsOf>[0], (names) => predictionsAmong(names, name));
}

/** Without sidecar files, which are reported. @throws SluiceError usage: nothing else matches */
function predictionsAmong(names: readonly string[], pattern: string): string[] {
  const sidecars = names.filter((name) => sidecarKind(name) !== null);
  const listed = sidecars.map((name) => `${name} (${sidecarKind(name)})`).join(', ');
  if (sidecars.length === names.length)
    throw new SluiceError('usage', `${pattern} matches sidecar files only, which hold no predictions: ${listed}`);
  if (sidecars.length > 0) say(`skipped ${sidecars.length} sidecar files of ${pattern}: ${listed}`);
  return names.filter((name) => sidecarKind(name) === null);
}

async function refuseOverwriting(files: readonly Endpoint[], { output, metricsFile }: OutcomesFlags): Promise<void> {
  const read = files.filter(({ name }) => name !== STDIO).map(({ name }) => ({ name, role: 'an input' }));
  const written = [
    ...(output === undefined ? [] : [{ name: output, role: 'the report' }]),
    ...(metricsFile === undefined ? [] : [{ name: metricsFile, role: 'the file of metrics' }]),
  ];
  await refuseSameFiles(read, written);
}

const fileSource = (from: Endpoint): RowSource => ({
  name: from.name === STDIO ? 'standard input' : from.name,
  rows: (columns, signal) => tableRows({ name: from.name, open: () => openSource(from) }, columns, signal),
});

/** @throws SluiceError usage: the pipeline writes to no topic */
async function predictionTopics(pipeline: Pipeline): Promise<RowSource[]> {
  const { sink } = pipeline;
  if (sink.type !== 'kafka')
    throw new SluiceError('usage', 'the pipeline writes to no topic: name the files of predictions');
  const { topicsOf } = await import('../../connectors/kafka/topics.ts');
  return Promise.all(topicsOf(sink).map((topic) => topicSource(pipeline, topic, sink.format)));
}

const labelTopic = (pipeline: Pipeline, topic: string): Promise<RowSource> => topicSource(pipeline, topic, 'json');

/** Kafka is loaded for those who read a topic. */
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
  let told = false;
  const table = {
    topic,
    connection: connectionOf(pipeline.kafka),
    decode: await valueReader(format, pipeline.schema_registry),
    onWait: (partition: number, ms: number) => {
      if (told || ms < TOLD_AFTER_MS) return;
      told = true;
      say(`a transaction is open in partition ${partition} of ${topic}: waiting for its end`);
    },
  };
  return { name: topic, rows: (columns, signal) => topicRows(table, columns, signal) };
}

/** A wait for an open transaction is reported after this time, ms. */
const TOLD_AFTER_MS = 3_000;
