// Reads and writes record values: plain JSON, or Avro, JSON Schema and Protobuf with a schema registry.
import { SluiceError } from '../../core/errors.ts';
import type { ExactObject } from '../../core/exact-json.ts';
import type { RecordFormatName } from '../../core/file-format.ts';
import { openValueDecoder, RECORD_CODECS } from '../../formats/record-formats.ts';
import { type PredictionSchemaOptions, subjectOf } from '../../formats/schemas/prediction-schema.ts';
import { SchemaRegistry } from '../../formats/schemas/schema-registry.ts';
import type { ValueEncoder } from '../../formats/schemas/value-codec.ts';
import { PREDICTION_FIELDS } from '../../formats/write/prediction-fields.ts';
import type { End } from '../contract/connector.ts';
import { readSecret, tlsOf } from './client/connection.ts';
import { tlsSettings } from './connection-settings.ts';
import type { KafkaSink, SchemaRegistryConfig } from './kafka-options.ts';
import { topicsOf } from './topics.ts';

/** The sections of a pipeline that determine the format of record values. */
export interface ValueSettings {
  readonly score: { readonly passthrough?: readonly string[] | '*' | undefined };
  readonly schema_registry?: SchemaRegistryConfig | undefined;
}

/**
 * Encodes a prediction, given as JSON, in the format of the sink. `topic`: one of the sink's topics; default: its main
 * topic. `parsed`: the result of `parseExact`, which avoids parsing again.
 */
export type EncodeValue = (json: Buffer, topic?: string, parsed?: ExactObject) => Buffer;

/** @throws SluiceError schema_registry_unavailable | kafka_config */
export async function valueEncoder(sink: End, settings: ValueSettings): Promise<EncodeValue> {
  const { schema_registry: config } = settings;
  const { format, topic: main } = sink as KafkaSink;
  if (sink.type !== 'kafka' || format === 'json' || !config) return (json) => json;
  const registry = openRegistryOf(config);
  const encoders = new Map<string, ValueEncoder>();
  for (const topic of topicsOf(sink as KafkaSink)) {
    encoders.set(topic, await RECORD_CODECS[format].openEncoder(registry, predictionSchemaOf(settings, topic)));
  }
  return (json, topic = main, parsed) => encoders.get(topic)!.encode(json, parsed);
}

/**
 * The schema of the predictions that a sink writes, and the subjects under which it is registered. The format of the
 * sink must have a schema.
 */
export async function publishedSchema(
  sink: KafkaSink,
  settings: ValueSettings,
): Promise<{ subjects: readonly string[]; text: string }> {
  const options = predictionSchemaOf(settings, sink.topic);
  const subjects = topicsOf(sink).map((topic) => subjectOf({ ...options, topic }));
  const codec = RECORD_CODECS[sink.format as Exclude<RecordFormatName, 'json'>];
  return { subjects: [...new Set(subjects)], text: await codec.schemaText(options) };
}

/**
 * Creates a function that reads a record value and returns JSON, or the reason why the value cannot be read.
 * @throws SluiceError schema_registry_unavailable | kafka_config
 */
export async function valueReader(
  format: RecordFormatName,
  config: SchemaRegistryConfig | undefined,
): Promise<(value: Buffer) => Promise<{ json: Buffer } | { fault: string }>> {
  if (format === 'json') return async (json) => ({ json });
  if (!config) throw new SluiceError('kafka_config', `values of the format ${format} need a schema_registry`);
  const decoder = await openValueDecoder(format, openRegistryOf(config));
  const noFields: ReadonlySet<string> = new Set();
  return async (value) => {
    const decoded = await decoder.decode(value);
    return 'write' in decoded ? { json: decoded.write(noFields) } : decoded;
  };
}

export function openRegistryOf({
  url,
  username,
  password,
  token,
  tls,
  timeout_ms,
}: SchemaRegistryConfig): SchemaRegistry {
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

/** The settings that determine the schema of the predictions in a topic. */
export const predictionSchemaOf = (
  { score, schema_registry: config }: ValueSettings,
  topic: string,
): PredictionSchemaOptions => ({
  topic,
  fields: PREDICTION_FIELDS,
  passthrough: score.passthrough ?? '*',
  subject: config?.subject ?? 'topic',
  register: config?.register ?? true,
});
