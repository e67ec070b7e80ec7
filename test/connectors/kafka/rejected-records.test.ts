// `on_invalid: report` identifies every rejected application, whatever the sink: by model, passthrough columns and its record.
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { scratch, sluiceHere } from '../../support/cli.ts';
import { someApplications } from '../../support/kafka/applications.ts';
import { KafkaCluster } from '../../support/kafka/cluster.ts';
import { requireKafka } from '../../support/kafka/require.ts';
import { eachRecord, produce, readTopic } from '../../support/kafka/topics.ts';
import { requirePostgres } from '../../support/postgres/require.ts';
import { startPostgres } from '../../support/postgres/server.ts';

const BINARY_KEY = Buffer.from([0, 0, 0, 0, 7, 255]);

requireKafka('rejected records', () => {
  let cluster: KafkaCluster;
  beforeAll(async () => {
    cluster = await KafkaCluster.shared();
  });
  afterAll(() => cluster?.stop());

  const [good] = someApplications();
  const application = (more: object) => JSON.stringify({ ...good, ...more });
  const MODEL = { modelId: 'credit-default', modelVersion: '1' };
  /** Key and value of each record, and what its answer holds beside the model. */
  const records = [
    { key: 'k0', value: application({ application_id: 'A-0' }), answer: { application_id: 'A-0', prediction: expect.any(Boolean) } },
    { key: 'k1', value: application({ application_id: 'A-1', amount: 'many' }), answer: { application_id: 'A-1', error: expect.objectContaining({ code: 'bad_number', column: 'amount' }) } },
    { key: null, value: application({ application_id: 12345678901234567n.toString(), amount: {} }), answer: { application_id: '12345678901234567', error: expect.anything() } },
    { key: 'k3', value: '{"application_id": "A-3", ', answer: { error: expect.objectContaining({ code: 'malformed_json' }) } },
    { key: BINARY_KEY, value: JSON.stringify({ application_id: 'A-4' }, null, 2), answer: { application_id: 'A-4', error: expect.objectContaining({ code: 'missing_column' }) } },
    { key: 'k5', value: application({ application_id: 'A-5\0', amount: 'many' }), answer: { application_id: 'A-5\0', error: expect.objectContaining({ column: 'amount' }) } },
    { key: 'k6', value: application({ application_id: { branch: 'A\n6' }, amount: 'many' }).replace('"branch":', '\n"branch": '), answer: { application_id: { branch: 'A\n6' }, error: expect.anything() } },
    { key: 'k7', value: Buffer.from([123, 34, 255, 34, 125]), answer: { error: expect.objectContaining({ code: 'invalid_utf8' }) } },
  ]; // biome-ignore format: one line

  const input = async (name: string): Promise<string> => {
    const topic = await cluster.createTopic(name, 1);
    for (const { key, value } of records) await produce(cluster, topic, [{ key, value, partition: 0 }]);
    return topic;
  };
  const run = async (id: string, sink: string, more = '', env: Record<string, string> = {}) => {
    const folder = scratch();
    mkdirSync(path.join(folder, 'out'));
    const topic = await input(id);
    const yaml = `model: credit-default
source: { type: kafka, topic: ${topic}, group: ${id}, until_caught_up: true }
score: { workers: 1${more} }
sink: ${sink}
on_invalid: report
kafka: { brokers: ["${cluster.brokers[0]}"] }
`;
    writeFileSync(path.join(folder, 'p.yaml'), yaml);
    const { code, stderr, stdout } = await sluiceHere(['run', 'p.yaml', '--json'], { cwd: folder, env });
    expect(code, stderr).toBe(3);
    expect(JSON.parse(stdout)).toMatchObject({ rows: records.length, scored: 1 });
    return folder;
  };

  test.each([['all'], ['named']])('topic → files, passthrough %s: each line names its record', async (what) => {
    const id = `files-${what}`;
    const folder = await run(
      id,
      '{ type: file, path: "out/{partition}-{offset}.ndjson" }',
      what === 'named' ? ', passthrough: [application_id]' : '',
    );
    const lines = readdirSync(path.join(folder, 'out')).flatMap((file) =>
      readFileSync(path.join(folder, 'out', file), 'utf8')
        .trimEnd()
        .split('\n'),
    );
    expect(lines.map((line) => JSON.parse(line))).toEqual(
      records.map(({ key, answer }, offset) => ({
        ...MODEL,
        ...(answer.prediction
          ? { probability: expect.any(Number), points: expect.any(Number), decision: expect.any(String) }
          : {}),
        ...answer,
        record: {
          topic: id,
          partition: 0,
          offset,
          ...(Buffer.isBuffer(key) ? { key_base64: key.toString('base64') } : { key }),
        },
      })),
    );
  });

  test('topic → topic: the value names model and passthrough columns, the headers the offset', async () => {
    const output = await cluster.createTopic('answers', 1);
    await run('topic', `{ type: kafka, topic: ${output} }`);
    const found: { key: Buffer | null; value: unknown; offset: string }[] = [];
    await eachRecord(cluster, output, ({ key, value, headers }) => {
      found.push({ key, value: JSON.parse(value!.toString()), offset: String(headers!['sluice-source-offset']) });
    });
    expect(found).toEqual(
      records.map(({ key, answer }, offset) => ({
        key: key === null ? null : Buffer.from(key),
        value: expect.objectContaining({ ...MODEL, ...answer }),
        offset: String(offset),
      })),
    );
  });

  test('a passthrough column cannot take the name of the record', async () => {
    const folder = scratch();
    const topic = await input('hidden');
    writeFileSync(
      path.join(folder, 'p.yaml'),
      `model: credit-default
source: { type: kafka, topic: ${topic}, group: hidden, until_caught_up: true }
score: { workers: 1, passthrough: [record] }
sink: { type: file, path: "{partition}-{offset}.ndjson" }
on_invalid: report
kafka: { brokers: ["${cluster.brokers[0]}"] }
`,
    );
    const { code, stderr } = await sluiceHere(['run', 'p.yaml'], { cwd: folder });
    expect([code, stderr]).toEqual([1, expect.stringMatching(/record is also a member.*\[header_mismatch\]/s)]);
    expect(readdirSync(folder)).toEqual(['p.yaml']);
  });

  test('topic → files: a record that is larger than the dead letter topic accepts becomes a truncated dead letter', async () => {
    const folder = scratch();
    const topic = await cluster.createTopic('large', 1, { 'max.message.bytes': '4000000' });
    const letters = await cluster.createTopic('large-dlq', 1, { 'max.message.bytes': '20000' });
    const large = application({ application_id: 'A-1', amount: 'many', more: 'x'.repeat(1_000_000) });
    await produce(cluster, topic, [
      { key: 'k0', value: application({ application_id: 'A-0' }), partition: 0 },
      { key: 'k1', value: large, partition: 0 },
      { key: 'k2', value: application({ application_id: 'A-2' }), partition: 0 },
    ]);
    writeFileSync(
      path.join(folder, 'p.yaml'),
      `model: credit-default
source: { type: kafka, topic: ${topic}, group: large, until_caught_up: true }
score: { workers: 1, passthrough: [application_id] }
sink: { type: file, path: "out/{partition}-{offset}.ndjson" }
dead_letter: { type: kafka, topic: ${letters} }
kafka: { brokers: ["${cluster.brokers[0]}"] }
`,
    );
    const { code, stderr, stdout } = await sluiceHere(['run', 'p.yaml', '--json'], { cwd: folder });
    expect(code, stderr).toBe(3);
    expect(JSON.parse(stdout)).toMatchObject({ rows: 3, scored: 2, rejected: 1 });
    const [file] = readdirSync(path.join(folder, 'out'));
    const lines = readFileSync(path.join(folder, 'out', file!), 'utf8')
      .trimEnd()
      .split('\n');
    expect(lines.map((line) => JSON.parse(line).application_id)).toEqual(['A-0', 'A-2']);
    const [letter, ...others] = await readTopic(cluster, letters);
    expect(others).toEqual([]);
    expect(letter).toMatchObject({
      key: 'k1',
      headers: { 'sluice-error-offset': '1', 'sluice-error-truncated-from': String(large.length) },
    });
    expect(large.startsWith(letter!.value!)).toBe(true);
  });

  requirePostgres('with a database', () => {
    test('topic → table: passthrough columns of rejected rows, all that PostgreSQL can store', async () => {
      const server = await startPostgres();
      try {
        await run('table', '{ type: postgres, url_env: DB, table: answers }', ', passthrough: [application_id]', {
          DB: server.url,
        });
        const { rows } = await server.query(
          'SELECT "offset"::int AS at, application_id, model_id, model_version, error_column, probability IS NULL AS rejected FROM answers ORDER BY 1',
        );
        const ids = ['A-0', 'A-1', '12345678901234567', null, 'A-4', null, '{"branch":"A\\n6"}', null];
        expect(rows).toEqual(
          ids.map((application_id, at) => ({
            at,
            application_id,
            model_id: 'credit-default',
            model_version: '1',
            error_column:
              at === 1 || at === 2 || at === 5 || at === 6 ? 'amount' : at === 4 ? expect.any(String) : null,
            rejected: at > 0,
          })),
        );
      } finally {
        await server.stop();
      }
    });
  });
});
