// Members of both clients in one group, as they are while a deployment rolls from one to the other.
import { afterAll, beforeAll, expect, test } from 'vitest';
import type { KafkaClient } from '../../../../src/connectors/kafka/client/kafka-client.ts';
import { kafkajsClient } from '../../../../src/connectors/kafka/kafkajs/kafkajs-client.ts';
import { platformaticClient } from '../../../../src/connectors/kafka/platformatic/platformatic-client.ts';
import { requireKafka } from '../../../support/kafka/require.ts';
import { until } from '../../../support/until.ts';
import { Bench, counted, valuesOf, WatchedMember } from './harness.ts';

requireKafka('members of both clients in one group', () => {
  let bench: Bench;
  beforeAll(async () => {
    bench = await Bench.open(kafkajsClient);
  });
  afterAll(() => bench?.close());

  const watch = (client: KafkaClient, topic: string, instanceId: string | null = null) =>
    new WatchedMember(client, 0n, { ...bench.memberOptions(topic), instanceId });
  const shared = (...members: WatchedMember[]) => members.flatMap((m) => [...m.owned]).sort();

  for (const named of [false, true]) {
    test(`they share the partitions, whoever leads, and roll over in either direction; static: ${named}`, async () => {
      const topic = await bench.topic(4);
      for (const p of [0, 1, 2, 3]) await bench.write(topic, p, counted(5, p * 10));
      const members: WatchedMember[] = [];
      let size = 0;
      // The first of each pair leads; then its client goes, and comes back to a group that knows better.
      const roll = [
        kafkajsClient,
        platformaticClient,
        platformaticClient,
        kafkajsClient,
        kafkajsClient,
        platformaticClient,
      ];
      for (const [i, client] of roll.entries()) {
        const next = watch(client, topic, named ? `pod-${i}` : null);
        await next.member.start();
        members.push(next);
        size = Math.min(2, size + 1);
        if (members.length > 2) await members.shift()!.member.stop();
        const fair = () => shared(...members).join() === '0,1,2,3' && members.every((m) => m.owned.size === 4 / size);
        await until(fair, `${size} members share the partitions`);
        expect(members).toHaveLength(size);
      }
      for (const m of members) await m.member.stop();
    });
  }

  test('cooperative again as soon as the last member of the other client is gone', async () => {
    const topic = await bench.topic(4);
    await using first = await watch(platformaticClient, topic).joined(4);
    const other = await watch(kafkajsClient, topic).joined(2);
    await first.owns(2);
    await other.member.stop();
    await first.owns(4);
    await using second = await watch(platformaticClient, topic).joined(2);
    await first.owns(2);
    // Those that stay are not read anew.
    expect(first.assigned.at(-1)!.kept).toHaveLength(2);
    for (const p of [0, 1, 2, 3]) await bench.write(topic, p, counted(5, p * 10));
    await Promise.all([first.read(10), second.read(10)]);
    const values = valuesOf([...first.records, ...second.records]);
    expect(new Set(values).size).toBe(20);
  });
});
