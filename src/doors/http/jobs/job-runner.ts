// Runs jobs: claims the next one, renews its leases, and records how each ended while it holds the lease.

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

/** Keys with a job in addition to `jobs.concurrent`, so that a short job does not wait for a long one. */
const MOST_OTHER_KEYS = 16;
const PROGRESS_MS = 500;
/** How often a server that could run another job looks whether others queued one. */
const LOOK_MS = 500;
/** Pauses between attempts at an upload while something it needs is away; they double. */
const FIRST_PAUSE_MS = 500;
const MAX_PAUSE_MS = 60_000;
/** Timers may be early by a little. */
const PAUSE_SLACK_MS = 20;
/** Attempts after an outage that may not find the topic. */
const UNKNOWN_TOPIC_ATTEMPTS = 5;
/** Between attempts to say how a job ended, while its lease lasts. */
const SETTLE_PAUSE_MS = 200;
/** Renewals within the lifetime of a lease; the job is aborted one interval before its end. */
const BEATS = 5;

interface JobParts {
  services: ServiceContext;
  store: JobStore;
  files: JobFiles;
  quota: JobQuota;
  log: JobLog;
  pipelines: ReadonlyMap<string, UploadPipeline>;
}

/** Something whose lease is renewed. */
interface Lease extends HeldJob {
  owner: string;
  /** A server ended while it ran this job: it runs alone. */
  suspect: boolean;
  controller: AbortController;
  /** Until when this server may act on it, by its monotonic clock; the lease in the table lasts longer. */
  until: number;
}

export class JobRunner {
  readonly #parts: JobParts;
  readonly #running = new Map<string, Lease>();
  readonly #reserved = new Map<string, Lease>();
  /** How often uploads failed for want of something else. */
  readonly #failures = new Map<string, number>();
  /** Attempts since then that did not find the topic. */
  readonly #missing = new Map<string, number>();
  /** What this server gave up, until the table has heard of it. */
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

  /** Jobs being scored now. */
  get running(): number {
    return this.#running.size;
  }

