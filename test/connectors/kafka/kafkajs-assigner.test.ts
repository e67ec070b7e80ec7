// Who reads what under kafkajs: partitions of a topic go to members that read it, whatever the leader reads.

import { expect, test } from 'vitest';
import { inOrder, shareOut } from '../../../src/connectors/kafka/kafkajs/assigner.ts';
import fc from '../../support/seeded-fast-check.ts';

const TOPICS = ['a', 'b', 'c'];

const groups = fc.record({
  members: fc
    .array(
      fc.record({
        topics: fc.uniqueArray(fc.constantFrom(...TOPICS), { minLength: 1 }),
        named: fc.boolean(),
      }),
      { minLength: 1, maxLength: 8 },
    )
    .map((all) =>
      all.map(({ topics, named }, i) => ({
        memberId: `m${i}`,
        groupInstanceId: named ? `pod-${9 - i}` : null,
        topics,
      })),
    ),
  counts: fc.tuple(fc.nat(20), fc.nat(20), fc.nat(20)),
});

test('each partition of a topic that somebody reads has one member, one that reads it, and shares are even', () => {
  fc.assert(
    fc.property(groups, ({ members, counts }) => {
      const read = TOPICS.filter((topic) => members.some((m) => m.topics.includes(topic)));
      const partitions = new Map(
        read.map((topic) => [topic, Array.from({ length: counts[TOPICS.indexOf(topic)]! }, (_, p) => p)]),
      );
      const shares = shareOut(members, partitions);
      for (const [topic, all] of partitions) {
        const given = members.map((m) => shares.get(m.memberId)?.[topic] ?? []);
        expect(given.flat().sort((x, y) => x - y)).toEqual(all);
        const readers = members.flatMap((m, i) => (m.topics.includes(topic) ? [given[i]!.length] : []));
        for (const [i, m] of members.entries()) if (!m.topics.includes(topic)) expect(given[i]).toEqual([]);
        expect(Math.max(...readers) - Math.min(...readers)).toBeLessThanOrEqual(1);
      }
    }),
  );
});

test('a group of one topic is shared out as by releases that knew only one', () => {
  fc.assert(
    fc.property(fc.integer({ min: 1, max: 8 }), fc.nat(40), (count, partitions) => {
      const members = Array.from({ length: count }, (_, i) => ({
        memberId: `m${(i * 7) % count}-${i}`,
        topics: ['a'],
      }));
      const shares = shareOut(members, new Map([['a', Array.from({ length: partitions }, (_, p) => p)]]));
      const order = inOrder(members);
      for (let p = 0; p < partitions; p++) expect(shares.get(order[p % count]!)!.a).toContain(p);
    }),
  );
});
