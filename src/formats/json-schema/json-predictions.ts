// Encodes predictions as JSON, preceded by the ID of a schema.
// The JSON Schema is derived from the list of prediction fields.
import { headOf } from '../schemas/framing.ts';
import {
  MODEL_KEYS,
  NAMESPACE,
  type PredictionSchemaOptions,
  RECORD_NAME,
  type SchemaField,
  schemaId,
} from '../schemas/prediction-schema.ts';
import type { SchemaRegistry } from '../schemas/schema-registry.ts';
import type { ValueEncoder } from '../schemas/value-codec.ts';

const KINDS: Readonly<Record<SchemaField['kind'], object>> = {
  integer: { type: 'integer' },
  number: { type: 'number' },
  text: { type: 'string' },
  class: { type: ['boolean', 'integer', 'number', 'string'] },
  numbers: { type: 'object', additionalProperties: { type: 'number' } },
  json: { type: 'object' },
  error: {
    type: 'object',
    properties: { code: { type: 'string' }, column: { type: 'string' }, message: { type: 'string' } },
    required: ['code', 'message'],
  },
};

/**
 * The JSON Schema of predictions in draft 7, which all serializers support. Passthrough columns are additional
 * properties, and their values are not restricted.
 */
export function jsonSchemaOfPredictions({ fields, passthrough }: PredictionSchemaOptions): string {
  return JSON.stringify({
    $schema: 'http://json-schema.org/draft-07/schema#',
    title: `${NAMESPACE}.${RECORD_NAME}`,
    type: 'object',
    properties: {
      ...Object.fromEntries(MODEL_KEYS.map((key) => [key, { type: 'string' }])),
      ...Object.fromEntries(fields.map(({ key, kind, description }) => [key, { ...KINDS[kind], description }])),
      ...(passthrough === '*'
        ? {}
        : Object.fromEntries(passthrough.map((c) => [c, { description: 'passed through' }]))),
    },
    required: MODEL_KEYS,
  });
}

/** @throws SluiceError schema_registry_unavailable | kafka_config */
export async function openJsonEncoder(
  registry: SchemaRegistry,
  options: PredictionSchemaOptions,
): Promise<ValueEncoder> {
  const head = headOf(await schemaId(registry, { type: 'JSON', text: jsonSchemaOfPredictions(options) }, options));
  return { encode: (json) => Buffer.concat([head, json]) };
}