  /** Something may be there to be run. */
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
        // The store has logged it; the next poll tries again.
        if (!areUnavailable(error)) throw error;
      } finally {
        this.#filling = false;
      }
    });
  }

  /** Renews the lease of an upload that comes in until `release`. The signal is aborted where it is lost. */
  reserve(id: string): { signal: AbortSignal; release: () => void } {
    const lease = this.#lease({ id, owner: '', epoch: 0, crashes: 0 });
    this.#reserved.set(id, lease);
    return { signal: lease.controller.signal, release: () => this.#reserved.delete(id) };
  }

  /** The owner of a job that runs here does not want it any more. */
  cancel(id: string): void {
    this.#running.get(id)?.controller.abort(new SluiceError('cancelled', 'the job was cancelled'));
  }

  /** Puts back what runs. Idempotent. */
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
      // Beyond that many jobs a key has one of its own: the workers take turns between keys, row by row.
      const busy = this.#running.size < concurrent ? [] : [...this.#running.values()].map(({ owner }) => owner);
      const claimed = await store.claim([...pipelines.keys()], this.#running.size === 0, busy);
      if (!claimed) return;
      const { id } = claimed.job;
      const lease = this.#lease(claimed.job);
      if (store.leaseMs !== null) lease.until = asked + store.leaseMs;
      this.#running.set(id, lease);
      // It was stopped while the table answered.
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

  /** Aborts jobs whose lease was not renewed in time, before another server can claim them. */
  async #beat(): Promise<void> {
    const margin = this.#parts.store.leaseMs! / BEATS;
    const leases = [...this.#running.values(), ...this.#reserved.values()];
    // Only the table decides whether the lease of an upload is lost: no other server continues it.
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
          if (answer === 'cancel') lease.controller.abort(new SluiceError('cancelled', 'the job was cancelled'));
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
    // Jobs that ended meanwhile are no longer held.
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
      if (cancelled) throw new SluiceError('cancelled', 'the job was cancelled');
      if (job.crashes >= services.config.jobs.max_crashes)
        throw new SluiceError('job_crashed', `${job.crashes} servers crashed while running the job`);
      const { counts, resultBytes, packageSha256 } = await this.#score(job, lease);
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
      await this.#settle(lease, (store) => store.finish(lease, end));
      log.done(job, running, counts, resultBytes);
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

  /** @throws SluiceError job_lease_lost | jobs_unavailable: it is not for this server to say how it ended */
  async #endBadly({ job, cancelled }: ClaimedJob, lease: Lease, running: RunningJobLog, error: unknown): Promise<void> {
    const { log, files, store, services } = this.#parts;
    const { signal } = lease.controller;
    // The reason of the abort counts, not the error it caused, and a stop must not lose an upload.
    const thrown = signal.aborted ? signal.reason : systemFault(error);
    // Not a cancellation: workers report it when they are closed, which a stopping server may do before it stops its jobs.
    const closed = !cancelled && !signal.aborted && (thrown as Partial<SluiceError>).code === 'cancelled';
    const fault = closed ? new SluiceError('stopping', 'the server stops', { cause: thrown }) : thrown;
    const e = withoutNames(asSluiceError(fault, 'internal_error'));
    if (this.#isPassing(job, e) && !signal.aborted) {
      const why = { errorCode: e.code, errorMessage: e.message };
      const pause = this.#pauseOf(job.id);
      await this.#settle(lease, () => store.putBack(lease, pause, why));
      // Its pause started in the table: a poll before its end would find nothing, and be the last.
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
    // With one server, files are removed before the end is recorded.
    const remove = () => Promise.all([files.removeUpload(job.id), files.removeResult(lease)]);
    if (store.leaseMs === null) await remove();
    await this.#settle(lease, () => store.finish(lease, end));
    if (e.code === 'cancelled') log.cancelled(job, running);
    else log.failed(job, running, fault, 'job_failed');
    if (store.leaseMs !== null) await remove();
  }

  /** An acknowledged upload is not lost because something it needs is away. */
  #isPassing({ id, pipeline }: Job, { code, entry }: SluiceError): boolean {
    if (pipeline !== null && code === 'kafka_topic_missing') return this.#mayComeBack(id);
    if (pipeline !== null) return entry.fault === 'dependency' && entry.retryable;
    return this.#parts.store.leaseMs !== null && STORAGE.has(code);
  }

  #forgetFailures(id: string): void {
    this.#failures.delete(id);
    this.#missing.delete(id);
  }

  /** A broker that was away and has just come back may not know its topics yet. */
  #mayComeBack(id: string): boolean {
    const missing = this.#missing.get(id) ?? 0;
    if (!this.#failures.has(id) || missing >= UNKNOWN_TOPIC_ATTEMPTS) return false;
    this.#missing.set(id, missing + 1);
    return true;
  }

  #pauseOf(id: string): number {
    const failures = (this.#failures.get(id) ?? 0) + 1;
    this.#failures.set(id, failures);
    return Math.min(MAX_PAUSE_MS, FIRST_PAUSE_MS * 2 ** Math.min(failures - 1, 20));
  }

  /** Records how a job ended, while this server holds it. @throws SluiceError job_lease_lost | jobs_unavailable */
  async #settle(lease: Lease, say: (store: JobStore) => Promise<boolean>): Promise<void> {
    const { store } = this.#parts;
    for (;;) {
      try {
        if (await say(store)) return;
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
    /** Publishes nothing once another server may hold the job. */
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

/** Faults of what keeps the jobs of several servers. */
const STORAGE: ReadonlySet<ErrorCode> = new Set(['jobs_unavailable', 'storage_unavailable']);

/** Not an error of the job: this server cannot continue it, or cannot record its end. */
const isOurs = (error: unknown): boolean =>
  ['job_lease_lost', 'jobs_unavailable'].includes((error as Partial<SluiceError>).code ?? '');
