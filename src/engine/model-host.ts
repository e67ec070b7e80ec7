// Manages the worker pools of the models in use, and switches references to new versions without failing requests.
import { inBackground } from '../core/async.ts';
import { epochMs, monotonicMs, startInterval, stopTimer } from '../core/clock.ts';
import { asSluiceError, type ErrorCode, SluiceError } from '../core/errors.ts';
import type { Word } from '../core/log.ts';
import type { EnginePolicy } from '../inference/evaluate/choose-evaluator.ts';
import { limitMemoPool } from '../inference/explain/memo-pool.ts';
import type { ModelPackage } from '../model/package/model-package.ts';
import type { Registry } from '../model/registry/registry.ts';
import { SpareWorkers } from './spare-workers.ts';
import { WorkerPool } from './worker-pool.ts';

export interface HostedModel {
  readonly model: ModelPackage;
  readonly pool: WorkerPool;
  /** Releases the model. Call this function once, when the request no longer uses the model. */
  release(): void;
}

interface Entry {
  key: string;
  model: ModelPackage;
  pool: Promise<WorkerPool>;
  /** The pool, once it accepts jobs; null until then. */
  open: WorkerPool | null;
  users: number;
  lastUse: number;
  /** References that currently resolve to this version. */
  references: Set<string>;
}

/** A load in progress. */
interface Load {
  /** The loaded version, with each waiting request as a user. */
  readonly entry: Promise<Entry>;
  /** Number of requests that wait for the version. */
  waiting: number;
}

export interface ModelHostEvents {
  onWorkerDeath?: (model: ModelPackage, reason: Word) => void;
  /** Called when a worker has finished a block. `ms`: the time that the block took. */
  onWork?: (ms: number) => void;
  /** Called when a version was loaded. `ms`: time since the version was requested. */
  onLoaded?: (ms: number) => void;
  /** Called when an unused version was closed to make room for other versions. */
  onEvicted?: (model: ModelPackage) => void;
  /**
   * Called when the version to which a reference resolves could not be loaded. `serving`: the version that is still
   * served; null if there is none.
   */
  onLoadFailure?: (reference: string, error: SluiceError, serving: ModelPackage | null) => void;
  /** Called when a reference was switched to another version. */
  onSwap?: (reference: string, from: ModelPackage, to: ModelPackage) => void;
  /** Called when a reference again serves the version to which the registry resolves it. */
  onCurrent?: (reference: string, model: ModelPackage) => void;
}

interface ModelHostOptions extends ModelHostEvents {
  registry: Registry;
  workers: number;
  engine?: EnginePolicy;
  /** Maximum number of loaded models. Models in use are never closed. */
  max: number;
  /** Maximum memory for tables of effects in bytes, over all models and workers. Default: the limit of the process. */
  explainMemoryBytes?: number;
  /** References whose models always stay loaded. One other model can always be loaded in addition. */
  keep?: readonly string[];
  /** Tries a version in another process before it is served. Called once per version. @throws SluiceError */
  tryOut?: (model: ModelPackage, signal: AbortSignal) => Promise<void>;
  /** Delay in ms before a version that failed and has not changed is tried again. Default: 30,000. */
  retryMs?: number;
}

/**
 * Errors of a version or of the registry; after them, the current version stays in use. Other errors are passed to the
 * caller.
 */
const KEEPS_OLD = new Set<ErrorCode>([
  'model_invalid',
  'model_hash_mismatch',
  'self_test_failed',
  'lock_missing',
  'signature_missing',
  'signature_invalid',
  'approval_missing',
  'model_retired',
  'registry_unavailable',
  'model_failed',
  'worker_failed',
]);

/**
 * Maximum number of workers beyond the first of each model, as a multiple of `workers`. More would use memory without
 * using more cores.
 */
const SPARE_WORKERS = 2;

const keyOf = (model: ModelPackage): string =>
  // The hash covers all files, so packages that differ only in a reason code are different models.
  `${model.folder}\n${model.sha256}`;

const held = (entry: Entry): Entry => {
  entry.users++;
  return entry;
};

