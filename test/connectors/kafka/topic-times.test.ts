// Answers to old records: what they say of their time, and that nothing which was acknowledged is removed before readers had it.
import { afterAll, beforeAll, expect, test } from 'vitest';
import { answerTo } from '../../../src/connectors/kafka/client/records.ts';
import { type ProcessorOptions, TransactionalProcessor } from '../../../src/connectors/kafka/processor.ts';
import { isTimely, topicTimes } from '../../../src/connectors/kafka/topic-directory.ts';
import { KafkaCluster } from '../../support/kafka/cluster.ts';
import { requireKafka } from '../../support/kafka/require.ts';
import { numbered, produce, readTopic } from '../../support/kafka/topics.ts';
import { until } from '../../support/until.ts';

const HOUR = 3_600_000;
const DAY = 24 * HOUR;
const LONG_MAX = '9223372036854775807';

test.each<[string, Record<string, string> | null, [number, number, number]]>([
  ['kept for ever', { 'cleanup.policy': 'delete', 'retention.ms': '-1' }, [Infinity, Infinity, Infinity]],
  ['kept a day', { 'cleanup.policy': 'delete', 'retention.ms': String(DAY) }, [DAY, DAY / 2, Infinity]],
  ['compacted', { 'cleanup.policy': 'compact', 'retention.ms': String(DAY) }, [Infinity, Infinity, Infinity]],
  ['both', { 'cleanup.policy': 'compact,delete', 'retention.ms': String(DAY) }, [DAY, DAY / 2, Infinity]],
  [
    'by the time of the broker',
    { 'retention.ms': '1000', 'message.timestamp.type': 'LogAppendTime', 'message.timestamp.before.max.ms': '1' },
    [1000, Infinity, Infinity],
  ],
  [
    'defaults of a broker',
    {
      'retention.ms': String(7 * DAY),
      'message.timestamp.before.max.ms': LONG_MAX,
      'message.timestamp.after.max.ms': String(HOUR),
    },
    [7 * DAY, 3.5 * DAY, HOUR - 60_000],
  ],
  [
    'refuses what is older than an hour',
    { 'retention.ms': String(DAY), 'message.timestamp.before.max.ms': String(HOUR) },
    [DAY, HOUR - 60_000, Infinity],
  ],
  [
    'refuses all but now',
    { 'retention.ms': '-1', 'message.timestamp.before.max.ms': '1000', 'message.timestamp.after.max.ms': '0' },
    [Infinity, 500, 0],
  ],
  [
    'a broker before 3.6',
    { 'retention.ms': '-1', 'message.timestamp.difference.max.ms': String(HOUR) },
    [Infinity, HOUR - 60_000, HOUR - 60_000],
  ],
  ['may not be read', null, [7 * DAY, 3.5 * DAY, Infinity]],
])('a topic %s', (_, settings, expected) => {
  const times = topicTimes(settings && new Map(Object.entries(settings)));
  expect([times.retentionMs, times.maxAgeMs, times.maxAheadMs]).toEqual(expected);
  const now = Date.now();
  for (const [age, timely] of [
    [times.maxAgeMs, true],
    [times.maxAgeMs + 1, false],
    [-times.maxAheadMs, true],
    [-times.maxAheadMs - 1, false],
  ] as const) {
    if (Number.isFinite(age)) expect([age, isTimely(times, now - age, now)]).toEqual([age, timely]);
  }
});

requireKafka('answers to old records', () => {
  let cluster: KafkaCluster;
  beforeAll(async () => {
    cluster = await KafkaCluster.start({ settings: () => ({ 'log.initial.task.delay.ms': '500' }) });
  });
  afterAll(() => cluster?.stop());

  let names = 0;
  const echoed = async (messages: ReturnType<typeof numbered>, settings: Record<string, string>, more = {}) => {
    const name = `old${names++}`;
    const topic = await cluster.createTopic(`${name}-in`, 1, { 'retention.ms': '-1' });
    const outputTopic = await cluster.createTopic(`${name}-out`, 1, settings);
    const retimed = new Map<string, number>();
    const aborts: string[] = [];
    const options: ProcessorOptions = {
      connection: { brokers: cluster.brokers },
      topic,
      outputTopic,
      deadLetterTopic: null,
      group: name,
      process: async ({ records }) => ({ outputs: records.map((r) => answerTo(r, r.value)), rejected: [] }),
      observer: {
        onTransaction: (t) => {
          for (const [to, n] of t.retimed) retimed.set(to, (retimed.get(to) ?? 0) + n);
        },
        onAbort: ({ reason }) => aborts.push(reason),
      },
      ...more,
    };
    const processor = await TransactionalProcessor.start(options);
    return {
      topic,
      outputTopic,
      retimed,
      aborts,
      processor,
      async send() {
        const before = processor.counters.records;
        await produce(cluster, topic, messages);
        await until(() => processor.counters.records === before + messages.length, 'the answers');
      },
    };
  };
  const aged = (count: number, age: number, from = 0) =>
    numbered(count, 1, from).map((m) => ({ ...m, timestamp: String(Date.now() - age) }));

  test('retention that removes old records removes no answer to them', async () => {
    const settings = { 'retention.ms': '120000', 'segment.bytes': '1048576' };
    const control = await cluster.createTopic('old-control', 1, settings);
    const messages = [...aged(30, HOUR), ...aged(30, 1_000, 30)];
    const t = await echoed(messages, settings);
    await t.send();
    await produce(cluster, control, aged(10, HOUR));
    const admin = await cluster.admin();
    const low = async (topic: string) => Number((await admin.fetchTopicOffsets(topic))[0]!.low);
    await until(async () => (await low(control)) === 10, 'the removal of old records elsewhere');
    const seen = await readTopic(cluster, t.outputTopic);
    expect(seen.map((s) => s.key)).toEqual(messages.map((m) => m.key));
    expect(t.retimed).toEqual(new Map([[t.outputTopic, 30]]));
    for (const [i, { timestamp, headers }] of seen.entries()) {
      const of = Number(messages[i]!.timestamp);
      if (i < 30) expect([headers['sluice-source-timestamp'], timestamp > of + HOUR / 2]).toEqual([String(of), true]);
      else expect([headers['sluice-source-timestamp'], timestamp]).toEqual([undefined, of]);
    }
    await t.processor.stop(2_000);
  });

  test('a topic that refuses old records, or refuses them since a moment ago, gets the time of now', async () => {
    const t = await echoed(aged(20, HOUR), { 'retention.ms': '-1' }, { metadataMaxAgeMs: DAY });
    await t.send();
    expect(t.retimed.size).toBe(0);
    const configEntries = [{ name: 'message.timestamp.before.max.ms', value: '600000' }];
    await (await cluster.admin()).alterConfigs({
      validateOnly: false,
      resources: [{ type: 2, name: t.outputTopic, configEntries }],
    });
    await t.send();
    expect([...t.retimed]).toEqual([[t.outputTopic, 20]]);
    expect(t.aborts).toEqual(['INVALID_TIMESTAMP']);
    await t.processor.stop(2_000);
    const strict = await echoed(aged(20, HOUR), { 'message.timestamp.before.max.ms': '600000' });
    await strict.send();
    expect([...strict.retimed, ...strict.aborts]).toEqual([[strict.outputTopic, 20]]);
    await strict.processor.stop(2_000);
  });
});
