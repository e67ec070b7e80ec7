// Membership and reading: who has which partition, and what comes from it.
import { expect } from 'vitest';
import { addPartitions, deleteRecords } from '../../../support/kafka/topics.ts';
import { until } from '../../../support/until.ts';
import { type Behaves, type Bench, codeOf, counted, valuesOf } from './harness.ts';

export function members(bench: () => Bench, behaves: Behaves): void {
  behaves('records come in order from each partition, from where it is started', async () => {
    const topic = await bench().topic(3);
    for (const partition of [0, 1, 2]) await bench().write(topic, partition, counted(400, partition * 1000));
    await using reader = bench().watch(topic, { from: 5n, fetchBytes: 4_000 });
    await reader.joined(3);
    const records = await reader.read(3 * 395);
    for (const partition of [0, 1, 2]) {
      const values = valuesOf(records.filter((r) => r.partition === partition));
      expect(values).toEqual(valuesOf(counted(395, partition * 1000 + 5).map(({ value }) => ({ value }))));
    }
  });

  behaves('reading starts again where it is told to: behind, ahead, and at the end', async () => {
    const topic = await bench().topic();
    await bench().write(topic, 0, counted(50));
    await using reader = await bench().watch(topic).joined(1);
    await reader.read(50);
    for (const from of [10, 49, 0]) {
      reader.records.length = 0;
      reader.positions.clear();
      reader.member.startAt(0, BigInt(from));
      expect(valuesOf(await reader.read(50 - from))).toEqual(
        valuesOf(counted(50 - from, from).map(({ value }) => ({ value }))),
      );
    }
    reader.records.length = 0;
    reader.member.startAt(0, 50n);
    await bench().write(topic, 0, counted(3, 50));
    expect(valuesOf(await reader.read(3))).toEqual(['50', '51', '52']);
  });

  behaves('an offset that is gone is told, and its partition is given anew', async () => {
    const topic = await bench().topic();
    await bench().write(topic, 0, counted(20));
    await deleteRecords(bench().cluster, topic, [{ partition: 0, offset: '15' }]);
    await using reader = bench().watch(topic, { from: null });
    await reader.joined(1);
    reader.member.startAt(0, 3n);
    await until(() => reader.restarts.some((e) => e.code === 'kafka_offset_lost'), 'the lost offset is told');
    await until(() => reader.assigned.length === 2 && reader.owned.has(0), 'the partition is given anew');
    reader.member.startAt(0, 15n);
    expect(valuesOf(await reader.read(5))).toEqual(['15', '16', '17', '18', '19']);
    expect(reader.failures).toEqual([]);
  });

  behaves('a partition that is paused holds, the others go on, and nothing is lost or doubled', async () => {
    const topic = await bench().topic(2);
    await using reader = bench().watch(topic, { fetchBytes: 2_000 });
    await reader.joined(2);
    const count = (partition: number) => reader.records.filter((r) => r.partition === partition).length;
    const values = (records: number) => valuesOf(counted(records).map(({ value }) => ({ value })));
    for (const partition of [0, 1]) await bench().write(topic, partition, counted(200));
    await reader.read(400);
    for (let round = 2; round <= 4; round++) {
      reader.member.pause([0]);
      const held = count(0);
      for (const partition of [0, 1]) await bench().write(topic, partition, counted(200, (round - 1) * 200));
      await until(() => count(1) === round * 200, 'the other partition goes on');
      expect(count(0)).toBe(held);
      reader.member.resume([0]);
      await until(() => count(0) === round * 200, 'it goes on');
    }
    for (const partition of [0, 1]) {
      expect(valuesOf(reader.records.filter((r) => r.partition === partition))).toEqual(values(800));
    }
  });

  behaves('members share the partitions, and who leaves gives them back', async () => {
    const topic = await bench().topic(4);
    await using first = await bench().watch(topic).joined(4);
    const second = await bench().watch(topic).joined(2);
    await first.owns(2);
    expect(new Set([...first.owned, ...second.owned])).toEqual(new Set([0, 1, 2, 3]));
    expect(await second.member.isMember()).toBe(true);
    await second.member.stop();
    expect(await second.member.isMember()).toBe(false);
    expect(second.member.state).toBe('stopped');
    await first.owns(4);
  });

  behaves(
    'a static member that dies and comes back gets the same partitions, and the other one does not notice',
    async () => {
      const { link } = bench();
      const topic = await bench().topic(4);
      const one = { sessionTimeoutMs: 60_000, instanceId: 'one', connection: { brokers: [link.address] } };
      let dying = await bench().watch(topic, one).joined(4);
      await using two = await bench()
        .watch(topic, { ...one, instanceId: 'two', connection: bench().connection })
        .joined(2);
      await dying.owns(2);
      const held = [...dying.owned].sort();
      const quiet = () => [two.assigned.length, two.revoked.length];
      for (let round = 0; round < 3; round++) {
        const noticed = quiet();
        link.down();
        await dying.member.stop();
        link.up();
        dying = await bench().watch(topic, one).joined(2);
        expect([...dying.owned].sort()).toEqual(held);
        expect(await two.member.isMember()).toBe(true);
        expect(quiet()).toEqual(noticed);
      }
      await dying.member.stop();
    },
  );

  behaves('a static member that is stopped leaves: its name may never come back', async () => {
    const topic = await bench().topic(4);
    const settings = { sessionTimeoutMs: 300_000 };
    const one = await bench()
      .watch(topic, { ...settings, instanceId: 'one' })
      .joined(4);
    await using two = await bench()
      .watch(topic, { ...settings, instanceId: 'two' })
      .joined(2);
    await one.owns(2);
    await one.member.stop();
    await two.owns(4);
  });

  behaves('a first join that is not answered is made again, because other brokers may answer', async () => {
    const { link } = bench();
    const cuts = link.cuts;
    link.cutNext(11);
    await using reader = bench().watch(await bench().topic(2), { connection: { brokers: [link.address] } });
    await reader.joined(2);
    expect(link.cuts).toBeGreaterThan(cuts);
    expect(reader.failures).toEqual([]);
  });

  // JoinGroup, SyncGroup, Heartbeat: numbers of the protocol.
  for (const [name, apiKey] of [
    ['join', 11],
    ['sync', 14],
    ['heartbeat', 12],
  ] as const) {
    behaves(
      `a member whose ${name} is not answered in the midst of a rebalance holds nothing that others hold`,
      async () => {
        const { link } = bench();
        const topic = await bench().topic(4);
        const connection = { brokers: [link.address] };
        await using first = await bench().watch(topic, { connection }).joined(4);
        const cuts = link.cuts;
        link.cutNext(apiKey);
        await using second = bench().watch(topic);
        await second.joined(2);
        await first.owns(2);
        expect(new Set([...first.owned, ...second.owned])).toEqual(new Set([0, 1, 2, 3]));
        expect(link.cuts).toBeGreaterThan(cuts);
        for (const partition of [0, 1, 2, 3]) await bench().write(topic, partition, counted(5, partition * 10));
        await until(() => first.records.length + second.records.length >= 20, 'every record is read');
        expect(new Set(valuesOf([...first.records, ...second.records])).size).toBe(20);
      },
    );
  }

  behaves(
    'a member that is cut off when it has given partitions up lets the other one have them nevertheless',
    async () => {
      const { link } = bench();
      const topic = await bench().topic(4);
      await using first = await bench()
        .watch(topic, { connection: { brokers: [link.address] }, sessionTimeoutMs: 60_000 })
        .joined(4);
      first.onRevoked = () => {
        first.onRevoked = null;
        link.down();
        // A short outage: too short for the session, long enough to cut what was under way.
        setTimeout(() => link.up(), 200);
      };
      await using second = bench().watch(topic, { sessionTimeoutMs: 60_000 });
      await second.joined(2);
      await first.owns(2);
      expect(first.revoked.length).toBeGreaterThan(0);
      expect(new Set([...first.owned, ...second.owned])).toEqual(new Set([0, 1, 2, 3]));
    },
  );

  behaves('of two members with one instance name the older ends, in words', async () => {
    const topic = await bench().topic();
    const older = await bench().watch(topic, { instanceId: 'name' }).joined(1);
    await using newer = await bench().watch(topic, { instanceId: 'name' }).joined(1);
    const code = await codeOf(older.member.commit(new Map([[0, 1n]])));
    expect(['kafka_rebalanced', 'kafka_instance_taken']).toContain(code);
    await until(() => older.member.state === 'failed', 'the older one ends');
    expect(older.failures.map((e) => e.code)).toEqual(['kafka_instance_taken']);
    await older.member.stop();
    expect(await newer.member.isMember()).toBe(true);
  });

  behaves('new partitions are noticed and read', async () => {
    const topic = await bench().topic(1);
    await using reader = await bench().watch(topic).joined(1);
    await addPartitions(bench().cluster, [topic], 3);
    await reader.owns(3);
    for (const partition of [0, 1, 2]) await bench().write(topic, partition, counted(2));
    await reader.read(6);
  });

  behaves('offsets are committed by who is a member, and by nobody else', async () => {
    const topic = await bench().topic();
    const admin = bench().client.admin(bench().connection);
    const reader = await bench().watch(topic).joined(1);
    await reader.member.commit(new Map([[0, 3n]]));
    expect(await admin.committed(`g-${topic}`, topic, [0])).toEqual(new Map([[0, 3n]]));
    await reader.member.stop();
    expect(await codeOf(reader.member.commit(new Map([[0, 4n]])))).toBe('kafka_rebalanced');
    expect(await admin.committed(`g-${topic}`, topic, [0])).toEqual(new Map([[0, 3n]]));
    await admin.close();
  });

  behaves('a member reads and stops over TLS as over plain text, in any state, soon', async () => {
    for (const place of [bench().connection, bench().secured]) {
      // A stop that waited for a request would take an hour.
      const connection = { ...place, requestTimeoutMs: 3_600_000 };
      const topic = await bench().topic(2);
      await bench().write(topic, 0, counted(10));
      const reader = await bench().watch(topic, { connection }).joined(2);
      await reader.read(10);
      const early = bench().watch(topic, { connection });
      const started = early.member.start().catch(() => {});
      await Promise.all([early.member.stop(), reader.member.stop()]);
      await started;
      expect([early.member.state, reader.member.state]).toEqual(['stopped', 'stopped']);
      await reader.member.stop();
    }
  });

  behaves('a topic that is not there and a broken login end the start, in words', async () => {
    const { secured } = bench();
    await using lost = bench().watch('not-there');
    expect(await codeOf(lost.member.start())).toBe('kafka_topic_missing');
    const connection = { ...secured, sasl: { ...secured.sasl!, username: 'nobody' } };
    await using stranger = bench().watch(await bench().topic(), { connection });
    expect(await codeOf(stranger.member.start())).toBe('kafka_authentication');
  });
}
