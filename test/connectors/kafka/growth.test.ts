// Topics that grow while they are read: a key keeps its order in all partitions of the output, or the run waits, and stops, in words.
import { afterAll, afterEach, beforeAll, expect, test } from 'vitest';
import { answerTo } from '../../../src/connectors/kafka/client/records.ts';
import { type Partitioning, partitionOfKey } from '../../../src/connectors/kafka/output-partitions.ts';
import { type ProcessorOptions, TransactionalProcessor } from '../../../src/connectors/kafka/processor.ts';
import { KafkaCluster } from '../../support/kafka/cluster.ts';
import { requireKafka } from '../../support/kafka/require.ts';
import { addPartitions, produce, readTopic, type SeenRecord } from '../../support/kafka/topics.ts';
import { until } from '../../support/until.ts';

const KEYS = 40;
const ROUNDS = 5;
const FEW = 2;
const MANY = 5;

type Growth = readonly ('in' | 'out')[];

requireKafka('topics that grow', () => {
  let cluster: KafkaCluster;
  let running: TransactionalProcessor[] = [];
  beforeAll(async () => {
    cluster = await KafkaCluster.shared();
  });
  afterAll(() => cluster?.stop());
  afterEach(async () => {
    await Promise.all(running.map((p) => p.stop(2_000)));
    running = [];
  });

  let names = 0;
  const setUp = async (input: number, output: number) => {
    const name = `grow${names++}`;
    const topic = await cluster.createTopic(`${name}-in`, input);
    const outputTopic = await cluster.createTopic(`${name}-out`, output);
    const notices: string[] = [];
    const start = async (more: Partial<ProcessorOptions>) => {
      const processor = await TransactionalProcessor.start({
        connection: { brokers: cluster.brokers },
        topic,
        outputTopic,
        deadLetterTopic: null,
        group: name,
        sessionTimeoutMs: 3_000,
        metadataMaxAgeMs: 500,
        process: async ({ records }) => ({ outputs: records.map((r) => answerTo(r, r.value)), rejected: [] }),
        observer: { onNotice: ({ message }) => notices.push(message) },
        ...more,
      });
      running.push(processor);
      return processor;
    };
    let sequence = 0;
    /** As producers do: by the key and the partitions there are. */
    const feed = async (partitions: number) => {
      const messages = Array.from({ length: KEYS * ROUNDS }, () => {
        const key = `k${sequence % KEYS}`;
        const partition = partitionOfKey(Buffer.from(key), partitions);
        return { key, value: String(sequence++), partition, headers: { partition: String(partition) } };
      });
      await produce(cluster, topic, messages);
    };
    return { topic, outputTopic, notices, start, feed };
  };

  /** The partitions each key was in, in the order of its records; fails where their order is not kept. */
  const waysOf = (seen: readonly SeenRecord[]): Map<string, number[]> => {
    const last = new Map<number, Map<string, number>>();
    for (const { partition, key, value } of seen) {
      const keys = last.get(partition) ?? new Map<string, number>();
      last.set(partition, keys);
      expect(Number(value)).toBeGreaterThan(keys.get(key!) ?? -1);
      keys.set(key!, Number(value));
    }
    const ways = new Map<string, number[]>();
    for (const { partition, key } of seen.toSorted((a, b) => Number(a.value) - Number(b.value))) {
      const way = ways.get(key!) ?? [];
      ways.set(key!, way);
      if (way.at(-1) !== partition) way.push(partition);
    }
    return ways;
  };
  const partitionsOf = (key: string, counts: readonly number[]) =>
    counts
      .map((count) => partitionOfKey(Buffer.from(key), count))
      .filter((partition, i, all) => i === 0 || all[i - 1] !== partition);

  test.each<[Partitioning | null, Growth]>([
    [null, ['in', 'out']],
    [null, ['out', 'in']],
    ['source', ['in', 'out']],
    ['source', ['out', 'in']],
    ['source', ['out']],
    ['key', ['in']],
    ['key', ['out']],
    ['key', ['in', 'out']],
    ['key', ['out', 'in']],
  ])('partitioning %s, %s: every record once, the order of each key kept', async (partitioning, growth) => {
    const t = await setUp(FEW, FEW);
    const processor = await t.start({ partitioning });
    let fed = FEW;
    let sent = 0;
    const feed = async () => {
      await t.feed(fed);
      sent += KEYS * ROUNDS;
    };
    const answered = () => until(() => processor.counters.records === sent, `${sent} answers`);
    await feed();
    await answered();
    const outputs = [FEW];
    for (const end of growth) {
      await addPartitions(cluster, [end === 'in' ? t.topic : t.outputTopic], MANY);
      if (end === 'in') fed = MANY;
      else outputs.push(MANY);
      // What comes in between goes where the output was known to end.
      if (partitioning === 'key' && end === 'out') {
        await until(
          () => t.notices.some((n) => /-out has grown from 2 to 5 partitions.*some keys/.test(n)),
          'the words',
        );
      }
      await feed();
      // By source, what is in new partitions of the input waits for those of the output.
      const waits = partitioning !== 'key' && fed > outputs.at(-1)!;
      if (waits)
        await until(() => t.notices.some((n) => / is waiting: .*-out needs the same number/.test(n)), 'the words');
      else await answered();
    }
    await feed();
    await answered();
    expect(t.notices.join()).not.toMatch(/-in has grown/);
    const seen = await readTopic(cluster, t.outputTopic);
    expect(seen).toHaveLength(sent);
    expect(new Set(seen.map((s) => s.value)).size).toBe(sent);
    const ways = waysOf(seen);
    expect(ways.size).toBe(KEYS);
    if (partitioning === 'key') for (const [key, way] of ways) expect(way).toEqual(partitionsOf(key, outputs));
    else for (const s of seen) expect(String(s.partition)).toBe(s.headers.partition);
    if (partitioning === null && growth[0] === 'out') expect(t.notices.join()).toMatch(/Set partition: source/);
  });

  test.each(['source', null] as const)(
    'partitioning %s: the input alone grows; the run stops in words, what it can answer is answered where it was',
    async (partitioning) => {
      const t = await setUp(FEW, FEW);
      const processor = await t.start({ partitioning, partitionPatienceMs: 2_500 });
      await t.feed(FEW);
      await until(() => processor.counters.records === KEYS * ROUNDS, 'the first answers');
      await addPartitions(cluster, [t.topic], MANY);
      await t.feed(MANY);
      await expect(processor.done).rejects.toMatchObject({
        code: 'kafka_partitions_differ',
        message: expect.stringMatching(/-out has 2 partitions but .*-in has \d: .* needs the same number/),
      });
      expect(t.notices.join()).toMatch(/the run ends unless this changes within/);
      const seen = await readTopic(cluster, t.outputTopic);
      for (const s of seen) expect(String(s.partition)).toBe(s.headers.partition);
      waysOf(seen);
      // A start in that state is refused, whatever the pipeline says but `key`, and before anything is read.
      await expect(t.start({ partitioning })).rejects.toMatchObject({ code: 'kafka_partitions_differ' });
      const byKey = await t.start({ partitioning: 'key' });
      await until(() => byKey.counters.records > 0, 'answers by key');
    },
  );

  test('a stop while a partition waits ends at once, and nothing of it is lost', async () => {
    const t = await setUp(FEW, FEW);
    const processor = await t.start({ partitioning: 'source' });
    await addPartitions(cluster, [t.topic], MANY);
    await t.feed(MANY);
    await until(() => t.notices.some((n) => n.includes(' is waiting: ')), 'the words');
    expect(await processor.stop(60_000)).toMatchObject({ drained: true });
    await processor.done;
    await addPartitions(cluster, [t.outputTopic], MANY);
    const next = await t.start({ partitioning: 'source' });
    await until(() => processor.counters.records + next.counters.records === KEYS * ROUNDS, 'all answers');
    expect(await readTopic(cluster, t.outputTopic)).toHaveLength(KEYS * ROUNDS);
  });

  /** Waits until reading starts at the end of `FEW` partitions with records. Before, the lag is not known. */
  const started = (processor: TransactionalProcessor) =>
    until(() => {
      const lags = [...processor.lag().values()];
      return lags.length === FEW && lags.every((lag) => lag === 0);
    }, 'the places to start at');

  test('start_at latest skips what was there, and nothing that comes into partitions nobody has noticed yet', async () => {
    const t = await setUp(FEW, MANY);
    await t.feed(FEW);
    const processor = await t.start({ partitioning: 'source', startAt: 'latest', metadataMaxAgeMs: 4_000 });
    await started(processor);
    await addPartitions(cluster, [t.topic], MANY);
    await t.feed(MANY);
    await until(() => processor.counters.records >= KEYS * ROUNDS, 'all answers');
    const seen = await readTopic(cluster, t.outputTopic);
    expect(seen).toHaveLength(KEYS * ROUNDS);
    expect(Math.min(...seen.map((s) => Number(s.value)))).toBe(KEYS * ROUNDS);
  });

  test('start_at latest means one moment: whoever begins again before a first answer goes on from there', async () => {
    const t = await setUp(FEW, FEW);
    await t.feed(FEW);
    const first = await t.start({ startAt: 'latest' });
    await started(first);
    await first.stop(2_000);
    await t.feed(FEW);
    const second = await t.start({ startAt: 'latest' });
    await until(() => second.counters.records >= KEYS * ROUNDS, 'what came in between');
    const seen = await readTopic(cluster, t.outputTopic);
    expect(seen).toHaveLength(KEYS * ROUNDS);
    expect(Math.min(...seen.map((s) => Number(s.value)))).toBe(KEYS * ROUNDS);
  });

  test('nothing said and numbers that differ, or source and an output with fewer: refused at the start', async () => {
    const wider = await setUp(FEW, MANY);
    await expect(wider.start({})).rejects.toMatchObject({
      code: 'kafka_partitions_differ',
      message: expect.stringMatching(/set partition: source in the sink .* or partition: key/),
    });
    const bySource = await wider.start({ partitioning: 'source' });
    await wider.feed(FEW);
    await until(() => bySource.counters.records === KEYS * ROUNDS, 'all answers');
    expect(new Set((await readTopic(cluster, wider.outputTopic)).map((s) => s.partition))).toEqual(new Set([0, 1]));
    const narrower = await setUp(MANY, FEW);
    await expect(narrower.start({ partitioning: 'source' })).rejects.toMatchObject({ code: 'kafka_partitions_differ' });
    const route = await cluster.createTopic('grow-route', MANY);
    const routed = await setUp(FEW, FEW);
    await expect(routed.start({ routedTopics: [route] })).rejects.toMatchObject({ code: 'kafka_partitions_differ' });
    await routed.start({ routedTopics: [route], partitioning: 'source' });
  });
});
