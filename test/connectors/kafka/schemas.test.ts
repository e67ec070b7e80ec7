// Values with a schema id in front: what other libraries wrote is read, and what is written says what JSON said. The bytes in
// fixtures/schemas were written by fastavro 1.12 and by Google's Protobuf for Python.

import { readFileSync } from 'node:fs';
import avro from 'avsc';
import protobuf from 'protobufjs';
import { expect, test } from 'vitest';
import { parseExact } from '../../../src/core/exact-json.ts';
import { AvscEncoder, avroSchemaOfPredictions, openAvroEncoder } from '../../../src/formats/avro/avro-predictions.ts';
import { avroType, readAvro } from '../../../src/formats/avro/avro-values.ts';
import { jsonSchemaOfPredictions, openJsonEncoder } from '../../../src/formats/json-schema/json-predictions.ts';
import { openProtobufEncoder, protoOfPredictions } from '../../../src/formats/protobuf/protobuf-predictions.ts';
import { readProtobuf } from '../../../src/formats/protobuf/protobuf-values.ts';
import { headOf, messagePathOf, schemaIdOf } from '../../../src/formats/schemas/framing.ts';
import {
  PredictionParts,
  type PredictionSchemaOptions,
  passed,
  passthroughFields,
  subjectOf,
} from '../../../src/formats/schemas/prediction-schema.ts';
import type { NewSchema, RegisteredSchema, SchemaRegistry } from '../../../src/formats/schemas/schema-registry.ts';
import type { WriteJson } from '../../../src/formats/schemas/value-codec.ts';
import { PREDICTION_FIELDS } from '../../../src/formats/write/prediction-fields.ts';
import fc from '../../support/seeded-fast-check.ts';
import { times } from '../../support/tiers.ts';

const FIXTURES = JSON.parse(readFileSync('test/fixtures/schemas/values.json', 'utf8'));
const avroOf = (schema: object, ...references: RegisteredSchema['references']): RegisteredSchema => ({
  type: 'AVRO',
  text: JSON.stringify(schema),
  references,
});
/** The text of a value, as it is where the model reads these fields. */
const textOf = (value: Buffer | WriteJson, fields: string[] = []): string =>
  (typeof value === 'function' ? value(new Set(fields)) : value).toString();
const asJson = (value: Buffer | WriteJson, fields: string[] = []): unknown => JSON.parse(textOf(value, fields));
/** Whole numbers that a double does not hold are bigints. */
const exactJson = (value: Buffer | WriteJson): unknown =>
  JSON.parse(textOf(value), (_key, value: unknown, context?: { source?: string }) =>
    Number.isInteger(value) && !Number.isSafeInteger(value) && /^-?\d+$/.test(context!.source!)
      ? BigInt(context!.source!)
      : value,
  );

test('Avro of another library: logical types, whole numbers beyond 2^53, unions, bytes', () => {
  const { schema, hex } = FIXTURES.avro;
  const json = readAvro(avroOf(schema), null)(Buffer.from(hex, 'hex'));
  expect(exactJson(json)).toEqual({
    amount: 1234.5,
    account: 9007199254740993n,
    opened: '2024-02-29',
    asked: '2026-11-22T01:02:03.456789Z',
    at: '23:59:58.123',
    local: '2026-01-02T03:04:05.006',
    income: '-1234567.89',
    fee: '0.005',
    id: '00000000-0000-0000-0000-000000000007',
    flag: 42,
    grade: 'B',
    tags: [null, -(2n ** 62n)],
    raw: 'AP8=',
  });
});

