// kafkajs has no transactions: pipelines, uploads and replays that need them are refused at the start, and at_least_once works.
import { writeFileSync } from 'node:fs';
import path from 'node:path';
import { expect, test } from 'vitest';
import { scratch, sluice } from '../../support/cli.ts';
import { someApplications } from '../../support/kafka/applications.ts';
import { KafkaCluster } from '../../support/kafka/cluster.ts';
import { requireKafka } from '../../support/kafka/require.ts';
import { produce, readTopic } from '../../support/kafka/topics.ts';

const KAFKAJS = { SLUICE_KAFKA_CLIENT: 'kafkajs' };
/** Nothing listens there: a refusal comes before any connection. */
const NOWHERE = 'kafka: { brokers: ["127.0.0.1:1"] }\n';
const ADVICE = 'delivery: exactly_once needs Kafka transactions, which the client kafkajs does not have: unset SLUICE_KAFKA_CLIENT, or set delivery: at_least_once'; // biome-ignore format: one line

function pipeline(source: string, more = ''): { folder: string; file: string } {
  const folder = scratch();
  const file = path.join(folder, 'p.yaml');
  writeFileSync(file, `model: credit-default\nsource: ${source}\nsink: { type: kafka, topic: out }\n${more}${NOWHERE}`);
  return { folder, file };
}

const TOPIC = '{ type: kafka, topic: in, group: g }';

test.each([[[]], [['--dry-run']]])('run %j refuses exactly_once', async (flags) => {
  const { file } = pipeline(TOPIC);
  const { code, stderr } = await sluice(['run', file, ...flags], { env: KAFKAJS });
  expect(code).toBe(1);
  expect(stderr).toContain(ADVICE);
  expect(stderr).toContain('kafka_config');
});

test.each([
  ['exactly_once by default', TOPIC, '', 2],
  ['an upload, exactly_once by default', '{ type: upload }', '', 2],
  ['at_least_once', TOPIC, 'delivery: at_least_once\n', 0],
])('lint reports %s', async (_name, source, more, expected) => {
  const { file } = pipeline(source, more);
  const { code, stderr } = await sluice(['lint', file], { env: KAFKAJS });
  expect(code, stderr).toBe(expected);
  if (expected === 0) expect(stderr).not.toContain('exactly_once');
  else expect(stderr).toContain(`${file}:1:1 ${ADVICE}`);
});

test('lint accepts exactly_once with the default client', async () => {
  const { code, stderr } = await sluice(['lint', pipeline(TOPIC).file], { env: { SLUICE_KAFKA_CLIENT: '' } });
  expect(code, stderr).toBe(0);
});

test('serve refuses an upload pipeline that writes exactly once', async () => {
  const { folder, file } = pipeline('{ type: upload }');
  const settings = [`jobs.folder=${folder}/jobs`, `spill.folder=${folder}`, `pipelines=["${file}"]`];
  const args = ['serve', '--dev', '--port', '0', '--registry', path.resolve('src/bundled')];
  const { code, stderr } = await sluice([...args, '--set', ...settings], { cwd: folder, env: KAFKAJS });
  expect(code).toBe(1);
  expect(stderr).toContain(ADVICE);
});

test('dlq replay is refused', async () => {
  const { file } = pipeline(TOPIC, 'dead_letter: { type: kafka, topic: letters }\n');
  const { code, stderr } = await sluice(['dlq', 'replay', file], { env: KAFKAJS });
  expect(code).toBe(1);
  expect(stderr).toContain(
    'replaying and dropping dead letters need Kafka transactions, which the client kafkajs does not have: unset SLUICE_KAFKA_CLIENT',
  );
});

requireKafka('kafkajs at least once', () => {
  test('a pipeline answers every record', async () => {
    await using cluster = await KafkaCluster.start();
    for (const topic of ['in', 'out']) await cluster.createTopic(topic, 2);
    const applications = someApplications();
    const messages = Array.from({ length: 60 }, (_, i) => ({
      key: `k${i}`,
      partition: i % 2,
      value: JSON.stringify(applications[i % applications.length]),
    }));
    await produce(cluster, 'in', messages);
    const { file } = pipeline('{ type: kafka, topic: in, group: g, until_caught_up: true }');
    writeFileSync(
      file,
      `model: credit-default
source: { type: kafka, topic: in, group: g, until_caught_up: true }
sink: { type: kafka, topic: out }
delivery: at_least_once
score: { workers: 1 }
kafka: { brokers: ["${cluster.brokers[0]}"] }
`,
    );
    const { code, stderr } = await sluice(['run', file], { env: KAFKAJS });
    expect(code, stderr).toBe(0);
    const keys = (await readTopic(cluster, 'out')).map((r) => r.key);
    expect(new Set(keys)).toEqual(new Set(messages.map((m) => m.key)));
  });

  test('a handle that is left open does not keep the process of a run that has ended', async () => {
    await using cluster = await KafkaCluster.shared();
    const [from, to] = [await cluster.createTopic('left-in', 1), await cluster.createTopic('left-out', 1)];
    await produce(cluster, from, [{ value: JSON.stringify(someApplications()[0]) }]);
    const file = path.join(scratch(), 'p.yaml');
    writeFileSync(
      file,
      `model: credit-default
source: { type: kafka, topic: ${from}, group: ${from}, until_caught_up: true }
sink: { type: kafka, topic: ${to} }
score: { workers: 1 }
kafka: { brokers: ["${cluster.brokers[0]}"] }
`,
    );
    const NODE_OPTIONS = '--import data:text/javascript,setInterval(()=>{},1e3)';
    const { code, stderr } = await sluice(['run', file], { env: { NODE_OPTIONS } });
    expect(code, stderr).toBe(0);
    expect(stderr).toMatch(/terminated 8 s after the end of the run: the process did not end \(open: .*\d+ Timeout/);
    expect(await readTopic(cluster, to)).toHaveLength(1);
  });
});
