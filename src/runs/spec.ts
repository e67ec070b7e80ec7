// The spec of a run: one source, scoring options and one sink. The spec comes from a pipeline file, from flags, or from
// an upload's pipeline.

import { connectorOf, isQuery } from '../connectors/connectors.ts';
import type { End } from '../connectors/contract/connector.ts';
import type { FileSink } from '../connectors/file/file-options.ts';
import type { StdioSink } from '../connectors/stdio/stdio-options.ts';
import type { UploadSource } from '../connectors/upload/upload-options.ts';
import { SluiceError } from '../core/errors.ts';
import type { FileFormat } from '../core/file-format.ts';
import type { EncodingName, InputDeclaration } from '../core/input-declaration.ts';
import type { StreamLimits } from '../engine/stream-spec.ts';
import { formatEntry, isColumnar, isDelimited } from '../formats/formats.ts';
import type { InterpretationSpec } from '../inference/explain/interpretation.ts';
import { declaredContradictions } from '../pipeline/declaration-contradictions.ts';
import type { FiniteSource, Pipeline, Source } from '../pipeline/pipeline-schema.ts';
import type { ShardSpec } from './shards/shard-plan.ts';

/** How to score applications. Commands, pipelines, requests and jobs use the same options. */
export interface Scoring {
  /** Columns to copy to the output, even if the model does not read them. */
  passthrough: readonly string[] | '*';
  /** Effects and reason codes; null for predictions only. */
  interpretation: InterpretationSpec | null;
  limits: StreamLimits;
  /** Whether the first invalid row ends the run. */
  failOnInvalid: boolean;
}

/**
 * Whether to resume an interrupted identical run. `asked`: the flag `--resume` was given; `always`: the pipeline
 * requires it.
 */
export type Resume = 'asked' | 'always' | 'restart' | 'no';

export interface RunSpec extends Pipeline {
  tuning?: Tuning;
  /** Whether to resume an interrupted identical run. Default: `no`. */
  resume?: Resume;
  /** Write the rejects file only if a row is rejected. Set when no path is configured. */
  list_only_if_any?: true;
  /** Score only this shard of a plan. */
  shard?: ShardSpec;
}

/** Performance settings; they never change the output. */
interface Tuning {
  /** Rows per micro-batch of a worker. */
  batchRows?: number;
  /** Bytes per block. */
  blockBytes?: number;
  /** Bytes per read. */
  readBytes?: number;
}

/** A run that reads files, standard input or a query. */
export interface FileRunSpec extends RunSpec {
  source: FiniteSource;
}

/** A run that reads and writes files or standard streams. */
export interface FilesOnlySpec extends FileRunSpec {
  sink: FileSink | StdioSink;
}

/** Rejects a pipeline whose source or sink does not support its delivery guarantee. @throws SluiceError kafka_config */
export async function checkDelivery(pipeline: Pick<Pipeline, 'source' | 'sink' | 'delivery'>): Promise<void> {
  for (const end of [pipeline.source, pipeline.sink]) await connectorOf(end).check?.(pipeline);
}

export function interpretationOf({ score }: Pick<Pipeline, 'score'>): InterpretationSpec | null {
  if (score.interpretation === 'none') return null;
  return {
    effects: score.interpretation === 'effects',
    reasons: true,
    top: score.top_effects ?? null,
    below: score.interpret_below ?? null,
    ...(score.interactions === undefined ? {} : { interactions: score.interactions }),
    ...(score.max_evaluations === undefined ? {} : { maxEvaluations: score.max_evaluations }),
  };
}

/** `echo`: columns to pass through if the spec does not configure any. */
export function scoringOf(spec: Pick<Pipeline, 'score' | 'on_invalid'>, echo: readonly string[] | '*'): Scoring {
  return {
    passthrough: spec.score.passthrough ?? echo,
    interpretation: interpretationOf(spec),
    limits: { maxRecordBytes: spec.score.record_bytes, maxColumns: spec.score.max_columns },
    failOnInvalid: spec.on_invalid === 'fail',
  };
}

/** Columns that a sink passes through by default: all columns for a sink of records, otherwise none. */
export const echoOf = (sink: End): readonly string[] | '*' =>
  connectorOf(sink).capabilities.writes === 'records' ? '*' : [];

export const fileScoringOf = (spec: FileRunSpec): Scoring => scoringOf(spec, echoOf(spec.sink));

/** The keys of a source that declare its format. */
export type DeclaringSource = Partial<Pick<UploadSource, 'decimal' | 'thousands' | 'trim' | 'null_values'>> & {
  columns?: UploadSource['columns'];
  encoding?: EncodingName | undefined;
};

/** The format declaration of a source. A query has none, because SQL can express the same. */
export const declaredBy = (source: Source): InputDeclaration | null =>
  isQuery(source) ? null : declarationOf(source as DeclaringSource);

/** Returns null if the source declares nothing. */
export function declarationOf(source: DeclaringSource): InputDeclaration | null {
  const { decimal = 'point', thousands = null, trim = false, null_values: nullValues = [], columns } = source;
  const texts =
    decimal === 'point' && thousands === null && !trim && nullValues.length === 0
      ? null
      : { decimal, thousands, trim, nullValues };
  const encoding = source.encoding === undefined || source.encoding === 'utf-8' ? null : source.encoding;
  if (texts === null && encoding === null && columns === undefined) return null;
  const { rename = {}, ignore = [], constants = {} } = columns ?? {};
  const names = columns?.names ?? null;
  return { columns: columns === undefined ? null : { names, rename, ignore, constants }, texts, encoding };
}

/**
 * Rejects declarations that do not fit the format. With a pattern, the name of each file determines the format.
 * @throws SluiceError usage
 */
export function refuseUnfit({ encoding, columns }: InputDeclaration, format: FileFormat): void {
  if (encoding !== null && isColumnar(format)) {
    throw new SluiceError('usage', `encoding: ${formatEntry(format).title} is not a text format`);
  }
  if (columns?.names && !isDelimited(format)) {
    throw new SluiceError('usage', 'columns: names are supported for csv and tsv only');
  }
}

/** Rejects contradictory declarations. @throws SluiceError usage */
export function refuseContradictions(
  source: Source,
  format: FileFormat | null,
  passthrough: readonly string[] | '*',
): void {
  const found = declaredContradictions(source, format, passthrough);
  if (found.length > 0) throw new SluiceError('usage', found.map(({ message }) => message).join('\n'));
}
