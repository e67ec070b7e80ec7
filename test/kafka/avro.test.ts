// Avro values in Confluent's framing, through a real broker. No schema registry is to be had from Maven or pip, so its two calls
// (schema by id, register under a subject) are answered here; Avro itself and the framing are real.
import { writeFileSync } from 'node:fs';
import http from 'node:http';
import type { AddressInfo } from 'node:net';
import path from 'node:path';
import avro from 'avsc';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { generatePortfolio } from '../../src/demo/portfolio.ts';
import { scratch, start } from '../support/cli.ts';
import { KafkaCluster } from '../support/kafka/cluster.ts';
import { requireKafka } from '../support/kafka/require.ts';
import { committed, eachRecord, produce, until } from '../support/kafka/topics.ts';
import { scoreText } from '../support/score.ts';
import { asNative, asObjects } from '../support/service.ts';

requireKafka('Avro values', () => {
  let cluster: KafkaCluster;
  const schemas: string[] = [];
  let failures = 0;
  const server = http.createServer((request, response) => {
    let body = '';
    request.on('data', (d) => {
      body += d;
    });
    request.on('end', () => {
      const answer = (status: number, value: object) => response.writeHead(status).end(JSON.stringify(value));
      if (request.headers.authorization !== `Basic ${Buffer.from('ana:secret').toString('base64')}`)
        return answer(401, {});
      if (failures-- > 0) return answer(503, {});
      const id = /^\/schemas\/ids\/(\d+)$/.exec(request.url!)?.[1];
      if (id !== undefined)
        return schemas[Number(id)] ? answer(200, { schema: schemas[Number(id)] }) : answer(404, { error_code: 40403 });
      return answer(200, { id: schemas.push((JSON.parse(body) as { schema: string }).schema) - 1 });
    });
  });
  beforeAll(async () => {
    cluster = await KafkaCluster.start();
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  });
  afterAll(async () => {
    server.close();
    await cluster?.stop();
  });

  test('applications in, predictions out, what is no Avro to the dead letters', async () => {
    const [input, output, letters] = await Promise.all([
      cluster.createTopic('avro-in', 2),
      cluster.createTopic('avro-out', 2),
      cluster.createTopic('avro-dlq', 1),
    ]);
    const text = Buffer.concat([...generatePortfolio({ rows: 300, seed: 3, dirty: false })]).toString();
    const objects = asNative(asObjects(text));
    const numbers = new Set(['amount', 'income', 'monthly_payment', 'pt_income', 'term']);
    const kinds = Object.entries(objects[0]!).map(([name]) => ({
      name,
      type: [
        'null',
        numbers.has(name) ? 'double' : objects.some((o) => typeof o[name] === 'boolean') ? 'boolean' : 'string',
      ],
      default: null,
    }));
    const type = avro.Type.forSchema({ type: 'record', name: 'Application', fields: kinds } as avro.Schema, {
      wrapUnions: false,
    });
    schemas.push('"int"', JSON.stringify(type.schema()));
    const framed = (id: number, bytes: Buffer) => {
      const head = Buffer.alloc(5);
      head.writeInt32BE(id, 1);
      return Buffer.concat([head, bytes]);
    };
    const good = objects.map((o, i) => ({ key: `k${i}`, value: framed(1, type.toBuffer(o)), partition: i % 2 }));
    const bad = [
      { key: 'json', value: Buffer.from('{}'), partition: 0 },
      { key: 'unknown', value: framed(77, Buffer.from([1])), partition: 1 },
      { key: 'cut', value: framed(1, type.toBuffer(objects[0]!).subarray(0, 9)), partition: 0 },
    ];
    await produce(cluster, input, [...good.slice(0, 150), ...bad, ...good.slice(150)]);
    const folder = scratch();
    const file = path.join(folder, 'avro.yaml');
    const { port } = server.address() as AddressInfo;
    writeFileSync(
      file,
      `model: credit-default
source: { type: kafka, topic: ${input}, group: avro, format: avro }
sink: { type: kafka, topic: ${output}, format: avro }
dead_letter: { type: kafka, topic: ${letters} }
score: { workers: 1 }
schema_registry: { url: "http://127.0.0.1:${port}", username: ana, password: { env: REGISTRY_PASSWORD } }
kafka: { brokers: ["${cluster.brokers[0]}"], session_timeout_ms: 3000 }
`,
    );
    failures = 2;
    const running = start(['run', file], { cwd: folder, env: { REGISTRY_PASSWORD: 'secret' } });
    try {
      await until(async () => (await committed(cluster, 'avro', input).catch(() => 0)) >= 303, 'all records');
    } finally {
      running.child.kill('SIGTERM');
      expect((await running.done).code).toBe(0);
    }
    const reference = (await scoreText(text, { output: { format: 'ndjson', delimiter: ',' } })).output
      .trim()
      .split('\n')
      .map((l) => JSON.parse(l));
    const out = avro.Type.forSchema(JSON.parse(schemas.at(-1)!) as avro.Schema, { wrapUnions: false });
    let seen = 0;
    await eachRecord(cluster, output, ({ key, value }) => {
      const p = out.fromBuffer(value!.subarray(5)) as Record<string, unknown>;
      const want = reference[Number(key!.toString().slice(1))];
      expect(p).toMatchObject({
        modelId: 'credit-default',
        prediction: String(want.prediction),
        probability: want.probability,
        points: want.points,
        decision: want.decision,
        error: null,
      });
      seen++;
    });
    expect(seen).toBe(300);
    const codes: string[] = [];
    await eachRecord(cluster, letters, (m) => codes.push(`${m.key} ${m.headers!['sluice-error-code']}`));
    expect(codes.sort()).toEqual(['cut malformed_avro', 'json malformed_avro', 'unknown malformed_avro']);
  });
});
