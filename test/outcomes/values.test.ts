// Predictions with a schema, as the sinks of topics write them, are the rows that JSON would be.
import { expect, test } from 'vitest';
import { openAvroEncoder } from '../../src/formats/avro/avro-predictions.ts';
import { readAvro } from '../../src/formats/avro/avro-values.ts';
import { openJsonEncoder } from '../../src/formats/json-schema/json-predictions.ts';
import { openProtobufEncoder } from '../../src/formats/protobuf/protobuf-predictions.ts';
import { readProtobuf } from '../../src/formats/protobuf/protobuf-values.ts';
import type { NewSchema, RegisteredSchema, SchemaRegistry } from '../../src/formats/schemas/schema-registry.ts';
import { readJson } from '../../src/formats/schemas/value-codec.ts';
import { PREDICTION_FIELDS } from '../../src/formats/write/prediction-fields.ts';
import { ObjectColumns } from '../../src/outcomes/row-batch.ts';

const PREDICTIONS = [
  '{"modelId":"m","modelVersion":"1","customer":9007199254740993,"prediction":true,"probability":0.25,"points":612,"decision":"approve"}',
  '{"modelId":"m","modelVersion":"1","customer":"A-7","prediction":false,"probability":0,"points":0,"decision":"decline"}',
  '{"modelId":"m","modelVersion":"1","customer":7,"prediction":"gold","probability":0.5,"probabilities":{"gold":0.5,"tin":0.5}}',
  '{"modelId":"m","modelVersion":"1","customer":8,"error":{"code":"bad_number","column":"amount","message":"no"}}',
  '{"error":{"code":"malformed_json","message":"no"}}',
];
const COLUMNS = [
  { name: 'customer', asWritten: true },
  { name: 'probability' },
  { name: 'decision' },
  { name: 'prediction' },
  { name: 'probability.tin' },
] as const;
const WANTED = [
  ['9007199254740993', '0.25', 'approve', 'true', null],
  ['A-7', '0', 'decline', 'false', null],
  ['7', '0.5', null, 'gold', '0.5'],
  ['8', null, null, null, null],
  [null, null, null, null, null],
];

const FORMATS = {
  AVRO: [openAvroEncoder, (schema: RegisteredSchema) => readAvro(schema, null)],
  PROTOBUF: [openProtobufEncoder, readProtobuf],
  JSON: [openJsonEncoder, readJson],
} as const;

test.each(
  (['AVRO', 'PROTOBUF', 'JSON'] as const).flatMap((type) =>
    [['customer'] as const, '*' as const].map((p) => [type, p] as const),
  ),
)('%s, passthrough %j', async (type, passthrough) => {
  const schemas: NewSchema[] = [];
  const register = async (_: string, schema: NewSchema) => schemas.push(schema);
  const [open, compile] = FORMATS[type];
  const options = { topic: 'out', fields: PREDICTION_FIELDS, passthrough, subject: 'topic', register: true } as const;
  const encoder = await open({ register } as unknown as SchemaRegistry, options);
  const read = compile({ type, text: schemas[0]!.text, references: [] });
  const objects = new ObjectColumns(COLUMNS);
  const texts = objects.newTexts(PREDICTIONS.length);
  for (const [row, json] of PREDICTIONS.entries()) {
    const value = encoder.encode(Buffer.from(json)).subarray(5);
    expect(objects.read(read(value)(new Set()).toString(), texts, row, {})).toBe(null);
  }
  expect(PREDICTIONS.map((_, row) => texts.map((column) => column[row]))).toEqual(WANTED);
});