test('Avro read with a schema of the reader: its fields, its defaults, promoted numbers', () => {
  const { schema, hex } = FIXTURES.avro;
  const reader = {
    type: 'record',
    name: 'Application',
    namespace: 'bank',
    fields: [
      { name: 'branch', type: 'string', default: 'head office' },
      { name: 'account', type: 'double' },
      { name: 'born', type: { type: 'int', logicalType: 'date' }, aliases: ['opened'] },
      { name: 'asked', type: ['null', { type: 'long', logicalType: 'timestamp-micros' }] },
    ],
  };
  // A long becomes a double: that is what the reader asks for.
  const double = {
    ...schema,
    fields: schema.fields.map((f: { name: string }) => (f.name === 'account' ? { name: 'account', type: 'int' } : f)),
  };
  const written = avroType(avroOf(double));
  expect(written.isValid({})).toBe(false);
  const small = avro.Type.forSchema(
    {
      type: 'record',
      name: 'bank.Application',
      fields: [
        { name: 'account', type: 'int' },
        { name: 'opened', type: 'int' },
        { name: 'asked', type: ['null', 'long'] },
      ],
    },
    { wrapUnions: true },
  );
  const bytes = small.toBuffer({ account: 7, opened: 1, asked: { long: 1 } });
  const from = avroOf(small.schema({ exportAttrs: true }) as object);
  expect(asJson(readAvro(from, avroOf(reader))(bytes))).toEqual({
    branch: 'head office',
    account: 7,
    born: '1970-01-02',
    asked: '1970-01-01T00:00:00.000001Z',
  });
  expect(
    asJson(readAvro(avroOf(schema), avroOf({ ...reader, fields: reader.fields.slice(2) }))(Buffer.from(hex, 'hex'))),
  ).toEqual({
    born: '2024-02-29',
    asked: '2026-11-22T01:02:03.456789Z',
  });
});

test('Avro read with a schema of the reader: values of other branches, negative longs as floating-point numbers', () => {
  const record = (type: unknown) => avroOf({ type: 'record', name: 'A', fields: [{ name: 'a', type }] } as object);
  const date = { type: 'int', logicalType: 'date' };
  const millis = { type: 'long', logicalType: 'timestamp-millis' };
  const micros = { type: 'long', logicalType: 'timestamp-micros' };
  const uuid = { type: 'string', logicalType: 'uuid' };
  const decimal = { type: 'bytes', logicalType: 'decimal', precision: 9, scale: 2 };
  const id = '00000000-0000-0000-0000-000000000007';
  const error = Symbol('not readable');
  // The values of fastavro 1.13: written as a type (with the index of the branch of a union), read as another type.
  const cases: [written: unknown, value: unknown, read: unknown, want: unknown][] = [
    [['null', date], [0, null], [date, 'null'], null],
    [['null', date], [1, 1], [date, 'null'], '1970-01-02'],
    [['null', millis], [0, null], [millis, 'null'], null],
    [['null', decimal], [0, null], [decimal, 'null'], null],
    [['null', uuid], [0, null], [uuid, 'null'], null],
    ['double', 0.5, [date, 'double', 'null'], 0.5],
    ['string', '12', [date, 'string'], '12'],
    ['boolean', true, [millis, 'boolean'], true],
    ['int', 1, millis, '1970-01-01T00:00:00.001Z'],
    ['bytes', Buffer.from(id), uuid, id],
    ['string', '\u0001\u0002', decimal, '2.58'],
    ['double', 0.5, date, error],
    ['null', null, date, error],
    [['null', date], [0, null], date, error],
    [['null', date], [1, 1], date, '1970-01-02'],
    [['null', uuid], [1, id], uuid, id],
    [micros, 1000, millis, error],
    ...['float', 'double', { type: 'double' }, ['null', 'double']].flatMap((read): typeof cases => [
      ['long', -9_007_199_254_740_991, read, -9_007_199_254_740_991],
      ['long', '-9007199254740993', read, -9_007_199_254_740_992],
      ['long', String(-(2n ** 63n)), read, -(2 ** 63)],
      ['long', String(2n ** 63n - 1n), read, 2 ** 63],
      ['long', -7, read, -7],
    ]),
  ];
  for (const [written, value, read, want] of cases) {
    const from = record(written);
    const [branch, inner] = Array.isArray(value) ? value : [null, value];
    const plain = (Array.isArray(written) ? written[branch] : written) as string | { type: string };
    const bytes = Buffer.concat([
      branch === null ? Buffer.alloc(0) : Buffer.from([branch * 2]),
      avroType(avroOf({ type: typeof plain === 'string' ? plain : plain.type })).toBuffer(inner),
    ]);
    const got = (): unknown => {
      try {
        return (asJson(readAvro(from, record(read))(bytes)) as { a: unknown }).a;
      } catch {
        return error;
      }
    };
    expect([written, value, read, got()]).toEqual([written, value, read, want]);
  }
});

