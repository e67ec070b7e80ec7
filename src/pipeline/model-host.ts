// Keeps the worker pools of the models in use: loaded at first need, shared by all requests, closed when others need the room.
import type { ModelPackage } from '../model/package.ts';
import type { Registry } from '../registry/registry.ts';
import { WorkerPool } from './worker-pool.ts';

export interface HostedModel {
  readonly model: ModelPackage;
  readonly pool: WorkerPool;
  /** To be called once when the request is done with it. */
  release(): void;
}

interface Entry {
  model: ModelPackage;
  pool: Promise<WorkerPool>;
  users: number;
  lastUse: number;
}

export interface ModelHostOptions {
  registry: Registry;
  workers: number;
  /** Models kept loaded; those in use are never closed. */
  max: number;
  onWorkerDeath?: (model: ModelPackage, reason: string) => void;
}

export class ModelHost {
  readonly registry: Registry;
  readonly #options: ModelHostOptions;
  readonly #entries = new Map<string, Entry>();

  constructor(options: ModelHostOptions) {
    this.registry = options.registry;
    this.#options = options;
  }

  /** The model a reference means now, loaded. @throws SluiceError model_not_found | model_invalid | model_hash_mismatch */
  async use(reference: string): Promise<HostedModel> {
    const model = await this.registry.resolve(reference);
    // The hash is part of the key: a package put in place of another under the same version is another model.
    const key = `${model.folder}\n${model.manifest.onnx.sha256}`;
    let entry = this.#entries.get(key);
    if (!entry) {
      const pool = WorkerPool.start(
        { model, workers: this.#options.workers },
        { onWorkerDeath: (reason) => this.#options.onWorkerDeath?.(model, reason) },
      );
      entry = { model, pool, users: 0, lastUse: Date.now() };
      this.#entries.set(key, entry);
      pool.catch(() => this.#entries.delete(key));
    }
    const used = entry;
    used.users++;
    let released = false;
    const release = () => {
      if (released) return;
      released = true;
      used.users--;
      used.lastUse = Date.now();
      this.#evict();
    };
    try {
      const pool = await used.pool;
      if (pool.failed) {
        this.#entries.delete(key);
        throw pool.failed;
      }
      return { model: used.model, pool, release };
    } catch (error) {
      release();
      throw error;
    }
  }

  async close(): Promise<void> {
    const entries = [...this.#entries.values()];
    this.#entries.clear();
    await Promise.all(entries.map((e) => e.pool.then((p) => p.close()).catch(() => {})));
  }

  #evict(): void {
    const idle = [...this.#entries].filter(([, e]) => e.users === 0).sort(([, a], [, b]) => a.lastUse - b.lastUse);
    for (const [key, entry] of idle.slice(0, Math.max(0, this.#entries.size - this.#options.max))) {
      this.#entries.delete(key);
      entry.pool.then((p) => p.close()).catch(() => {});
    }
  }
}
