// Transactions: their records and offsets are there together or not at all, and only the newest writer of an id can commit.
import { expect } from 'vitest';
import { SluiceError } from '../../../../src/core/errors.ts';
import { readTopic } from '../../../support/kafka/topics.ts';
import { type Behaves, type Bench, codeOf, counted, namesMissingTopic } from './harness.ts';

export function transactions(bench: () => Bench, behaves: Behaves): void {
  behaves('records and offsets of a transaction are there together', async () => {
    const { client } = bench();
    const [topic, input, group] = [await bench().topic(2), await bench().topic(2), bench().name('group')];
    const writer = bench().transactions();
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
    const older = bench().transactions({ transactionalId });
    await older.connect();
    await older.fence();
    await older.writeTransaction([[{ topic, partition: 0, records: counted(1) }]], null);
    const newer = bench().transactions({ transactionalId });
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
    const last = bench().transactions({ transactionalId });
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
          const writer = bench().transactions({ transactionalId, connection });
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
    const writer = bench().transactions({ transactionalId: bench().name('stale') });
    await writer.connect();
    await writer.fence();
    const next = new Map([[0, 1n]]);
    const rounds = [[{ topic, partition: 0, records: counted(1) }]];
    expect(await codeOf(writer.writeTransaction(rounds, { group, topic: input, next, member: stale }))).toBe(
      'kafka_rebalanced',
    );
    await writer.discard();
    const current = bench().transactions({ transactionalId: bench().name('stale') });
    await current.connect();
    await current.fence();
    await current.writeTransaction(rounds, { group, topic: input, next, member: second.member.identity });
    await current.discard();
    const admin = client.admin(connection);
    expect((await admin.committed(group, input, [0, 1])).get(0)).toBe(1n);
    await admin.close();
    expect((await readTopic(cluster, topic)).map((r) => r.value)).toEqual(['0']);
  });

  behaves('a transaction names the topic that is missing, and a batch that is too large', async () => {
    const small = await bench().topic(1, { 'max.message.bytes': '2000' });
    const records = [{ key: null, value: Buffer.alloc(10_000, 1) }];
    const large = bench().transactions();
    await large.connect();
    expect(await codeOf(large.writeTransaction([[{ topic: small, partition: 0, records }]], null))).toBe(
      'kafka_record_too_large',
    );
    await large.discard();
    const several = bench().transactions();
    await several.connect();
    await namesMissingTopic(bench(), (rounds) => several.writeTransaction(rounds, null));
    await several.discard();
  });

  behaves('committed offsets are read once no open transaction can move them', async () => {
    const { client, connection, cluster } = bench();
    const topic = await bench().topic(2);
    const group = bench().name('group');
    const admin = client.admin(connection);
    // A producer each: a marker that is still being written does not disturb the next transaction.
    const move = async (offset: string) => {
      const transactionalId = bench().name('moves');
      const producer = cluster.client().producer({ transactionalId, maxInFlightRequests: 1, idempotent: true });
      await producer.connect();
      const transaction = await producer.transaction();
      const partitions = [{ partition: 1, offset }];
      await transaction.sendOffsets({ consumerGroupId: group, topics: [{ topic, partitions }] });
      return async () => {
        await transaction.commit();
        await producer.disconnect();
      };
    };
    await (await move('5'))();
    const decide = await move('9');
    let told: ReadonlyMap<number, bigint | null> | null = null;
    const asked = admin.committed(group, topic, [0, 1]).then((offsets) => {
      told = offsets;
    });
    // Those of other partitions are not waited for; several answers to later requests come before the one that waits.
    for (let i = 0; i < 10; i++) expect(await admin.committed(group, topic, [0])).toEqual(new Map([[0, null]]));
    expect(told).toBe(null);
    await decide();
    await asked;
    expect(told).toEqual(
      new Map([
        [0, null],
        [1, 9n],
      ]),
    );
    await admin.close();
  });
}
