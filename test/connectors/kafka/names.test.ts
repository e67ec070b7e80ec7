// Names the brokers know a member by: none is that of another.

import { expect, test } from 'vitest';
import { inOrder } from '../../../src/connectors/kafka/kafkajs/assigner.ts';
import { transactionalId } from '../../../src/connectors/kafka/partition-lease.ts';
import { instanceIdOf } from '../../../src/runs/topics/topic-source.ts';
import fc from '../../support/seeded-fast-check.ts';

test('transactional ids of different groups, topics and partitions differ', () => {
  expect(transactionalId('score-eu', 'loan', 0)).not.toBe(transactionalId('score', 'eu-loan', 0));
  const name = fc.stringMatching(/^[a-c0-9-]{1,8}$/);
  const place = fc.tuple(name, name, fc.nat(30));
  fc.assert(
    fc.property(place, place, (a, b) => {
      fc.pre(JSON.stringify(a) !== JSON.stringify(b));
      expect(transactionalId(...a)).not.toBe(transactionalId(...b));
      expect(transactionalId(...a).startsWith(`${a[0]}-`)).toBe(true);
    }),
  );
});

const IN_KUBERNETES = { KUBERNETES_SERVICE_HOST: '10.0.0.1' };
test.each([
  ['desk-1', {}, 'desk-1'],
  ['desk-1', { ...IN_KUBERNETES, HOSTNAME: 'pod-0' }, 'desk-1'],
  [undefined, { HOSTNAME: 'laptop' }, null],
  [undefined, { ...IN_KUBERNETES, HOSTNAME: 'pod-0' }, 'pod-0.loans'],
  [undefined, { ...IN_KUBERNETES, HOSTNAME: 'pod-0', POD_NAME: 'pod-7' }, 'pod-7.loans'],
  [undefined, IN_KUBERNETES, null],
  [undefined, { ...IN_KUBERNETES, HOSTNAME: 'not a name' }, null],
  [undefined, { ...IN_KUBERNETES, HOSTNAME: 'p'.repeat(250) }, null],
] as const)('instance_id %s in %j is %s', (configured, env, expected) => {
  expect(instanceIdOf(configured, 'loans', true, env)).toBe(expected);
});

test('members get their partitions in the order of their names, whatever ids the coordinator gives them', () => {
  const named = (ids: string[]) => ids.map((memberId, i) => ({ memberId, groupInstanceId: `pod-${i}` }));
  fc.assert(
    fc.property(fc.uniqueArray(fc.string({ minLength: 1 }), { minLength: 2, maxLength: 6 }), fc.gen(), (ids, gen) => {
      const members = named(ids);
      const shuffled = gen(() => fc.shuffledSubarray(members, { minLength: members.length }));
      expect(inOrder(shuffled)).toEqual(ids);
    }),
  );
});
