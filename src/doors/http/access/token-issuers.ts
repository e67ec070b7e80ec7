// Verifies tokens of identity providers (JWT, RFC 7519): signature, audience, validity, permissions.
import { hash } from 'node:crypto';
import { errors, type JWTPayload, type JWTVerifyOptions, jwtVerify } from 'jose';
import { SCOPES, type Scope } from '../../../config/scopes.ts';
import type { IssuerConfig } from '../../../config/server-config.ts';
import { epochMs } from '../../../core/clock.ts';
import { SluiceError } from '../../../core/errors.ts';
import type { Grant, Identity } from './identity.ts';
import type { IssuerKeys } from './issuer-keys.ts';

/** Reasons for rejecting a token, as in metrics and log, with messages for the owner of the token. */
export const TOKEN_FAULTS = {
  token_malformed: 'the token is malformed',
  token_issuer: 'the issuer of the token is not configured',
  token_algorithm: 'the signature algorithm of the token is not allowed',
  token_key: 'the token is signed with a key that its issuer does not publish',
  token_signature: 'the signature of the token is invalid',
  token_audience: 'the token was issued for another audience',
  token_expired: 'the token has expired',
  token_not_yet_valid: 'the token is not valid yet',
  token_claims: 'the token lacks a required claim, or a claim has another value',
  token_binding: 'the token is bound to a proof that the request does not contain',
} as const;
export type TokenFault = keyof typeof TOKEN_FAULTS;

/** The error for a rejected token. `issuer`: the issuer that the token claims, if that issuer is configured. */
export class TokenRefused extends Error {
  readonly fault: TokenFault;
  readonly issuer: string | null;

  constructor(fault: TokenFault, issuer: string | null, cause?: unknown) {
    super(TOKEN_FAULTS[fault], { cause });
    this.name = 'TokenRefused';
    this.fault = fault;
    this.issuer = issuer;
  }
}

/** A JWT has three parts in base64url. */
const JWT = /^[\w-]+\.[\w-]+\.[\w-]+$/;
export const looksLikeToken = (text: string): boolean => JWT.test(text);

/** A subject that is safe in logs and tables: it has no control characters. */
const SUBJECT = /^[^\p{Cc}]{1,256}$/u;
/** Maximum number of keys to try if a token names no key. */
const MOST_TRIALS = 8;
/** Maximum number of cached tokens. The signatures of cached tokens are not verified again. */
const MOST_KNOWN = 1000;

interface Known {
  identity: Identity;
  /** Expiry in seconds since 1970, including the tolerance. */
  until: number;
  /** Generation of the keys that verified the token. */
  generation: number;
}

/** Value of the setting `token_type` for providers that do not mark their access tokens. */
const ANY_TYPE = 'any';

/**
 * Whether the claims are those of an ID token. An ID token identifies a user but grants no permissions. Keycloak marks
 * ID tokens with `typ`, Cognito with `token_use`. ID tokens of other providers contain a login nonce, or hashes of
 * tokens that were issued together with the ID token (OpenID Connect Core, 2 and 3.3.2.11).
 */
const isIdToken = ({ typ, token_use, nonce, at_hash, c_hash, s_hash }: JWTPayload): boolean =>
  typ === 'ID' ||
  token_use === 'id' ||
  (typ !== 'Bearer' && [nonce, at_hash, c_hash, s_hash].some((claim) => claim !== undefined));

export class TokenIssuer {
  readonly config: IssuerConfig;
  readonly keys: IssuerKeys;
  readonly #known = new Map<string, Known>();
  readonly #rules: JWTVerifyOptions;

  constructor(config: IssuerConfig, keys: IssuerKeys) {
    this.config = config;
    this.keys = keys;
    this.#rules = {
      issuer: config.issuer,
      audience: config.audience,
      algorithms: [...config.algorithms],
      clockTolerance: config.clock_tolerance_ms / 1000,
      requiredClaims: ['exp', 'aud', 'iss'],
      ...(config.token_type === ANY_TYPE ? {} : { typ: config.token_type }),
    };
  }

  /**
   * Verifies a token and returns its identity. `thumbprint`: SHA-256 of the client certificate in base64url; null
   * without a certificate.
   * @throws TokenRefused | SluiceError identity_provider_unavailable
   */
  async verify(token: string, thumbprint: string | null): Promise<Identity> {
    await this.keys.ready();
    const name = hash('sha256', token, 'base64');
    const known = this.#known.get(name);
    if (known && known.generation === this.keys.generation && epochMs() / 1000 < known.until) return known.identity;
    this.#known.delete(name);
    const claims = await this.#checked(token);
    if (this.config.token_type === ANY_TYPE && isIdToken(claims))
      throw new TokenRefused('token_claims', this.config.name);
    this.#assertBound(claims, thumbprint);
    const identity = this.#identityOf(claims);
    // Tokens bound to a certificate are not cached, because the certificate must be compared every time.
    if (claims.cnf === undefined) this.#remember(name, identity, claims.exp!);
    return identity;
  }

  #remember(name: string, identity: Identity, exp: number): void {
    if (this.#known.size >= MOST_KNOWN) this.#known.delete(this.#known.keys().next().value!);
    const until = exp + this.config.clock_tolerance_ms / 1000;
    this.#known.set(name, { identity, until, generation: this.keys.generation });
  }

  async #checked(token: string): Promise<JWTPayload> {
    try {
      return (await jwtVerify(token, (header, parts) => this.keys.find(header, parts), this.#rules)).payload;
    } catch (error) {
      if (!(error instanceof errors.JWKSMultipleMatchingKeys)) throw this.#refusal(error);
      // The token names no key, and several keys could match.
      let trials = 0;
      for await (const key of error) {
        if (++trials > MOST_TRIALS) break;
        try {
          return (await jwtVerify(token, key, this.#rules)).payload;
        } catch (failure) {
          if (!(failure instanceof errors.JWSSignatureVerificationFailed)) throw this.#refusal(failure);
        }
      }
      throw new TokenRefused('token_signature', this.config.name, error);
    }
  }

  #refusal(error: unknown): Error {
    if (error instanceof SluiceError) return error;
    return new TokenRefused(faultOfToken(error), this.config.name, error);
  }

  /**
   * Checks tokens that are bound to a key (RFC 7800). The only supported binding is to a client certificate (RFC 8705).
   */
  #assertBound({ cnf }: JWTPayload, thumbprint: string | null): void {
    if (cnf === undefined) return;
    const bound = typeof cnf === 'object' && cnf !== null ? Object.entries(cnf) : [];
    const [[method, value] = []] = bound;
    if (bound.length === 1 && method === 'x5t#S256' && thumbprint !== null && value === thumbprint) return;
    throw new TokenRefused('token_binding', this.config.name);
  }

  #identityOf(claims: JWTPayload): Identity {
    const { name, subject_claim } = this.config;
    const subject = claimAt(claims, subject_claim);
    if (typeof subject !== 'string' || !SUBJECT.test(subject)) throw new TokenRefused('token_claims', name);
    const label = `oidc:${name}`;
    return { kind: 'oidc', name: `${label}:${subject}`, label, grants: grantsOf(claims, this.config) };
  }
}

