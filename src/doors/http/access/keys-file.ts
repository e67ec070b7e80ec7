// The keys file: API keys, stored as SHA-256 of their tokens, and names of client certificates.
import { hash, randomBytes } from 'node:crypto';
import { chmod, readFile, rename, rm, writeFile } from 'node:fs/promises';
import { type Static, Type } from 'typebox';
import { stringify } from 'yaml';
import { SCOPES, type Scope } from '../../../config/scopes.ts';
import { parseYaml } from '../../../config/yaml-document.ts';
import { formatProblem } from '../../../config/yaml-problem.ts';
import { SluiceError } from '../../../core/errors.ts';
import { underFileLock } from '../../../core/file-lock.ts';
import { fileFault } from '../../../core/file-system.ts';
import { RESERVED_PREFIXES } from './identity.ts';

/** Maximum wait for the lock in ms; long enough for many commands to take turns. */
const LOCK_WAIT_MS = 60_000;

const SHA256 = Type.String({ pattern: '^[0-9a-f]{64}$' });
const name = Type.String({ minLength: 1 });
const scopes = Type.Array(Type.Unsafe<Scope>(Type.Enum([...SCOPES])));
const models = Type.Optional(Type.Array(Type.String()));
const expires = Type.Optional(Type.String());

const KeySchema = Type.Object(
  {
    name,
    sha256: SHA256,
    scopes,
    models,
    expires,
    created: Type.Optional(Type.String()),
    /** Tokens that rotations have replaced, with their expiry. */
    previous: Type.Optional(
      Type.Array(Type.Object({ sha256: SHA256, expires: Type.String() }, { additionalProperties: false })),
    ),
  },
  { additionalProperties: false },
);
/** A certificate issued by tls.client_ca. One of three fields identifies the certificate. */
const CertificateSchema = Type.Object(
  {
    name,
    subject_cn: Type.Optional(Type.String({ minLength: 1 })),
    san_uri: Type.Optional(Type.String({ minLength: 1 })),
    sha256: Type.Optional(SHA256),
    scopes,
    models,
    expires,
  },
  { additionalProperties: false },
);
const KeysSchema = Type.Object(
  { keys: Type.Array(KeySchema), certificates: Type.Optional(Type.Array(CertificateSchema)) },
  { additionalProperties: false },
);

export type ApiKey = Static<typeof KeySchema>;
export type NamedCertificate = Static<typeof CertificateSchema>;

export interface KeysFile {
  keys: readonly ApiKey[];
  certificates: readonly NamedCertificate[];
}

/** Reads a keys file. A missing file counts as empty. @throws SluiceError usage */
export async function readKeysFile(file: string): Promise<KeysFile> {
  let text: string;
  try {
    text = await readFile(file, 'utf8');
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return { keys: [], certificates: [] };
    throw new SluiceError('usage', `${file} cannot be read`, { cause: error });
  }
  const parsed = parseYaml(file, text, KeysSchema);
  if (!parsed.ok) throw new SluiceError('usage', parsed.problems.map(formatProblem).join('\n'));
  const { keys, certificates = [] } = parsed.value;
  const refuse = (what: string): never => {
    throw new SluiceError('usage', `${file}: ${what}`);
  };
  for (const k of keys) assertFreeName(k.name, refuse);
  for (const c of certificates) {
    const by = [c.subject_cn, c.san_uri, c.sha256].filter((said) => said !== undefined);
    if (by.length !== 1) refuse(`certificate ${c.name}: set one of subject_cn, san_uri, sha256`);
  }
  for (const { name, expires } of [...keys, ...certificates]) {
    if (expires !== undefined && Number.isNaN(Date.parse(expires))) refuse(`${name}: expires is not a time`);
  }
  return { keys, certificates };
}

export const readKeys = async (file: string): Promise<readonly ApiKey[]> => (await readKeysFile(file)).keys;

/**
 * Rejects key names that another kind of caller could have. Such a key would get access to the jobs of that caller.
 * @throws whatever `refuse` throws
 */
export function assertFreeName(name: string, refuse: (what: string) => never): void {
  const taken = RESERVED_PREFIXES.find((prefix) => name.startsWith(prefix));
  if (taken !== undefined) refuse(`the name of a key cannot start with ${taken}`);
}

/**
 * Replaces the keys in a file by the result of `change`. The file is readable only by its owner. Concurrent changes are
 * serialised by a lock.
 * @throws SluiceError usage, or an error of `change`; the file then stays unchanged
 */
export function changeKeys(file: string, change: (keys: readonly ApiKey[]) => readonly ApiKey[]): Promise<void> {
  const refused = (cause: unknown) => {
    const why = cause === null ? `another command has held the lock for ${LOCK_WAIT_MS / 1000} s` : fileFault(cause);
    return new SluiceError('usage', `${file} cannot be locked: ${why}`, { cause });
  };
  return underFileLock(`${file}.lock`, { waitMs: LOCK_WAIT_MS, refused, isPrivate: true }, async () => {
    const { keys, certificates } = await readKeysFile(file);
    const changed = change(keys);
    await writeSecret(file, stringify({ keys: changed, ...(certificates.length === 0 ? {} : { certificates }) }));
  });
}

/** Replaces the file atomically: even after a crash, readers see either the old or the new text. */
async function writeSecret(file: string, text: string): Promise<void> {
  const temporary = `${file}.${randomBytes(6).toString('hex')}.partial`;
  try {
    await writeFile(temporary, text, { mode: 0o600, flush: true });
    await chmod(temporary, 0o600);
    await rename(temporary, file);
  } catch (error) {
    await rm(temporary, { force: true });
    throw error;
  }
}

/**
 * Adds a new token to a key. The current token expires at `until` (ms since 1970), or earlier if it was due to expire.
 */
export function rotated(key: ApiKey, sha256: string, { now, until }: { now: number; until: number }): ApiKey {
  const { expires, previous = [], ...same } = key;
  const old = { sha256: key.sha256, expires: earlier(expires, until) };
  const living = [...previous.map((p) => ({ ...p, expires: earlier(p.expires, until) })), old];
  return {
    ...same,
    sha256,
    created: new Date(now).toISOString(),
    previous: living.filter((p) => Date.parse(p.expires) > now),
  };
}

const earlier = (expires: string | undefined, until: number): string =>
  expires !== undefined && Date.parse(expires) < until ? expires : new Date(until).toISOString();

export const hashToken = (token: string): string => hash('sha256', token, 'hex');

/** A new token: 32 random bytes with a prefix that secret scanners can look for. */
export const newToken = (): string => `sluice_${randomBytes(32).toString('base64url')}`;
