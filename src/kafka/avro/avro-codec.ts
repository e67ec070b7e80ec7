// Values in Confluent's framing (a zero, four bytes of schema id, Avro): applications to JSON, predictions from JSON.
import avro from 'avsc';
import type { SchemaRegistry } from './schema-registry.ts';

const HEAD = 5;

export type Decoded = { json: Buffer } | { fault: string };

/** Decodes applications; schemas are looked up in the registry by the id in each value. */
export class AvroDecoder {
  readonly #registry: SchemaRegistry;
  readonly #types = new Map<number, avro.Type>();

  constructor(registry: SchemaRegistry) {
    this.#registry = registry;
  }

  /** JSON of a value, or why there is none; never throws for what the value holds. @throws SluiceError schema_registry_unavailable */
  async decode(value: Buffer | null): Promise<Decoded> {
    if (value === null) return { fault: 'the record has no value' };
    if (value.length < HEAD || value[0] !== 0) return { fault: 'the value is not Avro with a schema id in front' };
    const id = value.readInt32BE(1);
    let type = this.#types.get(id);
    if (!type) {
      const schema = await this.#registry.schema(id);
      if (schema === null) return { fault: `the schema registry knows no Avro schema ${id}` };
      try {
        type = avro.Type.forSchema(JSON.parse(schema) as avro.Schema, { wrapUnions: false });
      } catch {
        return { fault: `schema ${id} cannot be used` };
      }
      this.#types.set(id, type);
    }
    try {
      const application: unknown = type.fromBuffer(value.subarray(HEAD));
      return { json: Buffer.from(JSON.stringify(application)) };
    } catch {
      return { fault: 'the value does not fit its schema' };
    }
  }
}

/** A field of a prediction, as the list of them says. */
export interface AvroField {
  key: string;
  kind: 'integer' | 'number' | 'text' | 'class' | 'numbers' | 'error' | 'json';
  description: string;
}

type Value = unknown;

/** How each kind of field stands in Avro, and what becomes of its value in JSON. */
const KINDS: Readonly<Record<AvroField['kind'], { type: unknown; of: (value: Value) => unknown }>> = {
  integer: { type: 'long', of: (v) => v },
  number: { type: 'double', of: (v) => v },
  text: { type: 'string', of: (v) => v },
  class: { type: 'string', of: String },
  numbers: { type: { type: 'map', values: 'double' }, of: (v) => v },
  json: { type: 'string', of: (v) => JSON.stringify(v) },
  error: {
    type: {
      type: 'record',
      name: 'PredictionError',
      fields: [
        { name: 'code', type: 'string' },
        { name: 'column', type: ['null', 'string'], default: null },
        { name: 'message', type: 'string' },
      ],
    },
    of: (v) => ({ code: '', column: null, ...(v as object) }),
  },
};

const MODEL_KEYS = ['modelId', 'modelVersion'];

/** Predictions of a model as an Avro record; the schema is registered under `<topic>-value`. */
export class AvroEncoder {
  readonly #type: avro.Type;
  readonly #head: Buffer;
  readonly #fields: readonly AvroField[];
  readonly #known: ReadonlySet<string>;

  private constructor(type: avro.Type, id: number, fields: readonly AvroField[]) {
    this.#type = type;
    this.#fields = fields;
    this.#known = new Set([...MODEL_KEYS, ...fields.map((f) => f.key)]);
    this.#head = Buffer.alloc(HEAD);
    this.#head.writeInt32BE(id, 1);
  }

  /** `fields`: every field a prediction can have. @throws SluiceError schema_registry_unavailable | kafka_config */
  static async open(registry: SchemaRegistry, topic: string, fields: readonly AvroField[]): Promise<AvroEncoder> {
    const schema = predictionSchema(fields);
    const id = await registry.register(`${topic}-value`, JSON.stringify(schema));
    return new AvroEncoder(avro.Type.forSchema(schema, { wrapUnions: false }), id, fields);
  }

  /** `json`: a prediction as topics carry it. What is no field of a prediction is a column that was passed through. */
  encode(json: Buffer): Buffer {
    const p = JSON.parse(json.toString('utf8')) as Record<string, unknown>;
    const record: Record<string, unknown> = {
      modelId: p.modelId ?? '',
      modelVersion: p.modelVersion ?? '',
      passthrough: null,
    };
    for (const { key, kind } of this.#fields) {
      record[key] = p[key] === undefined || p[key] === null ? null : KINDS[kind].of(p[key]);
    }
    const rest = Object.entries(p).filter(([key]) => !this.#known.has(key));
    if (rest.length > 0) record.passthrough = Object.fromEntries(rest.map(([k, v]) => [k, textOf(v)]));
    return Buffer.concat([this.#head, this.#type.toBuffer(record)]);
  }
}

const textOf = (value: unknown): string => (typeof value === 'string' ? value : JSON.stringify(value));

/** The same for every model, so that a new version of one needs no new schema. */
function predictionSchema(fields: readonly AvroField[]): avro.Schema {
  const maybe = (type: unknown, doc: string) => ({ type: ['null', type], default: null, doc });
  return {
    type: 'record',
    name: 'Prediction',
    namespace: 'sluice',
    fields: [
      ...MODEL_KEYS.map((name) => ({ name, type: 'string' })),
      ...fields.map(({ key, kind, description }) => ({ name: key, ...maybe(KINDS[kind].type, description) })),
      {
        name: 'passthrough',
        ...maybe({ type: 'map', values: 'string' }, 'columns outside the model; texts as they are, others as JSON'),
      },
    ],
  } as avro.Schema;
}
