// The plain writer and reader: every codec against Kafka's own tools, offsets in the caller's hands, order, the end.
import { afterAll, beforeAll, expect, test } from 'vitest';
import type { BatchCompression } from '../../../src/connectors/kafka/client/codecs.ts';
import type { IncomingRecord } from '../../../src/connectors/kafka/client/records.ts';
import { type ReaderOptions, TopicReader } from '../../../src/connectors/kafka/topic-reader.ts';
import { TopicWriter } from '../../../src/connectors/kafka/topic-writer.ts';
import { KafkaCluster } from '../../support/kafka/cluster.ts';
import { requireKafka } from '../../support/kafka/require.ts';
import { committed, numbered, produce, readTopic } from '../../support/kafka/topics.ts';
import { PATIENCE_MS } from '../../support/patience.ts';

requireKafka('the plain writer and reader', () => {
  let cluster: KafkaCluster;
  beforeAll(async () => {
    cluster = await KafkaCluster.start();
  });
  afterAll(() => cluster?.stop());

  const readAll = async (topic: string, options: Partial<ReaderOptions> = {}): Promise<IncomingRecord[]> => {
    await using reader = await TopicReader.start({
      connection: { brokers: cluster.brokers },
      topic,
      group: `all-${topic}`,
      untilCaughtUp: true,
      ...options,
    });
    const records: IncomingRecord[] = [];
    for await (const batch of reader) records.push(...batch.records);
    return records;
  };
  const lines = (count: number, what: string) =>
    Array.from({ length: count }, (_, i) => `{"id":${i},"what":"${what}","text":"${'lorem ipsum '.repeat(20)}"}`);

  test('every codec is read by Kafka’s own consumer', async () => {
    const topic = await cluster.createTopic('codecs-ours');
    const expected: string[] = [];
    for (const compression of ['none', 'gzip', 'snappy', 'lz4', 'zstd'] as const) {
      await using writer = await TopicWriter.open({ connection: { brokers: cluster.brokers }, topic, compression });
      // More than one block of the snappy framing and more than one of an lz4 frame.
      const values = lines(400, compression);
      await writer.write(values.map((v) => ({ key: null, value: Buffer.from(v) })));
      expected.push(...values);
    }
    const sizes = await cluster.tool('org.apache.kafka.tools.DumpLogSegments', [
      '--files',
      `${cluster.folder}/data-1/${topic}-0/00000000000000000000.log`,
    ]);
    expect([...sizes.matchAll(/compresscodec: (\w+)/g)].map((m) => m[1])).toEqual([
      'none',
      'gzip',
      'snappy',
      'lz4',
      'zstd',
    ]);
    const args = ['--bootstrap-server', cluster.brokers[0]!, '--topic', topic, '--from-beginning'];
    const count = ['--max-messages', String(expected.length), '--timeout-ms', String(PATIENCE_MS)];
    const read = await cluster.tool('org.apache.kafka.tools.consumer.ConsoleConsumer', [...args, ...count]);
    expect(read.trimEnd().split('\n')).toEqual(expected);
    expect((await readAll(topic)).map((r) => r.value!.toString())).toEqual(expected);
  });

  test.each<BatchCompression>(['gzip', 'snappy', 'lz4', 'zstd'])(
    '%s of Kafka’s own producer is read',
    async (codec) => {
      const topic = await cluster.createTopic(`codecs-java-${codec}`);
      const values = lines(1_000, codec);
      await cluster.tool(
        'org.apache.kafka.tools.ConsoleProducer',
        ['--bootstrap-server', cluster.brokers[0]!, '--topic', topic, '--compression-codec', codec],
        `${values.join('\n')}\n`,
      );
      expect((await readAll(topic)).map((r) => r.value!.toString())).toEqual(values);
    },
  );

  test('a reader goes on where the caller committed, not where it read', async () => {
    const topic = await cluster.createTopic('offsets', 2);
    await produce(cluster, topic, numbered(100, 2));
    const options = { connection: { brokers: cluster.brokers }, topic, group: 'offsets', batchRows: 10 };
    const safe = new Map<number, bigint>();
    {
      await using reader = await TopicReader.start(options);
      let seen = 0;
      for await (const batch of reader) {
        seen += batch.records.length;
        if (seen <= 40) safe.set(batch.partition, batch.next);
        if (seen >= 60) break;
      }
      expect(await reader.commit(safe)).toEqual([]);
    }
    const before = [...safe.values()].reduce((sum, next) => sum + Number(next), 0);
    expect(await committed(cluster, 'offsets', topic)).toBe(before);
    const rest = await readAll(topic, { group: 'offsets' });
    expect(rest).toHaveLength(100 - before);
    for (const partition of [0, 1]) {
      const offsets = rest.filter((r) => r.partition === partition).map((r) => r.offset);
      expect(offsets[0]).toBe(safe.get(partition) ?? 0n);
      expect(offsets).toEqual([...offsets].sort((a, b) => Number(a - b)));
    }
  });

  test('a partition that was taken away is not committed', async () => {
    const topic = await cluster.createTopic('taken', 2);
    await produce(cluster, topic, numbered(20, 2));
    const options = { connection: { brokers: cluster.brokers }, topic, group: 'taken', sessionTimeoutMs: 3_000 };
    await using first = await TopicReader.start(options);
    const positions = new Map<number, bigint>();
    for await (const batch of first) {
      positions.set(batch.partition, batch.next);
      if (positions.size === 2) break;
    }
    await using second = await TopicReader.start(options);
    // Both read again from the beginning of what is theirs now.
    for await (const batch of second) {
      expect(await first.commit(positions)).toContain(batch.partition);
      break;
    }
  });

  test('the end is found behind control records and in empty partitions', async () => {
    const topic = await cluster.createTopic('ends', 3);
    const producer = cluster.client().producer({ transactionalId: 'ends', idempotent: true, maxInFlightRequests: 1 });
    await producer.connect();
    for (const commit of [true, false]) {
      const transaction = await producer.transaction();
      await transaction.send({ topic, messages: numbered(10, 2, commit ? 0 : 10) });
      await (commit ? transaction.commit() : transaction.abort());
    }
    await producer.disconnect();
    await readTopic(cluster, topic);
    const records = await readAll(topic);
    expect(records.filter((r) => r.key !== null)).toHaveLength(10);
  });

  test('the end is behind a transaction that is open at the start', async () => {
    const topic = await cluster.createTopic('open-end');
    const settings = { transactionalId: 'open-end', idempotent: true, maxInFlightRequests: 1 };
    const producer = cluster.client().producer(settings);
    await producer.connect();
    const transaction = await producer.transaction();
    await transaction.send({ topic, messages: numbered(10, 1) });
    const known = Promise.withResolvers<void>();
    const reading = readAll(topic, { observer: { onLag: () => known.resolve() } });
    await Promise.race([known.promise, reading]);
    await transaction.commit();
    await producer.disconnect();
    expect(await reading).toHaveLength(10);
  });

  test('writes take effect in order, and records without a key share the partitions', async () => {
    const topic = await cluster.createTopic('written', 3);
    await using writer = await TopicWriter.open({ connection: { brokers: cluster.brokers }, topic });
    const record = (i: number) => ({ key: null, value: Buffer.from(String(i)) });
    await Promise.all(Array.from({ length: 9 }, (_, i) => writer.write([record(i * 2), record(i * 2 + 1)])));
    const seen = await readTopic(cluster, topic);
    for (const partition of [0, 1, 2]) {
      const values = seen.filter((s) => s.partition === partition).map((s) => Number(s.value));
      expect(values).toEqual([0, 1, 6, 7, 12, 13].map((n) => n + partition * 2));
    }
    const huge = { key: null, value: Buffer.alloc(2_000_000) };
    await expect(writer.write([huge])).rejects.toMatchObject({ code: 'kafka_record_too_large' });
  });
});
