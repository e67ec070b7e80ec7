// Applications and predictions in every format of a registry, through a real broker and a real registry; routes and tombstones.

import { writeFileSync } from 'node:fs';
import path from 'node:path';
import avro from 'avsc';
import protobuf from 'protobufjs';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { parseExact } from '../../../src/core/exact-json.ts';
import { generatePortfolio } from '../../../src/demo/portfolio.ts';
import { readAvro } from '../../../src/formats/avro/avro-values.ts';
import { headOf, schemaIdOf } from '../../../src/formats/schemas/framing.ts';
import { SchemaRegistry, type SchemaType } from '../../../src/formats/schemas/schema-registry.ts';
import { scratch, sluiceHere, start } from '../../support/cli.ts';
import { KafkaCluster } from '../../support/kafka/cluster.ts';
import { requireKafka } from '../../support/kafka/require.ts';
import { committed, eachRecord, produce } from '../../support/kafka/topics.ts';
import { installApicurio } from '../../support/registries/install.ts';
import { requireServer } from '../../support/registries/require.ts';
import { Server } from '../../support/registries/servers.ts';
import { scoreText } from '../../support/score.ts';
import { asNative, asObjects } from '../../support/service.ts';
import { until } from '../../support/until.ts';

const ROWS = 120;
const NUMBERS = new Set(['amount', 'income', 'monthly_payment', 'pt_income', 'term']);
const CUSTOMER = 9_007_199_254_740_993n;

type Row = Record<string, unknown>;
const text = Buffer.concat([...generatePortfolio({ rows: ROWS, seed: 3, oddness: 'none' })]).toString();
const objects: Row[] = asNative(asObjects(text));
const kindOf = (name: string) =>
  NUMBERS.has(name) ? 'double' : objects.some((o) => typeof o[name] === 'boolean') ? 'boolean' : 'string';
const columns = Object.keys(objects[0]!);

interface Format {
  name: 'avro' | 'json_schema' | 'protobuf';
  type: SchemaType;
  schema: string;
  /** A row with its customer, behind the id. */
  write(row: Row, customer: bigint): Buffer;
  /** What a prediction says: prediction and customer. */
  read(
    schema: string,
    value: Buffer,
  ): { prediction: unknown; probability: unknown; decision: unknown; customer: unknown };
  /** The model that a prediction names, as id:version. */
  modelIn(schema: string, value: Buffer): string;
}

const avroSchema = {
  type: 'record',
  name: 'Application',
  fields: [
    { name: 'customer', type: 'long' },
    ...columns.map((name) => ({ name, type: ['null', kindOf(name)], default: null })),
  ],
};
const bigLong = avro.types.LongType.__with({
  fromBuffer: (b: Buffer) => b.readBigInt64LE(),
  toBuffer: (v: bigint) => {
    const b = Buffer.alloc(8);
    b.writeBigInt64LE(v);
    return b;
  },
  fromJSON: BigInt,
  toJSON: Number,
  isValid: (v: unknown) => typeof v === 'bigint',
  compare: () => 0,
});
const avroType = avro.Type.forSchema(avroSchema as avro.Schema, {
  wrapUnions: false,
  registry: { long: bigLong },
});
const PROTO_KINDS: Record<string, string> = { double: 'double', boolean: 'bool', string: 'string' };
const proto = `syntax = "proto3"; package bank; message Head {} message Application { int64 customer = 1;
${columns.map((name, i) => `optional ${PROTO_KINDS[kindOf(name)]} ${name} = ${i + 2};`).join('\n')} }`;
const protoType = protobuf.parse(proto, { keepCase: true }).root.lookupType('bank.Application');

