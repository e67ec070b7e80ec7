// Provides tokens for SASL OAUTHBEARER from a file that another process renews, or from a token endpoint.
// Tokens of an endpoint are cached, and renewed before they expire.
import { epochMs, monotonicMs, sleep } from '../../../core/clock.ts';
import { SluiceError } from '../../../core/errors.ts';
import { type JsonAnswer, requestJson } from '../../../core/http-json.ts';
import { type BearerLogin, readSecret, type TokenEndpoint, tlsOf } from './connection.ts';

const TIMEOUT_MS = 10_000;
/** Fraction of a token's lifetime after which a new token is requested. The old token is still valid then. */
const RENEWED_AFTER = 0.8;
/** Assumed lifetime of a token without an expiry, ms. */
const UNSAID_LIFETIME_MS = 60_000;
/** A token is no longer sent to a broker if it expires within this time, ms. */
const LAST_USE_MS = 1_000;
/** Pause before each attempt to get a token from the endpoint, ms. */
const ATTEMPT_PAUSES_MS = [0, 200, 800];
/** Time after a failure during which no request is sent to the endpoint, ms. */
const PEACE_MS = 1_000;
/**
 * How long a rejected client retries if a broker accepted it earlier, ms. When an issuer changes its key, brokers load
 * the new key in the background, and reject the first tokens that are signed with it.
 */
const REFUSED_PATIENCE_MS = 60_000;

interface Token {
  value: string;
  /** ms since 1970. */
  renewAt: number;
  expiresAt: number;
}

/** The credential sent to a broker. */
interface BearerCredential {
  readonly token: string;
  readonly extensions: Readonly<Record<string, string>>;
}

const known = new Map<string, BearerTokens>();

/** Returns the instance that all connections of this process with the same login share. */
export function bearerTokens(login: BearerLogin): BearerTokens {
  const key = JSON.stringify(login);
  const tokens = known.get(key) ?? new BearerTokens(login);
  known.set(key, tokens);
  return tokens;
}

/** The tokens of one login. Concurrent callers share a single request. */
export class BearerTokens {
  readonly #login: BearerLogin;
  #token: Token | null = null;
  #asking: Promise<Token> | null = null;
  #peaceUntil = 0;
  #lastFailure: SluiceError | null = null;
  #acceptedOnce = false;
  #refusedSince: number | null = null;

  constructor(login: BearerLogin) {
    this.#login = login;
  }

  /**
   * A valid token with its extensions.
   * @throws SluiceError kafka_token_unavailable | kafka_authentication (the endpoint rejects the client) | kafka_config
   */
  async credential(): Promise<BearerCredential> {
    const { token, extensions = {} } = this.#login;
    return { token: token ? checked(readSecret(token).trim()) : await this.#renewed(), extensions };
  }

  /** Records that a broker accepted the token. */
  accepted(): void {
    this.#acceptedOnce = true;
    this.#refusedSince = null;
  }

  /**
   * Creates the error for a token that a broker rejected, and discards the token, so that `credential` requests a new
   * one. `status`: the reason given by the broker.
   */
  refused(status: string): SluiceError {
    this.#token = null;
    const now = monotonicMs();
    this.#refusedSince ??= now;
    const patient = this.#acceptedOnce && now - this.#refusedSince < REFUSED_PATIENCE_MS;
    return new SluiceError(
      patient ? 'kafka_token_unavailable' : 'kafka_authentication',
      `the broker rejects the token (${status}): check issuer, audience, scope and expiry`,
    );
  }

  async #renewed(): Promise<string> {
    const now = epochMs();
    const old = this.#token;
    if (old && now < old.renewAt) return old.value;
    const usable = old !== null && now < old.expiresAt - LAST_USE_MS;
    if (now < this.#peaceUntil) {
      if (usable) return old.value;
      if (this.#lastFailure) throw this.#lastFailure;
    }
    this.#asking ??= this.#ask().finally(() => {
      this.#asking = null;
    });
    try {
      return (await this.#asking).value;
    } catch (error) {
      // If the endpoint fails, the old token is used as long as it is valid.
      if (usable) return old.value;
      throw error;
    }
  }

  async #ask(): Promise<Token> {
    try {
      const token = await requestToken(this.#login.endpoint!);
      this.#token = token;
      return token;
    } catch (error) {
      this.#peaceUntil = epochMs() + PEACE_MS;
      this.#lastFailure = error instanceof SluiceError ? error : null;
      throw error;
    }
  }
}

