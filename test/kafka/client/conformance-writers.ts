// Batches and transactions: what is written is there once, whole and in order, or not at all.
import { expect } from 'vitest';
import { SluiceError } from '../../../src/core/errors.ts';
import type { BatchCompression } from '../../../src/kafka/client/codecs.ts';
import type { PlannedRecord } from '../../../src/kafka/client/kafka-client.ts';
import { readTopic, until } from '../../support/kafka/topics.ts';
import { type Behaves, type Bench, codeOf, counted, failureOf, valuesOf } from './harness.ts';

const TIME = 1_700_000_000_000;

/** Everything a record can be. */
const ODD: readonly PlannedRecord[] = [
  { key: null, value: Buffer.from('no key'), timestamp: TIME },
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

  behaves('records and offsets of a transaction are there together', async () => {
    const { client } = bench();
    const [topic, input, group] = [await bench().topic(2), await bench().topic(2), bench().name('group')];
    const writer = client.writer(bench().writerSettings({ transactionalId: bench().name('both') }));
    await writer.connect();
    await writer.fence();
    const next = new Map([
      [0, 7n],
      [1, 11n],
    ]);
    const rounds = [
      [
        { topic, partition: 0, records: counted(2) },
        { topic, partition: 1, records: counted(2, 10) },
      ],
      [{ topic, partition: 0, records: counted(2, 2) }],
    ];
    await writer.writeTransaction(rounds, { group, topic: input, next, member: null });
    await writer.writeTransaction([], { group, topic: input, next: new Map([[0, 8n]]), member: null });
    await writer.discard();
    const admin = client.admin(bench().connection);
    expect(await admin.committed(group, input, [0, 1])).toEqual(
      new Map([
        [0, 8n],
        [1, 11n],
      ]),
    );
    await admin.close();
    const seen = await readTopic(bench().cluster, topic);
    expect(seen.filter((r) => r.partition === 0).map((r) => r.value)).toEqual(['0', '1', '2', '3']);
    expect(seen.filter((r) => r.partition === 1).map((r) => r.value)).toEqual(['10', '11']);
  });

  behaves('an older writer is refused after a fence, and what it had open is aborted', async () => {
    const { client, cluster, connection } = bench();
    const topic = await bench().topic();
    const transactionalId = bench().name('fenced');
    const older = client.writer(bench().writerSettings({ transactionalId }));
    await older.connect();
    await older.fence();
    await older.writeTransaction([[{ topic, partition: 0, records: counted(1) }]], null);
    const newer = client.writer(bench().writerSettings({ transactionalId }));
    await newer.connect();
    await newer.fence();
    expect(await codeOf(older.writeTransaction([[{ topic, partition: 0, records: counted(1, 1) }]], null))).toBe(
      'kafka_failed',
    );
    // Refused for good, and it neither throws nor waits when it is thrown away.
    await codeOf(older.writeTransaction([[{ topic, partition: 0, records: counted(1, 2) }]], null));
    await older.discard();
    await older.discard();
    const hanging = cluster.client().producer({ transactionalId, maxInFlightRequests: 1, idempotent: true });
    await hanging.connect();
    const open = await hanging.transaction();
    await open.send({ topic, messages: [{ partition: 0, value: 'open' }] });
    await newer.discard();
    const last = client.writer(bench().writerSettings({ transactionalId }));
    await last.connect();
    await last.fence();
    await expect(open.commit()).rejects.toThrow();
    await last.writeTransaction([[{ topic, partition: 0, records: counted(1, 3) }]], null);
    await last.discard();
    await hanging.disconnect();
    expect((await readTopic(cluster, topic)).map((r) => r.value)).toEqual(['0', '3']);
    const admin = client.admin(connection);
    const { high } = (await admin.ranges(topic)).get(0)!;
    await admin.close();
    expect(high).toBeGreaterThan(4n);
  });

  // InitProducerId, AddPartitionsToTxn, Produce, AddOffsetsToTxn, TxnOffsetCommit, EndTxn.
  for (const apiKey of [22, 24, 0, 25, 28, 26]) {
    behaves(
      `a transaction whose answer ${apiKey} is lost is there whole or not at all, and the next writer goes on`,
      async () => {
        const { client, cluster, link } = bench();
        const [topic, input, group] = [await bench().topic(), await bench().topic(), bench().name('group')];
        const transactionalId = bench().name('lost');
        const connection = { brokers: [link.address] };
        const write = async (value: number): Promise<boolean> => {
          const writer = client.writer(bench().writerSettings({ transactionalId, connection }));
          const next = new Map([[0, BigInt(value)]]);
          const rounds = [[{ topic, partition: 0, records: counted(1, value) }]];
          try {
            await writer.connect();
            await writer.fence();
            await writer.writeTransaction(rounds, { group, topic: input, next, member: null });
            return true;
          } catch (error) {
            expect(error).toBeInstanceOf(SluiceError);
            return false;
          } finally {
            await writer.discard();
          }
        };
        expect(await write(1)).toBe(true);
        link.cutNext(apiKey);
        const second = await write(2);
        expect(await write(3)).toBe(true);
        const values = (await readTopic(cluster, topic)).map((r) => r.value);
        expect(
          second
            ? [['1', '2', '3']]
            : [
                ['1', '3'],
                ['1', '2', '3'],
              ],
        ).toContainEqual(values);
        const admin = client.admin(bench().connection);
        expect(await admin.committed(group, input, [0])).toEqual(new Map([[0, 3n]]));
        await admin.close();
      },
    );
  }

  behaves('offsets of a generation that is over are refused with everything beside them', async () => {
    const { client, connection, cluster } = bench();
    const [input, topic] = [await bench().topic(2), await bench().topic()];
    const group = `g-${input}`;
    await using first = await bench().watch(input).joined(2);
    const stale = first.member.identity!;
    await using second = bench().watch(input);
    await second.joined(1);
    await first.owns(1);
    const writer = client.writer(bench().writerSettings({ transactionalId: bench().name('stale') }));
    await writer.connect();
    await writer.fence();
    const next = new Map([[0, 1n]]);
    const rounds = [[{ topic, partition: 0, records: counted(1) }]];
    expect(await codeOf(writer.writeTransaction(rounds, { group, topic: input, next, member: stale }))).toBe(
      'kafka_rebalanced',
    );
    await writer.discard();
    const current = client.writer(bench().writerSettings({ transactionalId: bench().name('stale') }));
    await current.connect();
    await current.fence();
    await current.writeTransaction(rounds, { group, topic: input, next, member: second.member.identity });
    await current.discard();
    const admin = client.admin(connection);
    expect((await admin.committed(group, input, [0, 1])).get(0)).toBe(1n);
    await admin.close();
    expect((await readTopic(cluster, topic)).map((r) => r.value)).toEqual(['0']);
  });

  behaves('a topic that is not there and a batch that is too large are named', async () => {
    const small = await bench().topic(1, { 'max.message.bytes': '2000' });
    const large = [{ key: null, value: Buffer.alloc(10_000, 1) }];
    expect(await codeOf(bench().write(small, 0, large))).toBe('kafka_record_too_large');
    const transactionalId = bench().name('large');
    expect(await codeOf(bench().write(small, 0, large, { transactionalId }))).toBe('kafka_record_too_large');
    expect(await codeOf(bench().write('not-there', 0, counted(1)))).toBe('kafka_topic_missing');
    expect(await codeOf(bench().write(small, 7, counted(1)))).toBe('kafka_topic_missing');
  });

  behaves('of several topics the one that is not there is named, and only that', async () => {
    const [first, last] = [await bench().topic(3), await bench().topic(3)];
    const batches = [first, 'gone-from-here', last].flatMap((topic) =>
      [0, 1].map((partition) => ({ topic, partition, records: counted(1) })),
    );
    const writers = [bench().name('several'), null].map((transactionalId) =>
      bench().client.writer(bench().writerSettings({ transactionalId })),
    );
    for (const writer of writers) await writer.connect();
    const [transactional, idempotent] = writers;
    const failures = [
      await failureOf(transactional!.writeTransaction([batches], null)),
      await failureOf(idempotent!.write([batches])),
    ];
    for (const { code, message } of failures) {
      expect([code, message]).toEqual(['kafka_topic_missing', expect.stringMatching(/topic gone-from-here\b/)]);
      for (const topic of [first, last]) expect(message).not.toContain(topic);
    }
    for (const writer of writers) await writer.discard();
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
