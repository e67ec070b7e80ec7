// Looks up credentials for object storage in the same order as the AWS tools: environment, shared credentials file, roles.
import { readFile, stat } from 'node:fs/promises';
import { homedir } from 'node:os';
import path from 'node:path';
import { SluiceError } from '../../core/errors.ts';
import type { OutageCode } from '../http-client.ts';
import { type CredentialSource, renewed, type S3Credentials } from './renewed-credentials.ts';

interface CredentialOptions {
  /** Region of the service that issues keys to web identities. */
  region: string;
  /** PEM file with CA certificates, which replace the certificates of the system. */
  caFile?: string | undefined;
  /** Use only this profile of the shared credentials file. */
  profile?: string | undefined;
  /** Error code for failures. Default: registry_unavailable. */
  code?: OutageCode;
}

type Env = Record<string, string | undefined>;

/** Looks up keys in this order: environment, named profile, web identity, credentials file, container, instance. */
export function s3Credentials(env: Env, options: CredentialOptions): CredentialSource {
  const { code = 'registry_unavailable', profile, region, caFile } = options;
  const { AWS_ACCESS_KEY_ID: id, AWS_SECRET_ACCESS_KEY: secret, AWS_SESSION_TOKEN: token } = env;
  if (profile === undefined && id && secret) {
    const fromEnvironment = { accessKeyId: id, secretAccessKey: secret, sessionToken: token || undefined };
    return async () => fromEnvironment;
  }
  const file = env.AWS_SHARED_CREDENTIALS_FILE ?? path.join(homedir(), '.aws', 'credentials');
  const named = profile ?? env.AWS_PROFILE;
  const inFile = profileKeys(file, named ?? 'default', code);
  if (named !== undefined) {
    return async () => {
      const keys = await inFile();
      if (keys) return keys;
      throw new SluiceError(code, `${file} has no keys for the profile ${named}`);
    };
  }
  // The module is loaded on demand, because static keys do not need it.
  const lent = renewed(async () => {
    const { lend, lenderOf } = await import('./role-credentials.ts');
    const lender = lenderOf(env);
    if (lender !== null) return lend(lender, { env, region, caFile, code });
    throw new SluiceError(code, `no credentials: neither $AWS_ACCESS_KEY_ID with $AWS_SECRET_ACCESS_KEY nor ${file}`);
  });
  if (env.AWS_WEB_IDENTITY_TOKEN_FILE) return lent;
  return async (renew) => (await inFile()) ?? lent(renew);
}

/**
 * Returns the current keys of a profile. The file is read again when it changes, because keys are rotated. null: the
 * profile does not exist.
 */
function profileKeys(file: string, name: string, code: OutageCode): () => Promise<S3Credentials | null> {
  let stamp = '';
  let known: S3Credentials | null = null;
  return async () => {
    const info = await stat(file).catch(() => null);
    if (!info) return null;
    const now = `${info.mtimeMs} ${info.size} ${info.ino}`;
    if (now === stamp) return known;
    const section = readSection(await readFile(file, 'utf8'), name);
    const { aws_access_key_id: key, aws_secret_access_key: value, aws_session_token: session } = section ?? {};
    if (section && (!key || !value)) throw new SluiceError(code, `${file} has no keys for the profile ${name}`);
    known = section && { accessKeyId: key!, secretAccessKey: value!, sessionToken: session || undefined };
    stamp = now;
    return known;
  };
}

/** The settings in a section of the file; null: the section does not exist. */
function readSection(text: string, name: string): Env | null {
  let values: Env | null = null;
  let inside = false;
  for (const line of text.split(/\r?\n/)) {
    const text = line.trim();
    const closed = text.indexOf(']');
    if (text.startsWith('[') && closed > 0) {
      inside = text.slice(1, closed).trim() === name;
      if (inside) values ??= {};
    }
    const equals = text.indexOf('=');
    const key = text.slice(0, Math.max(0, equals)).trim();
    if (inside && values && /^[a-z_]+$/.test(key)) values[key] = text.slice(equals + 1).trim();
  }
  return values;
}
