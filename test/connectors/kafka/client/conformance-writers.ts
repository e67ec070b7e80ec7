// Writing without transactions: records are there once, whole and in order. Reading leaves out what transactions of others aborted.
import { expect } from 'vitest';
import type { BatchCompression } from '../../../../src/connectors/kafka/client/codecs.ts';
import type { PlannedRecord } from '../../../../src/connectors/kafka/client/kafka-client.ts';
import type { RecordHeaders } from '../../../../src/connectors/kafka/client/records.ts';
import { readTopic } from '../../../support/kafka/topics.ts';
import { until } from '../../../support/until.ts';
import { type Behaves, type Bench, codeOf, counted, namesMissingTopic, valuesOf } from './harness.ts';

/** To be told from now, and recent: the broker removes records that are a week old within seconds. */
const TIME = Date.now() - 3_600_000;

/** Everything a record can be. */
const ODD: readonly PlannedRecord[] = [
  {
    key: null,
    value: Buffer.from('no key'),
    // Members of every object in JavaScript, and values that are absent.
    headers: { constructor: Buffer.from('c'), valueOf: [Buffer.from('v'), null], absent: null } as RecordHeaders,
    timestamp: TIME,
  },
  { key: Buffer.from('no value'), value: null, timestamp: TIME + 5 },
  { key: Buffer.alloc(0), value: Buffer.alloc(0), timestamp: TIME - 100_000 },
  {
    key: Buffer.from([0, 255, 128]),
    value: Buffer.alloc(70_000, 'abc'),
    headers: { once: Buffer.from('1'), twice: [Buffer.from('a'), Buffer.from('b')], ünïcode: Buffer.alloc(0) },
    timestamp: TIME,
  },
];

export function writers(bench: () => Bench, behaves: Behaves): void {
  for (const compression of ['none', 'gzip', 'snappy', 'lz4', 'zstd'] as const satisfies readonly BatchCompression[]) {
    behaves(`records come back as they were written, packed by ${compression}`, async () => {
      const topic = await bench().topic();
      const writer = bench().client.writer(bench().writerSettings({ compression }));
      await writer.connect();
      const batch = (records: readonly PlannedRecord[]) => [{ topic, partition: 0, records }];
      await writer.write([batch(ODD), batch(counted(500)), batch(counted(500, 500))]);
      await writer.discard();
      await using reader = await bench().watch(topic).joined(1);
      const records = await reader.read(1004);
      const odd = records.slice(0, 4).map(({ key, value, headers, timestamp }) => ({ key, value, headers, timestamp }));
      expect(odd).toEqual(ODD.map((record) => ({ headers: {}, ...record })));
      expect(valuesOf(records.slice(4))).toEqual(Array.from({ length: 1000 }, (_, i) => `${i}`));
      expect(await readTopic(bench().cluster, topic)).toHaveLength(1004);
    });
  }

  behaves("Java's consumer reads what was written", async () => {
    const topic = await bench().topic();
    for (const compression of ['zstd', 'lz4', 'snappy'] as const) {
      await bench().write(topic, 0, [{ ...ODD[3]!, value: Buffer.from(compression) }], { compression });
    }
    const seen = await bench().cluster.tool('org.apache.kafka.tools.consumer.ConsoleConsumer', [
      ...[
        '--bootstrap-server',
        bench().cluster.brokers[0]!,
        '--topic',
        topic,
        '--from-beginning',
        '--max-messages',
        '3',
      ],
      ...['--formatter-property', 'print.headers=true'],
    ]);
    const headers = 'once:1,twice:a,twice:b,ünïcode:';
    expect(seen.trim().split('\n')).toEqual(['zstd', 'lz4', 'snappy'].map((word) => `${headers}\t${word}`));
  });

  behaves('a topic that is not there and a batch that is too large are named', async () => {
    const small = await bench().topic(1, { 'max.message.bytes': '2000' });
    const large = [{ key: null, value: Buffer.alloc(10_000, 1) }];
    expect(await codeOf(bench().write(small, 0, large))).toBe('kafka_record_too_large');
    expect(await codeOf(bench().write('not-there', 0, counted(1)))).toBe('kafka_topic_missing');
    expect(await codeOf(bench().write(small, 7, counted(1)))).toBe('kafka_topic_missing');
  });

  behaves('of several topics the one that is not there is named, and only that', async () => {
    const writer = bench().client.writer(bench().writerSettings());
    await writer.connect();
    await namesMissingTopic(bench(), (rounds) => writer.write(rounds));
    await writer.discard();
  });

  behaves('aborted records are never delivered, and what readers may not see is skipped', async () => {
    const { cluster, client, connection } = bench();
    const topic = await bench().topic();
    const transactionalId = bench().name('aborts');
    const producer = cluster.client().producer({ transactionalId, maxInFlightRequests: 1, idempotent: true });
    await producer.connect();
    for (let i = 0; i < 20; i++) {
      const transaction = await producer.transaction();
      const messages = Array.from({ length: 5 }, () => ({ partition: 0, value: i % 3 === 0 ? 'kept' : 'aborted' }));
      await transaction.send({ topic, messages });
      if (i === 10) await bench().write(topic, 0, [{ key: null, value: Buffer.from('kept') }]);
      if (i % 3 === 0) await transaction.commit();
      else await transaction.abort();
    }
    await producer.disconnect();
    const admin = client.admin(connection);
    const end = 20n * 6n + 1n;
    await until(async () => (await admin.ranges(topic)).get(0)!.high === end, 'all transactions are decided');
    await admin.close();
    await using reader = await bench().watch(topic).joined(1);
    await until(() => reader.positions.get(0) === end, 'it reads to the end, behind the last control record');
    expect(valuesOf(reader.records)).toEqual(Array(7 * 5 + 1).fill('kept'));
  });
}
