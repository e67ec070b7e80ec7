// Authenticates a connection with TLS and SASL.

import { SluiceError } from '../../../core/errors.ts';
import { BEARER_FAREWELL, bearerMessage, bearerRefusal, bearerTokens } from '../client/bearer-tokens.ts';
import {
  type BearerLogin,
  type KafkaConnection,
  type KafkaLogin,
  type PasswordLogin,
  readSecret,
  tlsOptions,
} from '../client/connection.ts';
import type { BrokerConnection, Wire } from './broker-connection.ts';
import { NoConnection, Refusal, refusedAs } from './broker-failures.ts';
import { type Connection, saslAuthenticateV1, saslHandshakeV1, saslPlain, saslScramSha } from './kafka-protocol.ts';

const CONNECT_TIMEOUT_MS = 10_000;
const REQUEST_TIMEOUT_MS = 30_000;
/** Fraction of a login's lifetime after which a new connection is opened. */
const RENEWED_AFTER = 0.8;
/**
 * Fraction of a login's lifetime during which it is used if no new connection can be opened. It is less than 1, because
 * the broker started to count the lifetime earlier.
 */
const USED_FOR = 0.95;

/** The connection settings of the client. @throws SluiceError kafka_config if a file or variable cannot be read */
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
/** Sends bytes of the login mechanism and returns the broker's response. */
type Exchange = (bytes: Buffer) => Promise<SaslAnswer>;
type SaslAnswer = Awaited<ReturnType<typeof saslAuthenticateV1.api.async>>;

const MECHANISMS = {
  plain: 'PLAIN',
  'scram-sha-256': 'SCRAM-SHA-256',
  'scram-sha-512': 'SCRAM-SHA-512',
  oauthbearer: 'OAUTHBEARER',
} as const;

/**
 * Logs in on a connection.
 * @throws Refusal SASL_AUTHENTICATION_FAILED and similar errors; NoConnection; SluiceError if the client has no token
 * or the broker rejected it
 */
export async function logIn(broker: BrokerConnection, login: KafkaLogin): Promise<void> {
  let lifetimeMs = 0;
  const exchange: Exchange = async (bytes) => {
    const answer = await broker.call(saslAuthenticateV1.api, [bytes]);
    lifetimeMs = Number(answer.sessionLifetimeMs);
    return answer;
  };
  const shake = () => broker.call(saslHandshakeV1.api, [MECHANISMS[login.mechanism]]);
  try {
    if (login.mechanism === 'oauthbearer') await withToken(login, shake, exchange);
    else await withPassword(login, shake, exchange);
  } catch (error) {
    broker.destroy(null);
    const cause = innermost(error);
    if (isTold(cause)) throw cause;
    throw new Refusal('SaslAuthenticate', ['SASL_AUTHENTICATION_FAILED']);
  }
  if (lifetimeMs > 0) broker.lastsFor(lifetimeMs * USED_FOR, lifetimeMs * RENEWED_AFTER);
}

async function withPassword(login: PasswordLogin, shake: () => Promise<unknown>, exchange: Exchange): Promise<void> {
  const { mechanism, username } = login;
  const password = readSecret(login.password);
  const authenticate = ((_: Connection, bytes: Buffer, done: (error: Error | null, answer?: unknown) => void) => {
    exchange(bytes).then(
      (answer) => done(null, answer),
      (error: Error) => done(error),
    );
  }) as unknown as SASLAuthenticationAPI;
  const unused = null as unknown as Connection;
  await shake();
  if (mechanism === 'plain') await (await saslPlain()).authenticate(authenticate, unused, username, password);
  else {
    const hash = mechanism === 'scram-sha-256' ? 'SHA-256' : 'SHA-512';
    await (await saslScramSha()).authenticate(authenticate, unused, hash, username, password);
  }
}

async function withToken(login: BearerLogin, shake: () => Promise<unknown>, exchange: Exchange): Promise<void> {
  const tokens = bearerTokens(login);
  const credential = await tokens.credential();
  await shake();
  const answer = await exchange(bearerMessage(credential)).catch((error: unknown) => {
    throw refusedAs(error, 'SASL_AUTHENTICATION_FAILED') ? tokens.refused('SASL_AUTHENTICATION_FAILED') : error;
  });
  const refusal = bearerRefusal(answer.authBytes);
  if (refusal !== null) {
    await exchange(BEARER_FAREWELL).catch(() => {});
    throw tokens.refused(refusal);
  }
  tokens.accepted();
}

const isTold = (error: unknown): boolean =>
  error instanceof Refusal || error instanceof NoConnection || error instanceof SluiceError;

/** Unwraps an error that the library wrapped. */
function innermost(error: unknown): unknown {
  let found = error;
  while (found instanceof Error && !isTold(found) && found.cause) found = found.cause;
  return found;
}
