// Who a request is of: what it shows is looked at in one place, and wrong guesses are counted by address.
import type { FastifyRequest } from 'fastify';
import type { Metrics } from '../../../monitor/metrics.ts';
import type { KeyRing } from './api-keys.ts';
import { FailedLogins } from './failed-logins.ts';
import type { Identity } from './identity.ts';
import { type LoginFault, LoginRefused } from './permissions.ts';

export interface GatekeeperOptions {
  keys: KeyRing;
  metrics: Metrics;
  /** Wrong keys of one address that are looked at in a minute. */
  failuresPerMinute: number;
  addressOf: (request: FastifyRequest) => string;
}

const LIMIT = 'failed_logins_per_minute_per_address';

export class Gatekeeper {
  readonly #keys: KeyRing;
  readonly #metrics: Metrics;
  readonly #failures: FailedLogins;
  readonly #perMinute: number;
  readonly #addressOf: GatekeeperOptions['addressOf'];

  constructor({ keys, metrics, failuresPerMinute, addressOf }: GatekeeperOptions) {
    this.#keys = keys;
    this.#metrics = metrics;
    this.#perMinute = failuresPerMinute;
    this.#failures = new FailedLogins(failuresPerMinute);
    this.#addressOf = addressOf;
  }

  /**
   * Who a request is of. Whoever is nobody learns nothing of why. A valid key is never refused for what others behind the same address
   * did: a limit of guesses that locks out its neighbours would be a weapon.
   * @throws LoginRefused
   */
  identify(request: FastifyRequest): Identity {
    const found = this.#keys.look(request.headers.authorization);
    if ('identity' in found) {
      if (found.previous) this.#metrics.previousTokens.inc({ key: found.identity.label });
      return found.identity;
    }
    throw this.#refusal(request, found.refused, found.name);
  }

  /** Counts a wrong key against its address; one that shows nothing guesses nothing. */
  #refusal(request: FastifyRequest, reason: LoginFault, label: string | null): LoginRefused {
    if (reason !== 'none') {
      const { retryAfter } = this.#failures.failed(this.#addressOf(request));
      if (retryAfter !== null) {
        const extra = { limit: LIMIT, value: this.#perMinute, unit: 'failures a minute', retryAfter };
        const message = 'this address has shown too many wrong keys';
        return new LoginRefused(reason, label, message, { code: 'limit_exceeded', extra, limited: true });
      }
    }
    return new LoginRefused(reason, label, 'no valid API key');
  }
}
