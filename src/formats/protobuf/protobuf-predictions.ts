// Encodes predictions as Protobuf messages. The .proto file is derived from the list of prediction fields.

import protobuf from 'protobufjs';
import { SluiceError } from '../../core/errors.ts';
import { parseExact } from '../../core/exact-json.ts';
import { ownValue } from '../../core/own-keys.ts';
import { FIRST_MESSAGE, headOf } from '../schemas/framing.ts';
import {
  asDouble,
  asDoubles,
  isNothing,
  MODEL_KEYS,
  NAMESPACE,
  type PassthroughField,
  PredictionParts,
  type PredictionSchemaOptions,
  passed,
  passthroughFields,
  RECORD_NAME,
  type SchemaField,
  schemaId,
  snake,
} from '../schemas/prediction-schema.ts';
import type { SchemaRegistry } from '../schemas/schema-registry.ts';
import type { ValueEncoder } from '../schemas/value-codec.ts';

/**
 * Field number of the first prediction field. All other fields follow in the order of their list. New fields are only
 * appended to this list.
 */
const FIRST_FIELD = 10;
const PASSTHROUGH_FIELD = 9;
/** Field number of the first passthrough column listed by name. Changing the configured list changes the schema. */
const FIRST_NAMED_FIELD = 100;

/** For each kind of field: its Protobuf type, and the conversion of its JSON value. */
const KINDS: Readonly<Record<SchemaField['kind'], { type: string; of: (value: unknown) => unknown }>> = {
  integer: { type: 'optional int64', of: (v) => v },
  number: { type: 'optional double', of: asDouble },
  text: { type: 'optional string', of: (v) => v },
  class: { type: 'Value', of: taggedValue },
  numbers: { type: 'map<string, double>', of: asDoubles },
  json: { type: 'optional string', of: (v) => JSON.stringify(v) },
  error: { type: 'Error', of: (v) => v },
};

function taggedValue(value: unknown): object {
  const found = passed(value);
  if (!found) return {};
  const [kind, inner] = Object.entries(found)[0]! as [string, unknown];
  return { [`${kind}_value`]: inner };
}

/**
 * The fields for passthrough columns listed by name. None of them shares its JSON name with another field, which protoc
 * rejects, or has the name of the implicit oneof of an optional field.
 * @throws SluiceError kafka_config
 */
function protobufFields(options: PredictionSchemaOptions): PassthroughField[] {
  const { jsonName } = protobuf.util;
  const keys = options.fields.map(({ key }) => key);
  const optional = options.fields.filter(({ kind }) => KINDS[kind].type.startsWith('optional'));
  const oneofs = new Map(optional.map(({ key }) => [`_${snake(key)}`, key]));
  const taken = new Map([...MODEL_KEYS, ...keys, 'passthrough'].map((key) => [jsonName(snake(key)), key]));
  const fields = passthroughFields(options);
  for (const { column, name } of fields) {
    const other = oneofs.get(name) ?? taken.get(jsonName(name));
    if (other !== undefined) {
      const message = `the fields of ${other} and ${column} would have the same name in a Protobuf schema`;
      throw new SluiceError('kafka_config', `${message}; rename the passthrough column, or pass all columns through`);
    }
    taken.set(jsonName(name), column);
  }
  return fields;
}

/**
 * The .proto file of predictions. It is the same for all models, so that a new model version needs no new schema.
 * Passthrough columns listed by name get their own fields.
 * @throws SluiceError kafka_config if two fields would share a name
 */
export function protoOfPredictions(options: PredictionSchemaOptions): string {
  const lines = [
    'syntax = "proto3";',
    `package ${NAMESPACE};`,
    '',
    `message ${RECORD_NAME} {`,
    ...MODEL_KEYS.map((key, i) => `  string ${snake(key)} = ${i + 1};`),
    '  // Columns outside the model, where they are not named one by one.',
    `  map<string, Value> passthrough = ${PASSTHROUGH_FIELD};`,
    ...options.fields.map(
      ({ key, kind, description }, i) =>
        `  // ${description}\n  ${KINDS[kind].type} ${snake(key)} = ${FIRST_FIELD + i};`,
    ),
    ...protobufFields(options).map(({ name }, i) => `  Value ${name} = ${FIRST_NAMED_FIELD + i};`),
    '}',
    '',
    'message Value {',
    '  oneof kind {',
    '    bool boolean_value = 1;',
    '    int64 long_value = 2;',
    '    double double_value = 3;',
    '    string string_value = 4;',
    '  }',
    '}',
    '',
    'message Error {',
    '  string code = 1;',
    '  optional string column = 2;',
    '  string message = 3;',
    '}',
    '',
  ];
  return lines.join('\n');
}

class ProtobufEncoder implements ValueEncoder {
  readonly #type: protobuf.Type;
  readonly #head: Buffer;
  readonly #parts: PredictionParts;

  constructor(proto: string, id: number, options: PredictionSchemaOptions) {
    this.#type = protobuf.parse(proto, { keepCase: true }).root.lookupType(`${NAMESPACE}.${RECORD_NAME}`);
    this.#parts = new PredictionParts(options);
    this.#head = Buffer.concat([headOf(id), FIRST_MESSAGE]);
  }

  encode(json: Buffer, p = parseExact(json)): Buffer {
    // protobufjs reads every field of this object: without a prototype, it inherits none.
    const message = Object.create(null) as Record<string, unknown>;
    for (const key of MODEL_KEYS) message[snake(key)] = p[key] ?? '';
    for (const { key, kind } of this.#parts.fields) {
      if (!isNothing(p[key])) message[snake(key)] = KINDS[kind].of(p[key]);
    }
    for (const { column, name } of this.#parts.named) {
      const value = ownValue(p, column);
      if (!isNothing(value)) message[name] = taggedValue(value);
    }
    const rest = this.#parts.rest(p).filter(([, value]) => !isNothing(value));
    message.passthrough = Object.fromEntries(rest.map(([key, value]) => [key, taggedValue(value)]));
    return Buffer.concat([this.#head, this.#type.encode(this.#type.fromObject(message)).finish()]);
  }
}

/** @throws SluiceError schema_registry_unavailable | kafka_config */
export async function openProtobufEncoder(
  registry: SchemaRegistry,
  options: PredictionSchemaOptions,
): Promise<ValueEncoder> {
  const text = protoOfPredictions(options);
  return new ProtobufEncoder(text, await schemaId(registry, { type: 'PROTOBUF', text }, options), options);
}