const jobOf = (reference: string, key: string): string => `${reference}\n${key}`;

/**
 * States of a reference: unknown → loading (requests wait) → current. When the registry resolves the reference to
 * another version, requests get the current version until the next one is loaded; then the reference is swapped. A
 * request keeps the version with which it started. A pool to which no reference resolves is closed after its last
 * request. If the next version fails to load, the error is reported and the current version stays in use.
 */
export class ModelHost {
  readonly registry: Registry;
  readonly #options: ModelHostOptions;
  readonly #entries = new Map<string, Entry>();
  #closed = false;
  /** Aborts loads in progress, because a model that never finishes loading must not delay the shutdown. */
  readonly #stop = new AbortController();
  /** The served version of each reference. */
  readonly #current = new Map<string, Entry>();
  /** Key of the version to which the registry last resolved each reference. */
  readonly #wanted = new Map<string, string>();
  readonly #loading = new Map<string, Load>();
  readonly #failed = new Map<string, { at: number; error: SluiceError }>();
  /** References that do not serve the version to which the registry resolves them. */
  readonly #stale = new Set<string>();
  /** References that the registry does not have any more. Their last version is not served during an outage. */
  readonly #removed = new Set<string>();
  readonly #tried = new Map<string, Promise<void>>();
  readonly #spare: SpareWorkers;

  constructor(options: ModelHostOptions) {
    this.registry = options.registry;
    if (options.explainMemoryBytes !== undefined) limitMemoPool(options.explainMemoryBytes);
    this.#options = options;
    this.#spare = new SpareWorkers(SPARE_WORKERS * options.workers);
  }

