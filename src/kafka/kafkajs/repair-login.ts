// Logging in again on a connection that goes on (KIP-368), repaired: kafkajs does so ten seconds before the end of a session, for every
// request where the session is no longer than that, and lets requests in between the two messages of a login, which ends the connection.
import { createRequire } from 'node:module';

interface Connection {
  authenticatedAt: [number, number] | null;
  sessionLifetime: { toString(): string };
  requestQueue: RequestQueue;
  sasl: { prepare?: () => Promise<void> };
  isConnected(): boolean;
}

interface Pushed {
  entry: { apiKey: number; reject(error: Error): void };
}

interface RequestQueue {
  /** Requests that wait until a login is over; null: there is none. */
  held?: Pushed[] | null;
  push(pushed: Pushed): void;
}

/** SaslHandshake and SaslAuthenticate. */
const OF_LOGINS = [17, 36];
/** Share of a session after which it is renewed. */
const RENEWED_AFTER = 0.8;

/** `ConnectionError`: of kafkajs, which tries again what fails with it. */
export function repairLogin(ConnectionError: new (message: string) => Error): void {
  const require = createRequire(import.meta.url);
  const connection = require('kafkajs/src/network/connection').prototype;
  connection.isAuthenticated = function (this: Connection): boolean {
    if (this.authenticatedAt === null) return false;
    const lifetimeMs = Number(this.sessionLifetime.toString());
    if (lifetimeMs === 0) return true;
    const [seconds, nanoseconds] = process.hrtime(this.authenticatedAt);
    return seconds * 1000 + nanoseconds / 1e6 < lifetimeMs * RENEWED_AFTER;
  };

  const queue = require('kafkajs/src/network/requestQueue').prototype;
  const { push } = queue;
  queue.push = function (this: RequestQueue, pushed: Pushed): void {
    if (this.held && !OF_LOGINS.includes(pushed.entry.apiKey)) this.held.push(pushed);
    else push.call(this, pushed);
  };

  const authenticator = require('kafkajs/src/broker/saslAuthenticator').prototype;
  const { authenticate } = authenticator;
  authenticator.authenticate = async function (this: { connection: Connection }): Promise<void> {
    const { connection } = this;
    await connection.sasl.prepare?.();
    const { requestQueue } = connection;
    requestQueue.held = [];
    try {
      await authenticate.call(this);
    } finally {
      const { held } = requestQueue;
      requestQueue.held = null;
      for (const pushed of held) {
        if (connection.isConnected()) requestQueue.push(pushed);
        else pushed.entry.reject(new ConnectionError('the connection was closed'));
      }
    }
  };
}
