// The dead-letter queue against a real broker: selected dead letters are settled once, and no values are shown.
import { writeFileSync } from 'node:fs';
import path from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { DeadLetterTopic } from '../../../../src/connectors/kafka/dlq/dead-letter-topic.ts';
import { markersOf } from '../../../../src/connectors/kafka/dlq/markers.ts';
import { OffsetRanges } from '../../../../src/connectors/kafka/dlq/offset-ranges.ts';
import { type SettleOptions, settleDeadLetters } from '../../../../src/connectors/kafka/dlq/settle-dead-letters.ts';
import kafkajs from '../../../../src/connectors/kafka/kafkajs/repairs.ts';
import { scratch, sluiceHere } from '../../../support/cli.ts';
import { KafkaCluster } from '../../../support/kafka/cluster.ts';
import { CANARY, type MadeLetter, RECORD_AGE_MS, writeLetters } from '../../../support/kafka/letters.ts';
import { requireKafka } from '../../../support/kafka/require.ts';
import { produce, readTopic } from '../../../support/kafka/topics.ts';
import { until } from '../../../support/until.ts';

const { AclOperationTypes, AclPermissionTypes, AclResourceTypes, ResourcePatternTypes } = kafkajs;
/** Yesterday, to the minute. */
const T0 = Math.floor(Date.now() / 60_000 - 24 * 60) * 60_000;
const iso = (minutes: number): string => new Date(T0 + minutes * 60_000).toISOString();
const CODES = ['unseen_category', 'bad_number', 'missing_value'];

