// A member that is connecting to somebody who does not answer: every call does nothing or is refused in words, and it stops.
import { once } from 'node:events';
import { type AddressInfo, createServer, type Socket } from 'node:net';
import { expect, test } from 'vitest';
import type { MemberState } from '../../../../src/connectors/kafka/client/kafka-client.ts';
import { KafkajsMember } from '../../../../src/connectors/kafka/kafkajs/kafkajs-member.ts';

test.each([true, false])('calls made too early throw nothing, and stop ends the wait (TLS: %s)', async (tls) => {
  const sockets = new Set<Socket>();
  const silent = createServer((socket) => sockets.add(socket.on('error', () => {}))).listen(0, '127.0.0.1');
  await once(silent, 'listening');
  const states: MemberState[] = [];
  const unexpected: string[] = [];
  const member = new KafkajsMember(
    {
      connection: { brokers: [`127.0.0.1:${(silent.address() as AddressInfo).port}`], tls },
      topic: 't',
      group: 'g',
      instanceId: 'a',
      sessionTimeoutMs: 6_000,
      heartbeatIntervalMs: 600,
      rebalanceTimeoutMs: 6_000,
      fetchBytes: 1_000,
      fetchWaitMs: 100,
      fetchPaceMs: 0,
      metadataMaxAgeMs: 30_000,
    },
    {
      state: (state) => states.push(state),
      assigned: () => unexpected.push('assigned'),
      revoked: () => unexpected.push('revoked'),
      records: () => unexpected.push('records'),
      skipped: () => unexpected.push('skipped'),
      reset: () => unexpected.push('reset'),
      restarting: () => unexpected.push('restarting'),
      failed: () => unexpected.push('failed'),
    },
  );
  const use = async () => {
    member.pause([0]);
    member.resume([0]);
    member.startAt(0, 5n);
    expect(member.identity).toBe(null);
    expect(await member.isMember()).toBe(false);
    await expect(member.commit(new Map([[0, 1n]]))).rejects.toMatchObject({ code: 'kafka_rebalanced' });
  };
  await use();
  const started = member.start();
  await once(silent, 'connection');
  await use();
  await member.stop();
  await started;
  await use();
  expect(states).toEqual(['stopping', 'stopped']);
  expect(unexpected).toEqual([]);
  // Nothing is left open on its side.
  for (const socket of sockets) if (!socket.closed) await once(socket.resume(), 'close');
  silent.close();
});
