// Predictions as Avro records; the schema follows the list of the fields of a prediction.
import avro from 'avsc';
import { exactLong } from './avro-values.ts';
import { headOf } from './framing.ts';
import {
  isNothing,
  MODEL_KEYS,
  NAMESPACE,
  PredictionParts,
  type PredictionSchemaOptions,
  parsePrediction,
  passed,
  passthroughFields,
  RECORD_NAME,
  type SchemaField,
  schemaId,
} from './prediction-schema.ts';
import type { SchemaRegistry } from './schema-registry.ts';
import type { ValueEncoder } from './value-codec.ts';

/** Types of a value passed through, which JSON tells apart. */
const PASSED = ['null', 'boolean', 'long', 'double', 'string'];

/** How each kind of field stands in Avro (unions wrapped), and what becomes of its value in JSON. */
const KINDS: Readonly<Record<SchemaField['kind'], { types: readonly unknown[]; of: (value: unknown) => unknown }>> = {
  integer: { types: ['long'], of: (v) => ({ long: v }) },
  number: { types: ['double'], of: (v) => ({ double: v }) },
  text: { types: ['string'], of: (v) => ({ string: v }) },
  // true or false, a number, or the name of a class.
  class: { types: PASSED.slice(1), of: passed },
  numbers: { types: [{ type: 'map', values: 'double' }], of: (v) => ({ map: v }) },
  json: { types: ['string'], of: (v) => ({ string: JSON.stringify(v) }) },
  error: {
    types: [
      {
        type: 'record',
        name: 'PredictionError',
        fields: [
          { name: 'code', type: 'string' },
          { name: 'column', type: ['null', 'string'], default: null },
          { name: 'message', type: 'string' },
        ],
      },
    ],
    of: (v) => {
      const { code = '', column, message = '' } = v as { code?: string; column?: string; message?: string };
      return { 'sluice.PredictionError': { code, column: column === undefined ? null : { string: column }, message } };
    },
  },
};

const maybe = (types: readonly unknown[], doc: string) => ({ type: ['null', ...types], default: null, doc });

/** The same for every model, so that a new version of one needs no new schema; fields of their own for columns that are named. */
export function avroSchemaOfPredictions(options: PredictionSchemaOptions): string {
  return JSON.stringify({
    type: 'record',
    name: RECORD_NAME,
    namespace: NAMESPACE,
    fields: [
      ...MODEL_KEYS.map((name) => ({ name, type: 'string' })),
      ...options.fields.map(({ key, kind, description }) => ({ name: key, ...maybe(KINDS[kind].types, description) })),
      {
        name: 'passthrough',
        ...maybe([{ type: 'map', values: PASSED }], 'columns outside the model, where they are not named one by one'),
      },
      ...passthroughFields(options).map(({ column, name }) => ({
        name,
        ...maybe(PASSED.slice(1), 'passed through'),
        ...(name === column ? {} : { column }),
      })),
    ],
  });
}

class AvroEncoder implements ValueEncoder {
  readonly #type: avro.Type;
  readonly #head: Buffer;
  readonly #parts: PredictionParts;

  constructor(schema: string, id: number, options: PredictionSchemaOptions) {
    this.#type = avro.Type.forSchema(
      JSON.parse(schema) as avro.Schema,
      {
        wrapUnions: true,
        registry: { long: exactLong },
      } as unknown as Partial<avro.ForSchemaOptions>,
    );
    this.#parts = new PredictionParts(options);
    this.#head = headOf(id);
  }

  encode(json: Buffer): Buffer {
    const p = parsePrediction(json);
    const record: Record<string, unknown> = { passthrough: null };
    for (const key of MODEL_KEYS) record[key] = p[key] ?? '';
    for (const { key, kind } of this.#parts.fields) record[key] = isNothing(p[key]) ? null : KINDS[kind].of(p[key]);
    for (const { column, name } of this.#parts.named) record[name] = passed(p[column]);
    const rest = this.#parts.rest(p);
    if (rest.length > 0) record.passthrough = { map: Object.fromEntries(rest.map(([k, v]) => [k, passed(v)])) };
    return Buffer.concat([this.#head, this.#type.toBuffer(record)]);
  }
}

/** @throws SluiceError schema_registry_unavailable | kafka_config */
export async function openAvroEncoder(
  registry: SchemaRegistry,
  options: PredictionSchemaOptions,
): Promise<ValueEncoder> {
  const text = avroSchemaOfPredictions(options);
  return new AvroEncoder(text, await schemaId(registry, { type: 'AVRO', text }, options), options);
}