requireKafka('the dead-letter queue', () => {
  let cluster: KafkaCluster;
  beforeAll(async () => {
    cluster = await KafkaCluster.shared();
  });
  afterAll(() => cluster?.stop());

  let names = 0;
  const setUp = async (count = 30, settings: Record<string, string> = {}, step = 4) => {
    const name = `dlq${names++}`;
    const [input, topic] = await Promise.all([
      cluster.createTopic(`${name}-in`, 2),
      cluster.createTopic(`${name}-dlq`, 2, settings),
    ]);
    const letters = Array.from(
      { length: count },
      (_, id): MadeLetter => ({
        id,
        partition: id % 2,
        from: { topic: input, partition: id % 2 },
        key: `k${id % 5}`,
        code: CODES[id % 3]!,
        column: id % 2 === 0 ? 'income' : 'purpose',
        pipeline: id < 15 ? 'day' : 'night',
        time: T0 + id * 60_000,
      }),
    );
    await writeLetters(cluster, topic, letters, step);
    const folder = scratch();
    const file = path.join(folder, 'p.yaml');
    writeFileSync(
      file,
      `model: credit-default
source: { type: kafka, topic: ${input}, group: ${name} }
sink: { type: kafka, topic: ${name}-out }
dead_letter: { type: kafka, topic: ${topic} }
kafka: { brokers: ["${cluster.brokers.join('","')}"] }
`,
    );
    const dlq = (...args: string[]) => sluiceHere(['dlq', args[0]!, file, ...args.slice(1)], { cwd: folder });
    const json = async (...args: string[]) => {
      const { stdout, stderr } = await dlq(...args, '--json');
      if (stdout === '') throw new Error(stderr);
      return JSON.parse(stdout);
    };
    return { name, input, topic, letters, file, folder, dlq, json };
  };
  const settle = (deadLetterTopic: string, more: Partial<SettleOptions> = {}) =>
    settleDeadLetters({ connection: { brokers: cluster.brokers }, deadLetterTopic, action: 'replayed', ...more });
  const ids = async (topic: string) => (await readTopic(cluster, topic)).map((r) => Number(r.headers.id));
  const sorted = (numbers: number[]) => numbers.toSorted((a, b) => a - b);

  test('one code, then another, then the rest: each letter once, where it came from', async () => {
    const t = await setUp();
    expect(await t.json('replay', '--code', CODES[0]!)).toEqual({ replayed: 10, skipped: 20, unusable: 0, failed: [] });
    expect(await t.json('replay', '--code', CODES[0]!)).toMatchObject({ replayed: 0, skipped: 20 });
    expect(await t.json('replay', '--code', CODES[1]!, '--limit', '4')).toMatchObject({ replayed: 4, skipped: null });
    expect(await t.json('replay', '--key', 'k2', '--timestamp', 'original')).toMatchObject({ replayed: 3 });
    expect(await t.json('drop', '--key', 'k1')).toEqual({ dropped: 3, skipped: 10 });
    expect((await t.dlq('replay', '--dry-run')).stdout).toBe('10 would be replayed, 0 left, 0 cannot be replayed\n');
    const begun = Date.now();
    expect((await t.dlq('replay')).stdout).toBe('10 replayed, 0 left, 0 cannot be replayed\n');
    expect((await t.dlq('replay')).stdout).toBe('0 replayed, 0 left, 0 cannot be replayed\n');
    expect(await t.json('count')).toMatchObject({ open: 0, replayed: 27, dropped: 3, adopted: 0 });
    const back = await readTopic(cluster, t.input);
    expect(back).toHaveLength(27);
    expect(new Set(back.map((r) => r.headers.id)).size).toBe(27);
    for (const { headers, partition, key, timestamp } of back) {
      const { id, time } = t.letters[Number(headers.id)]!;
      expect(headers).toEqual({ id: String(id), other: CANARY, 'sluice-attempt': '2' });
      expect([partition, key]).toEqual([id % 2, `k${id % 5}`]);
      if (timestamp < begun - 3_600_000) expect([key, timestamp]).toEqual(['k2', time - RECORD_AGE_MS]);
    }
  });

  test('list, count and show tell where and why, and nothing of values', async () => {
    const t = await setUp();
    const list = await t.dlq('list', '--pipeline', 'night', '--column', 'income', '--since', iso(20));
    const places = list.stdout
      .split('\n')
      .slice(1, -1)
      .map((line) => line.split(/ +/)[2]);
    expect(places).toEqual(t.letters.filter((l) => l.id >= 20 && l.id % 2 === 0).map((l) => l.code));
    const few = await t.dlq('list', '--limit', '2', '--json');
    expect(
      few.stdout
        .trimEnd()
        .split('\n')
        .map((line) => JSON.parse(line).from.offset),
    ).toEqual(['0', '2']);
    expect(few.stderr).toContain('there are more than 2');
    expect(await t.json('count')).toMatchObject({
      open: 30,
      by: { [CODES[0]!]: 10, [CODES[1]!]: 10, [CODES[2]!]: 10 },
    });
    expect(await t.json('count', '--by', 'pipeline', '--code', CODES[0]!)).toMatchObject({ by: { day: 5, night: 5 } });
    const first = JSON.parse(few.stdout.split('\n')[0]!);
    const place = `${first.partition}:${first.offset}`;
    const shown = await t.dlq('show', place);
    expect(shown.stdout).toMatch(
      new RegExp(`^place +0:0\nstate +open\ntime +${iso(0)}\nof record +${iso(-60)}\ncode +unseen_category\n`),
    );
    expect(shown.stdout).toMatch(/\nkey +2 bytes\nvalue +\d+ bytes\nheaders +2 of the original\n$/);
    for (const { stdout, stderr } of [list, few, shown, await t.dlq('show', place, '--json'), await t.dlq('count')]) {
      expect(stdout + stderr).not.toContain(CANARY);
      expect(stdout + stderr).not.toMatch(/\bk0\b/);
    }
    expect((await t.dlq('show', place, '--value')).stdout).toBe(`{"id":0,"name":"${CANARY}"}`);
    expect(await t.json('show', place, '--value')).toMatchObject({ key: 'k0', value: expect.stringContaining(CANARY) });
    expect(await t.dlq('show', '1:999')).toMatchObject({
      code: 2,
      stderr: expect.stringContaining('no dead letter at 1:999'),
    });
    expect(await t.dlq('replay', '--topic', t.topic)).toMatchObject({
      code: 2,
      stderr: expect.stringContaining('another topic'),
    });
    expect(await t.dlq('drop')).toMatchObject({
      code: 2,
      stderr: expect.stringContaining('select the dead letters to drop'),
    });
    expect((await readTopic(cluster, t.topic)).some((r) => r.headers['sluice-desk'])).toBe(false);
  });

  test('a topic that is gone keeps its letters, and the others get theirs', async () => {
    const t = await setUp(6);
    const gone = t.letters.map((l) => ({ ...l, id: l.id + 100, from: { topic: `${t.name}-gone`, partition: 0 } }));
    await writeLetters(cluster, t.topic, gone);
    const run = await t.dlq('replay', '--json');
    expect(JSON.parse(run.stdout)).toEqual({
      replayed: 6,
      skipped: 0,
      unusable: 0,
      failed: [{ topic: `${t.name}-gone`, code: 'kafka_topic_missing', letters: 6 }],
    });
    expect(run.code).toBe(3);
    expect(sorted(await ids(t.input))).toEqual([0, 1, 2, 3, 4, 5]);
    expect(await t.json('replay', '--topic', t.input)).toMatchObject({ replayed: 6, failed: [] });
    expect(await ids(t.input)).toHaveLength(12);
  });

  /** A transaction of somebody else, open in every partition. */
  const openTransaction = async (topic: string) => {
    const transactionalId = `slow-${topic}`;
    const producer = cluster.client().producer({ idempotent: true, maxInFlightRequests: 1, transactionalId });
    await producer.connect();
    const transaction = await producer.transaction();
    await transaction.send({ topic, messages: [0, 1].map((partition) => ({ partition, value: 'open' })) });
    return async () => {
      await transaction.abort();
      await producer.disconnect();
    };
  };

  test('a replay that another one fenced is refused with a message, and settles nothing afterwards', async () => {
    const t = await setUp(60, {}, 30);
    const end = await openTransaction(t.topic);
    const waits = { first: 0, second: 0 };
    const first = settle(t.topic, { onWait: () => waits.first++ });
    first.catch(() => {});
    await until(() => waits.first > 0, 'the first replay to wait');
    const second = settle(t.topic, { selection: { codes: [CODES[0]!] }, onWait: () => waits.second++ });
    await until(() => waits.second > 0, 'the second replay to wait');
    await end();
    await expect(first).rejects.toMatchObject({
      code: 'dead_letters_taken_over',
      message: `another command took over the dead letters of ${t.topic} after this command processed 0`,
    });
    expect(await second).toMatchObject({ settled: 20, left: 40 });
    expect(await settle(t.topic)).toMatchObject({ settled: 40 });
    expect(sorted(await ids(t.input))).toEqual(t.letters.map((l) => l.id));
  });

  test('markers behind a transaction that is open are seen', async () => {
    const t = await setUp(10);
    expect(await settle(t.topic, { limit: 0 })).toMatchObject({ settled: 0 });
    const end = await openTransaction(t.topic);
    // Written behind the open transaction: a reader up to the last stable offset would not find them.
    const ranges = new OffsetRanges();
    ranges.add(0, 1_000);
    for (const partition of [0, 1]) {
      const [marker] = markersOf('dropped', { topic: t.topic, partition }, ranges, 10_000);
      const headers = { 'sluice-desk': 'dropped' };
      await produce(cluster, t.topic, [{ partition, key: marker!.key, value: marker!.value, headers }]);
    }
    let waited = false;
    const replay = settle(t.topic, {
      onWait: () => {
        waited = true;
      },
    });
    await until(() => waited, 'the replay to wait');
    await end();
    expect(await replay).toMatchObject({ settled: 0, left: 0 });
    expect(await ids(t.input)).toEqual([]);
  });

  test('what the replay of an earlier release passed is settled, until it is asked for', async () => {
    const t = await setUp(20);
    const admin = await cluster.admin();
    const group = `sluice-replay-${t.topic}`;
    const positions = [{ partition: 0, offset: '6' }];
    await admin.setOffsets({ groupId: group, topic: t.topic, partitions: positions });
    await using letters = new DeadLetterTopic({ connection: { brokers: cluster.brokers }, topic: t.topic });
    const passed: number[] = [];
    for await (const { letter, state } of letters.letters(await letters.survey())) {
      if (letter.partition === 0 && letter.offset < 6n) passed.push(Number(letter.from!.offset));
      expect(state).toBe(letter.partition === 0 && letter.offset < 6n ? 'adopted' : 'open');
    }
    expect(passed.length).toBeGreaterThan(0);
    expect(await t.json('count')).toMatchObject({ adopted: passed.length, open: 20 - passed.length });
    expect(await settle(t.topic)).toMatchObject({ settled: 20 - passed.length });
    // The offsets of a group expire; what is written down does not.
    await admin.deleteGroups([group]);
    expect(await settle(t.topic)).toMatchObject({ settled: 0 });
    expect(await settle(t.topic, { reopen: true, limit: 1 })).toMatchObject({ settled: 1 });
    expect(await settle(t.topic, { reopen: true })).toMatchObject({ settled: passed.length - 1 });
    expect(await settle(t.topic, { reopen: true })).toMatchObject({ settled: 0 });
    expect(sorted(await ids(t.input))).toEqual(t.letters.map((l) => l.id));
  });

  test('a compacted topic is refused', async () => {
    const t = await setUp(2, { 'cleanup.policy': 'compact' });
    expect(await t.dlq('count')).toMatchObject({ code: 1, stderr: expect.stringContaining('[kafka_config]') });
    await expect(settle(t.topic)).rejects.toMatchObject({ code: 'kafka_config' });
  });

  test('markers of many letters are cut to what the topic takes', async () => {
    const t = await setUp(120, { 'max.message.bytes': '700' }, 2);
    const odd = { codes: [CODES[1]!] };
    expect(await settle(t.topic, { selection: odd, action: 'dropped' })).toMatchObject({ settled: 40, left: 80 });
    const markers = (await readTopic(cluster, t.topic)).filter((r) => r.headers['sluice-desk']);
    expect(markers.length).toBeGreaterThan(2);
    expect(new Set(markers.map((m) => m.key)).size).toBe(markers.length);
    expect(await settle(t.topic)).toMatchObject({ settled: 80, left: 0 });
    expect(await ids(t.input)).toHaveLength(80);
  });
});