export class TokenIssuers {
  readonly #issuers: ReadonlyMap<string, TokenIssuer>;

  /** @throws SluiceError usage: two providers have the same name or issuer */
  constructor(issuers: readonly TokenIssuer[]) {
    for (const part of ['name', 'issuer'] as const) {
      const said = issuers.map(({ config }) => config[part]);
      if (new Set(said).size < said.length) throw new SluiceError('usage', `oidc: two providers have the same ${part}`);
    }
    this.#issuers = new Map(issuers.map((issuer) => [issuer.config.issuer, issuer]));
  }

  get all(): Iterable<TokenIssuer> {
    return this.#issuers.values();
  }

  /** @throws TokenRefused | SluiceError identity_provider_unavailable */
  async verify(token: string, thumbprint: string | null): Promise<Identity> {
    const issuer = this.#issuers.get(issuerOf(token));
    if (!issuer) throw new TokenRefused('token_issuer', null);
    return issuer.verify(token, thumbprint);
  }
}

/** The issuer that a token claims. The claim is not verified. @throws TokenRefused */
function issuerOf(token: string): string {
  try {
    const { iss } = JSON.parse(Buffer.from(token.split('.')[1]!, 'base64url').toString()) as { iss?: unknown };
    if (typeof iss === 'string') return iss;
  } catch (cause) {
    throw new TokenRefused('token_malformed', null, cause);
  }
  throw new TokenRefused('token_issuer', null);
}

function faultOfToken(error: unknown): TokenFault {
  if (error instanceof errors.JWTExpired) return 'token_expired';
  if (error instanceof errors.JWTClaimValidationFailed) {
    if (error.claim === 'nbf' && error.reason === 'check_failed') return 'token_not_yet_valid';
    return error.claim === 'aud' ? 'token_audience' : 'token_claims';
  }
  if (error instanceof errors.JOSEAlgNotAllowed) return 'token_algorithm';
  if (error instanceof errors.JWSSignatureVerificationFailed) return 'token_signature';
  if (error instanceof errors.JWKSNoMatchingKey) return 'token_key';
  // jose rejects some keys, such as RSA with 1024 bits. The token then counts as having an invalid signature.
  return error instanceof TypeError ? 'token_key' : 'token_malformed';
}

type Claims = Readonly<Record<string, unknown>>;
type Mapping = Pick<IssuerConfig, 'scopes_claim' | 'models_claim' | 'roles_claim' | 'roles'>;

/**
 * The permissions that claims grant, according to the configuration of the provider. Unknown scopes and roles without
 * configuration grant nothing.
 */
export function grantsOf(claims: Claims, { scopes_claim, models_claim, roles_claim, roles }: Mapping): Grant[] {
  const grants: Grant[] = [];
  const scopes = wordsIn(claimAt(claims, scopes_claim)).filter((word) => (SCOPES as readonly string[]).includes(word));
  if (scopes.length > 0) grants.push({ scopes: scopes as Scope[], ...modelsOf(claims, models_claim) });
  if (roles_claim === undefined) return grants;
  const names = wordsIn(claimAt(claims, roles_claim)).filter((name) => Object.hasOwn(roles, name));
  return [...grants, ...names.map((name) => roles[name]!)];
}

function modelsOf(claims: Claims, claim: string | undefined): Pick<Grant, 'models'> {
  if (claim === undefined) return {};
  const models = wordsIn(claimAt(claims, claim));
  return models.includes('*') ? {} : { models };
}

/**
 * The value of a claim. `name` is the name of the claim or, if no claim has that name, a dotted path. The name is tried
 * first, because names can be URLs.
 */
export function claimAt(claims: Claims, name: string): unknown {
  if (Object.hasOwn(claims, name)) return claims[name];
  let at: unknown = claims;
  for (const step of name.split('.')) {
    if (typeof at !== 'object' || at === null || !Object.hasOwn(at, step)) return undefined;
    at = (at as Claims)[step];
  }
  return at;
}

/** The words of a space-separated text (RFC 6749) or of a list. */
const wordsIn = (value: unknown): string[] =>
  typeof value === 'string'
    ? value.split(' ').filter((word) => word !== '')
    : Array.isArray(value)
      ? value.filter((word) => typeof word === 'string')
      : [];
