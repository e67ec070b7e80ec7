// Decodes applications from record values with a schema ID to JSON, and encodes predictions from JSON.
import type { ExactObject } from '../../core/exact-json.ts';
import { HEAD_BYTES, schemaIdOf } from './framing.ts';
import type { RegisteredSchema, SchemaRegistry, SchemaType } from './schema-registry.ts';

export type Decoded = { json: Buffer } | { fault: string };

export interface ValueEncoder {
  /**
   * Encodes a prediction. `json`: the prediction as a JSON object. `parsed`: the same object, if it was already parsed.
   */
  encode(json: Buffer, parsed?: ExactObject): Buffer;
}

/** Converts the bytes after a schema ID to JSON. @throws Error if the bytes do not fit the schema */
export type ReadValue = (bytes: Buffer) => Buffer;

const NAMES: Readonly<Record<SchemaType, string>> = { AVRO: 'Avro', JSON: 'JSON Schema', PROTOBUF: 'Protobuf' };

/** Decodes applications. Looks up the schema by the ID in each value, and compiles each schema once. */
export class ValueDecoder {
  readonly #registry: SchemaRegistry;
  readonly #type: SchemaType;
  readonly #compile: (schema: RegisteredSchema) => ReadValue;
  readonly #readers = new Map<number, ReadValue>();

  /** `compile` throws if it does not support a schema. */
  constructor(registry: SchemaRegistry, type: SchemaType, compile: (schema: RegisteredSchema) => ReadValue) {
    this.#registry = registry;
    this.#type = type;
    this.#compile = compile;
  }

  /**
   * The JSON of a value, or the reason why the value cannot be decoded. The content of a value never causes an
   * exception.
   * @throws SluiceError schema_registry_unavailable
   */
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

/**
 * Reads JSON Schema values, which are already JSON. They are validated against the columns of the model, not against
 * their schema.
 */
export const readJson = (): ReadValue => (bytes) => bytes;
