// Storage quota of each caller's jobs, so that a caller whose quota is exhausted does not block other callers.
import type { ServerConfig } from '../../../config/server-config.ts';
import { SluiceError, tooMany } from '../../../core/errors.ts';
import type { HeldJob, JobStore } from './job-store.ts';

/** Quota is reserved in steps of this size; with a small quota, in steps of one hundredth of the quota. */
const STEP_BYTES = 1024 * 1024;

/**
 * Reserves quota; called before bytes are written.
 * @throws SluiceError limit_exceeded | jobs_unavailable | job_lease_lost
 */
export type GrowFile = (bytes: number) => Promise<void>;

/**
 * Quota is reserved first and checked afterwards. Files that grow at the same time, even on two servers, thus see each
 * other's reservations. Near the limit, both may be rejected, but the quota is never exceeded.
 */
export class JobQuota {
  readonly #store: JobStore;
  readonly #limits: ServerConfig['jobs'];

  constructor(store: JobStore, limits: ServerConfig['jobs']) {
    this.#store = store;
    this.#limits = limits;
  }

  /** Reserves a job. @throws SluiceError limit_exceeded: the caller has too many jobs | jobs_unavailable */
  async reserve(id: string, owner: string): Promise<void> {
    const { max_jobs } = this.#limits;
    await this.#store.reserve(id, owner);
    if ((await this.#store.kept(owner)).jobs <= max_jobs) return;
    await this.#store.drop(id);
    throw tooMany('jobs.max_jobs', max_jobs, 'jobs');
  }

  /** Reserves quota for an upload or a result while the file is written. */
  file(held: HeldJob, owner: string): GrowFile {
    const { max_bytes } = this.#limits;
    const step = Math.max(1, Math.min(STEP_BYTES, Math.floor(max_bytes / 100)));
    let bytes = 0;
    let taken = 0;
    return async (n) => {
      bytes += n;
      if (bytes <= taken) return;
      taken = Math.ceil(bytes / step) * step;
      if (!(await this.#store.grow(held, taken))) {
        throw new SluiceError('job_lease_lost', 'the lease expired while the job was being written');
      }
      if ((await this.#store.kept(owner)).bytes > max_bytes) throw tooMany('jobs.max_bytes', max_bytes, 'bytes');
    };
  }
}