test('Avro schemas refer to others, each defined once', () => {
  const money = avroOf({ type: 'record', name: 'Money', namespace: 'bank', fields: [{ name: 'minor', type: 'long' }] });
  const party = avroOf(
    { type: 'record', name: 'Party', namespace: 'bank', fields: [{ name: 'income', type: 'Money' }] },
    { name: 'bank.Money', schema: money },
  );
  const schema = avroOf(
    {
      type: 'record',
      name: 'App',
      namespace: 'bank',
      fields: [
        { name: 'p', type: 'Party' },
        { name: 'm', type: 'bank.Money' },
      ],
    },
    { name: 'bank.Party', schema: party },
    { name: 'bank.Money', schema: money },
  );
  const bytes = avroType(schema).toBuffer({ p: { income: { minor: 5 } }, m: { minor: '9223372036854775807' } });
  expect(exactJson(readAvro(schema, null)(bytes))).toEqual({
    p: { income: { minor: 5 } },
    m: { minor: 9223372036854775807n },
  });
});

test('Protobuf of another library: zeros of proto3, presence, wrappers, timestamps, enums, imports, any message of the file', () => {
  const { file, common, hex, inner } = FIXTURES.protobuf;
  const schema: RegisteredSchema = {
    type: 'PROTOBUF',
    text: file,
    references: [{ name: 'common/grade.proto', schema: { type: 'PROTOBUF', text: common, references: [] } }],
  };
  const read = readProtobuf(schema);
  const framed = (path: number[], payload: string) => Buffer.concat([Buffer.from(path), Buffer.from(payload, 'hex')]);
  // Zigzag: one index, the second message.
  expect(asJson(read(framed([2, 2], hex)))).toEqual({
    amount: 0,
    account: '9007199254740993',
    income: 0,
    asked: '2026-11-22T01:02:03.500Z',
    grade: 'GRADE_B',
    raw: 'Af8=',
    owner: null,
    city: null,
    left: null,
    right: 3,
  });
  expect(asJson(read(framed([4, 2, 0], inner)))).toEqual({ x: 5 });
  expect(() => read(framed([2, 8], hex))).toThrow('no such message');
  expect(() => read(Buffer.alloc(0))).toThrow('the message is unreachable');
  expect(() => readProtobuf({ ...schema, references: [] })).toThrow('common/grade.proto is not among the references');
});

/** A record with one field `x` of a type, as bytes of its underlying type. */
const oneField = (
  type: object | string,
  underlying: avro.Schema,
  value: unknown,
  reader?: RegisteredSchema,
): WriteJson => {
  const record = (of: unknown) => ({ type: 'record', name: 'R', fields: [{ name: 'x', type: of }] });
  const bytes = avro.Type.forSchema(record(underlying) as avro.Schema).toBuffer({ x: value });
  return readAvro(avroOf(record(type)), reader ?? null)(bytes);
};
const DECIMAL = { type: 'bytes', logicalType: 'decimal', precision: 9, scale: 3 };
const FIXED = { type: 'fixed', name: 'F', size: 16 };

test.each([
  [
    'a decimal is a number, whatever is declared for texts',
    DECIMAL,
    'bytes',
    Buffer.from([0x1f, 0x40]),
    '"8.000"',
    '8.000',
  ],
  ['a negative decimal', { ...DECIMAL, scale: 0 }, 'bytes', Buffer.from([0xff]), '"-1"', '-1'],
  ['a decimal that may be null', ['null', DECIMAL], ['null', 'bytes'], Buffer.from([1]), '"0.001"', '0.001'],
  ['a date is no text', { type: 'int', logicalType: 'date' }, 'int', 0, '"1970-01-01"', '["1970-01-01"]'],
  [
    'a date beyond four digits',
    { type: 'int', logicalType: 'date' },
    'int',
    2_932_897,
    '"+010000-01-01"',
    '["+010000-01-01"]',
  ],
  [
    'a time is none',
    { type: 'long', logicalType: 'timestamp-micros' },
    'long',
    1,
    '"1970-01-01T00:00:00.000001Z"',
    '["1970-01-01T00:00:00.000001Z"]',
  ],
  ['bytes are none', 'bytes', 'bytes', Buffer.from('a'), '"YQ=="', '["YQ=="]'],
  ['an identifier is one', { type: 'string', logicalType: 'uuid' }, 'string', 'a-b', '"a-b"', '"a-b"'],
  [
    'so is an enum',
    { type: 'enum', name: 'E', symbols: ['A', 'B'] },
    { type: 'enum', name: 'E', symbols: ['A', 'B'] },
    'B',
    '"B"',
    '"B"',
  ],
  [
    'a decimal of a text is a text',
    { type: 'string', logicalType: 'decimal', precision: 4, scale: 2 },
    'string',
    '125',
    '"125"',
    '"125"',
  ],
  ['a date of a long is a number', { type: 'long', logicalType: 'date' }, 'long', 5, '5', '5'],
  [
    'a time in milliseconds of an int is a number',
    { type: 'int', logicalType: 'timestamp-millis' },
    'int',
    5,
    '5',
    '5',
  ],
  ['a time of a text is a text', { type: 'string', logicalType: 'timestamp-millis' }, 'string', '5', '"5"', '"5"'],
  [
    'a decimal with a negative scale is bytes',
    { ...DECIMAL, scale: -1 },
    'bytes',
    Buffer.from([1]),
    '"AQ=="',
    '["AQ=="]',
  ],
  [
    'an identifier of 16 bytes',
    { ...FIXED, logicalType: 'uuid' },
    FIXED,
    Buffer.alloc(16, 1),
    '"01010101-0101-0101-0101-010101010101"',
    '"01010101-0101-0101-0101-010101010101"',
  ],
] as [string, object | string, avro.Schema, unknown, string, string][])(
  'Avro: %s',
  (_, type, underlying, value, shown, inModel) => {
    const write = oneField(type, underlying, value);
    expect(textOf(write)).toBe(`{"x":${shown}}`);
    expect(textOf(write, ['x'])).toBe(`{"x":${inModel}}`);
  },
);