requireKafka('permissions of the dead-letter queue', () => {
  test('a topic that may not be written keeps its letters, and the others get theirs', async () => {
    await using cluster = await KafkaCluster.start({
      settings: () => ({
        'authorizer.class.name': 'org.apache.kafka.metadata.authorizer.StandardAuthorizer',
        'allow.everyone.if.no.acl.found': 'true',
      }),
    });
    const connection = { brokers: cluster.brokers };
    const [open, denied, deadLetterTopic] = await Promise.all(
      ['open', 'denied', 'letters'].map((name) => cluster.createTopic(name)),
    );
    const letters = Array.from({ length: 40 }, (_, id): MadeLetter => {
      const from = { topic: id % 4 === 0 ? denied! : open!, partition: 0 };
      return { id, partition: 0, from, key: null, code: CODES[0]!, pipeline: 'p', time: T0 };
    });
    await writeLetters(cluster, deadLetterTopic!, letters);
    const admin = await cluster.admin();
    const acl = (topic: string, operation: number, permissionType: number) => ({
      resourceType: AclResourceTypes.TOPIC,
      resourceName: topic,
      resourcePatternType: ResourcePatternTypes.LITERAL,
      principal: 'User:*',
      host: '*',
      operation,
      permissionType,
    });
    const forbidWriting = (topic: string) =>
      admin.createAcls({
        acl: [
          acl(topic, AclOperationTypes.ALL, AclPermissionTypes.ALLOW),
          acl(topic, AclOperationTypes.WRITE, AclPermissionTypes.DENY),
        ],
      });
    await forbidWriting(denied!);
    const settle = () => settleDeadLetters({ connection, deadLetterTopic: deadLetterTopic!, action: 'replayed' });
    const failed = [{ topic: denied, code: 'kafka_not_authorized', letters: 10 }];
    expect(await settle()).toEqual({ settled: 30, left: 0, unusable: 0, failed });
    expect(await settle()).toEqual({ settled: 0, left: 0, unusable: 0, failed });
    expect((await readTopic(cluster, open!)).map((r) => Number(r.headers.id))).toEqual(
      letters.filter((l) => l.id % 4 !== 0).map((l) => l.id),
    );
    await forbidWriting(deadLetterTopic!);
    const drop = settleDeadLetters({ connection, deadLetterTopic: deadLetterTopic!, action: 'dropped' });
    await expect(drop).rejects.toMatchObject({ code: 'kafka_not_authorized' });
  });
});
