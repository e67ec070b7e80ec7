// Credentials for object storage, looked up where its tools do: the environment, then the shared credentials file.
import { readFile, stat } from 'node:fs/promises';
import { homedir } from 'node:os';
import path from 'node:path';
import { SluiceError } from '../core/errors.ts';
import type { OutageCode } from './http-client.ts';

export interface S3Credentials {
  accessKeyId: string;
  secretAccessKey: string;
  sessionToken?: string;
}

/** The current keys: the file is read again when it changes, as keys are rotated. */
export function s3Credentials(
  env: Record<string, string | undefined>,
  profile: string | undefined,
  code: OutageCode = 'registry_unavailable',
): () => Promise<S3Credentials> {
  const { AWS_ACCESS_KEY_ID: id, AWS_SECRET_ACCESS_KEY: secret, AWS_SESSION_TOKEN: token } = env;
  if (profile === undefined && id && secret) {
    const fromEnvironment = credentials(id, secret, token);
    return async () => fromEnvironment;
  }
  const file = env.AWS_SHARED_CREDENTIALS_FILE ?? path.join(homedir(), '.aws', 'credentials');
  const name = profile ?? env.AWS_PROFILE ?? 'default';
  let stamp = '';
  let known: S3Credentials | null = null;
  return async () => {
    const info = await stat(file).catch(() => null);
    if (!info) {
      throw new SluiceError(code, `no credentials: neither $AWS_ACCESS_KEY_ID with $AWS_SECRET_ACCESS_KEY nor ${file}`);
    }
    const now = `${info.mtimeMs} ${info.size} ${info.ino}`;
    if (known && now === stamp) return known;
    const section = readSection(await readFile(file, 'utf8'), name);
    const { aws_access_key_id: key, aws_secret_access_key: value, aws_session_token: session } = section;
    if (!key || !value) throw new SluiceError(code, `${file} has no keys for the profile ${name}`);
    known = credentials(key, value, session);
    stamp = now;
    return known;
  };
}

const credentials = (
  accessKeyId: string,
  secretAccessKey: string,
  sessionToken: string | undefined,
): S3Credentials => ({
  accessKeyId,
  secretAccessKey,
  ...(sessionToken ? { sessionToken } : {}),
});

function readSection(text: string, name: string): Record<string, string | undefined> {
  const values: Record<string, string> = {};
  let inside = false;
  for (const line of text.split(/\r?\n/)) {
    const text = line.trim();
    const closed = text.indexOf(']');
    if (text.startsWith('[') && closed > 0) inside = text.slice(1, closed).trim() === name;
    const equals = text.indexOf('=');
    const key = text.slice(0, Math.max(0, equals)).trim();
    if (inside && /^[a-z_]+$/.test(key)) values[key] = text.slice(equals + 1).trim();
  }
  return values;
}
