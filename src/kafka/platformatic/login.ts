// TLS and SASL: how a connection says who it is.

import { type KafkaConnection, type KafkaLogin, readSecret, tlsOptions } from '../client/connection.ts';
import type { BrokerConnection, Wire } from './broker-connection.ts';
import { NoConnection, Refusal } from './broker-failures.ts';
import { type Connection, saslAuthenticateV1, saslHandshakeV1, saslPlain, saslScramSha } from './kafka-protocol.ts';

const CONNECT_TIMEOUT_MS = 10_000;
const REQUEST_TIMEOUT_MS = 30_000;
/** Share of a login's lifetime after which a new connection is made. */
const RENEWED_AFTER = 0.8;

/** @throws SluiceError kafka_config when a file or variable cannot be read */
export function wireOf(connection: KafkaConnection): Wire {
  const tls = tlsOptions(connection.tls);
  return {
    clientId: connection.clientId ?? 'sluice',
    tls: tls ? (tls === true ? {} : tls) : null,
    connectTimeoutMs: connection.connectTimeoutMs ?? CONNECT_TIMEOUT_MS,
    requestTimeoutMs: connection.requestTimeoutMs ?? REQUEST_TIMEOUT_MS,
  };
}

type SASLAuthenticationAPI = Parameters<Awaited<ReturnType<typeof saslPlain>>['authenticate']>[0];

const MECHANISMS = { plain: 'PLAIN', 'scram-sha-256': 'SCRAM-SHA-256', 'scram-sha-512': 'SCRAM-SHA-512' } as const;

/** @throws Refusal SASL_AUTHENTICATION_FAILED and such; NoConnection */
export async function logIn(broker: BrokerConnection, login: KafkaLogin): Promise<void> {
  const { mechanism, username } = login;
  const password = readSecret(login.password);
  let lifetimeMs = 0n;
  const authenticate = ((_: Connection, bytes: Buffer, done: (error: Error | null, answer?: unknown) => void) => {
    broker.call(saslAuthenticateV1.api, [bytes]).then(
      (answer) => {
        lifetimeMs = answer.sessionLifetimeMs;
        done(null, answer);
      },
      (error: Error) => done(error),
    );
  }) as unknown as SASLAuthenticationAPI;
  const unused = null as unknown as Connection;
  try {
    await broker.call(saslHandshakeV1.api, [MECHANISMS[mechanism]]);
    if (mechanism === 'plain') await (await saslPlain()).authenticate(authenticate, unused, username, password);
    else {
      const hash = mechanism === 'scram-sha-256' ? 'SHA-256' : 'SHA-512';
      await (await saslScramSha()).authenticate(authenticate, unused, hash, username, password);
    }
  } catch (error) {
    broker.destroy(null);
    const cause = innermost(error);
    if (cause instanceof Refusal || cause instanceof NoConnection) throw cause;
    throw new Refusal('SaslAuthenticate', ['SASL_AUTHENTICATION_FAILED']);
  }
  if (lifetimeMs > 0n) broker.expires = Date.now() + Number(lifetimeMs) * RENEWED_AFTER;
}

/** The library wraps what it was given. */
function innermost(error: unknown): unknown {
  let found = error;
  while (found instanceof Error && !(found instanceof Refusal || found instanceof NoConnection) && found.cause)
    found = found.cause;
  return found;
}