test.each([
  ['a decimal', DECIMAL, '\u0001', '"0.001"'],
  ['a decimal or null', [DECIMAL, 'null'], '\u0001', '"0.001"'],
  ['null or a decimal', ['null', DECIMAL], null, 'null'],
  ['a date', { type: 'int', logicalType: 'date' }, 0, '"1970-01-01"'],
  ['a time', { type: 'long', logicalType: 'timestamp-millis' }, 0, '"1970-01-01T00:00:00.000Z"'],
  ['a uuid', { type: 'string', logicalType: 'uuid' }, 'u', '"u"'],
])('Avro: the default of %s, in the schema of the writer and of the reader', (_, type, value, text) => {
  const fields = [
    { name: 'x', type: 'int' },
    { name: 'y', type, default: value },
  ];
  const bytes = avro.Type.forSchema({ type: 'record', name: 'R', fields: [{ name: 'x', type: 'int' }] }).toBuffer({
    x: 7,
  });
  const old = avroOf({ type: 'record', name: 'R', fields: fields.slice(0, 1) });
  const now = avroOf({ type: 'record', name: 'R', fields });
  expect(textOf(readAvro(old, now)(bytes))).toBe(`{"x":7,"y":${text}}`);
  expect(() => readAvro(now, null)).not.toThrow();
});

test('Avro: bytes that are not UTF-8 are no text, and U+FFFD is', () => {
  expect(textOf(oneField('string', 'string', 'a\ufffdb'))).toBe('{"x":"a\ufffdb"}');
  expect(() => oneField('string', 'bytes', Buffer.from([0x61, 0xff]))).toThrow('not UTF-8');
  expect(() => oneField({ type: 'map', values: 'int' }, { type: 'map', values: 'int' }, { a: 1 })).not.toThrow();
});

test('Avro: bytes that a reader schema reads as a text, and keys of maps, are UTF-8', () => {
  const record = (type: object | string) => ({ type: 'record', name: 'R', fields: [{ name: 'x', type }] });
  const read = (written: object | string, wanted: object | string, value: unknown): string =>
    textOf(
      readAvro(
        avroOf(record(written)),
        avroOf(record(wanted)),
      )(avro.Type.forSchema(record(written) as avro.Schema, { wrapUnions: true }).toBuffer({ x: value })),
    );
  const [valid, broken] = [Buffer.from('a\ufffdb'), Buffer.from([0x61, 0xff, 0x62])];
  expect(read('bytes', 'string', valid)).toBe('{"x":"a\ufffdb"}');
  expect(() => read('bytes', 'string', broken)).toThrow('not UTF-8');
  expect(read(['null', 'bytes'], ['null', 'string'], { bytes: valid })).toBe('{"x":"a\ufffdb"}');
  expect(() => read(['null', 'bytes'], ['null', 'string'], { bytes: broken })).toThrow('not UTF-8');
  const map = { type: 'map', values: 'int' };
  // One entry: a key of one byte, the number 1, and the end.
  const key = (byte: number) => Buffer.from([2, 2, byte, 2, 0]);
  expect(textOf(readAvro(avroOf(record(map)), null)(key(0x61)))).toBe('{"x":{"a":1}}');
  expect(() => readAvro(avroOf(record(map)), null)(key(0xff))).toThrow('not UTF-8');
});

