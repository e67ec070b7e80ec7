// API keys from the keys file. Tokens are compared in constant time, and the file is reloaded when it changes.
import { hash, timingSafeEqual } from 'node:crypto';
import { epochMs } from '../../../core/clock.ts';
import { followFiles } from '../../../core/follow-files.ts';
import type { Identity } from './identity.ts';
import { type ApiKey, type KeysFile, type NamedCertificate, readKeysFile } from './keys-file.ts';

/**
 * The owner of a valid token, or the reason why a token is invalid. `name`: name of the key if it has expired,
 * otherwise null.
 */
type KeyFound =
  | { identity: Identity; key: ApiKey /** The token was replaced by a rotation. */; previous: boolean }
  | { refused: 'none' | 'unknown' | 'expired'; name: string | null };

/** The fields that can identify a client certificate. */
interface CertificateFacts {
  /** Null if the certificate has no common name, or several. */
  commonName: string | null;
  uris: readonly string[];
  /** SHA-256 of the whole certificate in hexadecimal. */
  sha256: string;
}

interface KnownToken {
  key: ApiKey;
  identity: Identity;
  hash: Buffer;
  /** ms since 1970; null if the token does not expire. */
  expires: number | null;
  previous: boolean;
}

interface KnownCertificate {
  named: NamedCertificate;
  identity: Identity;
}

/** Matches `API-Key x`, `ApiKey x`, `Bearer x`, and the bare token. */
const AUTHORIZATION = /^(?:(?:api-key|apikey|bearer)\s+)?(\S+)$/i;

export class KeyRing {
  #tokens: KnownToken[] = [];
  #keys: readonly ApiKey[] = [];
  #certificates: KnownCertificate[] = [];
  #unfollow: (() => void) | null = null;

  constructor(keys: readonly ApiKey[] = []) {
    this.replace(keys);
  }

  replace(keys: readonly ApiKey[], certificates: readonly NamedCertificate[] = []): void {
    this.#keys = keys;
    this.#tokens = keys.flatMap(tokensOf);
    this.#certificates = certificates.map((named) => {
      const name = `certificate:${named.name}`;
      return { named, identity: { kind: 'certificate', name, label: name, grants: [named] } };
    });
  }

  /**
   * Loads `file`, and reloads it when it changes. If a new version is unreadable, the keys stay unchanged and `onError`
   * is called. `onChange` is called after a new version was loaded.
   */
  async follow(
    file: string,
    onError: (error: unknown) => void,
    onChange: (before: readonly ApiKey[], after: KeysFile) => void = () => {},
  ): Promise<void> {
    let known = '';
    const take = (read: KeysFile): void => {
      const text = JSON.stringify(read);
      if (text === known) return;
      known = text;
      const before = this.#keys;
      this.replace(read.keys, read.certificates);
      if (this.#unfollow) onChange(before, read);
    };
    take(await readKeysFile(file));
    const reload = async () => take(await readKeysFile(file));
    this.#unfollow = followFiles([file], { reload, onError, delayMs: 50 });
  }

  close(): void {
    this.#unfollow?.();
    this.#unfollow = null;
  }

  /**
   * Looks up an Authorization header: a token after `API-Key`, `ApiKey`, `Api-Key` or `Bearer`, or a bare token.
   * Compares the token with every key, so that the response time reveals nothing.
   */
  look(authorization: string | undefined, now = epochMs()): KeyFound {
    if (!authorization) return { refused: 'none', name: null };
    const match = AUTHORIZATION.exec(authorization.trim());
    if (!match) return { refused: 'unknown', name: null };
    const presented = hash('sha256', match[1]!, 'buffer');
    let found: KnownToken | null = null;
    for (const k of this.#tokens) if (timingSafeEqual(k.hash, presented)) found = k;
    if (!found) return { refused: 'unknown', name: null };
    const { key, identity, previous, expires } = found;
    if (expires !== null && !(expires > now)) return { refused: 'expired', name: key.name };
    return { key, identity, previous };
  }

  /** The key of a valid token; null if the token is invalid. */
  find(authorization: string | undefined, now = epochMs()): ApiKey | null {
    const found = this.look(authorization, now);
    return 'key' in found ? found.key : null;
  }

  /**
   * The identity of a certificate issued by tls.client_ca; null if the keys file does not list the certificate, or its
   * entry has expired.
   */
  certificate({ commonName, uris, sha256 }: CertificateFacts, now = epochMs()): Identity | null {
    const found = this.#certificates.find(
      ({ named: c }) =>
        (c.sha256 !== undefined && c.sha256 === sha256) ||
        (c.san_uri !== undefined && uris.includes(c.san_uri)) ||
        (c.subject_cn !== undefined && c.subject_cn === commonName),
    );
    if (!found) return null;
    const { expires } = found.named;
    return expires !== undefined && !(Date.parse(expires) > now) ? null : found.identity;
  }

  /** Whether the file lists any certificates. */
  get namesCertificates(): boolean {
    return this.#certificates.length > 0;
  }

  /** Expiry of keys in ms since 1970, by name. Keys that do not expire are absent. */
  get expiries(): ReadonlyMap<string, number> {
    const known = this.#keys.map(({ name, expires }) => [name, Date.parse(expires ?? '')] as const);
    return new Map(known.filter(([, at]) => !Number.isNaN(at)));
  }
}

/** The current token of a key, and the tokens that rotations have replaced. */
function tokensOf(key: ApiKey): KnownToken[] {
  const { name, scopes, models, previous = [] } = key;
  const grant = { scopes, ...(models === undefined ? {} : { models }) };
  const identity: Identity = { kind: 'key', name, label: name, grants: [grant] };
  return [{ ...key, old: false }, ...previous.map((p) => ({ ...p, old: true }))].map(({ sha256, expires, old }) => ({
    key,
    identity,
    hash: Buffer.from(sha256, 'hex'),
    expires: expires === undefined ? null : Date.parse(expires),
    previous: old,
  }));
}
