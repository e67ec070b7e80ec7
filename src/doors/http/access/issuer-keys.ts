// Caches the public keys of an identity provider. Keys are fetched over HTTPS, and fetched again when they are old or
// when a token names an unknown key.
import {
  createLocalJWKSet,
  errors,
  type FlattenedJWSInput,
  type JSONWebKeySet,
  type JWK,
  type JWSHeaderParameters,
} from 'jose';
import { monotonicMs } from '../../../core/clock.ts';
import { SluiceError } from '../../../core/errors.ts';
import { requestJson } from '../../../core/http-json.ts';

const TIMEOUT_MS = 5_000;
const MOST_BYTES = 1024 * 1024;
const MOST_KEYS = 100;
/** Minimum delay after a failed fetch in ms. A shorter cooldown takes precedence. */
const PEACE_MS = 1_000;

interface IssuerKeysOptions {
  issuer: string;
  /** Null if the provider's metadata contains the address. */
  jwksUrl: string | null;
  /** CA certificates as PEM; null for the CA certificates of Node. */
  ca: string | null;
  refreshMs: number;
  cooldownMs: number;
  maxAgeMs: number;
  /** Called after every fetch. */
  onFetch?: (outcome: 'ok' | 'failed', error?: unknown) => void;
}

type KeySet = ReturnType<typeof createLocalJWKSet>;

/**
 * Whatever the number of tokens, only one fetch runs at a time, and a cooldown passes between the starts of two
 * fetches. States:
 * - none: tokens wait for the first fetch.
 * - fresh: no fetch is needed.
 * - old: the keys stay in use during the next fetch.
 * - too old: tokens wait, and get 503 while the provider is unreachable.
 */
export class IssuerKeys {
  readonly #options: IssuerKeysOptions;
  #set: KeySet | null = null;
  #text = '';
  #generation = 0;
  /** Monotonic time in ms at the start of the fetch that returned `#set`. */
  #readAt = Number.NEGATIVE_INFINITY;
  #failedAt = Number.NEGATIVE_INFINITY;
  #reading: Promise<void> | null = null;

  constructor(options: IssuerKeysOptions) {
    for (const [what, url] of [
      ['issuer', options.issuer],
      ['jwks_url', options.jwksUrl],
    ] as const) {
      if (url !== null && !isHttps(url)) throw new SluiceError('usage', `oidc: ${what} must start with https://`);
    }
    this.#options = options;
  }

  /** A number that increases whenever the keys change. */
  get generation(): number {
    return this.#generation;
  }

  /** Seconds since the keys were fetched; null if they were never fetched. */
  get ageSeconds(): number | null {
    return this.#set ? (monotonicMs() - this.#readAt) / 1000 : null;
  }

  /** Resolves once usable keys are available. @throws SluiceError identity_provider_unavailable */
  async ready(): Promise<void> {
    const { refreshMs, maxAgeMs } = this.#options;
    const age = monotonicMs() - this.#readAt;
    if (age < refreshMs) return;
    const reading = this.#read();
    if (age >= maxAgeMs) await reading;
    else reading.catch(() => {});
  }

  /** The key that a token names. @throws errors of jose | SluiceError identity_provider_unavailable */
  async find(header: JWSHeaderParameters, token: FlattenedJWSInput): ReturnType<KeySet> {
    try {
      return await this.#set!(header, token);
    } catch (error) {
      if (!(error instanceof errors.JWKSNoMatchingKey)) throw error;
      const fresh = monotonicMs() - this.#readAt < this.#options.cooldownMs;
      if (fresh && !this.#reading) throw error;
      // The provider may have published the key since the last fetch.
      await this.#read();
      return this.#set!(header, token);
    }
  }

  /** @throws SluiceError identity_provider_unavailable */
  #read(): Promise<void> {
    const peace = Math.min(PEACE_MS, this.#options.cooldownMs);
    if (!this.#reading && monotonicMs() - this.#failedAt < peace) return Promise.reject(unavailable());
    this.#reading ??= this.#readNow().finally(() => {
      this.#reading = null;
    });
    return this.#reading;
  }

  async #readNow(): Promise<void> {
    const began = monotonicMs();
    const { onFetch } = this.#options;
    try {
      const keys = usableKeys(await this.#get(await this.#address()));
      const text = JSON.stringify(keys);
      if (text !== this.#text) {
        this.#set = createLocalJWKSet({ keys });
        this.#text = text;
        this.#generation++;
      }
      this.#readAt = began;
      onFetch?.('ok');
    } catch (cause) {
      this.#failedAt = monotonicMs();
      onFetch?.('failed', cause);
      throw unavailable(cause);
    }
  }

  async #address(): Promise<string> {
    const { issuer, jwksUrl } = this.#options;
    if (jwksUrl !== null) return jwksUrl;
    const about = await this.#get(`${issuer.replace(/\/$/, '')}/.well-known/openid-configuration`);
    if (about.issuer !== issuer) throw new Error('the discovery document of the provider names another issuer');
    if (typeof about.jwks_uri !== 'string' || !isHttps(about.jwks_uri))
      throw new Error('jwks_uri is not an https address');
    return about.jwks_uri;
  }

  async #get(url: string): Promise<Record<string, unknown>> {
    const { ca } = this.#options;
    const { status, body } = await requestJson({
      method: 'GET',
      url,
      headers: { accept: 'application/json' },
      tls: ca === null ? {} : { ca },
      timeoutMs: TIMEOUT_MS,
      mostBytes: MOST_BYTES,
    });
    if (status !== 200 || !body) throw new Error(`the provider answered ${status}`);
    return body;
  }
}

const isHttps = (url: string): boolean => URL.canParse(url) && new URL(url).protocol === 'https:';

const unavailable = (cause?: unknown): SluiceError =>
  new SluiceError('identity_provider_unavailable', 'the keys of the identity provider cannot be read', { cause });

/**
 * Selects the public signing keys. Symmetric keys are excluded, because everyone who can read the address could sign
 * tokens with them.
 */
function usableKeys({ keys }: Record<string, unknown>): JSONWebKeySet['keys'] {
  if (!Array.isArray(keys) || keys.length > MOST_KEYS) throw new Error('the provider returned no list of keys');
  const usable = (keys as unknown[]).filter(
    (key): key is JWK =>
      typeof key === 'object' &&
      key !== null &&
      ['RSA', 'EC', 'OKP'].includes(String((key as JWK).kty)) &&
      (key as JWK).use !== 'enc' &&
      (key as JWK).d === undefined,
  );
  if (usable.length === 0) throw new Error('the provider lists no signing key');
  return usable;
}