/** The fields of a Protobuf message that is written as these bytes. */
const message = (syntax: string, fields: string, bytes: number[]): WriteJson =>
  readProtobuf({ type: 'PROTOBUF', text: `${syntax}; message M { ${fields} }`, references: [] })(
    Buffer.from([0, ...bytes]),
  );
const DOUBLE = (value: number): number[] => {
  const bytes = Buffer.alloc(8);
  bytes.writeDoubleLE(value);
  return [9, ...bytes];
};

test.each([
  [
    'proto2: an absent optional field is missing',
    'syntax = "proto2"',
    'optional double x = 1; optional string y = 2; optional bool z = 3;',
    [],
    '{"x":null,"y":null,"z":null}',
  ],
  ['proto2: a zero that is there is a zero', 'syntax = "proto2"', 'optional double x = 1;', DOUBLE(0), '{"x":0}'],
  [
    'proto2: a default that the schema states',
    'syntax = "proto2"',
    'optional int32 x = 1 [default = 7];',
    [],
    '{"x":7}',
  ],
  [
    "proto2: a default of 32 bits is rounded, as Google's library does",
    'syntax = "proto2"',
    'optional float x = 1 [default = 1.1]; optional double y = 2 [default = 1.1];',
    [],
    '{"x":1.100000023841858,"y":1.1}',
  ],
  [
    'proto2: a default beyond ASCII, and the largest exact one of 64 bits',
    'syntax = "proto2"',
    'optional string x = 1 [default = "é"]; optional int64 y = 2 [default = -9007199254740991];',
    [],
    '{"x":"é","y":-9007199254740991}',
  ],
  [
    'proto2: a field that is there needs no default',
    'syntax = "proto2"',
    'optional string x = 1 [default = "\\303\\251"];',
    [10, 1, 97],
    '{"x":"a"}',
  ],
  ['proto3: an absent field is zero', 'syntax = "proto3"', 'double x = 1;', [], '{"x":0}'],
  ['proto3: an absent optional field is missing', 'syntax = "proto3"', 'optional double x = 1;', [], '{"x":null}'],
  ['an infinity stays one', 'syntax = "proto3"', 'double x = 1;', DOUBLE(-Infinity), '{"x":"-Infinity"}'],
  ['NaN is missing', 'syntax = "proto3"', 'double x = 1;', DOUBLE(Number.NaN), '{"x":null}'],
  ['64 bits are a number', 'syntax = "proto3"', 'int64 x = 1;', [8, 7], '{"x":7}'],
  ['bytes are no text', 'syntax = "proto3"', 'bytes x = 1;', [10, 1, 97], '{"x":["YQ=="]}'],
])('Protobuf: %s', (_, syntax, fields, bytes, inModel) => {
  expect(textOf(message(syntax, fields, bytes), ['x', 'y', 'z'])).toBe(inModel);
});

test('Protobuf: absent fields of a nested message, with and without a default', () => {
  const nested = (syntax: string, fields: string) =>
    textOf(message(syntax, `message N { ${fields} } optional N x = 1;`, [10, 0]));
  expect(nested('syntax = "proto3"', 'optional float a = 1; optional double b = 2; float c = 3;')).toBe(
    '{"x":{"c":0}}',
  );
  expect(
    nested('syntax = "proto2"', 'optional float a = 1 [default = 1.1]; optional double b = 2 [default = 1.1];'),
  ).toBe('{"x":{"a":1.100000023841858,"b":1.1}}');
});

test.each([
  'optional string x = 1 [default = "\\303\\251"];',
  'optional string x = 1 [default = "a" "\\u00e9"];',
  'optional int64 x = 1 [default = 9007199254740993];',
  'optional fixed64 x = 1 [default = 0xFFFFFFFFFFFFFFFF];',
  // protobufjs would read the text as Base64.
  'optional bytes x = 1 [default = "abcd"];',
])('Protobuf: an absent field whose default cannot be read exactly is an error: %s', (field) => {
  expect(() => message('syntax = "proto2"', field, [])).toThrow(
    'x is absent, and its default in the schema cannot be read exactly',
  );
});

test('Protobuf: what is passed through is text where digits could be lost', () => {
  expect(textOf(message('syntax = "proto3"', 'int64 x = 1; bytes y = 2;', [8, 7, 18, 1, 97]))).toBe(
    '{"x":"7","y":"YQ=="}',
  );
});

