// What the jobs of one key may hold: a key that fills its share stops nobody else.
import type { ServerConfig } from '../../../config/server-config.ts';
import { tooMany } from '../../../engine/score-chunks.ts';
import type { JobStore } from './job-store.ts';

/** The table is asked again after so many bytes. */
const ASK_BYTES = 1024 * 1024;

/** A file that is being written for a key. */
export interface GrowingFile {
  /** @throws SluiceError limit_exceeded */
  grow(bytes: number): void;
  /** The file is gone, or its size is in the table. Idempotent. */
  close(): void;
}

export class JobQuota {
  readonly #store: JobStore;
  readonly #limits: ServerConfig['jobs'];
  /** Bytes of files that are being written, by key: the table does not know them yet. */
  readonly #growing = new Map<string, number>();

  constructor(store: JobStore, limits: ServerConfig['jobs']) {
    this.#store = store;
    this.#limits = limits;
  }

  /** @throws SluiceError limit_exceeded: the key has as many jobs as it may */
  assertRoom(owner: string): void {
    const { max_jobs } = this.#limits;
    if (this.#store.kept(owner).jobs >= max_jobs) throw tooMany('jobs.max_jobs', max_jobs, 'jobs');
  }

  file(owner: string): GrowingFile {
    const { max_bytes } = this.#limits;
    let bytes = 0;
    let kept = 0;
    let asked = Number.NEGATIVE_INFINITY;
    const add = (n: number) => {
      bytes += n;
      this.#growing.set(owner, (this.#growing.get(owner) ?? 0) + n);
    };
    return {
      grow: (n) => {
        add(n);
        if (bytes - asked >= ASK_BYTES) {
          kept = this.#store.kept(owner).bytes;
          asked = bytes;
        }
        if (kept + this.#growing.get(owner)! > max_bytes) throw tooMany('jobs.max_bytes', max_bytes, 'bytes');
      },
      close: () => add(-bytes),
    };
  }
}
