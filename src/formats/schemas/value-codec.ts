// Decodes applications from record values with a schema ID to JSON, and encodes predictions from JSON.
import { ExactNumber, type ExactObject } from '../../core/exact-json.ts';
import { HEAD_BYTES, schemaIdOf } from './framing.ts';
import type { RegisteredSchema, SchemaRegistry, SchemaType } from './schema-registry.ts';

export type Decoded = { write: WriteJson } | { fault: string };

export interface ValueEncoder {
  /**
   * Encodes a prediction. `json`: the prediction as a JSON object. `parsed`: the same object, if it was already parsed.
   */
  encode(json: Buffer, parsed?: ExactObject): Buffer;
}

/** Writes a value as a JSON object. `modelFields`: names of the fields that the model reads. */
export type WriteJson = (modelFields: ReadonlySet<string>) => Buffer;

/** Reads the bytes after a schema ID. @throws Error if the bytes do not fit the schema */
export type ReadValue = (bytes: Buffer) => WriteJson;

/**
 * A value that is written as text, although its type in the schema is not text. If the model reads the field, a number
 * is written as a JSON number, so that declarations about texts do not apply to it. Dates, times and bytes are written
 * as a list, which no column accepts, so that their text is not taken for a category.
 */
export class TypedText {
  readonly text: string;
  readonly kind: 'number' | 'text' | 'other';
  /** The value that the text was made from. */
  readonly raw: unknown;

  constructor(text: string, kind: TypedText['kind'], raw?: unknown) {
    this.text = text;
    this.kind = kind;
    this.raw = raw;
  }

  toJSON(): string {
    return this.text;
  }

  get inModel(): unknown {
    if (this.kind === 'text') return this.text;
    return this.kind === 'number' ? new ExactNumber(this.text) : [this.text];
  }
}

/**
 * Creates the function that writes a value, which cannot fail. If the value is an object, its fields may be typed
 * texts.
 * @throws RangeError if the value is nested too deeply
 */
export function writingOf(plain: unknown): WriteJson {
  const text = Buffer.from(JSON.stringify(plain));
  if (typeof plain !== 'object' || plain === null) return () => text;
  const typed = Object.entries(plain).filter((field): field is [string, TypedText] => field[1] instanceof TypedText);
  return (modelFields) => {
    const read = typed.filter(([name]) => modelFields.has(name));
    if (read.length === 0) return text;
    const shown = { ...plain, ...Object.fromEntries(read.map(([name, value]) => [name, value.inModel])) };
    return Buffer.from(JSON.stringify(shown));
  };
}

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
   * The function that writes a value as JSON, or the reason why the value cannot be decoded. The content of a value
   * never causes an exception.
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
      return { write: read(value.subarray(HEAD_BYTES)) };
    } catch {
      return { fault: 'the value does not match its schema' };
    }
  }
}

/**
 * Reads JSON Schema values, which are already JSON. They are validated against the columns of the model, not against
 * their schema.
 */
export const readJson = (): ReadValue => (bytes) => () => bytes;