test.each([
  ['7', { long: 7 }],
  ['-9223372036854775808', { long: '-9223372036854775808' }],
  // Identifiers of a column have one type, whether or not a double holds them.
  ['9007199254740991', { long: 9007199254740991 }],
  ['9007199254740992', { long: '9007199254740992' }],
  ['-12345678901234568', { long: '-12345678901234568' }],
  ['1234567890123456800', { long: '1234567890123456800' }],
  ['9223372036854774784', { long: '9223372036854774784' }],
  ['1e18', { long: '1000000000000000000' }],
  ['9223372036854776000', { double: 2 ** 63 }],
  ['9223372036854775808', { string: '9223372036854775808' }],
  ['12345678901234567890123', { string: '12345678901234567890123' }],
  ['1.50', { double: 1.5 }],
  ['150e-2', { double: 1.5 }],
  ['-0.0', { double: -0 }],
  ['1e400', { string: '1e400' }],
  ['12345678.1234567891', { string: '12345678.1234567891' }],
  ['0.1000000000000000055511151231257827', { string: '0.1000000000000000055511151231257827' }],
  ['100000000000000000000', { double: 1e20 }],
])('a number that is passed through keeps its digits: %s', (token, want) => {
  expect(passed(parseExact(Buffer.from(`{"x":${token}}`)).x)).toEqual(want);
});

test('the head of a value, and the way to a Protobuf message', () => {
  expect(schemaIdOf(headOf(0x01020304))).toBe(0x01020304);
  expect(schemaIdOf(Buffer.from('{}'))).toBeNull();
  expect(schemaIdOf(Buffer.from([1, 0, 0, 0, 1]))).toBeNull();
  expect(messagePathOf(Buffer.from([0, 9]), 0)).toEqual({ path: [0], end: 1 });
  expect(messagePathOf(Buffer.from([4, 2, 0x90, 0x01, 7]), 0)).toEqual({ path: [1, 72], end: 4 });
  for (const bad of [[], [0x80], [0xff, 0xff, 0xff, 0xff, 0xff, 0xff], [1], [2, 1], [200, 1, 0]]) {
    expect(messagePathOf(Buffer.from(bad), 0), String(bad)).toBeNull();
  }
});

/** Takes every schema and remembers it: what a registry does is tested with a real one. */
function taking(): { registry: SchemaRegistry; schemas: NewSchema[] } {
  const schemas: NewSchema[] = [];
  const register = async (_subject: string, schema: NewSchema) => schemas.push(schema);
  return { registry: { register } as unknown as SchemaRegistry, schemas };
}
const options = (passthrough: readonly string[] | '*'): PredictionSchemaOptions => ({
  topic: 'out',
  fields: PREDICTION_FIELDS,
  passthrough,
  subject: 'topic',
  register: true,
});
const PREDICTIONS = [
  '{"modelId":"m","modelVersion":"1","prediction":true,"probability":0.25,"points":612,"decision":"approved","customer id":9007199254740993,"score":1.5,"vip":false,"note":null}',
  '{"modelId":"m","modelVersion":"1","prediction":2,"probabilities":{"1":0.25,"2":0.75},"customer id":-7,"vip":"so","score":1e300,"note":{"a":[1]}}',
  '{"modelId":"m","modelVersion":"1","prediction":"gold","interpretation":{"base":0.5,"effects":[]},"customer id":"7"}',
  '{"modelId":"m","modelVersion":"1","error":{"code":"bad_number","column":"amount","message":"no"}}',
].map((text) => Buffer.from(text));

