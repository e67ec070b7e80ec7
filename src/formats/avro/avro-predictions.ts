// Encodes predictions as Avro records. Their schema is derived from the list of prediction fields.
import avro from 'avsc';
import { type ExactObject, parseExact } from '../../core/exact-json.ts';
import { ownValue } from '../../core/own-keys.ts';
import { headOf } from '../schemas/framing.ts';
import {
  asDouble,
  asDoubles,
  isNothing,
  MODEL_KEYS,
  NAMESPACE,
  PredictionParts,
  type PredictionSchemaOptions,
  passed,
  passthroughFields,
  RECORD_NAME,
  type SchemaField,
  schemaId,
} from '../schemas/prediction-schema.ts';
import type { SchemaRegistry } from '../schemas/schema-registry.ts';
import type { ValueEncoder } from '../schemas/value-codec.ts';
import { exactLong } from './avro-values.ts';

/** Avro types of a passthrough value, in the order of their union. */
const PASSED = ['null', 'boolean', 'long', 'double', 'string'];
const [NULL, BOOLEAN, LONG, DOUBLE, STRING] = [0, 1, 2, 3, 4] as const;

/** For each kind of field: its Avro types in a wrapped union, and the conversion of its JSON value. */
const KINDS: Readonly<Record<SchemaField['kind'], { types: readonly unknown[]; of: (value: unknown) => unknown }>> = {
  integer: { types: ['long'], of: (v) => ({ long: v }) },
  number: { types: ['double'], of: (v) => ({ double: asDouble(v) }) },
  text: { types: ['string'], of: (v) => ({ string: v }) },
  // A boolean, a number, or the name of a class.
  class: { types: PASSED.slice(1), of: passed },
  numbers: { types: [{ type: 'map', values: 'double' }], of: (v) => ({ map: asDoubles(v) }) },
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

/**
 * The Avro schema of predictions. It is the same for all models, so that a new model version needs no new schema.
 * Passthrough columns listed by name get their own fields.
 */
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

/** Encodes with avsc. This is the reference implementation, and the fallback if a value does not match its field. */
export class AvscEncoder {
  readonly #type: avro.Type;
  readonly #parts: PredictionParts;

  constructor(schema: string, parts: PredictionParts) {
    const options = { wrapUnions: true, registry: { long: exactLong } } as unknown as Partial<avro.ForSchemaOptions>;
    this.#type = avro.Type.forSchema(JSON.parse(schema) as avro.Schema, options);
    this.#parts = parts;
  }

  /** @throws Error if a value does not fit its field */
  encode(p: ExactObject): Buffer {
    const record: Record<string, unknown> = { passthrough: null };
    for (const key of MODEL_KEYS) record[key] = p[key] ?? '';
    for (const { key, kind } of this.#parts.fields) record[key] = isNothing(p[key]) ? null : KINDS[kind].of(p[key]);
    for (const { column, name } of this.#parts.named) record[name] = passed(ownValue(p, column));
    const rest = this.#parts.rest(p);
    if (rest.length > 0) record.passthrough = { map: Object.fromEntries(rest.map(([k, v]) => [k, passed(v)])) };
    return this.#type.toBuffer(record);
  }
}

class AvroEncoder implements ValueEncoder {
  readonly #head: Buffer;
  readonly #parts: PredictionParts;
  readonly #reference: AvscEncoder;
  readonly #writer = new AvroWriter();

  constructor(schema: string, id: number, options: PredictionSchemaOptions) {
    this.#parts = new PredictionParts(options);
    this.#head = headOf(id);
    this.#reference = new AvscEncoder(schema, this.#parts);
  }

  encode(json: Buffer, p = parseExact(json)): Buffer {
    this.#writer.begin(this.#head);
    if (this.#written(p)) return this.#writer.taken();
    return Buffer.concat([this.#head, this.#reference.encode(p)]);
  }

  /**
   * Writes the record in the order of the schema. Returns false if a value does not match its field; the written bytes
   * are then invalid.
   */
  #written(p: ExactObject): boolean {
    const to = this.#writer;
    for (const key of MODEL_KEYS) {
      const value = p[key] ?? '';
      if (typeof value !== 'string') return false;
      to.string(value);
    }
    for (const { key, kind } of this.#parts.fields) {
      const value = p[key];
      if (isNothing(value)) to.branch(0);
      else if (!WRITERS[kind](to, value)) return false;
    }
    const rest = this.#parts.rest(p);
    if (rest.length === 0) to.branch(0);
    else {
      to.branch(1);
      to.long(rest.length);
      for (const [column, value] of rest) {
        to.string(column);
        writePassed(to, value);
      }
      to.branch(0);
    }
    for (const { column } of this.#parts.named) writePassed(to, ownValue(p, column));
    return true;
  }
}

/**
 * Writes a value that is present as a branch of the union of its field. Returns false if the value has another type.
 */
const WRITERS: Readonly<Record<SchemaField['kind'], (to: AvroWriter, value: unknown) => boolean>> = {
  integer: (to, value) => {
    if (!Number.isSafeInteger(value)) return false;
    to.branch(1);
    to.long(value as number);
    return true;
  },
  number: (to, value) => {
    if (typeof value !== 'number') return false;
    to.branch(1);
    to.double(value);
    return true;
  },
  text: (to, value) => {
    if (typeof value !== 'string') return false;
    to.branch(1);
    to.string(value);
    return true;
  },
  class: (to, value) => {
    writePassed(to, value);
    return true;
  },
  numbers: (to, value) => {
    const entries = Object.entries(value as object);
    if (!entries.every(([, number]) => typeof number === 'number')) return false;
    to.branch(1);
    if (entries.length > 0) to.long(entries.length);
    for (const [key, number] of entries) {
      to.string(key);
      to.double(number as number);
    }
    to.branch(0);
    return true;
  },
  json: (to, value) => {
    to.branch(1);
    to.string(JSON.stringify(value));
    return true;
  },
  error: (to, value) => {
    const { code = '', column, message = '' } = value as { code?: unknown; column?: unknown; message?: unknown };
    if (typeof code !== 'string' || typeof message !== 'string') return false;
    if (column !== undefined && typeof column !== 'string') return false;
    to.branch(1);
    to.string(code);
    to.branch(column === undefined ? 0 : 1);
    if (column !== undefined) to.string(column);
    to.string(message);
    return true;
  },
};

/** Writes a passthrough value as a branch of the union `PASSED`. */
function writePassed(to: AvroWriter, value: unknown): void {
  const found = passed(value);
  if (found === null) to.branch(NULL);
  else if ('string' in found) {
    to.branch(STRING);
    to.string(found.string);
  } else if ('long' in found) {
    to.branch(LONG);
    to.long(typeof found.long === 'string' ? BigInt(found.long) : found.long);
  } else if ('double' in found) {
    to.branch(DOUBLE);
    to.double(found.double);
  } else {
    to.branch(BOOLEAN);
    to.boolean(found.boolean);
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

const FIRST_BYTES = 1024;
/** The largest encoding of a long. */
const LONG_BYTES = 10;
/** Below this magnitude, doubling an integer and adding the sign bit (zigzag encoding) is exact in doubles. */
const EXACT_TWICE = 2 ** 51;
/** Maximum length of a text for which the ASCII loop is tried first. */
const SHORT_TEXT = 64;

/** Appends values in Avro's binary encoding. Source: Avro specification 1.12, "Binary Encoding". */
class AvroWriter {
  #bytes = Buffer.allocUnsafe(FIRST_BYTES);
  #length = 0;

  /** Discards the previous value and starts with these bytes. */
  begin(head: Uint8Array): void {
    this.#length = 0;
    this.#reserve(head.length);
    this.#bytes.set(head);
    this.#length = head.length;
  }

  /** A copy of the bytes since `begin`. */
  taken(): Buffer {
    return Buffer.from(this.#bytes.subarray(0, this.#length));
  }

  /** Writes the index of a union branch, or another small non-negative integer. */
  branch(index: number): void {
    this.#reserve(1);
    this.#bytes[this.#length++] = index * 2;
  }

  /** Writes a 64-bit integer. */
  long(value: number | bigint): void {
    this.#reserve(LONG_BYTES);
    if (typeof value === 'bigint' || Math.abs(value) >= EXACT_TWICE) this.#large(BigInt(value));
    else this.#varint(value < 0 ? -2 * value - 1 : 2 * value);
  }

  double(value: number): void {
    this.#reserve(8);
    this.#length = this.#bytes.writeDoubleLE(value, this.#length);
  }

  boolean(value: boolean): void {
    this.#reserve(1);
    this.#bytes[this.#length++] = value ? 1 : 0;
  }

  string(text: string): void {
    const n = text.length;
    this.#reserve(LONG_BYTES + n * 3);
    if (n <= SHORT_TEXT && this.#ascii(text)) return;
    this.#varint(2 * Buffer.byteLength(text));
    this.#length += this.#bytes.write(text, this.#length, 'utf8');
  }

  /** Writes an ASCII text. Returns false, and writes nothing, if the text has other characters. */
  #ascii(text: string): boolean {
    const from = this.#length;
    this.#varint(2 * text.length);
    const bytes = this.#bytes;
    let at = this.#length;
    for (let i = 0; i < text.length; i++) {
      const code = text.charCodeAt(i);
      if (code > 0x7f) {
        this.#length = from;
        return false;
      }
      bytes[at++] = code;
    }
    this.#length = at;
    return true;
  }

  /** Writes a zigzag-encoded number, 7 bits per byte, lowest bits first. */
  #varint(bits: number): void {
    let rest = bits;
    while (rest >= 0x80) {
      this.#bytes[this.#length++] = (rest % 0x80) | 0x80;
      rest = Math.floor(rest / 0x80);
    }
    this.#bytes[this.#length++] = rest;
  }

  #large(value: bigint): void {
    let rest = BigInt.asUintN(64, (value << 1n) ^ (value >> 63n));
    for (; rest >= 0x80n; rest >>= 7n) this.#bytes[this.#length++] = Number(rest & 0x7fn) | 0x80;
    this.#bytes[this.#length++] = Number(rest);
  }

  #reserve(bytes: number): void {
    if (this.#length + bytes <= this.#bytes.length) return;
    const larger = Buffer.allocUnsafe(Math.max(this.#length + bytes, this.#bytes.length * 2));
    this.#bytes.copy(larger, 0, 0, this.#length);
    this.#bytes = larger;
  }
}
