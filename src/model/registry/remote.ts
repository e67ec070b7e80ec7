// A remote registry. References keep their last resolved version during an outage, and packages are cached.
import { createHash, randomUUID } from 'node:crypto';
import { cp, mkdir, mkdtemp, readFile, rename, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { inBackground } from '../../core/async.ts';
import { monotonicMs, startTimer, stopTimer, type Timer } from '../../core/clock.ts';
import { SluiceError } from '../../core/errors.ts';
import { faultFields, type Log, named, saysOf, words } from '../../core/log.ts';
import { loadPackage, versionOf } from '../package/load-package.ts';
import type { ModelPackage, PackageFile } from '../package/model-package.ts';
import { sealPackage } from '../package/package-lock.ts';
import type { PlannedMove } from './aliases.ts';
import { checkModelFile, isPackagePath, PackageCache } from './cache.ts';
import type { Mover } from './journal.ts';
import {
  type AliasMove,
  assertApprovedHash,
  assertTarget,
  type ModelEntry,
  parseReference,
  pickVersion,
  type Reference,
  type Registry,
  type ResolvableEntry,
  type StateChange,
} from './registry.ts';
import type { Approvals, PlannedState, StateEntry } from './state-journal.ts';
import { asListed, assertNotSigner, assertUnmeant, type FoundEntry, withStandings } from './version-states.ts';

// The last resolved versions are stored on disk, so that a process that restarts during an outage serves the same
// versions.

interface KeptPackage {
  stamp: string;
  /** Key of the package in the cache. */
  sha256: string;
}

/** The resolved versions of a model. */
interface Resolution {
  /** Reference → version. Null if the store does not have the model, so that the fallback registry serves it. */
  references: Record<string, string | null>;
  packages: Record<string, KeptPackage>;
}

/**
 * Resolved versions on disk, one file per model. The folder is named `meanings`, because older releases read this
 * folder.
 */
class Resolutions {
  readonly #folder: string;
  readonly #known = new Map<string, Resolution>();

  constructor(cacheFolder: string, address: string) {
    const name = createHash('sha256').update(address).digest('hex').slice(0, 32);
    this.#folder = path.join(cacheFolder, 'meanings', name);
  }

  /** `id` is safe as a file name, because parseReference has checked it. */
  async of(id: string): Promise<Resolution> {
    const known = this.#known.get(id);
    if (known) return known;
    const resolution = await readResolution(path.join(this.#folder, `${id}.json`));
    const raced = this.#known.get(id);
    if (raced) return raced;
    this.#known.set(id, resolution);
    return resolution;
  }

  async keep(id: string, reference: string, version: string | null): Promise<void> {
    const resolution = await this.of(id);
    if (resolution.references[reference] === version) return;
    resolution.references[reference] = version;
    await this.#write(id, resolution);
  }

  async keepPackage(id: string, version: string, kept: KeptPackage): Promise<void> {
    const resolution = await this.of(id);
    resolution.packages[version] = kept;
    await this.#write(id, resolution);
  }

  /** Forgets the resolved version of a reference, and the package of the version that the reference names by its number. */
  async forget(id: string, reference: string, named: string | undefined): Promise<void> {
    const resolution = await this.of(id);
    const isKept = reference in resolution.references || (named !== undefined && named in resolution.packages);
    if (!isKept) return;
    delete resolution.references[reference];
    if (named !== undefined) delete resolution.packages[named];
    await this.#write(id, resolution);
  }

  async #write(id: string, resolution: Resolution): Promise<void> {
    const partial = path.join(this.#folder, `.${randomUUID()}.partial`);
    try {
      await mkdir(this.#folder, { recursive: true });
      await writeFile(partial, `${JSON.stringify(resolution)}\n`);
      await rename(partial, path.join(this.#folder, `${id}.json`));
    } catch (cause) {
      await rm(partial, { force: true });
      throw new SluiceError('registry_unavailable', `${this.#folder} cannot be written`, { cause });
    }
  }
}

/** A missing or damaged file counts as empty. */
async function readResolution(file: string): Promise<Resolution> {
  const none = (): Resolution => ({ references: Object.create(null), packages: Object.create(null) });
  try {
    const { references, packages } = JSON.parse(await readFile(file, 'utf8')) as Partial<Resolution>;
    const resolution = none();
    Object.assign(resolution.references, references);
    Object.assign(resolution.packages, packages);
    return resolution;
  } catch {
    return none();
  }
}

/**
 * A model in a store. `stamps`: version → a text that changes when another package replaces the version under the same
 * name.
 */
export interface StoredEntry extends FoundEntry {
  stamps: Record<string, string>;
}

type KnownEntry = ResolvableEntry & Pick<StoredEntry, 'stamps'>;

/** The interface of one kind of remote registry. Caching and the handling of outages are not part of it. */
export interface Store {
  /** Address of the store for messages, without credentials. */
  readonly name: string;
  /** @throws SluiceError registry_unavailable */
  entries(): Promise<FoundEntry[]>;
  /**
   * The complete versions and the aliases of a model; null if it has no versions.
   * @throws SluiceError registry_unavailable
   */
  entry(id: string): Promise<StoredEntry | null>;
  /**
   * Downloads the files of a version into an empty folder. `sha256`: the package hash when the version was added, if
   * known.
   * @throws SluiceError model_invalid | registry_unavailable
   */
  fetch(id: string, version: string, folder: string): Promise<{ files: PackageFile[]; sha256?: string }>;
  /** @throws SluiceError model_not_found | registry_unavailable | usage */
  moveAlias(id: string, move: Pick<PlannedMove, 'alias' | 'to' | 'package_sha256' | 'by'>): Promise<AliasMove>;
  history(id: string): Promise<AliasMove[]>;
  /**
   * Returns the version under which the package was added.
   * @throws SluiceError version_exists | registry_unavailable | usage
   */
  add(id: string, version: string, folder: string, files: PackageFile[], by: string | Mover): Promise<string>;
  states(id: string): Promise<StateEntry[]>;
  /**
   * Writes a journal entry. `removed` also deletes the files.
   * @throws SluiceError registry_unavailable | usage | as `stateEntryFor`
   */
  setState(id: string, planned: PlannedState): Promise<StateEntry>;
  close(): void;
}

interface RemoteRegistryOptions {
  cacheFolder: string;
  cacheMaxBytes: number;
  refreshMs: number;
  /** Fallback registry, for ids that the store does not have. */
  behind?: Registry;
  /** Log for outages and damaged packages. */
  log?: Log;
  /** If set, references resolve only to versions with a valid approval. */
  approvals?: Approvals | null;
  /** Called when a reference names a retired version by its number. */
  onRetired?: (ref: string) => void;
  /**
   * Called after each lookup in the store. `stale`: the store was unreachable, so the last resolved version is used.
   */
  onLookup?: (outcome: 'ok' | 'stale' | 'failed') => void;
}

/** A reference that was not used for this many ms is no longer refreshed; its next use queries the store. */
const FOLLOWED_MS = 600_000;
const MAX_KNOWN = 1000;

type Known = { at: number; used: number } & ({ model: ModelPackage } | { error: SluiceError });

export class RemoteRegistry implements Registry {
  readonly #store: Store;
  readonly #options: RemoteRegistryOptions;
  readonly #cache: PackageCache;
  readonly #resolutions: Resolutions;
  readonly #known = new Map<string, Known>();
  readonly #running = new Map<string, Promise<unknown>>();
  #listed: { at: number; entries: ModelEntry[] } | null = null;
  #timer: Timer | null = null;
  /** Number of changes by this process. A lookup that began before a change may have read the state before it. */
  #changes = 0;
  #down = false;
  #closed = false;

  constructor(store: Store, options: RemoteRegistryOptions) {
    this.#store = store;
    this.#options = options;
    const { cacheFolder: folder, cacheMaxBytes: maxBytes, log } = options;
    this.#cache = new PackageCache({ folder, maxBytes, ...(log ? { log } : {}) });
    this.#resolutions = new Resolutions(folder, store.name);
  }

  async list(): Promise<ModelEntry[]> {
    const behind = (await this.#options.behind?.list()) ?? [];
    const entries = await this.#once(`list ${this.#changes}`, () => this.#list());
    const ids = new Set(entries.map((e) => e.id));
    return [...entries, ...behind.filter((e) => !ids.has(e.id))].sort((a, b) => (a.id < b.id ? -1 : 1));
  }

  /**
   * The package to which a reference resolves. References in use are refreshed in the background every `refreshMs`;
   * requests get the last resolved version immediately. That version stays valid during outages of the store, even
   * across restarts.
   * @throws SluiceError model_not_found | model_invalid | model_hash_mismatch | registry_unavailable
   */
  async resolve(reference: string): Promise<ModelPackage> {
    const now = monotonicMs();
    const known = this.#known.get(reference);
    if (known && now - known.used < FOLLOWED_MS) {
      if ('model' in known) {
        known.used = now;
        return known.model;
      }
      if (now - known.at < this.#options.refreshMs) throw known.error;
    }
    return this.#once(`lookup ${this.#changes} ${reference}`, () => this.#lookUp(reference, now));
  }

  async moveAlias(id: string, alias: string, to: string | null, by: string | Mover): Promise<AliasMove> {
    parseReference(`${id}@${alias}`);
    const entry = await this.#entry(id);
    if (!entry) throw new SluiceError('model_not_found', `${this.#store.name} has no model ${id}`);
    // Loads the package, because an alias must not point to a version that cannot be served.
    const model = to === null ? null : await this.#package(entry, assertTarget(entry, to));
    if (model) assertApprovedHash(entry, to!, model);
    const move = await this.#store.moveAlias(id, { alias, to, package_sha256: model?.sha256 ?? null, by });
    await this.#changed(id);
    return move;
  }

  async history(id: string): Promise<AliasMove[]> {
    parseReference(id);
    if (await this.#entry(id)) return this.#store.history(id);
    if (this.#options.behind) return this.#options.behind.history(id);
    throw new SluiceError('model_not_found', `${this.#store.name} has no model ${id}`);
  }

  async states(id: string): Promise<StateEntry[]> {
    parseReference(id);
    const own = await this.#store.states(id);
    return own.length > 0 || (await this.#entry(id)) ? own : ((await this.#options.behind?.states(id)) ?? []);
  }

  /**
   * Changes the state of a version. Does not check whether the version is in use, because a remote registry does not
   * record which processes have loaded it.
   */
  async setState(id: string, version: string, to: StateChange, by: Mover, force = false): Promise<StateEntry> {
    parseReference(`${id}:${version}`);
    const entry = await this.#entry(id);
    const last = (await this.#store.states(id)).findLast((e) => e.version === version);
    const isLeft = to === 'removed' && last?.to === 'removed';
    if (!entry && !isLeft) throw new SluiceError('model_not_found', `${this.#store.name} has no model ${id}`);
    let package_sha256: string | null = null;
    if (entry && !isLeft) {
      pickVersion({ ...entry, approved: null }, { id, version });
      if (to !== 'approved' && !force) assertUnmeant(entry, version);
      const loading = this.#package(entry, version);
      // A damaged version can still be retired or removed.
      const model = to === 'approved' ? await loading : await loading.catch(() => null);
      if (to === 'approved') await assertNotSigner(model!, by);
      package_sha256 = model?.sha256 ?? null;
    }
    const written = await this.#store.setState(id, { version, to, package_sha256, by });
    await this.#changed(id);
    return written;
  }

  async add(id: string, version: string, folder: string, by: string | Mover = 'unknown'): Promise<string> {
    parseReference(`${id}:${version}`);
    const model = await loadPackage(folder);
    if (model.ref !== `${id}:${version}`) {
      throw new SluiceError('usage', `${folder} contains ${model.ref}, not ${id}:${version}`);
    }
    return sealed(model, async (sealedFolder) => this.#add(id, version, sealedFolder, by));
  }

  async #add(id: string, version: string, folder: string, by: string | Mover): Promise<string> {
    const model = await loadPackage(folder);
    const { files } = model;
    checkModelFile(model, files);
    const invalid = files.find((f) => !isPackagePath(f.name));
    if (invalid)
      throw new SluiceError(
        'usage',
        `${folder}: a package cannot contain a file named ${JSON.stringify(invalid.name)}`,
      );
    const added = await this.#store.add(id, version, folder, [...files], by);
    await this.#changed(id);
    return added;
  }

  /** Stops the background refresh. Idempotent. */
  close(): void {
    this.#closed = true;
    if (this.#timer) stopTimer(this.#timer);
    this.#store.close();
  }

  /** Concurrent calls with the same name share one run of `work`. */
  #once<T>(name: string, work: () => Promise<T>): Promise<T> {
    const running = this.#running.get(name);
    if (running) return running as Promise<T>;
    const promise = work().finally(() => this.#running.delete(name));
    this.#running.set(name, promise);
    return promise;
  }

  async #list(): Promise<ModelEntry[]> {
    const now = monotonicMs();
    if (this.#listed && now - this.#listed.at < this.#options.refreshMs) return this.#listed.entries;
    const changes = this.#changes;
    try {
      const found = await this.#store.entries();
      const entries = found.flatMap((entry) => withStandings(entry, null) ?? []).map(asListed);
      this.#reached(true);
      if (changes === this.#changes) this.#listed = { at: monotonicMs(), entries };
      return entries;
    } catch (error) {
      if (!isOutage(error) || !this.#listed) throw error;
      this.#reached(false, error);
      return this.#listed.entries;
    }
  }

  async #lookUp(reference: string, used: number): Promise<ModelPackage> {
    const ref = parseReference(reference);
    const changes = this.#changes;
    try {
      const model = await this.#find(reference, ref, changes);
      if (changes === this.#changes) this.#keep(reference, { model, at: monotonicMs(), used });
      this.#follow();
      return model;
    } catch (error) {
      if (error instanceof SluiceError && !isOutage(error) && changes === this.#changes) {
        this.#keep(reference, { error, at: monotonicMs(), used });
      }
      throw error;
    }
  }

  /**
   * Resolves the reference in the store. If the store is unreachable, uses the last resolved version. `changes`: value
   * of `#changes` when the lookup began.
   */
  async #find(reference: string, ref: Reference, changes: number): Promise<ModelPackage> {
    try {
      const entry = await this.#once(`entry ${changes} ${ref.id}`, () => this.#entry(ref.id));
      if (!entry) return await this.#findBehind(reference, ref);
      const version = pickVersion(entry, ref);
      const model = await this.#package(entry, version);
      assertApprovedHash(entry, version, model);
      if (entry.states[version] === 'retired') this.#options.onRetired?.(`${ref.id}:${version}`);
      if (changes === this.#changes) await this.#resolutions.keep(ref.id, this.#keptAs(reference), version);
      this.#options.onLookup?.('ok');
      return model;
    } catch (error) {
      // A reference that was removed must not be served again during an outage.
      if (changes === this.#changes && error instanceof SluiceError && error.code === 'model_not_found')
        await this.#resolutions.forget(ref.id, this.#keptAs(reference), ref.version).catch(() => {});
      const last = isOutage(error) ? await this.#lastResolution(reference, ref) : null;
      this.#options.onLookup?.(last ? 'stale' : 'failed');
      if (!last) throw error;
      this.#reached(false, error);
      return last;
    }
  }

  async #findBehind(reference: string, ref: Reference): Promise<ModelPackage> {
    if (!this.#options.behind) throw new SluiceError('model_not_found', `${this.#store.name} has no model ${ref.id}`);
    const model = await this.#options.behind.resolve(reference);
    await this.#resolutions.keep(ref.id, this.#keptAs(reference), null);
    return model;
  }

  /**
   * The key of a resolution on disk. If approvals are required, the key differs, so that a version resolved without
   * approvals is not used.
   */
  #keptAs(reference: string): string {
    return this.#options.approvals ? `${reference} approved` : reference;
  }

  async #lastResolution(reference: string, ref: Reference): Promise<ModelPackage | null> {
    const last = await this.#resolutions.of(ref.id);
    const known = last.references[this.#keptAs(reference)];
    const version = this.#options.approvals ? known : (ref.version ?? known);
    if (version === undefined) return null;
    if (version === null || known === null) return this.#options.behind?.resolve(reference) ?? null;
    const kept = last.packages[version];
    return kept ? this.#cache.get(kept.sha256) : null;
  }

  async #entry(id: string): Promise<KnownEntry | null> {
    const found = await this.#store.entry(id);
    this.#reached(true);
    const standing = withStandings(found, this.#options.approvals ?? null);
    return standing && { ...standing, stamps: found!.stamps };
  }

  #package(entry: KnownEntry, version: string): Promise<ModelPackage> {
    return this.#once(`package ${entry.id}:${version}`, async () => {
      const stamp = entry.stamps[version]!;
      const kept = (await this.#resolutions.of(entry.id)).packages[version];
      const cached = kept?.stamp === stamp ? await this.#cache.get(kept.sha256) : null;
      if (cached) return cached;
      const ref = `${entry.id}:${version}`;
      let expected: string | undefined;
      const { key, model } = await this.#cache.put(
        async (folder) => {
          const fetched = await this.#store.fetch(entry.id, version, folder);
          expected = fetched.sha256;
          return fetched.files;
        },
        (m) => {
          if (m.manifest.id !== entry.id || versionOf(m.manifest) !== version) {
            throw new SluiceError('model_invalid', `${this.#store.name}: model.yaml of ${ref} names ${m.ref}`);
          }
          if (expected !== undefined && expected !== m.sha256) {
            throw new SluiceError(
              'model_hash_mismatch',
              `${ref} differs from the version that was added to ${this.#store.name}`,
            );
          }
        },
      );
      await this.#resolutions.keepPackage(entry.id, version, { stamp, sha256: key });
      return model;
    });
  }

  #keep(reference: string, known: Known): void {
    if (this.#known.size >= MAX_KNOWN && !this.#known.has(reference)) {
      // References that failed are evicted first. A client that guesses references thus cannot evict references in use.
      const rank = (k: Known): number => ('error' in k ? 0 : 1);
      const [oldest] = [...this.#known].sort(([, a], [, b]) => rank(a) - rank(b) || a.used - b.used);
      this.#known.delete(oldest![0]);
    }
    this.#known.set(reference, known);
  }

  /** Makes changes by this process take effect immediately. */
  async #changed(id: string): Promise<void> {
    this.#changes++;
    this.#listed = null;
    const references = [...this.#known.keys()].filter((r) => parseReference(r).id === id);
    for (const reference of references) await this.#refresh(reference);
  }

  async #refresh(reference: string): Promise<void> {
    const known = this.#known.get(reference);
    if (!known) return;
    if ('error' in known) this.#known.delete(reference);
    // If the store is unreachable and the disk has no resolution, the resolution in memory is kept.
    else await this.#lookUp(reference, known.used).catch((error) => this.#reached(!isOutage(error), error));
  }

  #follow(): void {
    if (this.#timer || this.#closed) return;
    this.#timer = startTimer(() => inBackground('following a registry', () => this.#ask()), this.#options.refreshMs);
    this.#timer.unref();
  }

  async #ask(): Promise<void> {
    const now = monotonicMs();
    for (const [reference, known] of this.#known) {
      if (now - known.used > FOLLOWED_MS || 'error' in known) this.#known.delete(reference);
    }
    const references = [...this.#known.keys()];
    const next = references.values();
    const worker = async () => {
      for (const reference of next) await this.#once(`again ${reference}`, () => this.#refresh(reference));
    };
    await Promise.all([worker(), worker(), worker(), worker()]);
    this.#timer = null;
    if (references.length > 0) this.#follow();
  }

  #reached(reached: boolean, error?: unknown): void {
    if (reached !== this.#down || this.#closed) return;
    this.#down = !reached;
    const { log } = this.#options;
    if (reached) log?.('info', 'registry_up', words`the registry ${named(this.#store.name)} is reachable again`);
    else {
      const says = words`the registry is unreachable; serving the last known versions: ${saysOf(error)}`;
      log?.('warn', 'registry_down', says, faultFields(error));
    }
  }
}

/**
 * Runs `work` with a folder that contains the package with its lock file. If the original has no lock file, uses a
 * copy.
 */
async function sealed<T>({ folder, locked }: ModelPackage, work: (folder: string) => Promise<T>): Promise<T> {
  if (locked) return work(folder);
  const copy = await mkdtemp(path.join(tmpdir(), 'sluice-package-'));
  try {
    await cp(folder, copy, { recursive: true });
    await sealPackage(copy);
    return await work(copy);
  } finally {
    await rm(copy, { recursive: true, force: true });
  }
}

const isOutage = (error: unknown): boolean => error instanceof SluiceError && error.code === 'registry_unavailable';