const FORMATS: Format[] = [
  {
    name: 'avro',
    type: 'AVRO',
    schema: JSON.stringify(avroSchema),
    write: (row, customer) => avroType.toBuffer({ ...row, customer }),
    read: (schema, value) => {
      // Longs beyond 2^53 are numbers of JSON, of which JSON.parse loses digits.
      const p = parseExact(readAvro({ type: 'AVRO', text: schema, references: [] }, null)(value)(new Set()));
      return { prediction: p.prediction, probability: p.probability, decision: p.decision, customer: p.customer };
    },
    modelIn: (schema, value) => {
      const p = parseExact(readAvro({ type: 'AVRO', text: schema, references: [] }, null)(value)(new Set()));
      return `${p.modelId}:${p.modelVersion}`;
    },
  },
  {
    name: 'json_schema',
    type: 'JSON',
    schema: '{"$schema":"http://json-schema.org/draft-07/schema#","type":"object"}',
    write: (row, customer) => Buffer.from(JSON.stringify({ ...row, customer: String(customer) })),
    read: (_schema, value) => JSON.parse(value.toString()),
    modelIn: (_schema, value) => {
      const p = JSON.parse(value.toString());
      return `${p.modelId}:${p.modelVersion}`;
    },
  },
  {
    name: 'protobuf',
    type: 'PROTOBUF',
    schema: proto,
    write: (row, customer) => {
      const there = Object.entries(row).filter(([, value]) => value !== null);
      const message = protoType.fromObject({ ...Object.fromEntries(there), customer: String(customer) });
      // The second message of the file.
      return Buffer.concat([Buffer.from([2, 2]), protoType.encode(message).finish()]);
    },
    read: (schema, value) => {
      const type = protobuf.parse(schema, { keepCase: true }).root.lookupType('sluice.Prediction');
      const p = type.toObject(type.decode(value.subarray(1)), { longs: String });
      return {
        prediction: p.prediction.boolean_value,
        probability: p.probability,
        decision: p.decision,
        customer: p.customer.string_value ?? p.customer.long_value,
      };
    },
    modelIn: (schema, value) => {
      const type = protobuf.parse(schema, { keepCase: true }).root.lookupType('sluice.Prediction');
      const p = type.toObject(type.decode(value.subarray(1)));
      return `${p.model_id}:${p.model_version}`;
    },
  },
];

