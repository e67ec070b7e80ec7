// Authenticates all requests, and limits failed attempts per address.
import type { FastifyRequest } from 'fastify';
import type { Metrics } from '../../../monitor/metrics.ts';
import type { KeyRing } from './api-keys.ts';
import type { ClientCertificate } from './client-certificate.ts';
import { FailedLogins } from './failed-logins.ts';
import type { Identity } from './identity.ts';
import { KEY_CHALLENGE, type LoginFault, LoginRefused, TOKEN_CHALLENGE } from './permissions.ts';
import { looksLikeToken, type TokenIssuers, TokenRefused } from './token-issuers.ts';

interface GatekeeperOptions {
  keys: KeyRing;
  metrics: Metrics;
  /** Allowed failed attempts per address and minute. */
  failuresPerMinute: number;
  addressOf: (request: FastifyRequest) => string;
  /** Returns the client certificate of a request. */
  certificateOf?: (request: FastifyRequest) => ClientCertificate;
  /** Identity providers whose tokens are accepted. Absent if there are none. */
  issuers?: TokenIssuers;
}

const LIMIT = 'failed_logins_per_minute_per_address';
const BEARER = /^bearer\s+(\S+)$/i;

export class Gatekeeper {
  readonly #keys: KeyRing;
  readonly #metrics: Metrics;
  readonly #failures: FailedLogins;
  readonly #perMinute: number;
  /** Returns the client address of a request. */
  readonly addressOf: GatekeeperOptions['addressOf'];
  readonly #certificateOf: (request: FastifyRequest) => ClientCertificate;
  readonly #issuers: TokenIssuers | null;
  /** The WWW-Authenticate challenge for requests without credentials. */
  readonly #challenge: string;

  constructor(options: GatekeeperOptions) {
    const { keys, metrics, failuresPerMinute, addressOf, certificateOf = () => null, issuers } = options;
    this.#keys = keys;
    this.#metrics = metrics;
    this.#perMinute = failuresPerMinute;
    this.#failures = new FailedLogins(failuresPerMinute);
    this.addressOf = addressOf;
    this.#certificateOf = certificateOf;
    this.#issuers = issuers ?? null;
    this.#challenge = issuers ? `${KEY_CHALLENGE}, ${TOKEN_CHALLENGE}` : KEY_CHALLENGE;
  }

  /**
   * Authenticates a request. Errors give no reason, except for JWTs, whose claims the caller can read anyway. Failures
   * from the same address never cause a valid key to be rejected; otherwise, clients could lock out their neighbours.
   * @throws LoginRefused | SluiceError identity_provider_unavailable
   */
  identify(request: FastifyRequest): Identity | Promise<Identity> {
    const { authorization } = request.headers;
    if (authorization === undefined) return this.#ofCertificate(request);
    const found = this.#keys.look(authorization);
    if ('identity' in found) {
      if (found.previous) this.#metrics.previousTokens.inc({ key: found.identity.label });
      return found.identity;
    }
    const token = this.#issuers ? BEARER.exec(authorization?.trim() ?? '')?.[1] : undefined;
    if (token !== undefined && looksLikeToken(token)) return this.#ofToken(request, token);
    throw this.#refusal(request, found.refused, { label: found.name });
  }

  /**
   * Authenticates by client certificate. Used only without an Authorization header, because the header takes
   * precedence.
   * @throws LoginRefused
   */
  #ofCertificate(request: FastifyRequest): Identity {
    const shown = this.#certificateOf(request);
    if (!shown) throw this.#refusal(request, 'none', { label: null });
    const identity = 'refused' in shown ? null : this.#keys.certificate(shown);
    if (identity) return identity;
    throw this.#refusal(request, 'certificate', { label: null, message: 'the client certificate was rejected' });
  }

  async #ofToken(request: FastifyRequest, token: string): Promise<Identity> {
    try {
      const shown = this.#certificateOf(request);
      return await this.#issuers!.verify(token, shown && 'thumbprint' in shown ? shown.thumbprint : null);
    } catch (error) {
      if (!(error instanceof TokenRefused)) throw error;
      const { fault, issuer, message } = error;
      const label = issuer === null ? null : `oidc:${issuer}`;
      throw this.#refusal(request, fault, { label, message, token: true });
    }
  }

  /** Creates the error, and counts a failure of the address. Requests without credentials are not counted. */
  #refusal(
    request: FastifyRequest,
    reason: LoginFault,
    told: { label: string | null; message?: string; token?: boolean },
  ): LoginRefused {
    const { label, message = 'no valid API key', token = false } = told;
    if (reason !== 'none') {
      const { retryAfter, first } = this.#failures.failed(this.addressOf(request));
      if (retryAfter !== null) {
        const extra = { limit: LIMIT, value: this.#perMinute, unit: 'failures a minute', retryAfter };
        const beyond = 'too many invalid API keys from this address';
        return new LoginRefused(reason, label, beyond, { code: 'limit_exceeded', extra, limited: true, first });
      }
    }
    if (!token) return new LoginRefused(reason, label, message, { challenge: this.#challenge });
    const challenge = `${TOKEN_CHALLENGE}, error="invalid_token", error_description="${message}"`;
    return new LoginRefused(reason, label, message, { code: 'invalid_token', challenge });
  }
}
