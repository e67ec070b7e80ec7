// Runs jobs: claims the next job, renews leases, and records the end of a job while this server holds its lease.

import { inBackground } from '../../../core/async.ts';
import { monotonicMs, sleep, startInterval, startTimer, stopTimer, type Timer } from '../../../core/clock.ts';
import { asSluiceError, type ErrorCode, SluiceError } from '../../../core/errors.ts';
import type { RunCounts } from '../../../engine/counts.ts';
import { systemFault, withoutNames } from '../wire/problem.ts';
import type { ServiceContext } from '../wire/scoring-request.ts';
import type { JobFiles } from './job-files.ts';
import type { JobLog, RunningJobLog } from './job-log.ts';
import type { JobQuota } from './job-quota.ts';
import { areUnavailable, type ClaimedJob, type HeldJob, type Job, type JobEnd, type JobStore } from './job-store.ts';
import { type JobDone, scoreJob, scoreUpload, type UploadPipeline } from './score-job.ts';

/**
 * Maximum number of additional jobs beyond `jobs.concurrent`: one for each caller without a running job. A short job
 * thus does not wait for another caller's long job.
 */
const MOST_OTHER_KEYS = 16;
const PROGRESS_MS = 500;
/** Interval in ms at which a server with free capacity looks for jobs that other servers queued. */
const LOOK_MS = 500;
/**
 * Delays in ms between attempts to score an upload while a dependency is unavailable. A delay doubles up to the
 * maximum.
 */
const FIRST_PAUSE_MS = 500;
const MAX_PAUSE_MS = 60_000;
/** Added to timers in ms, because a timer may fire slightly early. */
const PAUSE_SLACK_MS = 20;
/** Maximum number of attempts after an outage that do not find the topic. */
const UNKNOWN_TOPIC_ATTEMPTS = 5;
/** Maximum number of further attempts to read an upload that is not in object storage, or that changes meanwhile. */
const UNREADABLE_ATTEMPTS = 5;
/** Delay in ms between attempts to record the end of a job. Attempts are repeated while the lease lasts. */
const SETTLE_PAUSE_MS = 200;
/** A lease is renewed this many times within its duration. A job is aborted one interval before its lease ends. */
const BEATS = 5;

interface JobParts {
  services: ServiceContext;
  store: JobStore;
  files: JobFiles;
  quota: JobQuota;
  log: JobLog;
  pipelines: ReadonlyMap<string, UploadPipeline>;
}

/** A job or upload whose lease is renewed. */
interface Lease extends HeldJob {
  owner: string;
  /** Whether a server crashed while it ran this job. The job then runs alone. */
  suspect: boolean;
  controller: AbortController;
  /** Time until which this server may act on the job, by its monotonic clock. In the table, the lease lasts longer. */
  until: number;
}

export class JobRunner {
  readonly #parts: JobParts;
  readonly #running = new Map<string, Lease>();
  readonly #reserved = new Map<string, Lease>();
  /** By upload: the number of failures that dependencies caused. */
  readonly #failures = new Map<string, number>();
  /** By upload: the number of attempts that did not find the topic, or the upload itself. */
  readonly #missing = new Map<string, number>();
  /** Jobs that this server has given up, until the table has recorded that. */
  readonly #givenUp = new Set<HeldJob>();
  readonly #timers: Timer[] = [];
  #filling = false;
  #again = false;
  #renewing = false;
  #stopped = false;

  constructor(parts: JobParts) {
    this.#parts = parts;
    const { leaseMs } = parts.store;
    if (leaseMs === null) return;
    this.#every(LOOK_MS, 'looking for jobs', () => this.wake());
    this.#every(leaseMs / BEATS, 'renew the leases of jobs', () => this.#beat());
  }

  /** Number of jobs being scored. */
  get running(): number {
    return this.#running.size;
  }