await requireServer('values with a schema', installApicurio, (folder) => {
  requireKafka('through a broker', () => {
    let cluster: KafkaCluster;
    let server: Server;
    beforeAll(async () => {
      [cluster, server] = await Promise.all([KafkaCluster.shared(), Server.apicurio(folder)]);
    });
    afterAll(async () => {
      await server?.[Symbol.asyncDispose]();
      await cluster?.stop();
    });

    for (const format of FORMATS) {
      test(`${format.name}: in and out, routes, tombstones, and what does not fit to the dead letters`, async () => {
        const name = format.name.replace('_', '-');
        const topics = ['in', 'out', 'declined', 'dlq'].map((end) => `${name}-${end}`);
        const [input, output, declined, letters] = await Promise.all(topics.map((t) => cluster.createTopic(t, 2)));
        const registry = new SchemaRegistry({ url: server.url.href });
        const id = await registry.register(`${input}-value`, { type: format.type, text: format.schema });
        const good = objects.map((row, i) => ({
          key: `k${i}`,
          value: Buffer.concat([headOf(id), format.write(row, CUSTOMER + BigInt(i))]),
          partition: i % 2,
        }));
        const bad = [
          { key: 'plain', value: Buffer.from('x{}'), partition: 0 },
          { key: 'unknown', value: Buffer.concat([headOf(77_777), Buffer.from([1])]), partition: 1 },
          { key: 'gone', value: null, partition: 0 },
        ];
        await produce(cluster, input!, [...good.slice(0, 50), ...bad, ...good.slice(50)]);
        const file = path.join(scratch(), 'pipeline.yaml');
        writeFileSync(
          file,
          `model: credit-default
source: { type: kafka, topic: ${input}, group: ${name}, format: ${format.name}, tombstones: forward }
sink: { type: kafka, topic: ${output}, format: ${format.name}, routes: [{ decision: decline, topic: ${declined} }] }
dead_letter: { type: kafka, topic: ${letters} }
score: { workers: 1, passthrough: [customer] }
schema_registry: { url: "${server.url.href}" }
kafka: { brokers: ["${cluster.brokers[0]}"], session_timeout_ms: 3000 }
`,
        );
        const running = start(['run', file]);
        try {
          await until(async () => (await committed(cluster, name, input!).catch(() => 0)) >= ROWS + 3, 'all records');
        } finally {
          running.child.kill('SIGTERM');
          const ended = await running.done;
          expect(ended.code).toBe(0);
          expect(ended.stderr).toContain(`${ROWS + 3} rows read = ${ROWS} scored + 2 rejected + 1 skipped`);
        }
        const reference = (await scoreText(text, { output: { format: 'ndjson', delimiter: ',' } })).output
          .trim()
          .split('\n')
          .map((l) => JSON.parse(l) as Row);
        const seen: string[] = [];
        const gone: string[] = [];
        const schemas = new Map<number, string>();
        for (const topic of [output!, declined!]) {
          const values: { key: string; value: Buffer }[] = [];
          await eachRecord(cluster, topic, ({ key, value }) => {
            if (value === null) gone.push(`${topic} ${key}`);
            else values.push({ key: String(key), value });
          });
          for (const { key, value } of values) {
            const schema = schemaIdOf(value)!;
            if (!schemas.has(schema)) schemas.set(schema, (await registry.byId(schema))!.text);
            const i = Number(key.slice(1));
            const want = reference[i]!;
            const { prediction, probability, decision, customer } = format.read(
              schemas.get(schema)!,
              value.subarray(5),
            );
            expect({ prediction, probability, decision, customer: String(customer) }).toEqual({
              prediction: want.prediction,
              probability: want.probability,
              decision: want.decision,
              customer: String(CUSTOMER + BigInt(i)),
            });
            expect(topic, key).toBe(want.decision === 'decline' ? declined : output);
            seen.push(key);
          }
        }
        expect(seen.sort()).toEqual(objects.map((_, i) => `k${i}`).sort());
        expect(new Set(reference.map((r) => r.decision)).size).toBeGreaterThan(1);
        expect(gone.sort()).toEqual([`${declined} gone`, `${output} gone`].sort());
        const codes: string[] = [];
        await eachRecord(cluster, letters!, (m) => codes.push(`${m.key} ${m.headers!['sluice-error-code']}`));
        const code = { avro: 'malformed_avro', json_schema: 'malformed_json', protobuf: 'malformed_protobuf' }[
          format.name
        ];
        expect(codes.sort()).toEqual([`plain ${code}`, `unknown ${code}`]);
      });

      test(`${format.name}: predictions of a file name their model`, async () => {
        const topic = await cluster.createTopic(`${format.name.replace('_', '-')}-file`, 1);
        const folder = scratch();
        writeFileSync(path.join(folder, 'in.csv'), text);
        writeFileSync(
          path.join(folder, 'p.yaml'),
          `model: credit-default
source: { type: file, path: in.csv }
sink: { type: kafka, topic: ${topic}, format: ${format.name} }
schema_registry: { url: "${server.url.href}" }
kafka: { brokers: ["${cluster.brokers[0]}"] }
`,
        );
        expect(await sluiceHere(['run', 'p.yaml'], { cwd: folder })).toMatchObject({ code: 0 });
        const registry = new SchemaRegistry({ url: server.url.href });
        const models = new Set<string>();
        const values: Buffer[] = [];
        await eachRecord(cluster, topic, ({ value, headers }) => {
          values.push(value!);
          models.add(`${headers!['sluice-model-id']}:${headers!['sluice-model-version']}`);
        });
        expect(values).toHaveLength(ROWS);
        const schema = (await registry.byId(schemaIdOf(values[0]!)!))!.text;
        for (const value of values) models.add(format.modelIn(schema, value.subarray(5)));
        expect([...models]).toEqual(['credit-default:1']);
      });
    }
  });
});
