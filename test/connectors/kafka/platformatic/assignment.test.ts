// The cooperative assignment: even, faithful to who holds what, and never of two members at once.

import { expect, test } from 'vitest';
import { assignerOf } from '../../../../src/connectors/kafka/kafkajs/assigner.ts';
import {
  assign,
  assignInTurn,
  decodeAssignment,
  decodeSubscription,
  EAGER_PROTOCOL,
  encodeAssignment,
  encodeEagerSubscription,
  encodeSubscription,
  type Subscription,
} from '../../../../src/connectors/kafka/platformatic/assignment.ts';
import fc from '../../../support/seeded-fast-check.ts';

const TOPIC = 'applications';

/** Any members, any claims: also of two for one partition, of generations long over, and of partitions that are gone. */
const groups = fc
  .record({
    count: fc.integer({ min: 0, max: 30 }),
    members: fc.array(
      fc.record({
        owned: fc.uniqueArray(fc.integer({ min: 0, max: 35 })),
        generation: fc.integer({ min: -1, max: 3 }),
      }),
      { minLength: 1, maxLength: 7 },
    ),
  })
  .map(({ count, members }) => ({
    count,
    members: new Map<string, Subscription>(
      members.map(({ owned, generation }, i) => [
        `m${i}`,
        { topics: [TOPIC], owned: new Map([[TOPIC, owned]]), generation },
      ]),
    ),
  }));

const given = (result: ReturnType<typeof assign>, id: string): number[] => result.get(id)?.get(TOPIC) ?? [];

/** Who holds a partition before: the only one that says so in the latest generation in which anybody does. */
function ownerOf(members: ReadonlyMap<string, Subscription>, partition: number): string | null {
  const claims = [...members].filter(([, m]) => m.owned.get(TOPIC)?.includes(partition));
  const latest = Math.max(...claims.map(([, m]) => m.generation));
  const last = claims.filter(([, m]) => m.generation === latest);
  return last.length === 1 ? last[0]![0] : null;
}

test('no partition is given to two, nor to one while another holds it', () => {
  fc.assert(
    fc.property(groups, ({ count, members }) => {
      const result = assign(members, () => count);
      const all = [...members.keys()].flatMap((id) => given(result, id));
      expect(new Set(all).size).toBe(all.length);
      for (const [id] of members) {
        for (const partition of given(result, id)) expect([null, id]).toContain(ownerOf(members, partition));
      }
    }),
  );
});

test('after one more round every partition has a reader, as evenly as can be, and then nothing moves', () => {
  fc.assert(
    fc.property(groups, ({ count, members }) => {
      let now = members;
      for (let generation = 4; generation < 7; generation++) {
        const result = assign(now, () => count);
        const sizes = [...now.keys()].map((id) => given(result, id).length);
        if (generation > 4) {
          expect(sizes.reduce((a, b) => a + b, 0)).toBe(count);
          expect(Math.max(...sizes) - Math.min(...sizes)).toBeLessThanOrEqual(1);
        }
        const after = new Map(
          [...now.keys()].map((id) => [id, { topics: [TOPIC], owned: result.get(id)!, generation }]),
        );
        if (generation === 6)
          for (const [id, { owned }] of now)
            expect(given(result, id)).toEqual([...(owned.get(TOPIC) ?? [])].sort((a, b) => a - b));
        now = after;
      }
    }),
  );
});

test('a member that joins takes no more than its share from the others', () => {
  fc.assert(
    fc.property(fc.integer({ min: 1, max: 30 }), fc.integer({ min: 1, max: 6 }), (count, size) => {
      const fresh: [string, Subscription][] = Array.from({ length: size }, (_, i) => [
        `m${i}`,
        { topics: [TOPIC], owned: new Map(), generation: -1 },
      ]);
      const first = assign(new Map(fresh), () => count);
      const settled = fresh.map(([id]): [string, Subscription] => [
        id,
        { topics: [TOPIC], owned: first.get(id)!, generation: 1 },
      ]);
      const newcomer: [string, Subscription] = ['new', { topics: [TOPIC], owned: new Map(), generation: -1 }];
      const second = assign(new Map([...settled, newcomer]), () => count);
      const lost = settled.flatMap(([id]) => given(first, id).filter((p) => !given(second, id).includes(p)));
      expect(lost.length).toBeLessThanOrEqual(Math.ceil(count / (size + 1)));
      for (const [id] of settled) for (const p of given(second, id)) expect(given(first, id)).toContain(p);
    }),
  );
});

test('subscriptions and assignments come back as they were sent', () => {
  const maps = fc
    .dictionary(fc.string({ minLength: 1 }), fc.array(fc.nat(1000)))
    .map((entries) => new Map(Object.entries(entries)));
  fc.assert(
    fc.property(fc.array(fc.string()), maps, fc.integer({ min: -1, max: 1e6 }), (topics, owned, generation) => {
      const subscription = { topics, owned, generation };
      expect(decodeSubscription(encodeSubscription(subscription))).toEqual(subscription);
      expect(decodeAssignment(encodeAssignment(owned))).toEqual(owned);
    }),
  );
  expect(decodeAssignment(Buffer.alloc(0))).toEqual(new Map());
});

test('the eager assignment is the one of kafkajs, in its bytes', async () => {
  const membership = { instanceId: null, memberId: null, group: null, onJoining() {}, onCrash() {} };
  const membersOf = fc.uniqueArray(
    fc.record({
      memberId: fc.string({ minLength: 1, maxLength: 4 }),
      groupInstanceId: fc.option(fc.string({ maxLength: 4 })),
    }),
    { minLength: 1, maxLength: 6, selector: (m) => m.memberId, comparator: 'SameValue' },
  );
  const distinct = membersOf.filter((members) => {
    const names = members.flatMap((m) => (m.groupInstanceId ? [m.groupInstanceId] : []));
    return new Set(names).size === names.length;
  });
  await fc.assert(
    fc.asyncProperty(distinct, fc.integer({ min: 1, max: 20 }), async (members, count) => {
      const partitions = Array.from({ length: count }, (_, partitionId) => ({ partitionId }));
      const cluster = { findTopicPartitionMetadata: () => partitions };
      const assigner = assignerOf(membership)({ cluster } as never);
      const { metadata } = assigner.protocol({ topics: [TOPIC] });
      const reading = members.map((m) => ({ ...m, memberMetadata: metadata }));
      const theirs = await assigner.assign({ members: reading as never, topics: [TOPIC] });
      const ours = assignInTurn(
        members.map((m) => ({ ...m, topics: [TOPIC] })),
        () => count,
      );
      for (const { memberId, memberAssignment } of theirs) {
        expect(encodeAssignment(ours.get(memberId)!)).toHaveLength(memberAssignment.length);
        expect(decodeAssignment(memberAssignment)).toEqual(ours.get(memberId));
      }
      const given = [...ours.values()].filter((share) => share.size > 0);
      expect(given).toHaveLength(theirs.length);
      const { name } = assigner.protocol({ topics: [TOPIC] });
      expect(name).toBe(EAGER_PROTOCOL);
      expect(encodeEagerSubscription([TOPIC])).toEqual(metadata);
      expect(decodeSubscription(metadata)).toEqual({ topics: [TOPIC], owned: new Map(), generation: -1 });
    }),
  );
});
