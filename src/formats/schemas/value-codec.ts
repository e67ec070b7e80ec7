// Values of topics with a schema id in front: applications become JSON, predictions are written from JSON.
import type { ExactObject } from '../../core/exact-json.ts';
import { HEAD_BYTES, schemaIdOf } from './framing.ts';
import type { RegisteredSchema, SchemaRegistry, SchemaType } from './schema-registry.ts';

export type Decoded = { json: Buffer } | { fault: string };

export interface ValueEncoder {
  /** `json`: a prediction as topics carry it, one JSON object; `parsed`: the same, if it was already parsed. */
  encode(json: Buffer, parsed?: ExactObject): Buffer;
}

/** JSON of the bytes behind the schema id. @throws Error they do not fit the schema */
export type ReadValue = (bytes: Buffer) => Buffer;

const NAMES: Readonly<Record<SchemaType, string>> = { AVRO: 'Avro', JSON: 'JSON Schema', PROTOBUF: 'Protobuf' };

/** Decodes applications; schemas are looked up in the registry by the id in each value, and compiled once. */
export class ValueDecoder {
  readonly #registry: SchemaRegistry;
  readonly #type: SchemaType;
  readonly #compile: (schema: RegisteredSchema) => ReadValue;
  readonly #readers = new Map<number, ReadValue>();

  /** `compile` throws where it cannot use a schema. */
  constructor(registry: SchemaRegistry, type: SchemaType, compile: (schema: RegisteredSchema) => ReadValue) {
    this.#registry = registry;
    this.#type = type;
    this.#compile = compile;
  }

  /** JSON of a value, or why there is none; never throws for what the value holds. @throws SluiceError schema_registry_unavailable */
  async decode(value: Buffer | null): Promise<Decoded> {
    if (value === null) return { fault: 'the record has no value' };
    const id = schemaIdOf(value);
    if (id === null) return { fault: `the value is not ${NAMES[this.#type]} with a schema id in front` };
    let read = this.#readers.get(id);
    if (!read) {
      const schema = await this.#registry.byId(id);
      if (schema?.type !== this.#type) {
        return { fault: `the schema registry has no ${NAMES[this.#type]} schema ${id}` };
      }
      try {
        read = this.#compile(schema);
      } catch {
        return { fault: `schema ${id} cannot be used` };
      }
      this.#readers.set(id, read);
    }
    try {
      return { json: read(value.subarray(HEAD_BYTES)) };
    } catch {
      return { fault: 'the value does not match its schema' };
    }
  }
}

/** How JSON Schema values are read: they are JSON, and the columns of the model check them. */
export const readJson = (): ReadValue => (bytes) => bytes;