async function requestToken(endpoint: TokenEndpoint): Promise<Token> {
  const secret = readSecret(endpoint.clientSecret);
  let reason = '';
  for (const pause of ATTEMPT_PAUSES_MS) {
    await sleep(pause, { ref: false });
    const asked = epochMs();
    let answer: JsonAnswer;
    try {
      answer = await post(endpoint, secret);
    } catch (error) {
      if (error instanceof SluiceError) throw error;
      reason = (error as NodeJS.ErrnoException).code ?? (error as Error).message;
      continue;
    }
    const { status, body } = answer;
    if (status === 200 && typeof body?.access_token === 'string') return tokenOf(body.access_token, body, asked);
    reason = `status ${status}${wordOf(body?.error)}`;
    if (status >= 400 && status < 500 && status !== 408 && status !== 429) {
      const who = `the token endpoint ${placeOf(endpoint)} rejects the client`;
      throw new SluiceError('kafka_authentication', `${who}: ${reason}; check client_id, client_secret and scope`);
    }
  }
  throw new SluiceError(
    'kafka_token_unavailable',
    `the token endpoint ${placeOf(endpoint)} returns no token: ${reason}`,
  );
}

function post(endpoint: TokenEndpoint, secret: string): Promise<JsonAnswer> {
  const { url, clientId, authMethod, scope, audience, tls, timeoutMs = TIMEOUT_MS } = endpoint;
  const form = new URLSearchParams({ grant_type: 'client_credentials' });
  if (scope !== undefined) form.set('scope', scope);
  if (audience !== undefined) form.set('audience', audience);
  const headers: Record<string, string> = {
    accept: 'application/json',
    'content-type': 'application/x-www-form-urlencoded',
  };
  if (authMethod === 'client_secret_post') {
    form.set('client_id', clientId);
    form.set('client_secret', secret);
  } else headers.authorization = `Basic ${Buffer.from(`${encoded(clientId)}:${encoded(secret)}`).toString('base64')}`;
  return requestJson({ method: 'POST', url, headers, body: form.toString(), tls: tls ? tlsOf(tls) : {}, timeoutMs });
}

/** Form encoding of credentials (RFC 6749, 2.3.1). */
const encoded = (text: string): string => new URLSearchParams({ a: text }).toString().slice(2);

/** The URL without its query, which may contain secrets. */
function placeOf({ url }: TokenEndpoint): string {
  const { origin, pathname } = new URL(url);
  return `${origin}${pathname}`;
}

/** The error code in the endpoint's response (RFC 6749, 5.2). No other text of the response is reported. */
const wordOf = (error: unknown): string =>
  typeof error === 'string' && /^[a-z_]{1,40}$/.test(error) ? ` ${error}` : '';

function tokenOf(value: string, { expires_in }: Record<string, unknown>, asked: number): Token {
  const seconds = Number(expires_in);
  const lifetime = seconds > 0 ? seconds * 1000 : (lifetimeIn(value) ?? UNSAID_LIFETIME_MS);
  return { value: checked(value), renewAt: asked + lifetime * RENEWED_AFTER, expiresAt: asked + lifetime };
}

/** Time until the JWT's `exp` claim, ms; null: the token is not a JWT with this claim. */
function lifetimeIn(token: string): number | null {
  try {
    const claims = JSON.parse(Buffer.from(token.split('.')[1] ?? '', 'base64url').toString()) as { exp?: unknown };
    return typeof claims.exp === 'number' ? Math.max(0, claims.exp * 1000 - epochMs()) : null;
  } catch {
    return null;
  }
}

/**
 * Returns a valid token unchanged.
 * @throws SluiceError kafka_config if the token has characters that RFC 6750, 2.1 does not allow, because they could
 * end the message that contains the token
 */
function checked(token: string): string {
  if (/^[A-Za-z0-9\-._~+/]+=*$/.test(token)) return token;
  throw new SluiceError('kafka_config', 'the configured token is not a bearer token');
}

const SEPARATOR = '\u0001';

/** The first message that the client sends (RFC 7628, 3.1). */
export function bearerMessage({ token, extensions }: BearerCredential): Buffer {
  const more = Object.entries(extensions).map(([name, value]) => `${SEPARATOR}${name}=${value}`);
  return Buffer.from(`n,,${SEPARATOR}auth=Bearer ${token}${more.join('')}${SEPARATOR}${SEPARATOR}`);
}

/** The client's reply to a rejection. The broker then ends the exchange (RFC 7628, 3.2.3). */
export const BEARER_FAREWELL = Buffer.from(SEPARATOR);

/**
 * The status in a rejection by the broker (RFC 7628, 3.2.2). null: the answer is empty, which means that the broker
 * accepted the token.
 */
export function bearerRefusal(answer: Buffer | null): string | null {
  if (!answer || answer.length === 0) return null;
  try {
    const { status } = JSON.parse(answer.toString()) as { status?: unknown };
    if (typeof status === 'string' && /^[\w.-]{1,60}$/.test(status)) return status;
  } catch {
    // An answer that is not JSON is a rejection without a reason.
  }
  return 'without a reason';
}