  /** Resolves a reference and loads its model. @throws SluiceError model_not_found | model_invalid | model_hash_mismatch | … */
  async use(reference: string): Promise<HostedModel> {
    const entry = await this.#hold(reference);
    let pool: WorkerPool;
    try {
      this.#checkOpen();
      pool = await entry.pool;
    } catch (error) {
      this.#leave(entry);
      throw error;
    }
    if (!pool.failed) return { model: entry.model, pool, release: this.#releaser(entry) };
    // The workers of the pool died repeatedly. The next request starts a new pool for the same version.
    this.#drop(entry);
    this.#leave(entry);
    throw pool.failed;
  }

  /** Resolves a reference to a package without loading the model. @throws SluiceError as `use` */
  async meant(reference: string): Promise<ModelPackage> {
    return (await this.#resolve(reference)).model;
  }

  /** Whether the model of a reference is loaded, so that requests need not wait. */
  serves(reference: string): boolean {
    const open = this.#current.get(reference)?.open;
    return open !== undefined && open !== null && open.failed === null;
  }

  /** Number of loaded versions and of their workers. */
  get loaded(): { models: number; workers: number } {
    const open = [...this.#entries.values()].flatMap((e) => e.open ?? []);
    return { models: open.length, workers: open.reduce((n, pool) => n + pool.ready, 0) };
  }

  /** Terminates the workers and aborts loads in progress. */
  async close(): Promise<void> {
    this.#closed = true;
    this.#stop.abort(new SluiceError('stopping', 'the models are being closed'));
    const entries = [...this.#entries.values()];
    this.#entries.clear();
    this.#current.clear();
    await Promise.all(entries.map((e) => e.pool.then((p) => p.close()).catch(() => {})));
  }

  /** The version in the registry; if the registry fails, its error and the version that is served. @throws SluiceError */
  async #resolve(reference: string): Promise<{ model: ModelPackage; error: SluiceError | null }> {
    try {
      const model = await this.registry.resolve(reference);
      this.#removed.delete(reference);
      return { model, error: null };
    } catch (error) {
      const kept = this.#current.get(reference);
      const e = asSluiceError(error, 'registry_unavailable');
      if (kept && e.code === 'model_not_found') this.#removed.add(reference);
      if (!kept || !KEEPS_OLD.has(e.code) || this.#removed.has(reference)) throw e;
      this.#report(reference, reference, e, kept.model);
      return { model: kept.model, error: e };
    }
  }

  #checkOpen(): void {
    if (this.#closed) throw new SluiceError('stopping', 'the models are being closed');
  }

  /**
   * The version to use for a reference, with the caller as a user. A version without users may be closed at any time,
   * even between the load of the version and the next step of the request that has waited for the load.
   */
  async #hold(reference: string): Promise<Entry> {
    this.#checkOpen();
    const { model, error } = await this.#resolve(reference);
    // The lookup must follow the await, because the previous entry may be closed by now.
    const current = this.#current.get(reference);
    if (error) {
      if (!current) throw error;
      return held(current);
    }
    const key = keyOf(model);
    this.#wanted.set(reference, key);
    if (current?.key === key) {
      if (this.#stale.delete(reference)) this.#options.onCurrent?.(reference, model);
      return held(current);
    }
    if (!current) {
      const load = this.#load(reference, key, model);
      load.waiting++;
      return load.entry.catch((failure: unknown) => {
        const e = asSluiceError(failure, 'model_invalid');
        this.#report(reference, key, e, null);
        throw e;
      });
    }
    const failed = this.#failed.get(key);
    const due = !failed || epochMs() - failed.at > (this.#options.retryMs ?? 30_000);
    // Each version is loaded only once. Requests that arrive during the load get the current version.
    if (due && !this.#loading.has(jobOf(reference, key))) {
      this.#load(reference, key, model).entry.then(
        (entry) => {
          if (this.#current.get(reference) === entry) this.#options.onSwap?.(reference, current.model, model);
        },
        (failure: unknown) => this.#report(reference, key, asSluiceError(failure, 'model_invalid'), current.model),
      );
    }
    return held(current);
  }

  /**
   * Loads a version, or joins a load in progress, and makes the version current for the reference. If the reference was
   * moved to another version meanwhile, for example back to the previous one, the current version stays.
   */
  #load(reference: string, key: string, model: ModelPackage): Load {
    const job = jobOf(reference, key);
    const known = this.#loading.get(job);
    if (known) return known;
    const load: Load = {
      waiting: 0,
      entry: this.#start(key, model).then(
        (entry) => {
          this.#loading.delete(job);
          entry.users += load.waiting;
          const isWanted = this.#wanted.get(reference) === key || !this.#current.has(reference);
          if (isWanted && this.#entries.get(key) === entry) this.#makeCurrent(reference, entry);
          // The load itself was a user.
          entry.users--;
          this.#closeIfDone(entry);
          this.#evict(entry);
          return entry;
        },
        (error: unknown) => {
          this.#loading.delete(job);
          throw error;
        },
      ),
    };
    this.#loading.set(job, load);
    return load;
  }

  #makeCurrent(reference: string, entry: Entry): void {
    const before = this.#current.get(reference);
    before?.references.delete(reference);
    entry.references.add(reference);
    this.#current.set(reference, entry);
    this.#failed.delete(entry.key);
    this.#stale.delete(reference);
    this.#options.onCurrent?.(reference, entry.model);
    if (before) this.#closeIfDone(before);
  }

  /** Opens a version, with the caller as a user, or waits until the version is open. */
  async #start(key: string, model: ModelPackage): Promise<Entry> {
    const known = this.#entries.get(key);
    if (known) return this.#opened(known);
    const asked = monotonicMs();
    let tried = this.#tried.get(key);
    if (!tried) {
      tried = this.#options.tryOut?.(model, this.#stop.signal) ?? Promise.resolve();
      this.#tried.set(key, tried);
      tried.catch(() => this.#tried.delete(key));
    }
    await tried;
    const other = this.#entries.get(key);
    if (other) return this.#opened(other);
    const pool = WorkerPool.start(
      {
        model,
        workers: this.#options.workers,
        inline: true,
        spare: this.#spare,
        ...(this.#options.engine ? { engine: this.#options.engine } : {}),
      },
      {
        onWorkerDeath: (reason) => this.#options.onWorkerDeath?.(model, reason),
        ...(this.#options.onWork ? { onWork: this.#options.onWork } : {}),
      },
      this.#stop.signal,
    );
    const entry: Entry = { key, model, pool, open: null, users: 0, lastUse: epochMs(), references: new Set() };
    this.#entries.set(key, entry);
    await this.#opened(entry);
    this.#options.onLoaded?.(monotonicMs() - asked);
    return entry;
  }

  /** Waits until a version accepts jobs, with the caller as a user. */
  async #opened(entry: Entry): Promise<Entry> {
    entry.users++;
    try {
      entry.open = await entry.pool;
      return entry;
    } catch (error) {
      entry.users--;
      this.#drop(entry);
      throw error;
    }
  }

  #report(reference: string, key: string, error: SluiceError, serving: ModelPackage | null): void {
    if (serving) this.#stale.add(reference);
    const last = this.#failed.get(key);
    // The error is reported once per attempt, not once per request.
    if (last && last.error.message === error.message && epochMs() - last.at < (this.#options.retryMs ?? 30_000)) return;
    this.#failed.set(key, { at: epochMs(), error });
    this.#options.onLoadFailure?.(reference, error, serving);
  }

  #releaser(entry: Entry): () => void {
    let released = false;
    return () => {
      if (released) return;
      released = true;
      this.#leave(entry);
    };
  }

  #leave(entry: Entry): void {
    entry.users--;
    entry.lastUse = epochMs();
    this.#closeIfDone(entry);
    this.#evict();
  }

  /** Removes a version that is to be closed, or has failed: no further request gets the version. */
  #drop(entry: Entry): void {
    if (this.#entries.get(entry.key) === entry) this.#entries.delete(entry.key);
    for (const r of entry.references) {
      if (this.#current.get(r) !== entry) continue;
      this.#current.delete(r);
      this.#removed.delete(r);
    }
    entry.references.clear();
  }

  /**
   * Closes the pool of a version immediately if no reference and no request uses the version, to free workers and
   * memory.
   */
  #closeIfDone(entry: Entry): void {
    if (entry.users > 0 || entry.references.size > 0) return;
    this.#drop(entry);
    entry.pool.then((p) => p.close()).catch(() => {});
  }

  /**
   * Closes the least recently used models while more than the maximum are loaded. `loaded`: a new model that must not
   * be closed, although its requester has not started to use it.
   */
  #evict(loaded: Entry | null = null): void {
    const { keep = [], onEvicted } = this.#options;
    const kept = (e: Entry) => keep.some((reference) => e.references.has(reference));
    const others = [...this.#entries.values()].filter((e) => !kept(e));
    const idle = others.filter((e) => e.users === 0 && e !== loaded).sort((a, b) => a.lastUse - b.lastUse);
    const room = Math.max(1, this.#options.max - (this.#entries.size - others.length));
    for (const entry of idle.slice(0, Math.max(0, others.length - room))) {
      this.#drop(entry);
      this.#closeIfDone(entry);
      onEvicted?.(entry.model);
    }
  }
}

// Keeps configured models loaded: loads them again after a failure, so that readiness checks stay accurate.

export interface KeptModels {
  /** Whether all models are loaded. */
  readonly ready: boolean;
  stop(): void;
}

const EVERY_MS = 2_000;

/**
 * Loads missing models, immediately and then every `everyMs`. The events of the host report why a model is unavailable.
 */
export function keepLoaded(host: ModelHost, references: readonly string[], everyMs = EVERY_MS): KeptModels {
  let stopped = false;
  const loading = new Set<string>();
  const load = async (reference: string): Promise<void> => {
    if (stopped || loading.has(reference) || host.serves(reference)) return;
    loading.add(reference);
    try {
      (await host.use(reference)).release();
    } catch {
      // The error is ignored, because the next interval tries again. Until then, callers get the error.
    } finally {
      loading.delete(reference);
    }
  };
  const loadAll = (): void => {
    for (const reference of references) inBackground('loading a model', () => load(reference));
  };
  loadAll();
  const timer = startInterval(loadAll, everyMs);
  timer.unref();
  return {
    get ready() {
      return references.every((reference) => host.serves(reference));
    },
    stop: () => {
      stopped = true;
      stopTimer(timer);
    },
  };
}
