// What goes wrong with brokers, logins and offsets ends in words of the catalogue, or is survived.
import '../../support/kafka/broken-lz4.ts';
import { fork } from 'node:child_process';
import { once } from 'node:events';
import { writeFileSync } from 'node:fs';
import path from 'node:path';
import { generate } from 'selfsigned';
import { afterAll, beforeAll, expect, test } from 'vitest';
import type { KafkaConnection } from '../../../src/connectors/kafka/client/connection.ts';
import { answerTo } from '../../../src/connectors/kafka/client/records.ts';
import { type ProcessorOptions, TransactionalProcessor } from '../../../src/connectors/kafka/processor.ts';
import { TopicWriter } from '../../../src/connectors/kafka/topic-writer.ts';
import { SluiceError } from '../../../src/core/errors.ts';
import { scratch, sluiceHere } from '../../support/cli.ts';
import { KafkaCluster } from '../../support/kafka/cluster.ts';
import { requireKafka } from '../../support/kafka/require.ts';
import { deleteRecords, numbered, produce, readTopic } from '../../support/kafka/topics.ts';
import { freePorts } from '../../support/ports.ts';
import { times } from '../../support/tiers.ts';
import { until } from '../../support/until.ts';

const PASSWORD = 'pass-word-of-the-test';

const failureOf = async (work: Promise<unknown>): Promise<SluiceError> => {
  const error = await work.then(
    () => new Error('nothing failed'),
    (e: unknown) => e,
  );
  expect(error).toBeInstanceOf(SluiceError);
  expect(JSON.stringify([(error as Error).message, (error as SluiceError).extra])).not.toContain(PASSWORD);
  return error as SluiceError;
};