  /** Looks for jobs to run. */
  wake(): void {
    this.#again = true;
    if (this.#filling) return;
    this.#filling = true;
    inBackground('starting a job', async () => {
      try {
        while (this.#again && !this.#stopped) {
          this.#again = false;
          await this.#fill();
        }
      } catch (error) {
        // The store has logged the error. The next poll tries again.
        if (!areUnavailable(error)) throw error;
      } finally {
        this.#filling = false;
      }
    });
  }

  /** Renews the lease of an incoming upload until `release` is called. The signal is aborted if the lease is lost. */
  reserve(id: string): { signal: AbortSignal; release: () => void } {
    const lease = this.#lease({ id, owner: '', epoch: 0, crashes: 0 });
    this.#reserved.set(id, lease);
    return { signal: lease.controller.signal, release: () => this.#reserved.delete(id) };
  }

  /** Cancels a job that runs on this server. */
  cancel(id: string): void {
    this.#running.get(id)?.controller.abort(cancelledByOwner());
  }

  /** Stops running jobs and returns them to the queue. Idempotent. */
  async stop(): Promise<void> {
    this.#stopped = true;
    for (const { controller } of this.#running.values())
      controller.abort(new SluiceError('stopping', 'the server stops'));
    while (this.#running.size > 0 || this.#filling) await sleep(10);
    for (const timer of this.#timers) stopTimer(timer);
  }

  #every(ms: number, task: 'looking for jobs' | 'renew the leases of jobs', work: () => unknown): void {
    const timer = startInterval(() => inBackground(task, work), ms);
    timer.unref();
    this.#timers.push(timer);
  }

  #lease({ id, owner, epoch, crashes }: Pick<Job, 'id' | 'owner' | 'epoch' | 'crashes'>): Lease {
    const { leaseMs } = this.#parts.store;
    return {
      id,
      owner,
      epoch,
      suspect: crashes > 0,
      controller: new AbortController(),
      until: leaseMs === null ? Infinity : monotonicMs() + leaseMs,
    };
  }

  async #fill(): Promise<void> {
    const { services, store, pipelines } = this.#parts;
    const { concurrent } = services.config.jobs;
    while (!this.#stopped && this.#running.size < concurrent + MOST_OTHER_KEYS) {
      if (this.#running.values().some((lease) => lease.suspect)) return;
      const asked = monotonicMs();
      // Beyond `concurrent` jobs, only jobs of callers without a running job are claimed. Workers then take turns
      // between callers, block by block.
      const busy = this.#running.size < concurrent ? [] : [...this.#running.values()].map(({ owner }) => owner);
      const claimed = await store.claim([...pipelines.keys()], this.#running.size === 0, busy);
      if (!claimed) return;
      const { id } = claimed.job;
      const lease = this.#lease(claimed.job);
      if (store.leaseMs !== null) lease.until = asked + store.leaseMs;
      this.#running.set(id, lease);
      // The runner was stopped while it waited for the table, so the job must not start.
      if (this.#stopped) lease.controller.abort(new SluiceError('stopping', 'the server stops'));
      inBackground('running a job', async () => {
        try {
          await this.#run(claimed, lease);
        } finally {
          this.#running.delete(id);
          this.wake();
        }
      });
    }
  }

  /** Renews leases. Aborts jobs whose lease was not renewed in time, before another server can claim them. */
  async #beat(): Promise<void> {
    const margin = this.#parts.store.leaseMs! / BEATS;
    const leases = [...this.#running.values(), ...this.#reserved.values()];
    // Only running jobs expire by the clock. No other server continues an incoming upload. The lease of an upload is
    // therefore lost only when the table rejects its renewal.
    for (const lease of this.#running.values()) if (monotonicMs() > lease.until - margin) this.#lose(lease);
    if (this.#renewing || leases.length + this.#givenUp.size === 0) return;
    this.#renewing = true;
    const sent = monotonicMs();
    try {
      const renewed = await this.#parts.store.renew(leases);
      for (const lease of leases) {
        const answer = renewed.get(lease.id);
        if (answer === undefined) this.#lose(lease);
        else {
          lease.until = sent + this.#parts.store.leaseMs!;
          if (answer === 'cancel') lease.controller.abort(cancelledByOwner());
        }
      }
      for (const held of this.#givenUp) {
        await this.#parts.store.giveUp(held);
        this.#givenUp.delete(held);
      }
    } catch (error) {
      if (!areUnavailable(error)) throw error;
    } finally {
      this.#renewing = false;
    }
  }

  #lose(lease: Lease): void {
    // A job that has ended in the meantime has no lease any more.
    if (this.#running.get(lease.id) !== lease && this.#reserved.get(lease.id) !== lease) return;
    lease.controller.abort(new SluiceError('job_lease_lost', 'the lease could not be renewed in time'));
  }

  async #run(claimed: ClaimedJob, lease: Lease): Promise<void> {
    const { job, takenOver, cancelled } = claimed;
    const { log, files, services } = this.#parts;
    if (takenOver) {
      services.metrics.jobTakeovers.inc();
      log.takenOver(job);
    }
    const running = log.started(job);
    try {
      if (cancelled) throw cancelledByOwner();
      if (job.crashes >= services.config.jobs.max_crashes)
        throw new SluiceError('job_crashed', `${job.crashes} servers crashed while running the job`);
      const done = await this.#score(job, lease);
      const { counts, resultBytes, packageSha256 } = done;
      const { rows, scored, rejected } = counts;
      const end = {
        state: 'done',
        rows,
        scored,
        rejected,
        bytesRead: job.uploadBytes,
        resultBytes,
        packageSha256,
      } as const;
      if ((await this.#settle(lease, (store) => store.finish(lease, end))) === 'cancelled') {
        // The request arrived after the last check of the signal, or at another server.
        lease.controller.abort(cancelledByOwner());
        throw lease.controller.signal.reason;
      }
      log.done(job, running, done);
      await files.removeUpload(job.id);
      this.#forgetFailures(job.id);
    } catch (error) {
      try {
        await this.#endBadly(claimed, lease, running, error);
      } catch (lost) {
        if (!isOurs(lost)) throw lost;
        services.metrics.jobLeasesLost.inc();
        log.failed(job, running, lost, 'job_lease_lost');
        if (this.#parts.store.leaseMs === null) return;
        this.#givenUp.add({ id: lease.id, epoch: lease.epoch });
        await files.removeResult(lease);
      }
    }
  }

  /**
   * Records the end of a job that did not succeed.
   * @throws SluiceError job_lease_lost | jobs_unavailable: this server cannot record the end
   */
  async #endBadly({ job, cancelled }: ClaimedJob, lease: Lease, running: RunningJobLog, error: unknown): Promise<void> {
    const { log, files, store, services } = this.#parts;
    const { signal } = lease.controller;
    // After an abort, the abort reason counts, not the error that the abort caused. Stopping the server must not lose
    // an upload.
    const thrown = signal.aborted ? signal.reason : systemFault(error);
    // A stopping server may close its workers before it stops its jobs. Closed workers report `cancelled`, which is not
    // a cancellation of the job.
    const closed = !cancelled && !signal.aborted && (thrown as Partial<SluiceError>).code === 'cancelled';
    const fault = closed ? new SluiceError('stopping', 'the server stops', { cause: thrown }) : thrown;
    const e = withoutPlace(withoutNames(asSluiceError(fault, 'internal_error')), job);
    if (this.#isPassing(job, e) && !signal.aborted) {
      const why = { errorCode: e.code, errorMessage: e.message };
      const pause = this.#pauseOf(job.id);
      await this.#settle(lease, () => store.putBack(lease, pause, why));
      // The delay began when the table recorded the pause. A poll that is slightly early would find nothing, and no
      // other would follow.
      startTimer(() => this.wake(), pause + PAUSE_SLACK_MS).unref();
      log.failed(job, running, fault, 'job_put_off');
      return;
    }
    if (isOurs(e)) throw e;
    if (e.code === 'stopping') {
      await this.#settle(lease, () => store.putBack(lease, 0, null));
      log.queued(job, 'stopping');
      return;
    }
    this.#forgetFailures(job.id);
    if (e.code === 'job_crashed') services.metrics.jobsCrashed.inc();
    const message = e.entry.fault === 'bug' ? null : e.message;
    const end: JobEnd =
      e.code === 'cancelled' ? { state: 'cancelled' } : { state: 'failed', errorCode: e.code, errorMessage: message };
    // With a single server, files are removed before the end of the job is recorded.
    const remove = () => Promise.all([files.removeUpload(job.id), files.removeResult(lease)]);
    if (store.leaseMs === null) await remove();
    await this.#settle(lease, () => store.finish(lease, end));
    if (e.code === 'cancelled') log.cancelled(job, running);
    else log.failed(job, running, fault, 'job_failed');
    if (store.leaseMs !== null) await remove();
  }

  /**
   * Whether the failure is temporary. If so, the job is retried, so that an unavailable dependency does not lose an
   * acknowledged upload.
   */
  #isPassing({ id, pipeline }: Job, { code, entry }: SluiceError): boolean {
    // If two servers complete an upload at the same time, some S3-compatible storage replaces the object in two steps.
    // The object is then missing for a moment.
    if (this.#parts.store.leaseMs !== null && code in UNREADABLE) return this.#mayAppear(id, UNREADABLE_ATTEMPTS);
    if (pipeline !== null && code === 'kafka_topic_missing') return this.#mayComeBack(id);
    if (pipeline !== null) return entry.fault === 'dependency' && entry.retryable;
    return this.#parts.store.leaseMs !== null && STORAGE.has(code);
  }

  #forgetFailures(id: string): void {
    this.#failures.delete(id);
    this.#missing.delete(id);
  }

  /** A broker that is just available again may not know its topics yet. */
  #mayComeBack(id: string): boolean {
    return this.#failures.has(id) && this.#mayAppear(id, UNKNOWN_TOPIC_ATTEMPTS);
  }

  /** Counts an attempt that did not find something. Returns whether the job may be tried again, at most `most` times. */
  #mayAppear(id: string, most: number): boolean {
    const missing = this.#missing.get(id) ?? 0;
    if (missing >= most) return false;
    this.#missing.set(id, missing + 1);
    return true;
  }

  #pauseOf(id: string): number {
    const failures = (this.#failures.get(id) ?? 0) + 1;
    this.#failures.set(id, failures);
    return Math.min(MAX_PAUSE_MS, FIRST_PAUSE_MS * 2 ** Math.min(failures - 1, 20));
  }

  /**
   * Records the end of a job. Tries again while this server holds the lease. Returns `cancelled` if the table refuses a
   * result for this reason.
   * @throws SluiceError job_lease_lost | jobs_unavailable
   */
  async #settle(lease: Lease, say: (store: JobStore) => Promise<boolean | 'cancelled'>): Promise<true | 'cancelled'> {
    const { store } = this.#parts;
    for (;;) {
      try {
        const answer = await say(store);
        if (answer !== false) return answer;
        throw new SluiceError('job_lease_lost', 'the job is in a later epoch: another server runs it');
      } catch (error) {
        const away = areUnavailable(error);
        if (!away || this.#stopped || monotonicMs() > lease.until) throw error;
      }
      await sleep(SETTLE_PAUSE_MS);
    }
  }

  async #score(job: Job, lease: Lease): Promise<JobDone> {
    const { services, store, files, quota, pipelines } = this.#parts;
    const { signal } = lease.controller;
    let told = 0;
    let telling = false;
    const onProgress = ({ rows, scored, rejected }: Readonly<RunCounts>, bytesRead: number): void => {
      if (telling || monotonicMs() - told < PROGRESS_MS) return;
      told = monotonicMs();
      telling = true;
      inBackground('store the progress of a job', async () => {
        try {
          await store.progress(lease, { rows, scored, rejected, bytesRead });
        } catch (error) {
          if (!isOurs(error)) throw error;
        } finally {
          telling = false;
        }
      });
    };
    /** Prevents publication once another server may have claimed the job. */
    const beforeCommit = (): void => {
      if (signal.aborted) throw signal.reason;
      if (monotonicMs() > lease.until)
        throw new SluiceError('job_lease_lost', 'the lease expired before the job ended');
    };
    if (job.pipeline !== null) {
      const pipeline = pipelines.get(job.pipeline)!;
      return scoreUpload(services, job, files.uploadName(job.id), pipeline, { signal, onProgress, beforeCommit });
    }
    const grow = quota.file(lease, job.owner);
    const ends = { upload: files.uploadName(job.id), newResult: () => files.newResult(lease) };
    return scoreJob(services, job, ends, { signal, onProgress, beforeCommit, grow });
  }
}

const cancelledByOwner = (): SluiceError => new SluiceError('cancelled', 'the job was cancelled');

/** Error codes of the shared job storage. */
const STORAGE: ReadonlySet<ErrorCode> = new Set(['jobs_unavailable', 'storage_unavailable']);

/** Errors of shared storage while the upload of a job is read, with messages that do not name the storage. */
const UNREADABLE: Partial<Record<ErrorCode, string>> = {
  input_not_found: 'the stored upload does not exist',
  input_changed: 'the stored upload changed while it was read',
};

/** Errors of the files of jobs, with messages that do not name the files. */
const OF_FILES: Partial<Record<ErrorCode, string>> = {
  ...UNREADABLE,
  input_unreadable: 'the stored upload cannot be read',
};
/** The same of results. A job of a pipeline has none: its errors name the topic or the table. */
const OF_RESULTS: Partial<Record<ErrorCode, string>> = {
  output_full: 'a disk of the server is full',
  output_unwritable: 'the file for the result cannot be created',
  output_failed: 'the file for the result could not be written',
};

/** Replaces the message of an error that names the storage of jobs, which clients must not see. */
function withoutPlace(error: SluiceError, { pipeline }: Job): SluiceError {
  const message = OF_FILES[error.code] ?? (pipeline === null ? OF_RESULTS[error.code] : undefined);
  return message === undefined ? error : new SluiceError(error.code, message, { cause: error });
}

/**
 * Whether the error concerns the lease or the table, not the job. If so, this server can neither continue the job nor
 * record its end.
 */
const isOurs = (error: unknown): boolean =>
  ['job_lease_lost', 'jobs_unavailable'].includes((error as Partial<SluiceError>).code ?? '');
