// How values of topics are read and written: JSON as it is, or Avro, JSON Schema and Protobuf through a schema registry.

import { readSecret, tlsOf } from '../../connectors/kafka/client/connection.ts';
import { type ErrorCode, SluiceError } from '../../core/errors.ts';
import type { ExactObject } from '../../core/exact-json.ts';
import type { RecordFormatName } from '../../core/file-format.ts';
import type { Tally } from '../../engine/counts.ts';
import type { PredictionSchemaOptions } from '../../formats/schemas/prediction-schema.ts';
import { SchemaRegistry, type SchemaType } from '../../formats/schemas/schema-registry.ts';
import {
  type Decoded,
  type ReadValue,
  readJson,
  ValueDecoder,
  type ValueEncoder,
} from '../../formats/schemas/value-codec.ts';
import { PREDICTION_FIELDS } from '../../formats/write/prediction-fields.ts';
import type { KafkaSink, Pipeline, SchemaRegistryConfig } from '../../pipeline/pipeline-schema.ts';
import { tlsSettings } from './kafka-connection.ts';
import { type RecordAnswer, type RecordScorer, rejectedAnswer, type ScoredRecords } from './record-scorer.ts';

export interface RecordFormat {
  /** Scores values in the format of the source. */
  score(scorer: RecordScorer, values: readonly (Buffer | null)[]): Promise<ScoredRecords>;
  /**
   * A prediction (JSON) in the format of the sink, as `topic` (one of the sink's) carries it; undefined: its main one. `parsed`: what
   * `parseExact` gave of it, so that it is not read twice.
   */
  encode(json: Buffer, topic?: string, parsed?: ExactObject): Buffer;
}

type Coded = Exclude<RecordFormatName, 'json'>;
const FORMATS: Readonly<Record<Coded, { type: SchemaType; malformed: ErrorCode }>> = {
  avro: { type: 'AVRO', malformed: 'malformed_avro' },
  json_schema: { type: 'JSON', malformed: 'malformed_json' },
  protobuf: { type: 'PROTOBUF', malformed: 'malformed_protobuf' },
};

/** @throws SluiceError schema_registry_unavailable | kafka_config */
export async function recordFormat(
  spec: Pick<Pipeline, 'source' | 'sink' | 'score' | 'schema_registry'>,
): Promise<RecordFormat> {
  const { source, sink, schema_registry: config } = spec;
  const registry = config ? openRegistryOf(config) : null;
  let score: RecordFormat['score'] = (scorer, values) => scorer.score(values);
  if (registry && source.type === 'kafka' && source.format !== 'json') {
    const { type, malformed } = FORMATS[source.format];
    const decoder = new ValueDecoder(registry, type, await readerOf(source.format, source, registry));
    score = (scorer, values) => scoreDecoded(decoder, malformed, scorer, values);
  }
  let encode: RecordFormat['encode'] = (json) => json;
  if (registry && sink.type === 'kafka' && sink.format !== 'json') {
    const encoders = new Map<string, ValueEncoder>();
    for (const topic of topicsOf(sink)) {
      encoders.set(topic, await openEncoder(sink.format, registry, predictionSchemaOf(spec, topic)));
    }
    encode = (json, topic = sink.topic, parsed) => encoders.get(topic)!.encode(json, parsed);
  }
  return { score, encode };
}

/** Reads values of a topic: JSON of each, or why there is none. @throws SluiceError schema_registry_unavailable | kafka_config */
export async function valueReader(
  format: RecordFormatName,
  config: SchemaRegistryConfig | undefined,
): Promise<(value: Buffer) => Promise<Decoded>> {
  if (format === 'json') return async (json) => ({ json });
  if (!config) throw new SluiceError('kafka_config', `values of the format ${format} need a schema_registry`);
  const registry = openRegistryOf(config);
  const decoder = new ValueDecoder(registry, FORMATS[format].type, await readerOf(format, {}, registry));
  return (value) => decoder.decode(value);
}

/** All topics that predictions may go to. */
export const topicsOf = ({ topic, routes = [] }: KafkaSink): string[] => [
  ...new Set([topic, ...routes.map((r) => r.topic)]),
];

/** All topics that a pipeline writes: predictions, dead letters and retries. */
export const topicsWritten = ({ sink, dead_letter: letters }: Pick<Pipeline, 'sink' | 'dead_letter'>): string[] => [
  ...(sink.type === 'kafka' ? topicsOf(sink) : []),
  ...(letters?.type === 'kafka' ? [letters.topic, ...(letters.retry ? [letters.retry.topic] : [])] : []),
];

