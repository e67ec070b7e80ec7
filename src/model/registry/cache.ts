// Disk cache for packages of remote registries, keyed by the hash of their content. Packages are verified when they are
// opened; the size of the cache is limited.
import { randomUUID } from 'node:crypto';
import { mkdir, readdir, rename, rm, stat, utimes } from 'node:fs/promises';
import path from 'node:path';
import { epochMs } from '../../core/clock.ts';
import { SluiceError } from '../../core/errors.ts';
import { type Log, named, words } from '../../core/log.ts';
import { loadPackage } from '../package/load-package.ts';
import type { ModelPackage, PackageFile } from '../package/model-package.ts';
import { contentHash, filesOf, namesOf, stampOf } from '../package/package-hash.ts';

interface PackageCacheOptions {
  folder: string;
  /** Maximum size of the cache in bytes. Packages that this process uses are kept even beyond this limit. */
  maxBytes: number;
  /** Log for packages that were discarded because they were damaged. */
  log?: Log;
}

/**
 * A process updates the times of the packages that it uses at least this often, in ms. Packages with a recent time are
 * not evicted.
 */
const TOUCH_MS = 60_000;
const OTHERS_USE_MS = 10 * TOUCH_MS;
/** A download that is older than this, in ms, was left by a process that crashed. */
const LEFT_BEHIND_MS = 24 * 3600 * 1000;

interface Opened {
  /** Names, sizes and times that the files had when their hashes were verified. */
  stamp: string;
  /** Can be dereferenced as long as this process uses the package. The files must exist until then. */
  model: WeakRef<ModelPackage>;
  touched: number;
}

export class PackageCache {
  readonly #folder: string;
  readonly #options: PackageCacheOptions;
  readonly #opened = new Map<string, Opened>();

  constructor(options: PackageCacheOptions) {
    this.#options = options;
    this.#folder = path.join(options.folder, 'packages');
  }

  /** The package with this hash; null if it is not cached. A damaged package is discarded and counts as not cached. */
  async get(key: string): Promise<ModelPackage | null> {
    const folder = path.join(this.#folder, key);
    const stamp = await stampOf(folder);
    if (stamp === null) return null;
    const known = this.#opened.get(key);
    const model = known?.model.deref();
    if (known && model && known.stamp === stamp) {
      await this.#touch(folder, known);
      return model;
    }
    try {
      const opened = await loadPackage(folder);
      if (contentHash(opened.files) === key) return await this.#open(key, { folder, stamp, model: opened });
    } catch (error) {
      const files = await filesOf(folder).catch(() => null);
      // Another process has just removed the package.
      if (files === null && (await stampOf(folder)) === null) return null;
      if (files !== null && contentHash(files) === key) throw error;
    }
    this.#options.log?.(
      'warn',
      'cache_damaged',
      words`the cached package ${named(folder)} is damaged and is fetched again`,
    );
    await this.#remove(key);
    return null;
  }

  /**
   * Caches the files that `fill` writes into an empty folder. `check` can reject the package before it is cached.
   * @throws errors of `fill` or `check` | model_invalid | model_hash_mismatch | registry_unavailable
   */
  async put(
    fill: (folder: string) => Promise<PackageFile[]>,
    check: (model: ModelPackage) => void,
  ): Promise<{ key: string; model: ModelPackage }> {
    const partial = path.join(this.#folder, `.${randomUUID()}.partial`);
    try {
      await mkdir(partial, { recursive: true, mode: 0o700 });
      const files = await fill(partial);
      const key = contentHash(files);
      const model = await loadPackage(partial);
      checkModelFile(model, files);
      check(model);
      const folder = path.join(this.#folder, key);
      await rename(partial, folder).catch((error: NodeJS.ErrnoException) => {
        // Another process has already cached the same content.
        if (error.code !== 'ENOTEMPTY' && error.code !== 'EEXIST') throw error;
      });
      const kept = await this.get(key);
      if (!kept) throw new SluiceError('registry_unavailable', `${folder} does not retain written data`);
      await this.#evict();
      return { key, model: kept };
    } catch (cause) {
      if (cause instanceof SluiceError) throw cause;
      const why = (cause as NodeJS.ErrnoException).code ?? String(cause);
      throw new SluiceError('registry_unavailable', `the cache ${this.#folder} cannot be written (${why})`, { cause });
    } finally {
      await rm(partial, { recursive: true, force: true });
    }
  }

  async #open(
    key: string,
    { folder, stamp, model }: { folder: string; stamp: string; model: ModelPackage },
  ): Promise<ModelPackage> {
    const opened = { stamp, model: new WeakRef(model), touched: 0 };
    this.#opened.set(key, opened);
    await this.#touch(folder, opened);
    return model;
  }

  async #touch(folder: string, opened: Opened): Promise<void> {
    const now = epochMs();
    if (now - opened.touched < TOUCH_MS) return;
    opened.touched = now;
    await utimes(folder, new Date(epochMs()), new Date(epochMs())).catch(() => {});
  }

  #inUse(key: string): boolean {
    return this.#opened.get(key)?.model.deref() !== undefined;
  }

  /** Evicts the packages that were not used for the longest time, until the cache is within its limit. */
  async #evict(): Promise<void> {
    const now = epochMs();
    const kept: { key: string; bytes: number; used: number }[] = [];
    for (const name of await readdir(this.#folder)) {
      const folder = path.join(this.#folder, name);
      const info = await stat(folder).catch(() => null);
      if (!info) continue;
      if (!name.startsWith('.')) kept.push({ key: name, bytes: await bytesOf(folder), used: info.mtimeMs });
      else if (now - info.mtimeMs > LEFT_BEHIND_MS) await rm(folder, { recursive: true, force: true });
    }
    let bytes = kept.reduce((sum, p) => sum + p.bytes, 0);
    for (const p of kept.sort((a, b) => a.used - b.used)) {
      if (bytes <= this.#options.maxBytes) return;
      if (this.#inUse(p.key) || now - p.used < OTHERS_USE_MS) continue;
      await this.#remove(p.key);
      bytes -= p.bytes;
    }
  }

  /** The folder is renamed before it is deleted, so that it disappears atomically. */
  async #remove(key: string): Promise<void> {
    this.#opened.delete(key);
    const removed = path.join(this.#folder, `.${randomUUID()}.gone`);
    await rename(path.join(this.#folder, key), removed).catch(() => {});
    await rm(removed, { recursive: true, force: true });
  }
}

/** Checks the hash of the package's model file. @throws SluiceError model_invalid | model_hash_mismatch */
export function checkModelFile({ manifest, ref }: ModelPackage, files: readonly PackageFile[]): void {
  const { file, sha256 } = manifest.onnx;
  const found = files.find((f) => f.name === path.posix.normalize(file));
  if (!found) throw new SluiceError('model_invalid', `${ref}: the package contains no ${file}`);
  if (found.sha256 === sha256) return;
  throw new SluiceError(
    'model_hash_mismatch',
    `${ref}: ${file} has sha256 ${found.sha256}, but model.yaml lists ${sha256}`,
  );
}

/** Whether a path stays inside the package on every operating system. */
export const isPackagePath = (name: string): boolean =>
  name.length <= 500 && name.split('/').every((part) => /^[\p{L}\p{N}_][\p{L}\p{N}_.+ -]*$/u.test(part));

async function bytesOf(folder: string): Promise<number> {
  const sizes = (await namesOf(folder)).map(async (n) => (await stat(path.join(folder, n)).catch(() => null))?.size);
  return (await Promise.all(sizes)).reduce<number>((sum, size) => sum + (size ?? 0), 0);
}
