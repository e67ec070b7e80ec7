// Columns named like a member that every object of JavaScript inherits: a record without the column has no value for it.
import { readFileSync } from 'node:fs';
import path from 'node:path';
import avro from 'avsc';
import protobuf from 'protobufjs';
import { expect, test } from 'vitest';
import YAML from 'yaml';
import { recordOf } from '../../../src/connectors/kafka/topic-sink.ts';
import { recordLayout } from '../../../src/connectors/postgres/record-rows.ts';
import { avroSchemaOfPredictions, openAvroEncoder } from '../../../src/formats/avro/avro-predictions.ts';
import { openProtobufEncoder, protoOfPredictions } from '../../../src/formats/protobuf/protobuf-predictions.ts';
import type { SchemaRegistry } from '../../../src/formats/schemas/schema-registry.ts';
import { PREDICTION_FIELDS } from '../../../src/formats/write/prediction-fields.ts';
import { ObjectColumns } from '../../../src/outcomes/row-batch.ts';

const NAMES = Object.getOwnPropertyNames(Object.prototype);
const WITHOUT = { modelId: 'm', modelVersion: '1', prediction: true, probability: 0.75 };
const jsonOf = (members: object): Buffer => Buffer.from(JSON.stringify(members));
const registry = { register: async () => 1, find: async () => 1 } as unknown as SchemaRegistry;
const options = { topic: 't', fields: PREDICTION_FIELDS.filter(({ key }) => key !== 'row'), passthrough: NAMES, subject: 'topic', register: true } as const; // biome-ignore format: one line

test('rows of a table', () => {
  const manifest = YAML.parse(readFileSync(path.resolve('test/oracle/packages/trees/1/model.yaml'), 'utf8'));
  const place = { topic: 't', partition: 0, offset: 1n };
  const error = { code: 'missing_value', message: 'm' } as const;
  const layout = recordLayout(manifest, NAMES, null);
  const none = `"t",0,1,${','.repeat(NAMES.length)}"trees","1",`;
  expect(layout.row(place, jsonOf(WITHOUT))).toBe(`${none}true,0.75,,,,,\n`);
  expect(layout.rejectedRow(place, jsonOf({}), error)).toContain(none);
  const all = layout.row(place, Buffer.from(`{${NAMES.map((name) => `"${name}":"v"`).join(',')}}`));
  expect(all).toContain(`"t",0,1,${'"v",'.repeat(NAMES.length)}"trees"`);
});

// Decoders cannot set a field with the name __proto__, so it gets another name.
const fieldOf = (name: string): string => (name === '__proto__' ? '___proto__' : name);

test('fields of Avro and Protobuf', async () => {
  const passthrough = NAMES;
  const asked = options;
  const bytes = (await openAvroEncoder(registry, asked)).encode(jsonOf(WITHOUT));
  const type = avro.Type.forSchema(JSON.parse(avroSchemaOfPredictions(asked)), { wrapUnions: true } as never);
  const record = JSON.parse(JSON.stringify(type.fromBuffer(bytes.subarray(5))));
  expect(passthrough.map((name) => record[fieldOf(name)])).toEqual(passthrough.map(() => null));
  const message = (await openProtobufEncoder(registry, asked)).encode(jsonOf(WITHOUT));
  const { root } = protobuf.parse(protoOfPredictions(asked), { keepCase: true });
  const found = root.lookupType('sluice.Prediction').decode(message.subarray(6)).toJSON();
  expect(Object.keys(found).sort()).toEqual(['model_id', 'model_version', 'prediction', 'probability']);
});

test('values of fields of Avro and Protobuf', async () => {
  const json = Buffer.from(`{${NAMES.map((name, i) => `"${name}":"v${i}"`).join(',')},"prediction":true}`);
  const want = Object.fromEntries(NAMES.map((name, i) => [fieldOf(name), `v${i}`]));
  const type = avro.Type.forSchema(JSON.parse(avroSchemaOfPredictions(options)), { wrapUnions: true } as never);
  const record = type.fromBuffer((await openAvroEncoder(registry, options)).encode(json).subarray(5));
  for (const [field, value] of Object.entries(want)) expect(Object.values(record[field])).toEqual([value]);
  const { root } = protobuf.parse(protoOfPredictions(options), { keepCase: true });
  const message = (await openProtobufEncoder(registry, options)).encode(json).subarray(6);
  const found = root.lookupType('sluice.Prediction').decode(message).toJSON();
  expect(Object.fromEntries(Object.entries(want).map(([field]) => [field, found[field]?.string_value]))).toEqual(want);
});

test.each(NAMES)('%s as the key of a record and of outcomes', (name) => {
  expect(recordOf(jsonOf(WITHOUT), name, (json) => json).key).toBeNull();
  const columns = new ObjectColumns([{ name, asWritten: true }]);
  const texts = columns.newTexts(1);
  expect(columns.read(JSON.stringify(WITHOUT), texts, 0, {})).toBeNull();
  expect(texts).toEqual([[null]]);
  expect(columns.has).toEqual([false]);
});
