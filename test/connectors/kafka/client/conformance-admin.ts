// Facts about topics and groups, as the broker has them.
import { expect } from 'vitest';
import { deleteRecords } from '../../../support/kafka/topics.ts';
import { freePorts } from '../../../support/ports.ts';
import { until } from '../../../support/until.ts';
import { type Behaves, type Bench, codeOf, counted, failureOf } from './harness.ts';

export function admins(bench: () => Bench, behaves: Behaves): void {
  behaves('a topic has its partitions and its settings; one that is not there is named', async () => {
    const { client, connection, cluster } = bench();
    const admin = client.admin(connection);
    const topic = await bench().topic(3, { 'max.message.bytes': '12345' });
    expect(await admin.partitions(topic)).toBe(3);
    const names = ['max.message.bytes', 'retention.ms', 'no.such.setting'];
    expect(Object.fromEntries((await admin.settings(topic, names))!)).toEqual({
      'max.message.bytes': '12345',
      'retention.ms': '604800000',
    });
    expect(await codeOf(admin.partitions('not-there'))).toBe('kafka_topic_missing');
    const all = await admin.topics();
    expect(all.filter((name) => name === topic)).toEqual([topic]);
    expect(all).not.toContain('not-there');
    await (await cluster.admin()).createPartitions({ topicPartitions: [{ topic, count: 5 }] });
    await until(async () => (await admin.partitions(topic)) === 5, 'the new partitions are told');
    await admin.close();
    await admin.close();
  });

  behaves('a broker that is not there is named, and so is a broken login', async () => {
    const { client, secured } = bench();
    const [port] = await freePorts(1);
    const away = client.admin({ brokers: [`127.0.0.1:${port}`], connectTimeoutMs: 500 });
    expect(await codeOf(away.partitions('any'))).toBe('kafka_unreachable');
    await away.close();
    const cases = [
      { ...secured, sasl: { ...secured.sasl, username: 'nobody' } },
      { ...secured, tls: true },
    ];
    for (const connection of cases) {
      const admin = client.admin(connection);
      expect(await codeOf(admin.partitions('any'))).toBe('kafka_authentication');
      await admin.close();
    }
    const admin = client.admin({ ...secured, sasl: { ...secured.sasl, password: { env: 'SLUICE_TEST_UNSET' } } });
    expect(await codeOf(admin.partitions('any'))).toBe('kafka_config');
    await admin.close();
  });

  behaves('a listener that wants TLS or a login and gets none is said to, or to close the connection', async () => {
    const { client, secured } = bench();
    for (const connection of [{ brokers: secured.brokers }, { brokers: secured.brokers, tls: secured.tls! }]) {
      const admin = client.admin(connection);
      const { message } = await failureOf(admin.partitions('any'));
      expect(message).toMatch(/closed (the )?connection|expect TLS/i);
      await admin.close();
    }
  });

  behaves('a secured broker answers', async () => {
    const { client, secured } = bench();
    const topic = await bench().topic(2);
    const admin = client.admin(secured);
    expect(await admin.partitions(topic)).toBe(2);
    expect(await admin.features()).toEqual({ memberTransactions: client.transactionalWriter !== null });
    await admin.close();
  });

  behaves('a range begins behind deleted records and ends before a transaction that is open', async () => {
    const { client, connection, cluster } = bench();
    const topic = await bench().topic(2);
    const admin = client.admin(connection);
    await bench().write(topic, 0, counted(10));
    await deleteRecords(cluster, topic, [{ partition: 0, offset: '4' }]);
    const producer = cluster
      .client()
      .producer({ transactionalId: bench().name('open'), maxInFlightRequests: 1, idempotent: true });
    await producer.connect();
    const transaction = await producer.transaction();
    await transaction.send({ topic, messages: [{ partition: 0, value: 'open' }] });
    await bench().write(topic, 0, counted(3));
    expect(await admin.ranges(topic)).toEqual(
      new Map([
        // Of the two clients, only the one with transactions can see behind one that is open.
        [0, { low: 4n, high: 10n, end: client.transactionalWriter === null ? 10n : 14n }],
        [1, { low: 0n, high: 0n, end: 0n }],
      ]),
    );
    await transaction.abort();
    await until(async () => (await admin.ranges(topic)).get(0)!.high === 15n, 'the end behind the marker');
    await producer.disconnect();
    await admin.close();
  });

  behaves('a scanner that is closed while it reads ends, and connects no more', async () => {
    const { client, connection } = bench();
    const topic = await bench().topic(1);
    await bench().write(topic, 0, counted(3));
    const scanner = client.scanner(connection);
    const scan = scanner.scan({ topic, partition: 0, from: 0n, end: 100n });
    expect((await scan.next()).value).toHaveLength(3);
    const waiting = expect(scan.next()).rejects.toMatchObject({ code: 'cancelled' });
    await scanner.close();
    await waiting;
    await expect(scanner.bounds(topic)).rejects.toMatchObject({ code: 'cancelled' });
  });

  behaves('committed offsets of the partitions requested, null where the group has none', async () => {
    const { client, connection } = bench();
    const topic = await bench().topic(2);
    const group = `g-${topic}`;
    const admin = client.admin(connection);
    expect(await admin.committed(group, topic, [0, 1])).toEqual(
      new Map([
        [0, null],
        [1, null],
      ]),
    );
    await using reader = await bench().watch(topic).joined(2);
    await reader.member.commit(new Map([[1, 5n]]));
    expect(await admin.committed(group, topic, [1])).toEqual(new Map([[1, 5n]]));
    await admin.close();
  });
}