for (const passthrough of [['customer id', 'vip', 'score', 'note'], '*'] as const) {
  const named = passthrough !== '*';
  test(`predictions in Avro keep types and digits, ${named ? 'columns by name' : 'all in a map'}`, async () => {
    const { registry, schemas } = taking();
    const encoder = await openAvroEncoder(registry, options(passthrough));
    const read = readAvro({ type: 'AVRO', text: schemas[0]!.text, references: [] }, null);
    const rows = PREDICTIONS.map((p) => {
      const value = encoder.encode(p);
      expect(schemaIdOf(value)).toBe(1);
      return exactJson(read(value.subarray(5))) as Record<string, unknown>;
    });
    const passed = (row: Record<string, unknown>, column: string) =>
      named ? row[column.replace(' ', '_')] : (row.passthrough as Record<string, unknown> | null)?.[column];
    expect(rows.map((r) => r.prediction)).toEqual([true, 2, 'gold', null]);
    expect(rows.map((r) => passed(r, 'customer id') ?? null)).toEqual([9007199254740993n, -7, '7', null]);
    expect(rows.map((r) => passed(r, 'vip') ?? null)).toEqual([false, 'so', null, null]);
    expect(rows.map((r) => passed(r, 'score') ?? null)).toEqual([1.5, 1e300, null, null]);
    expect(passed(rows[1]!, 'note')).toBe('{"a":[1]}');
    expect(rows[0]).toMatchObject({
      modelId: 'm',
      modelVersion: '1',
      probability: 0.25,
      points: 612,
      decision: 'approved',
      error: null,
    });
    expect(rows[1]!.probabilities).toEqual({ 1: 0.25, 2: 0.75 });
    expect(JSON.parse(rows[2]!.interpretation as string)).toEqual({ base: 0.5, effects: [] });
    expect(rows[3]!.error).toEqual({ code: 'bad_number', column: 'amount', message: 'no' });
  });

  test(`predictions in Protobuf keep types and digits, ${named ? 'columns by name' : 'all in a map'}`, async () => {
    const { registry, schemas } = taking();
    const encoder = await openProtobufEncoder(registry, options(passthrough));
    const type = protobuf.parse(schemas[0]!.text, { keepCase: true }).root.lookupType('sluice.Prediction');
    const rows = PREDICTIONS.map((p) => {
      const value = encoder.encode(p);
      expect(value[5]).toBe(0);
      return type.toObject(type.decode(value.subarray(6)), { longs: String }) as Record<string, never>;
    });
    const passed = (row: Record<string, never>, column: string) =>
      named
        ? row[column.replace(' ', '_')]
        : (row.passthrough as unknown as Record<string, unknown> | undefined)?.[column];
    expect(rows.map((r) => r.prediction ?? null)).toEqual([
      { boolean_value: true },
      { long_value: '2' },
      { string_value: 'gold' },
      null,
    ]);
    expect(rows.map((r) => passed(r, 'customer id') ?? null)).toEqual([
      { long_value: '9007199254740993' },
      { long_value: '-7' },
      { string_value: '7' },
      null,
    ]);
    expect(rows[0]).toMatchObject({ model_id: 'm', points: '612', decision: 'approved' });
    expect(rows[1]!.probabilities).toEqual({ 1: 0.25, 2: 0.75 });
    expect(rows[3]!.error).toEqual({ code: 'bad_number', column: 'amount', message: 'no' });
  });
}

test('predictions as JSON are the same bytes behind the id', async () => {
  const { registry, schemas } = taking();
  const encoder = await openJsonEncoder(registry, options(['vip']));
  for (const p of PREDICTIONS) expect(encoder.encode(p).subarray(5)).toEqual(p);
  expect(schemas[0]!.type).toBe('JSON');
  expect(Object.keys(JSON.parse(jsonSchemaOfPredictions(options(['vip']))).properties)).toContain('vip');
});

test('columns whose names would be the same in a schema are refused, and subjects follow their strategy', () => {
  expect(() => passthroughFields(options(['a b', 'a_b']))).toThrow('the same name in a schema');
  expect(() => passthroughFields(options(['decision']))).toThrow('the same name in a schema');
  expect(() => protoOfPredictions(options(['model_id']))).toThrow('the same name in a schema');
  expect(passthroughFields(options(['1st', 'ü']))).toEqual([
    { column: '1st', name: '_1st' },
    { column: 'ü', name: '_' },
  ]);
  // protoc rejects two fields with the same JSON name. protobufjs has an oneof of the name _value for `optional value`.
  for (const passthrough of [['a_b', 'aB'], ['score1', 'score_1'], ['points_'], ['model__id'], ['_value'], ['$row']]) {
    expect(() => protoOfPredictions(options(passthrough))).toThrow('the same name in a Protobuf schema');
    expect(() => avroSchemaOfPredictions(options(passthrough))).not.toThrow();
  }
  for (const passthrough of [['a_b', 'ab'], ['Foo', 'foo'], ['_error'], ['Value', 'Error'], ['oneof', 'message']]) {
    expect(() => protobuf.parse(protoOfPredictions(options(passthrough)))).not.toThrow();
  }
  const names = (['topic', 'record', 'topic_record'] as const).map((subject) => subjectOf({ topic: 't', subject }));
  expect(names).toEqual(['t-value', 'sluice.Prediction', 't-sluice.Prediction']);
});

