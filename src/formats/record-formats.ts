// The formats of record values, by their names in pipeline files.
// Their libraries are loaded when a topic is read or written.
import { type ErrorCode, SluiceError } from '../core/errors.ts';
import type { RecordFormatName } from '../core/file-format.ts';
import type { PredictionSchemaOptions } from './schemas/prediction-schema.ts';
import type { RegisteredSchema, SchemaRegistry, SchemaType } from './schemas/schema-registry.ts';
import { type ReadValue, readJson, ValueDecoder, type ValueEncoder } from './schemas/value-codec.ts';

/** The reader schema, which may differ from the schema with which values were written. */
interface ReaderSchema {
  subject: string;
  /** Default: the latest version. */
  version?: number | undefined;
}

interface RecordFormat {
  readonly schema: SchemaType;
  /** Error code for a value that does not fit its schema. */
  readonly malformed: ErrorCode;
  openReader(registry: SchemaRegistry, reader?: ReaderSchema): Promise<(schema: RegisteredSchema) => ReadValue>;
  openEncoder(registry: SchemaRegistry, options: PredictionSchemaOptions): Promise<ValueEncoder>;
  /** The text of the prediction schema. */
  schemaText(options: PredictionSchemaOptions): Promise<string>;
}

type CodedFormat = Exclude<RecordFormatName, 'json'>;

/** The formats that use a schema. To add a format, create its folder and add an entry here. */
export const RECORD_CODECS: Readonly<Record<CodedFormat, RecordFormat>> = {
  avro: {
    schema: 'AVRO',
    malformed: 'malformed_avro',
    openReader: openAvroReader,
    openEncoder: async (...args) => (await import('./avro/avro-predictions.ts')).openAvroEncoder(...args),
    schemaText: async (options) => (await import('./avro/avro-predictions.ts')).avroSchemaOfPredictions(options),
  },
  json_schema: {
    schema: 'JSON',
    malformed: 'malformed_json',
    openReader: async () => readJson,
    openEncoder: async (...args) => (await import('./json-schema/json-predictions.ts')).openJsonEncoder(...args),
    schemaText: async (options) => (await import('./json-schema/json-predictions.ts')).jsonSchemaOfPredictions(options),
  },
  protobuf: {
    schema: 'PROTOBUF',
    malformed: 'malformed_protobuf',
    openReader: async () => (await import('./protobuf/protobuf-values.ts')).readProtobuf,
    openEncoder: async (...args) => (await import('./protobuf/protobuf-predictions.ts')).openProtobufEncoder(...args),
    schemaText: async (options) => (await import('./protobuf/protobuf-predictions.ts')).protoOfPredictions(options),
  },
};

async function openAvroReader(
  registry: SchemaRegistry,
  named?: ReaderSchema,
): Promise<(schema: RegisteredSchema) => ReadValue> {
  const { readAvro } = await import('./avro/avro-values.ts');
  const reader = named ? await registry.byVersion(named.subject, named.version ?? 'latest') : null;
  if (named && reader?.type !== 'AVRO') {
    throw new SluiceError('kafka_config', `reader_schema: the registry has no such Avro schema under ${named.subject}`);
  }
  return (schema) => readAvro(schema, reader);
}

/** @throws SluiceError schema_registry_unavailable | kafka_config */
export async function openValueDecoder(
  format: CodedFormat,
  registry: SchemaRegistry,
  reader?: ReaderSchema,
): Promise<ValueDecoder> {
  const { schema, openReader } = RECORD_CODECS[format];
  return new ValueDecoder(registry, schema, await openReader(registry, reader));
}
