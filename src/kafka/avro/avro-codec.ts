// Values in Confluent's framing (a zero, four bytes of schema id, Avro): applications to JSON, predictions from JSON.
import avro from 'avsc';
import type { SchemaRegistry } from './schema-registry.ts';

const HEAD = 5;

export type Decoded = { json: Buffer } | { fault: string };

/** Applications: their schemas are learnt from the registry by the id each value carries. */
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

/** Predictions of a model as an Avro record; the schema is registered under `<topic>-value`. */
export class AvroEncoder {
  readonly #type: avro.Type;
  readonly #head: Buffer;

  private constructor(type: avro.Type, id: number) {
    this.#type = type;
    this.#head = Buffer.alloc(HEAD);
    this.#head.writeInt32BE(id, 1);
  }

  /** @throws SluiceError schema_registry_unavailable | kafka_config */
  static async open(registry: SchemaRegistry, topic: string): Promise<AvroEncoder> {
    const schema = predictionSchema();
    const id = await registry.register(`${topic}-value`, JSON.stringify(schema));
    return new AvroEncoder(avro.Type.forSchema(schema, { wrapUnions: false }), id);
  }

  /** `json`: a prediction as topics carry it. */
  encode(json: Buffer): Buffer {
    const p = JSON.parse(json.toString('utf8')) as Record<string, unknown>;
    const record = {
      modelId: p.modelId,
      modelVersion: p.modelVersion,
      prediction: p.prediction === undefined ? null : String(p.prediction),
      probability: p.probability ?? null,
      probabilities: p.probabilities ?? null,
      value: p.value ?? null,
      points: p.points ?? null,
      decision: p.decision ?? null,
      interpretation: p.interpretation === undefined ? null : JSON.stringify(p.interpretation),
      error: p.error ? { code: '', column: null, ...(p.error as object) } : null,
    };
    return Buffer.concat([this.#head, this.#type.toBuffer(record)]);
  }
}

/** The same for every model, so that a new version of one needs no new schema. */
function predictionSchema(): avro.Schema {
  const maybe = (type: unknown, doc: string) => ({ type: ['null', type], default: null, doc });
  const field = (name: string, rest: object) => ({ name, ...rest });
  return {
    type: 'record',
    name: 'Prediction',
    namespace: 'sluice',
    fields: [
      field('modelId', { type: 'string' }),
      field('modelVersion', { type: 'string' }),
      field('prediction', maybe('string', 'true or false, or the class')),
      field('probability', maybe('double', 'of the positive class, or of the class predicted')),
      field('probabilities', maybe({ type: 'map', values: 'double' }, 'of each class')),
      field('value', maybe('double', 'of a regression or score')),
      field('points', maybe('long', 'of the scorecard')),
      field('decision', maybe('string', '')),
      field('interpretation', maybe('string', 'JSON')),
      field(
        'error',
        maybe(
          {
            type: 'record',
            name: 'PredictionError',
            fields: [
              { name: 'code', type: 'string' },
              { name: 'column', type: ['null', 'string'], default: null },
              { name: 'message', type: 'string' },
            ],
          },
          'why there is no prediction',
        ),
      ),
    ],
  } as avro.Schema;
}
