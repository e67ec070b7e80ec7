// What is left of a client when its only broker is gone, and when it is back.
import { setTimeout as sleep } from 'node:timers/promises';
import { expect } from 'vitest';
import type { Rounds } from '../../../../src/connectors/kafka/client/kafka-client.ts';
import { SluiceError } from '../../../../src/core/errors.ts';
import { readTopic } from '../../../support/kafka/topics.ts';
import fc from '../../../support/seeded-fast-check.ts';
import { SEED, times } from '../../../support/tiers.ts';
import { until } from '../../../support/until.ts';
import { type Behaves, type Bench, counted, failureOf, valuesOf, type WatchedMember } from './harness.ts';

const RUNS = times('conformance runs', { quick: 1, check: 2, campaigns: 100 });

export function outages(bench: () => Bench, behaves: Behaves): void {
  behaves('a member whose broker is gone says so, and joins and reads again by itself', async () => {
    const topic = await bench().topic(2);
    await bench().write(topic, 0, counted(10));
    await using reader = await bench().watch(topic).joined(2);
    await reader.read(10);
    for (let round = 1; round <= 3; round++) {
      await bench().cluster.killNode(1);
      await until(
        () => reader.member.state === 'gone' || reader.member.state === 'connecting',
        'it says that it is gone',
      );
      expect(reader.member.identity).toBe(null);
      expect(await reader.member.isMember()).toBe(false);
      expect(reader.owned.size).toBe(0);
      await restart(bench());
      await bench().write(topic, 0, counted(10, round * 10));
      await reader.read((round + 1) * 10);
    }
    expect(valuesOf(reader.records)).toEqual(valuesOf(counted(40).map(({ value }) => ({ value }))));
    expect(reader.states).toContain('gone');
    expect(reader.failures).toEqual([]);
  });

  behaves('what was acknowledged while the broker was killed is there once', async () => {
    const topic = await bench().topic();
    const acknowledged: string[] = [];
    let over = false;
    const writing = (async () => {
      for (let i = 0; !over; ) {
        const { write, writer } = opened(bench(), i % 2 === 0);
        try {
          await writer.connect();
          for (; !over; i++) {
            await write([[{ topic, partition: 0, records: counted(3, i * 3) }]]);
            acknowledged.push(...valuesOf(counted(3, i * 3).map(({ value }) => ({ value }))));
          }
        } catch (error) {
          expect(error).toBeInstanceOf(SluiceError);
          i++;
        }
        await writer.discard();
        // Leaves the broker time between attempts while it is gone.
        await sleep(20);
      }
    })();
    for (let round = 0; round < 3; round++) {
      const so = acknowledged.length;
      await until(() => acknowledged.length > so + 30, 'it writes');
      await bench().cluster.killNode(1);
      await restart(bench());
    }
    over = true;
    await writing;
    const values = (await readTopic(bench().cluster, topic)).map((r) => r.value!);
    expect(new Set(values).size).toBe(values.length);
    expect(acknowledged.filter((value) => !values.includes(value))).toEqual([]);
    expect(values).toEqual([...values].sort((a, b) => Number(a) - Number(b)));
  });

  behaves('everything stops soon when the broker is gone, over TLS and plain text', async () => {
    // A stop that waited for a request would take an hour.
    const places = [bench().connection, bench().secured].map((place) => ({ ...place, requestTimeoutMs: 3_600_000 }));
    const readers: WatchedMember[] = [];
    for (const connection of places) {
      const topic = await bench().topic(2);
      readers.push(await bench().watch(topic, { connection }).joined(2));
      readers.push(
        await bench()
          .watch(topic, { connection, group: bench().name('g'), instanceId: 'one' })
          .joined(2),
      );
    }
    const writers = places.map((connection) => opened(bench(), true, connection).writer);
    for (const writer of writers) await writer.connect();
    const admins = places.map((connection) => bench().client.admin(connection));
    for (const admin of admins) await admin.features();
    await bench().cluster.killNode(1);
    await Promise.all([
      ...readers.map((r) => r.member.stop()),
      ...writers.map((w) => w.discard()),
      ...admins.map((a) => a.close()),
    ]);
    expect(readers.map((r) => r.member.state)).toEqual(Array(4).fill('stopped'));
    const away = bench().watch('any', { connection: { ...bench().connection, connectTimeoutMs: 500 } });
    expect((await failureOf(away.member.start())).code).toBe('kafka_unreachable');
    await away.member.stop();
    await restart(bench());
  });

  behaves('any call in any state, in any order, with a broker that comes and goes: no surprise', async () => {
    const topic = await bench().topic(3);
    await bench().write(topic, 0, counted(100));
    const calls = [
      'start',
      'startAt',
      'pause',
      'resume',
      'isMember',
      'commit',
      'stop',
      'kill',
      'restart',
      'wait',
      'identity',
    ] as const;
    const call = fc.record({ name: fc.constantFrom(...calls), partition: fc.integer({ min: 0, max: 4 }) });
    const lives = fc.array(fc.array(call, { minLength: 3, maxLength: 12 }), { minLength: 2, maxLength: 4 });
    await fc.assert(
      fc.asyncProperty(lives, async (members) => {
        let up = true;
        const pending: Promise<unknown>[] = [];
        const refused = (work: Promise<unknown>) => {
          pending.push(work.catch((error: unknown) => expect(error).toBeInstanceOf(SluiceError)));
        };
        const readers = members.map(() =>
          bench().watch(topic, { group: `g-any`, connection: { ...bench().connection, connectTimeoutMs: 2_000 } }),
        );
        const longest = Math.max(...members.map((m) => m.length));
        for (let step = 0; step < longest; step++) {
          for (const [i, life] of members.entries()) {
            const { name, partition } = life[step] ?? { name: 'wait', partition: 0 };
            const { member } = readers[i]!;
            if (name === 'kill' && up) await bench().cluster.killNode(1);
            else if (name === 'restart' && !up) await restart(bench());
            // Varies how far the calls before have come; the broker sets the pace.
            else if (name === 'wait') await sleep(partition * 40);
            else if (name === 'startAt') member.startAt(partition, BigInt(partition * 10));
            else if (name === 'pause' || name === 'resume') member[name]([partition]);
            else if (name === 'commit') refused(member.commit(new Map([[partition, 1n]])));
            else if (name === 'start' || name === 'stop') refused(member[name]());
            else if (name === 'isMember') pending.push(member.isMember());
            else expect(member.identity === null || member.identity.generation >= 0).toBe(true);
            up = name === 'kill' ? false : name === 'restart' ? true : up;
          }
        }
        if (!up) await restart(bench());
        await Promise.all(readers.map((r) => r.member.stop()));
        await Promise.all(pending);
        expect(readers.map((r) => r.member.state)).toEqual(readers.map(() => 'stopped'));
      }),
      { numRuns: RUNS, seed: SEED, endOnFailure: true },
    );
    await using reader = await bench().watch(topic, { group: 'g-any' }).joined(3);
    await reader.read(100);
  });
}

/** A transactional writer where the client has one and one is wanted, else an idempotent one. */
function opened(bench: Bench, transactional: boolean, connection = bench.connection) {
  if (transactional && bench.client.transactionalWriter) {
    const writer = bench.transactions({ connection });
    return { writer, write: (rounds: Rounds) => writer.writeTransaction(rounds, null) };
  }
  const writer = bench.client.writer(bench.writerSettings({ connection }));
  return { writer, write: (rounds: Rounds) => writer.write(rounds) };
}

async function restart({ cluster }: Bench): Promise<void> {
  await cluster.startNode(1);
  await cluster.ready();
}
