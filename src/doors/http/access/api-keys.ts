// API keys from the keys file: tokens are compared in constant time, and the file is read again when it changes.
import { hash, timingSafeEqual } from 'node:crypto';
import { type FSWatcher, watch } from 'node:fs';
import path from 'node:path';
import { epochMs, startTimer } from '../../../core/clock.ts';
import type { Identity } from './identity.ts';
import { type ApiKey, type KeysFile, type NamedCertificate, readKeysFile } from './keys-file.ts';

/** The owner of a valid token, or why it is invalid; `name`: the key that is no longer valid. */
type KeyFound =
  | { identity: Identity; key: ApiKey /** The token is one that a rotation has replaced. */; previous: boolean }
  | { refused: 'none' | 'unknown' | 'expired'; name: string | null };

/** What of a client certificate may be known by name. */
interface CertificateFacts {
  /** null: none, or several. */
  commonName: string | null;
  uris: readonly string[];
  /** Of the whole certificate, in hex. */
  sha256: string;
}

interface KnownToken {
  key: ApiKey;
  identity: Identity;
  hash: Buffer;
  /** ms since 1970; null: never. */
  expires: number | null;
  previous: boolean;
}

interface KnownCertificate {
  named: NamedCertificate;
  identity: Identity;
}

/** `API-Key x`, `ApiKey x`, `Bearer x`, or the bare token. */
const AUTHORIZATION = /^(?:(?:api-key|apikey|bearer)\s+)?(\S+)$/i;

export class KeyRing {
  #tokens: KnownToken[] = [];
  #keys: readonly ApiKey[] = [];
  #certificates: KnownCertificate[] = [];
  #watcher: FSWatcher | null = null;

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
   * Follows `file`; a version that cannot be read leaves the keys unchanged and is reported to `onError`. `onChange`: the keys of the file
   * now, after it was taken.
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
      if (this.#watcher) onChange(before, read);
    };
    take(await readKeysFile(file));
    let waiting = false;
    this.#watcher = watch(path.dirname(path.resolve(file)), () => {
      // Watches the folder: a mounted secret changes through another link, not through the name of the file.
      // Not put off by the next one: where something writes all the time, the file would never be read.
      if (waiting) return;
      waiting = true;
      startTimer(() => {
        waiting = false;
        readKeysFile(file).then(take, onError);
      }, 50);
    });
    this.#watcher.on('error', onError);
    this.#watcher.unref();
  }

  close(): void {
    this.#watcher?.close();
    this.#watcher = null;
  }

  /**
   * Who an Authorization header is of: `API-Key`, `ApiKey`, `Api-Key` or `Bearer` before the token, or the bare token.
   * Compares every token, so that timing reveals nothing about them.
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

  /** The key; null where there is none that is valid. */
  find(authorization: string | undefined, now = epochMs()): ApiKey | null {
    const found = this.look(authorization, now);
    return 'key' in found ? found.key : null;
  }

  /** Who a certificate is of that was issued by tls.client_ca; null: it has no name here, or not any more. */
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

  /** Whether certificates have names here. */
  get namesCertificates(): boolean {
    return this.#certificates.length > 0;
  }

  /** Expiry of keys by name, ms since 1970; keys without expiry are absent. */
  get expiries(): ReadonlyMap<string, number> {
    const known = this.#keys.map(({ name, expires }) => [name, Date.parse(expires ?? '')] as const);
    return new Map(known.filter(([, at]) => !Number.isNaN(at)));
  }
}

/** The token of a key, and those that it replaced. */
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
