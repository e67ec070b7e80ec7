// On-disk cache of expensive, recomputable results.
import { createHash, randomUUID } from 'node:crypto';
import { constants, readdirSync } from 'node:fs';
import { lstat, mkdir, open, readdir, rename, rm, stat, utimes } from 'node:fs/promises';
import path from 'node:path';
import { cacheFolder } from './cache-folder.ts';
import { epochMs } from './clock.ts';
import { VERSION } from './version.ts';

const DIGEST_BYTES = 32;
/** Mode bits that permit writing by users other than the owner. */
const OTHERS_WRITE = 0o022;
const DAY_MS = 24 * 3_600_000;

/** Limits of the cache: number of entries, total bytes, and time after the last use of an entry until it is removed. */
interface KeptLimits {
  readonly entries: number;
  readonly bytes: number;
  readonly ms: number;
}

const LIMITS: KeptLimits = { entries: 256, bytes: 256 * 1024 * 1024, ms: 30 * DAY_MS };

const sha256 = (...parts: readonly (string | Uint8Array)[]): Buffer => {
  const hash = createHash('sha256');
  for (const part of parts) hash.update(part);
  return hash.digest();
};

/**
 * A folder of results. The name of a result contains a hash of everything that the result depends on. A file contains
 * the SHA-256 of its name and content, followed by the content. Incomplete, damaged or renamed files are ignored. Files
 * that other users own or can write are ignored too.
 */
export class KeptResults {
  readonly #folder: string;
  readonly #limits: KeptLimits;

  constructor(folder: string, limits: Partial<KeptLimits> = {}) {
    this.#folder = folder;
    this.#limits = { ...LIMITS, ...limits };
  }

  /**
   * The cache in the folder `SLUICE_CACHE`, or else in the home folder of the user. null: `SLUICE_CACHE` is `off`, or
   * the user has no home folder.
   */
  static ofUser(env: Record<string, string | undefined> = process.env): KeptResults | null {
    const said = env.SLUICE_CACHE ?? '';
    if (said === 'off') return null;
    if (path.isAbsolute(said)) return new KeptResults(path.join(said, 'kept'));
    try {
      return new KeptResults(path.join(cacheFolder(env), 'kept'));
    } catch {
      return null;
    }
  }

  /** The name of a result. `of`: everything that the result depends on. The version of Sluice is added. */
  static nameOf(kind: string, ...of: readonly (string | Uint8Array)[]): string {
    const lengths = JSON.stringify([VERSION, kind, ...of.map((part) => part.length)]);
    return `${kind}-${sha256(lengths, ...of).toString('hex')}`;
  }

  /** Whether the cache has any entry of this kind. */
  has(kind: string): boolean {
    try {
      return readdirSync(this.#folder).some((name) => name.startsWith(`${kind}-`));
    } catch {
      return false;
    }
  }

  /** Reads a result; null: it is not cached, or its file cannot be trusted. */
  async read(name: string): Promise<Buffer | null> {
    const file = path.join(this.#folder, name);
    try {
      if (!isOwn(await lstat(this.#folder))) return null;
      await using handle = await open(file, constants.O_RDONLY | (constants.O_NOFOLLOW ?? 0));
      const found = await handle.stat();
      if (!found.isFile() || !isOwn(found) || found.size > this.#limits.bytes) return null;
      const bytes = await handle.readFile();
      const content = bytes.subarray(DIGEST_BYTES);
      if (!sha256(name, content).equals(bytes.subarray(0, DIGEST_BYTES))) return null;
      const now = epochMs();
      // The time of the last use is updated at most once a day, to avoid a write per run.
      if (now - found.mtimeMs > DAY_MS) await utimes(file, now / 1000, now / 1000).catch(() => {});
      return content;
    } catch {
      return null;
    }
  }

  /** Caches a result if possible. Failures are ignored, because the caller has the result. */
  async write(name: string, content: Uint8Array): Promise<void> {
    const making = path.join(this.#folder, `.${process.pid}-${randomUUID()}`);
    try {
      await mkdir(this.#folder, { recursive: true, mode: 0o700 });
      if (!isOwn(await lstat(this.#folder))) return;
      {
        await using handle = await open(making, 'wx', 0o600);
        await handle.writev([sha256(name, content), content]);
      }
      await rename(making, path.join(this.#folder, name));
      await this.#clear();
    } catch {
      await rm(making, { force: true }).catch(() => {});
    }
  }

  /**
   * Removes entries that were not used for too long, the oldest entries if a limit is exceeded, and temporary files of
   * killed processes.
   */
  async #clear(): Promise<void> {
    const files = await Promise.all(
      (await readdir(this.#folder)).map(async (name) => {
        const found = await stat(path.join(this.#folder, name)).catch(() => null);
        return found && { name, bytes: found.size, usedAt: found.mtimeMs };
      }),
    );
    const { entries, bytes: mostBytes, ms } = this.#limits;
    let [count, bytes] = [0, 0];
    for (const file of files.filter((f) => f !== null).toSorted((a, b) => b.usedAt - a.usedAt)) {
      const unfinished = file.name.startsWith('.');
      if (!unfinished) [count, bytes] = [count + 1, bytes + file.bytes];
      const age = epochMs() - file.usedAt;
      const kept = unfinished ? age < DAY_MS : age < ms && count <= entries && bytes <= mostBytes;
      if (!kept) await rm(path.join(this.#folder, file.name), { force: true }).catch(() => {});
    }
  }
}

/**
 * Whether only this user can change the file. On systems without file owners, such as Windows, this is assumed, because
 * the folder is in the profile of the user.
 */
const isOwn = ({ uid, mode }: { uid: number; mode: number }): boolean =>
  process.getuid === undefined || (uid === process.getuid() && (mode & OTHERS_WRITE) === 0);
