// One connection: answers cut anywhere are whole, late ones end it, and who is no broker is named.
import { once } from 'node:events';
import { type AddressInfo, createServer, type Socket } from 'node:net';
import { expect, test } from 'vitest';
import { BrokerConnection } from '../../../../src/connectors/kafka/platformatic/broker-connection.ts';
import { failure, NoConnection, Refusal } from '../../../../src/connectors/kafka/platformatic/broker-failures.ts';
import { heartbeatV4 } from '../../../../src/connectors/kafka/platformatic/kafka-protocol.ts';

const WIRE = { clientId: 'test', tls: null, connectTimeoutMs: 60_000, requestTimeoutMs: 60_000 };

async function connected(onRequest: (socket: Socket, correlation: number) => void) {
  const server = createServer((socket) => {
    let received = Buffer.alloc(0);
    socket.on('error', () => {});
    socket.on('data', (chunk) => {
      received = Buffer.concat([received, chunk]);
      while (received.length >= 4 && received.length >= 4 + received.readInt32BE(0)) {
        const request = received.subarray(4, 4 + received.readInt32BE(0));
        received = received.subarray(4 + request.length);
        onRequest(socket, request.readInt32BE(4));
      }
    });
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  const broker = await BrokerConnection.open({ host: '127.0.0.1', port }, WIRE, new AbortController().signal);
  return {
    broker,
    end: () => {
      broker.destroy(null);
      server.close();
    },
  };
}

/** An answer to a heartbeat: head without tags, no throttle, an error, no tags. */
function heartbeat(correlation: number, error = 0): Buffer {
  const answer = Buffer.alloc(4 + 4 + 1 + 4 + 2 + 1);
  answer.writeInt32BE(answer.length - 4, 0);
  answer.writeInt32BE(correlation, 4);
  answer.writeInt16BE(error, 13);
  return answer;
}

const beat = (broker: BrokerConnection, timeoutMs?: number) =>
  broker.call(heartbeatV4.api, ['g', 1, 'm', null], timeoutMs === undefined ? {} : { timeoutMs });

test('answers that come in pieces, or many at once, go to who asked', async () => {
  for (let cut = 1; cut < 40; cut += 3) {
    const waiting: Buffer[] = [];
    const { broker, end } = await connected((socket, correlation) => {
      waiting.push(heartbeat(correlation, waiting.length === 1 ? 25 : 0));
      if (waiting.length < 3) return;
      const all = Buffer.concat(waiting);
      socket.setNoDelay(true).write(all.subarray(0, cut));
      setImmediate(() => socket.write(all.subarray(cut)));
    });
    const [first, second, third] = await Promise.allSettled([beat(broker), beat(broker), beat(broker)]);
    expect([first?.status, second?.status, third?.status]).toEqual(['fulfilled', 'rejected', 'fulfilled']);
    expect((second as PromiseRejectedResult).reason).toMatchObject({ type: 'UNKNOWN_MEMBER_ID' });
    end();
  }
});

test('an answer later than its time limit ends the connection for everybody on it', async () => {
  const { broker, end } = await connected(() => {});
  const patient = beat(broker);
  await expect(beat(broker, 20)).rejects.toThrow(/did not answer within 20 ms/);
  await expect(patient).rejects.toThrow(NoConnection);
  expect(broker.alive).toBe(false);
  await expect(beat(broker)).rejects.toThrow(NoConnection);
  end();
});

test.each([
  ['a broker that wants TLS', Buffer.from([0x15, 3, 3, 0, 2, 2, 80]), 'kafka_authentication'],
  ['a web server', Buffer.from([0x80, 0, 0, 0, 0]), 'kafka_unreachable'],
  ['an unexpected response', heartbeat(4711), 'kafka_unreachable'],
])('%s is named', async (_, answer, code) => {
  const { broker, end } = await connected((socket) => socket.write(answer));
  const error: unknown = await beat(broker).catch((e: unknown) => e);
  expect(failure(error, 'asking failed').code).toBe(code);
  end();
});

test('what is refused says what to grant', () => {
  const denied = failure(new Refusal('JoinGroup', ['GROUP_AUTHORIZATION_FAILED']), 'reading in the group g failed');
  expect(denied.code).toBe('kafka_not_authorized');
  expect(denied.message).toBe(
    'reading in the group g failed: this user may not read as the group (JoinGroup: GROUP_AUTHORIZATION_FAILED)',
  );
});
