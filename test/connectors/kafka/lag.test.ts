// Lag by what is committed, in records and in seconds, against a real broker: also of records that nobody has ever fetched.
import { afterAll, beforeAll, expect, onTestFinished, test } from 'vitest';
import { answerTo, type MicroBatch } from '../../../src/connectors/kafka/client/records.ts';
import { LagMeter } from '../../../src/connectors/kafka/lag.ts';
import type { LagEvent } from '../../../src/connectors/kafka/observer.ts';
import { TransactionalProcessor } from '../../../src/connectors/kafka/processor.ts';
import { TopicDirectory } from '../../../src/connectors/kafka/topic-directory.ts';
import { KafkaCluster } from '../../support/kafka/cluster.ts';
import { requireKafka } from '../../support/kafka/require.ts';
import { numbered, produce } from '../../support/kafka/topics.ts';
import { until } from '../../support/until.ts';

const HOUR = 3_600_000;

requireKafka('lag', () => {
  let cluster: KafkaCluster;
  beforeAll(async () => {
    cluster = await KafkaCluster.shared();
  });
  afterAll(() => cluster?.stop());

  const aged = (count: number, partitions: number, timestamp: number) =>
    numbered(count, partitions).map((m) => ({ ...m, timestamp: String(timestamp) }));
  const sum = (events: ReadonlyMap<number, LagEvent>) => [...events.values()].reduce((n, e) => n + e.lag, 0);

  test('20,000 records that nobody reads are a lag of 20,000, as old as the first of them', async () => {
    const topic = await cluster.createTopic('unread', 2);
    const connection = { brokers: cluster.brokers };
    const directory = new TopicDirectory(connection);
    onTestFinished(() => directory.close());
    const said = new Map<number, LagEvent>();
    const meter = new LagMeter({
      connection,
      directory,
      topic,
      group: 'nobody',
      everyMs: 100,
      onLag: (event) => said.set(event.partition, event),
    });
    onTestFinished(() => meter.stop());
    meter.assign([0, 1]);
    await until(async () => said.size === 2, 'an empty topic to be known');
    expect([...said.values()].map((e) => [e.lag, e.oldest])).toEqual([
      [0, null],
      [0, null],
    ]);
    const put = Date.now() - HOUR;
    await produce(cluster, topic, [...aged(2, 2, put), ...aged(19_998, 2, put + 60_000)]);
    await until(async () => sum(said) === 20_000, 'a lag of all records');
    await until(async () => [...said.values()].every((e) => e.oldest === put), 'the age of the first records');
    // What is committed elsewhere is seen by whoever reads next; here the first record of each is.
    for (const partition of [0, 1]) meter.committed(partition, 1n);
    expect(sum(said)).toBe(19_998);
    await until(async () => [...said.values()].every((e) => e.oldest === put + 60_000), 'the age of the next records');
    for (const partition of [0, 1]) meter.committed(partition, 10_000n);
    expect([...said.values()].map((e) => [e.lag, e.oldest])).toEqual([
      [0, null],
      [0, null],
    ]);
  });

  test('records before the start of a group that begins at the latest are no lag', async () => {
    const topic = await cluster.createTopic('skipped', 1);
    await produce(cluster, topic, numbered(100, 1));
    const connection = { brokers: cluster.brokers };
    const known = new TopicDirectory(connection);
    onTestFinished(() => known.close());
    let asked = 0;
    // Whose end is asked for again has been dealt with.
    const directory = {
      committed: known.committed.bind(known),
      range: known.range.bind(known),
      ends: (name: string) => {
        asked++;
        return known.ends(name);
      },
    };
    const said: LagEvent[] = [];
    const onLag = (event: LagEvent) => said.push(event);
    const meter = new LagMeter({ connection, directory, topic, group: 'late', startAt: 'latest', everyMs: 50, onLag });
    onTestFinished(() => meter.stop());
    meter.assign([0]);
    await until(() => asked >= 3, 'two whole lookups');
    expect(said).toEqual([]);
    meter.start(0, 100n, 100n);
    await produce(cluster, topic, numbered(5, 1));
    await until(() => said.at(-1)?.lag === 5, 'a lag of what came after the start');
    expect(said.map((e) => e.lag).every((lag) => lag <= 5)).toBe(true);
  });

  test('a paused member has a lag that grows, of what it has fetched and of what it has not', async () => {
    const topic = await cluster.createTopic('paused-in', 2);
    const said = new Map<number, LagEvent>();
    const processor = await TransactionalProcessor.start({
      connection: { brokers: cluster.brokers },
      topic,
      outputTopic: await cluster.createTopic('paused-out', 2),
      deadLetterTopic: null,
      group: 'paused',
      sessionTimeoutMs: 3_000,
      process: async ({ records }: MicroBatch) => ({ outputs: records.map((r) => answerTo(r, r.value)), rejected: [] }),
      observer: { onLag: (event) => said.set(event.partition, event) },
    });
    onTestFinished(() => processor.stop(2_000).then(() => {}));
    await until(async () => said.size === 2, 'two partitions');
    processor.pause('a test');
    const put = Date.now() - HOUR;
    await produce(cluster, topic, aged(500, 2, put));
    await until(async () => sum(said) === 500, 'a lag of what came while it was paused');
    await until(async () => [...said.values()].every((e) => e.oldest === put), 'its age');
    await produce(cluster, topic, aged(500, 2, put + 60_000));
    await until(async () => sum(said) === 1000, 'a lag that grows');
    expect([...said.values()].map((e) => e.oldest)).toEqual([put, put]);
    processor.resume();
    await until(async () => sum(said) === 0, 'no lag');
    expect([...said.values()].map((e) => e.oldest)).toEqual([null, null]);
  });
});