test('Avro is written byte for byte as avsc writes it, whatever a prediction holds', async () => {
  const whole = fc.oneof(
    fc.maxSafeInteger(),
    fc.bigInt({ min: -(2n ** 66n), max: 2n ** 66n }),
    fc.constantFrom(2 ** 51, -(2 ** 51), -1, 0, -0),
  );
  const number = fc.oneof(fc.double({ noNaN: true, noDefaultInfinity: true }), whole).map(String);
  const text = fc
    .oneof(fc.string({ unit: 'binary' }), fc.string({ minLength: 60, maxLength: 70 }))
    .map((t) => JSON.stringify(t));
  const any = fc.oneof(
    number,
    text,
    fc.json(),
    fc.constantFrom('null', 'true', 'false', '{"a":[12345678901234567890]}'),
  );
  /** Mostly what the field is for. */
  const or = (own: fc.Arbitrary<string>) => fc.oneof({ arbitrary: own, weight: 20 }, { arbitrary: any, weight: 1 });
  const maybe = (own: fc.Arbitrary<string>) => fc.option(or(own), { nil: undefined });
  const member = fc.tuple(fc.oneof(text, fc.constantFrom('"7"', '"id"', '"when it was"', '"__proto__"')), any);
  const predictions = fc.record({
    fields: fc.record({
      modelId: maybe(text),
      modelVersion: maybe(text),
      row: maybe(whole.map(String)),
      prediction: maybe(any),
      probability: maybe(number),
      probabilities: maybe(
        fc.dictionary(fc.string(), number).map(
          (d) =>
            `{${Object.entries(d)
              .map(([k, v]) => `${JSON.stringify(k)}:${v}`)
              .join(',')}}`,
        ),
      ),
      value: maybe(number),
      points: maybe(fc.integer().map(String)),
      decision: maybe(text),
      interpretation: maybe(fc.json()),
      error: maybe(
        fc
          .record({ code: fc.string(), column: fc.string(), message: fc.string() }, { requiredKeys: [] })
          .map((e) => JSON.stringify(e)),
      ),
    }),
    passed: fc.array(member, { maxLength: 4 }),
    named: fc.boolean(),
  });
  const written = (write: () => Buffer) => {
    try {
      return write().toString('hex');
    } catch {
      return 'refused';
    }
  };
  const encoders = await Promise.all(
    [['id', 'when it was'], '*' as const].map(async (passthrough) => {
      const own = options(passthrough);
      const reference = new AvscEncoder(avroSchemaOfPredictions(own), new PredictionParts(own));
      return { encoder: await openAvroEncoder(taking().registry, own), reference };
    }),
  );
  let refused = 0;
  const numRuns = times('avro runs', { quick: 300, check: 500, campaigns: 50_000 });
  fc.assert(
    fc.property(predictions, ({ fields, passed, named }) => {
      const members = [
        ...passed.map(([key, value]) => `${key}:${value}`),
        ...Object.entries(fields).flatMap(([key, value]) => (value === undefined ? [] : [`"${key}":${value}`])),
      ];
      const json = Buffer.from(`{${members.join(',')}}`);
      const { encoder, reference } = encoders[named ? 0 : 1]!;
      const expected = written(() => Buffer.concat([headOf(1), reference.encode(parseExact(json))]));
      if (expected === 'refused') refused++;
      expect(written(() => encoder.encode(json))).toBe(expected);
    }),
    { numRuns },
  );
  expect(refused).toBeLessThan(numRuns / 2);
});

test('a value of a regression beyond 2^53 is a double in every schema language', async () => {
  const p = Buffer.from(
    '{"modelId":"m","modelVersion":"1","value":100000000000000000,"probabilities":{"a":123456789012345678}}',
  );
  const { registry, schemas } = taking();
  const encoded = (await openAvroEncoder(registry, options('*'))).encode(p);
  const read = asJson(readAvro({ type: 'AVRO', text: schemas[0]!.text, references: [] }, null)(encoded.subarray(5)));
  expect(read).toMatchObject({ value: 1e17, probabilities: { a: 123456789012345680 } });
  const proto = taking();
  const value = (await openProtobufEncoder(proto.registry, options('*'))).encode(p);
  const type = protobuf.parse(proto.schemas[0]!.text, { keepCase: true }).root.lookupType('sluice.Prediction');
  expect(type.toObject(type.decode(value.subarray(6)))).toMatchObject({
    value: 1e17,
    probabilities: { a: 123456789012345680 },
  });
});