requireKafka('failures of Kafka', () => {
  let cluster: KafkaCluster;
  let login: string;
  let pem: string;
  beforeAll(async () => {
    const [port] = await freePorts(1);
    login = `127.0.0.1:${port}`;
    const cert = await generate([{ name: 'commonName', value: 'broker.test' }], {
      extensions: [{ name: 'subjectAltName', altNames: [{ type: 2, value: 'broker.test' }] }],
    });
    const oneLine = (text: string) => text.trim().replaceAll(/\r?\n/g, '\\n');
    cluster = await KafkaCluster.start({
      settings: (own) => ({
        listeners: `${own.listeners},LOGIN://${login}`,
        'advertised.listeners': `${own['advertised.listeners']},LOGIN://${login}`,
        'listener.security.protocol.map': 'CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,LOGIN:SASL_SSL',
        'sasl.enabled.mechanisms': 'PLAIN,SCRAM-SHA-256,SCRAM-SHA-512',
        'listener.name.login.plain.sasl.jaas.config': `org.apache.kafka.common.security.plain.PlainLoginModule required user_sluice="${PASSWORD}";`,
        ...Object.fromEntries(
          ['256', '512'].map((bits) => [
            `listener.name.login.scram-sha-${bits}.sasl.jaas.config`,
            'org.apache.kafka.common.security.scram.ScramLoginModule required;',
          ]),
        ),
        'ssl.keystore.type': 'PEM',
        'ssl.keystore.certificate.chain': oneLine(cert.cert),
        'ssl.keystore.key': oneLine(cert.private),
      }),
    });
    pem = path.join(cluster.folder, 'ca.pem');
    writeFileSync(pem, cert.cert);
    writeFileSync(path.join(cluster.folder, 'password'), `${PASSWORD}\n`);
    await cluster.createTopic('there', 2);
    for (const bits of [256, 512] as const) await cluster.addScramUser('scram', PASSWORD, bits);
  });
  afterAll(() => cluster?.stop());

  const secured = (username: string, mechanism: 'plain' | 'scram-sha-256' | 'scram-sha-512'): KafkaConnection => ({
    brokers: [login],
    tls: { caFile: pem, serverName: 'broker.test' },
    sasl: { mechanism, username, password: { file: path.join(cluster.folder, 'password') } },
  });
  const options = (topic: string, more: Partial<ProcessorOptions> = {}): ProcessorOptions => ({
    connection: { brokers: cluster.brokers },
    topic,
    group: `g-${topic}`,
    outputTopic: 'there',
    deadLetterTopic: null,
    partitioning: 'key',
    process: async ({ records }) => ({ outputs: records.map((r) => answerTo(r, r.value)), rejected: [] }),
    ...more,
  });

  test.each([
    ['sluice', 'plain'],
    ['scram', 'scram-sha-256'],
    ['scram', 'scram-sha-512'],
  ] as const)('%s logs in over TLS with %s', async (user, mechanism) => {
    const topic = await cluster.createTopic(`login-${mechanism}`);
    await using writer = await TopicWriter.open({ connection: secured(user, mechanism), topic });
    await writer.write([{ key: null, value: Buffer.from('hello') }]);
    expect(await readTopic(cluster, topic)).toHaveLength(1);
  });

  test('members over TLS with a login end by themselves after SIGTERM, every time', async () => {
    const rounds = times('sigterm rounds', { quick: 2, check: 2, campaigns: 100 });
    const topic = await cluster.createTopic('ending', 2);
    const settings = {
      ...options(topic, { connection: secured('scram', 'scram-sha-512'), sessionTimeoutMs: 6_000 }),
      workMs: 1,
    };
    for (let round = 0; round < rounds; round++) {
      const worker = fork(path.join(import.meta.dirname, 'chaos/worker.ts'), [JSON.stringify(settings)]);
      const ended = once(worker, 'exit');
      await once(worker, 'message');
      worker.kill('SIGTERM');
      expect(await ended).toEqual([0, null]);
    }
  });

  test('a wrong password, an unknown certificate and a missing variable are named', async () => {
    writeFileSync(path.join(cluster.folder, 'wrong'), 'wrong');
    const connection = secured('sluice', 'plain');
    const wrong = { ...connection, sasl: { ...connection.sasl!, password: { file: `${cluster.folder}/wrong` } } };
    const open = (c: KafkaConnection) => TopicWriter.open({ connection: c, topic: 'there' });
    expect((await failureOf(open(wrong))).code).toBe('kafka_authentication');
    expect((await failureOf(open(secured('nobody', 'scram-sha-512')))).code).toBe('kafka_authentication');
    expect((await failureOf(open({ ...connection, tls: true }))).code).toBe('kafka_authentication');
    const unset = { ...connection, sasl: { ...connection.sasl!, password: { env: 'SLUICE_TEST_UNSET' } } };
    expect((await failureOf(open(unset))).code).toBe('kafka_config');
    expect((await failureOf(open({ ...connection, tls: { caFile: '/no/such/file' } }))).code).toBe('kafka_config');
  });

  test('a broker that does not answer and a topic that is not there are named', async () => {
    const [port] = await freePorts(1);
    const away = { brokers: [`127.0.0.1:${port}`] };
    expect((await failureOf(TopicWriter.open({ connection: away, topic: 'there' }))).code).toBe('kafka_unreachable');
    const start = (topic: string, more: Partial<ProcessorOptions>) =>
      TransactionalProcessor.start(options(topic, more));
    expect((await failureOf(start('not-there', {}))).code).toBe('kafka_topic_missing');
    expect((await failureOf(start('there', { outputTopic: 'nor-there' }))).code).toBe('kafka_topic_missing');
  });

  test.each(['stop', 'earliest', 'latest'] as const)(
    'records that were deleted before they were read: %s',
    async (onOffsetLost) => {
      const topic = await cluster.createTopic(`lost-${onOffsetLost}`);
      const outputTopic = await cluster.createTopic(`lost-${onOffsetLost}-out`);
      await produce(cluster, topic, numbered(2));
      const earlier = await TransactionalProcessor.start(options(topic));
      await until(() => earlier.counters.records === 2, '2 records');
      await earlier.stop(1_000);
      await produce(cluster, topic, numbered(8, 1, 2));
      await deleteRecords(cluster, topic, [{ partition: 0, offset: '5' }]);
      const { promise: positioned, resolve } = Promise.withResolvers<void>();
      const lost: { partition: number; committed: bigint; offset: bigint }[] = [];
      const observer = {
        onOffsetLost: (event: (typeof lost)[number]) => {
          lost.push(event);
          resolve();
        },
      };
      const processor = await TransactionalProcessor.start(options(topic, { outputTopic, onOffsetLost, observer }));
      if (onOffsetLost === 'stop') {
        const failure = await failureOf(processor.done);
        expect(failure.code).toBe('kafka_offset_lost');
        expect(failure.extra).toMatchObject({ committed: '2', low: '5', high: '10' });
        const [offsets] = await (await cluster.admin()).fetchOffsets({ groupId: `g-${topic}`, topics: [topic] });
        expect(offsets!.partitions[0]!.offset).toBe('2');
      } else {
        await positioned;
        await produce(cluster, topic, numbered(3, 1, 10));
        const expected = onOffsetLost === 'earliest' ? 8 : 3;
        await until(() => processor.counters.records === expected, `${expected} records`);
        expect(lost).toEqual([{ partition: 0, committed: 2n, offset: onOffsetLost === 'earliest' ? 5n : 10n }]);
      }
      await processor.stop(1_000);
    },
  );

  test('a run that goes on behind deleted records logs the partition and both offsets', async () => {
    const folder = scratch();
    const topic = await cluster.createTopic('lost-logged');
    const output = await cluster.createTopic('lost-logged-out');
    const yaml = `model: credit-default
source: { type: kafka, topic: ${topic}, group: lost-logged, until_caught_up: true, on_offset_lost: earliest }
score: { workers: 1 }
sink: { type: kafka, topic: ${output} }
kafka: { brokers: ["${cluster.brokers[0]}"] }
`;
    writeFileSync(path.join(folder, 'p.yaml'), yaml);
    const lostIn = async () => {
      const { stderr } = await sluiceHere(['run', 'p.yaml'], { cwd: folder });
      return stderr.match(/partition 0: the committed offset 2 no longer exists, and reading continues at offset 5;/g);
    };
    await produce(cluster, topic, numbered(2));
    expect(await lostIn()).toBeNull();
    await produce(cluster, topic, numbered(8, 1, 2));
    await deleteRecords(cluster, topic, [{ partition: 0, offset: '5' }]);
    expect(await lostIn()).toHaveLength(1);
    expect(await lostIn()).toBeNull();
  });

  test('a lost offset means one moment: whoever begins again before a first answer goes on from there', async () => {
    const topic = await cluster.createTopic('lost-again');
    const outputTopic = await cluster.createTopic('lost-again-out');
    await produce(cluster, topic, numbered(10));
    const admin = await cluster.admin();
    await admin.setOffsets({ groupId: `g-${topic}`, topic, partitions: [{ partition: 0, offset: '2' }] });
    await deleteRecords(cluster, topic, [{ partition: 0, offset: '5' }]);
    const lost: bigint[] = [];
    const observer = { onOffsetLost: ({ offset }: { offset: bigint }) => lost.push(offset) };
    const start = () => TransactionalProcessor.start(options(topic, { outputTopic, onOffsetLost: 'latest', observer }));
    const first = await start();
    await until(() => lost.length === 1, 'the loss');
    await first.stop(1_000);
    await produce(cluster, topic, numbered(3, 1, 10));
    const second = await start();
    await until(() => second.counters.records === 3, 'what came in between');
    expect(lost).toEqual([10n]);
    await second.stop(1_000);
  });

  test('records deleted under a member that lags behind', async () => {
    const topic = await cluster.createTopic('lagging', 1, { 'segment.bytes': '1048576' });
    const outputTopic = await cluster.createTopic('lagging-out');
    await produce(cluster, topic, numbered(10));
    const hold = Promise.withResolvers<void>();
    const taken = Promise.withResolvers<void>();
    const processor = await TransactionalProcessor.start(
      options(topic, {
        outputTopic,
        onOffsetLost: 'earliest',
        fetchBytes: 1_000,
        maxInFlightBytes: 100,
        batchRows: 1,
        transactionRows: 1,
        process: async ({ records }) => {
          taken.resolve();
          await hold.promise;
          return { outputs: records.map((r) => answerTo(r, r.value)), rejected: [] };
        },
      }),
    );
    await taken.promise;
    // The member holds the first fetch and is paused behind it.
    await produce(cluster, topic, numbered(20, 1, 10));
    await deleteRecords(cluster, topic, [{ partition: 0, offset: '20' }]);
    hold.resolve();
    await until(async () => (await readTopic(cluster, outputTopic)).some((r) => r.key === 'k29'), 'the last record');
    expect(processor.counters.restarts).toBeGreaterThan(0);
    await processor.stop(1_000);
  });

  test('a topic that is created again and soon has more records than before is read from its beginning', async () => {
    const topic = await cluster.createTopic('again', 1);
    const outputTopic = await cluster.createTopic('again-out');
    await produce(cluster, topic, numbered(10));
    const processor = await TransactionalProcessor.start(options(topic, { outputTopic }));
    const keys = async () => (await readTopic(cluster, outputTopic)).map(({ key }) => key);
    await until(async () => (await keys()).length === 10, 'the records of the first topic');
    const admin = await cluster.admin();
    await admin.deleteTopics({ topics: [topic] });
    await until(async () => !(await admin.listTopics()).includes(topic), 'the topic is deleted');
    await cluster.createTopic(topic, 1);
    await produce(cluster, topic, numbered(30, 1, 100));
    await until(async () => (await keys()).includes('k129'), 'the last record');
    expect(await keys()).toEqual([...numbered(10), ...numbered(30, 1, 100)].map(({ key }) => key));
    await processor.stop(1_000);
  });

  /** Replaces a topic by a new one with the same name and 30 records, without reading it meanwhile. */
  async function recreate(topic: string): Promise<void> {
    const admin = await cluster.admin();
    await admin.deleteTopics({ topics: [topic] });
    await until(async () => !(await admin.listTopics()).includes(topic), 'the topic is deleted');
    await cluster.createTopic(topic, 1);
    await produce(cluster, topic, numbered(30, 1, 100));
  }

  test('a topic that is created again while nothing is fetched is read from its beginning', async () => {
    const topic = await cluster.createTopic('unseen', 1);
    const outputTopic = await cluster.createTopic('unseen-out');
    await produce(cluster, topic, numbered(10));
    const processor = await TransactionalProcessor.start(options(topic, { outputTopic, fetchWaitMs: 1 }));
    const keys = async () => (await readTopic(cluster, outputTopic)).map(({ key }) => key);
    await until(async () => (await keys()).length === 10, 'the records of the first topic');
    processor.pause('test');
    await recreate(topic);
    processor.resume();
    await until(async () => (await keys()).includes('k129'), 'the last record');
    expect(await keys()).toEqual([...numbered(10), ...numbered(30, 1, 100)].map(({ key }) => key));
    await processor.stop(1_000);
  });

  test.each(['exactly_once', 'at_least_once'] as const)(
    'an offset of the earlier topic that is committed after the topic was created again is not used: %s',
    async (delivery) => {
      const topic = await cluster.createTopic(`stale-${delivery}`, 1);
      const outputTopic = await cluster.createTopic(`stale-${delivery}-out`);
      await produce(cluster, topic, numbered(10));
      const begun = Promise.withResolvers<void>();
      const gate = Promise.withResolvers<void>();
      const processor = await TransactionalProcessor.start({
        ...options(topic, { outputTopic, delivery, fetchWaitMs: 1, batchRows: 10 }),
        process: async ({ records }) => {
          begun.resolve();
          await gate.promise;
          return { outputs: records.map((record) => answerTo(record, record.value)), rejected: [] };
        },
      });
      await begun.promise;
      processor.pause('test');
      await recreate(topic);
      gate.resolve();
      const keys = async () => (await readTopic(cluster, outputTopic)).map(({ key }) => key);
      await until(async () => (await keys()).includes('k9'), 'the records of the first topic');
      processor.resume();
      await until(async () => (await keys()).includes('k129'), 'the last record');
      expect((await keys()).filter((key) => key !== null && numbered(30, 1, 100).some((r) => r.key === key))).toEqual(
        numbered(30, 1, 100).map(({ key }) => key),
      );
      await processor.stop(1_000);
    },
  );

  test('a batch that cannot be unpacked ends the run and is named', async () => {
    const topic = await cluster.createTopic('broken');
    const connection = { brokers: cluster.brokers };
    await using writer = await TopicWriter.open({ connection, topic, compression: 'lz4' });
    await writer.write([{ key: null, value: Buffer.alloc(1_000, 'x') }]);
    const processor = await TransactionalProcessor.start(options(topic));
    expect((await failureOf(processor.done)).code).toBe('kafka_codec');
    await processor.stop(0);
  });
});