function openRegistryOf({ url, username, password, token, tls, timeout_ms }: SchemaRegistryConfig): SchemaRegistry {
  const basic = (): string =>
    `Basic ${Buffer.from(`${username}:${password === undefined ? '' : readSecret(password)}`).toString('base64')}`;
  const bearer = token && (() => `Bearer ${readSecret(token).trim()}`);
  const login = bearer ?? (username === undefined ? () => null : basic);
  return new SchemaRegistry({
    url,
    timeoutMs: timeout_ms,
    authorization: async () => login(),
    ...(tls ? { tls: tlsOf(tlsSettings(tls)) } : {}),
  });
}

/** The settings that determine the schema of predictions. */
export const predictionSchemaOf = (
  { score, schema_registry: config }: Pick<Pipeline, 'score' | 'schema_registry'>,
  topic: string,
): PredictionSchemaOptions => ({
  topic,
  fields: PREDICTION_FIELDS,
  passthrough: score.passthrough ?? '*',
  subject: config?.subject ?? 'topic',
  register: config?.register ?? true,
});

/** The libraries of a format are loaded for those who use it. */
async function readerOf(
  format: Coded,
  { reader_schema: named }: { reader_schema?: { subject: string; version?: number } },
  registry: SchemaRegistry,
) {
  if (format === 'json_schema') return readJson;
  if (format === 'protobuf') return (await import('../../formats/protobuf/protobuf-values.ts')).readProtobuf;
  const { readAvro } = await import('../../formats/avro/avro-values.ts');
  const reader = named ? await registry.byVersion(named.subject, named.version ?? 'latest') : null;
  if (named && reader?.type !== 'AVRO') {
    throw new SluiceError('kafka_config', `reader_schema: the registry has no such Avro schema under ${named.subject}`);
  }
  return (schema: Parameters<typeof readAvro>[0]): ReadValue => readAvro(schema, reader);
}

async function openEncoder(
  format: Coded,
  registry: SchemaRegistry,
  options: PredictionSchemaOptions,
): Promise<ValueEncoder> {
  switch (format) {
    case 'avro':
      return (await import('../../formats/avro/avro-predictions.ts')).openAvroEncoder(registry, options);
    case 'protobuf':
      return (await import('../../formats/protobuf/protobuf-predictions.ts')).openProtobufEncoder(registry, options);
    case 'json_schema':
      return (await import('../../formats/json-schema/json-predictions.ts')).openJsonEncoder(registry, options);
  }
}

/** The schema of predictions of a pipeline as text, for who registers it by other means. */
export async function schemaText(format: Coded, options: PredictionSchemaOptions): Promise<string> {
  switch (format) {
    case 'avro':
      return (await import('../../formats/avro/avro-predictions.ts')).avroSchemaOfPredictions(options);
    case 'protobuf':
      return (await import('../../formats/protobuf/protobuf-predictions.ts')).protoOfPredictions(options);
    case 'json_schema':
      return (await import('../../formats/json-schema/json-predictions.ts')).jsonSchemaOfPredictions(options);
  }
}

/** Values that cannot be decoded are rejected in place, the others are scored. */
async function scoreDecoded(
  decoder: ValueDecoder,
  malformed: ErrorCode,
  scorer: RecordScorer,
  values: readonly (Buffer | null)[],
): Promise<ScoredRecords> {
  const decoded = await Promise.all(values.map((v) => decoder.decode(v)));
  const valid = decoded.flatMap((d) => ('json' in d ? [d.json] : []));
  const { model, answers, tallies } = await scorer.score(valid);
  const { manifest } = model;
  let next = 0;
  return {
    model,
    answers: decoded.map(
      (d): RecordAnswer =>
        'json' in d ? answers[next++]! : rejectedAnswer(manifest, { code: malformed, message: d.fault }),
    ),
    tallies:
      valid.length === values.length ? tallies : [...tallies, undecodable(values.length - valid.length, malformed)],
  };
}

const undecodable = (rows: number, code: ErrorCode): Tally => ({
  rows,
  scored: 0,
  rejected: rows,
  rejectedByCode: { [code]: rows },
  interpreted: 0,
  inexact: 0,
  details: [],
  workMs: 0,
  drift: null,
});
