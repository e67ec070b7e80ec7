// API keys: kept as SHA-256, compared in constant time, read again when their file changes.
import { hash, randomBytes, timingSafeEqual } from 'node:crypto';
import { type FSWatcher, watch } from 'node:fs';
import { chmod, readFile, rename, rm, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { type Static, Type } from 'typebox';
import { stringify } from 'yaml';
import { SCOPES, type Scope } from '../../../config/scopes.ts';
import { parseYaml } from '../../../config/yaml-document.ts';
import { formatProblem } from '../../../config/yaml-problem.ts';
import { SluiceError } from '../../../core/errors.ts';

const KeySchema = Type.Object(
  {
    name: Type.String({ minLength: 1 }),
    sha256: Type.String({ pattern: '^[0-9a-f]{64}$' }),
    scopes: Type.Array(Type.Unsafe<Scope>(Type.Enum([...SCOPES]))),
    models: Type.Optional(Type.Array(Type.String())),
    expires: Type.Optional(Type.String()),
    created: Type.Optional(Type.String()),
  },
  { additionalProperties: false },
);
const KeysSchema = Type.Object({ keys: Type.Array(KeySchema) }, { additionalProperties: false });

export type ApiKey = Static<typeof KeySchema>;

/** Reads a keys file; a file that is not there holds no keys. @throws SluiceError usage */
export async function readKeys(file: string): Promise<ApiKey[]> {
  let text: string;
  try {
    text = await readFile(file, 'utf8');
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return [];
    throw new SluiceError('usage', `${file} cannot be read`, { cause: error });
  }
  const parsed = parseYaml(file, text, KeysSchema);
  if (!parsed.ok) throw new SluiceError('usage', parsed.problems.map(formatProblem).join('\n'));
  return parsed.value.keys;
}

/** Replaces a keys file as a whole; only its owner may read it. */
export async function writeKeys(file: string, keys: readonly ApiKey[]): Promise<void> {
  const temporary = `${file}.${randomBytes(6).toString('hex')}.partial`;
  try {
    await writeFile(temporary, stringify({ keys }), { mode: 0o600 });
    await chmod(temporary, 0o600);
    await rename(temporary, file);
  } catch (error) {
    await rm(temporary, { force: true });
    throw error;
  }
}

export const hashToken = (token: string): string => hash('sha256', token, 'hex');

/** A new token: 32 random bytes with a prefix that secret scanners can look for. */
export const newToken = (): string => `sluice_${randomBytes(32).toString('base64url')}`;

/** A valid key, or why there is none; `name`: of the key that is no longer valid. */
export type KeyFound = { key: ApiKey } | { refused: 'none' | 'unknown' | 'expired'; name: string | null };

export class KeyRing {
  #keys: { key: ApiKey; hash: Buffer }[] = [];
  #watcher: FSWatcher | null = null;

  constructor(keys: readonly ApiKey[] = []) {
    this.replace(keys);
  }

  replace(keys: readonly ApiKey[]): void {
    this.#keys = keys.map((key) => ({ key, hash: Buffer.from(key.sha256, 'hex') }));
  }

  /** Follows `file`; a version that cannot be read leaves the keys unchanged and is reported to `onError`. */
  async follow(file: string, onError: (error: unknown) => void): Promise<void> {
    this.replace(await readKeys(file));
    let timer: NodeJS.Timeout | undefined;
    this.#watcher = watch(path.dirname(path.resolve(file)), () => {
      // Any change in the folder counts: a mounted secret changes by a link beside the file, not by the file's name.
      clearTimeout(timer);
      timer = setTimeout(() => readKeys(file).then((keys) => this.replace(keys), onError), 50);
    });
    this.#watcher.on('error', onError);
    this.#watcher.unref();
  }

  close(): void {
    this.#watcher?.close();
    this.#watcher = null;
  }

  /**
   * The key of an Authorization header: `API-Key`, `ApiKey`, `Api-Key` or `Bearer` before the token, or the bare token.
   * Compares every key, so that timing reveals nothing about the keys.
   */
  look(authorization: string | undefined, now = Date.now()): KeyFound {
    if (!authorization) return { refused: 'none', name: null };
    const match = /^(?:(?:api-key|apikey|bearer)\s+)?(\S+)$/i.exec(authorization.trim());
    if (!match) return { refused: 'unknown', name: null };
    const presented = hash('sha256', match[1]!, 'buffer');
    let found: ApiKey | null = null;
    for (const k of this.#keys) if (timingSafeEqual(k.hash, presented)) found = k.key;
    if (!found) return { refused: 'unknown', name: null };
    if (found.expires !== undefined && !(Date.parse(found.expires) > now)) {
      return { refused: 'expired', name: found.name };
    }
    return { key: found };
  }

  /** The same; null where there is none that is valid. */
  find(authorization: string | undefined, now = Date.now()): ApiKey | null {
    const found = this.look(authorization, now);
    return 'key' in found ? found.key : null;
  }

  /** When keys expire, ms since 1970, by name; those that do not are not there. */
  get expiries(): ReadonlyMap<string, number> {
    const known = this.#keys.map(({ key }) => [key.name, Date.parse(key.expires ?? '')] as const);
    return new Map(known.filter(([, at]) => !Number.isNaN(at)));
  }
}

/** true if the key may use the model id. */
export const mayUse = (key: ApiKey, id: string): boolean => key.models === undefined || key.models.includes(id);
