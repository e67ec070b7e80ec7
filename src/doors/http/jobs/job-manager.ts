// Manages asynchronous jobs: stores uploads, scores them in turn, and stores results until they expire.
import { createHash, randomUUID } from 'node:crypto';
import type { Readable } from 'node:stream';
import type { FastifyRequest } from 'fastify';
import { inBackground } from '../../../core/async.ts';
import { startInterval, stopTimer, type Timer } from '../../../core/clock.ts';
import { SluiceError } from '../../../core/errors.ts';
import { named } from '../../../core/log.ts';
import type { ByteSink } from '../../../io/sink/byte-sink.ts';
import type { Identity } from '../access/identity.ts';
import { openBody, type RequestBody } from '../wire/request-body.ts';
import { tellModel } from '../wire/request-log.ts';
import { bodyOptions, type JobSpec, refuseEmptyBody, type ServiceContext } from '../wire/scoring-request.ts';
import type { ByteSpan, JobFiles, ResumableFiles } from './job-files.ts';
import { JobLog } from './job-log.ts';
import { type GrowFile, JobQuota } from './job-quota.ts';
import { assertOwn, idempotencyKeyOf, keyConflict, mayStillUse, newJob, type Repeated } from './job-requests.ts';
import { JobRunner } from './job-runner.ts';
import { areUnavailable, type Job, type JobPage, type JobStore, type NewJob } from './job-store.ts';
import { ResumableUploads } from './resumable-uploads.ts';
import type { UploadPipeline } from './score-job.ts';
import type { UploadStore } from './upload-store.ts';

const SWEEP_MS = 60_000;
/** Number of lease durations between two sweeps; with shorter leases, abandoned jobs are found sooner. */
const SWEEP_LEASES = 4;

/** The storage of jobs, with a function that closes it. */
export interface JobPlace {
  store: JobStore;
  files: JobFiles & ResumableFiles;
  /** Jobs that were running when the previous server process ended. */
  cutOff: readonly Job[];
  /** The table of uploads that arrive in parts. */
  uploads: UploadStore;
  close(): Promise<void>;
}

/** The operations on jobs that routes need. `JobRunner` runs the jobs, and the store holds them. */
export class JobManager {
  /** Uploads that arrive in parts. */
  readonly uploads: ResumableUploads;
  readonly #services: ServiceContext;
  readonly #place: JobPlace;
  readonly #log: JobLog;
  readonly #quota: JobQuota;
  readonly #runner: JobRunner;
  readonly #pipelines: ReadonlyMap<string, UploadPipeline>;
  readonly #sweepMs: number;
  readonly #sweeper: Timer;
  readonly #unmeasure: () => void;
  /** Whether this server sweeps, and reports the metrics of the shared table. */
  #sweeps = false;
  #closing: Promise<void> | null = null;

  constructor(services: ServiceContext, pipelines: readonly UploadPipeline[], place: JobPlace) {
    const { store, files } = place;
    this.#services = services;
    this.#place = place;
    this.#log = new JobLog(services.log, services.tracer);
    this.#pipelines = new Map(pipelines.map((p) => [p.name, p]));
    this.#quota = new JobQuota(store, services.config.jobs);
    this.#runner = new JobRunner({
      services,
      store,
      files,
      quota: this.#quota,
      log: this.#log,
      pipelines: this.#pipelines,
    });
    this.uploads = this.#resumable();
    for (const job of place.cutOff) this.#log.queued(job, 'crash');
    this.#sweepMs = store.leaseMs === null ? SWEEP_MS : Math.min(SWEEP_MS, store.leaseMs * SWEEP_LEASES);
    this.#sweeper = startInterval(() => inBackground('sweeping the jobs', () => this.#sweep()), this.#sweepMs);
    this.#sweeper.unref();
    this.#unmeasure = services.metrics.onScrape(() => this.#measure());
  }

  #resumable(): ResumableUploads {
    return new ResumableUploads({
      ...this.#place,
      services: this.#services,
      quota: this.#quota,
      log: this.#log,
      pipelines: this.#pipelines,
      reserve: (id) => this.#runner.reserve(id),
      wake: () => this.#runner.wake(),
    });
  }

  /** Sweeps, and starts to run queued jobs. */
  async start(): Promise<void> {
    // Shared storage is swept in the background, so that this server accepts requests sooner.
    if (this.#place.store.leaseMs === null) await this.#sweep();
    else inBackground('sweeping the jobs', () => this.#sweep());
    this.#runner.wake();
  }

  /** False if the last call to the job table failed. */
  get reachable(): boolean {
    return this.#place.store.reachable;
  }

  /**
   * Stores the body of a request and queues a job. Repeating the Idempotency-Key with the same body returns the same
   * job.
   * @throws SluiceError limit_exceeded | idempotency_conflict | idempotency_key_reused | model_not_found |
   * jobs_unavailable | errors of the body
   */
  async create(request: FastifyRequest, spec: JobSpec): Promise<Job> {
    const { admission } = this.#services;
    const owner = request.identity!.name;
    const idempotencyKey = idempotencyKeyOf(request);
    const { format, query, pipeline } = spec;
    const fingerprint = JSON.stringify(pipeline === null ? [format, query] : [format, query, pipeline]);
    const gone = new AbortController();
    const onClose = () => gone.abort(new SluiceError('client_gone', 'the client closed the connection'));
    const client = request.raw.socket;
    client.on('close', onClose);
    // An upload waits for its turn like a synchronous request, and a stopping server waits for the upload.
    const place = admission.enter(owner);
    try {
      const body = await openBody(request, { ...bodyOptions(this.#services, request), whileIdle: place.idle });
      await place.begin(gone.signal);
      return await this.#take(request, body, spec, { owner, idempotencyKey, fingerprint });
    } finally {
      place.leave();
      client.off('close', onClose);
    }
  }

  async #take(request: FastifyRequest, body: RequestBody, spec: JobSpec, who: Repeated): Promise<Job> {
    const { files } = this.#place;
    const { owner } = who;
    const earlier = await this.#sameKey(who);
    // The bodies can be compared only after this body was read.
    if (earlier) return this.#again(earlier, earlier.bodySha256 === null ? null : await hashOf(body));
    const id = randomUUID();
    await this.#quota.reserve(id, owner);
    const lease = this.#runner.reserve(id);
    let job: Job | null = null;
    try {
      // The version is resolved now, because an alias may move while the job waits.
      const hosted = await this.#services.host.use(spec.query.modelId);
      const { model } = hosted;
      hosted.release();
      const { bytes, sha256 } = await spool(body, await files.newUpload(id), this.#quota.file({ id, epoch: 0 }, owner));
      // Two requests with the same Idempotency-Key may be stored at the same time. The request whose job is first in
      // the table wins.
      const rival = await this.#sameKey(who);
      if (rival) return await this.#again(rival, sha256);
      refuseEmptyBody({ rows: bytes }, spec.format, request.headers);
      if (lease.signal.aborted) throw lease.signal.reason;
      const made = { ...who, id, bodySha256: sha256, uploadBytes: bytes };
      job = await this.#enqueue(newJob(request, spec, made, { modelId: model.ref, pipelines: this.#pipelines }));
      if (job.id !== id) {
        const other = job;
        job = null;
        return await this.#again(other, sha256);
      }
      request.story.job = named(id);
      tellModel(request, model);
      this.#log.queued(job);
      return job;
    } finally {
      lease.release();
      if (job) this.#runner.wake();
      else await this.#discard(id);
    }
  }

  /** The job in the table: either this job, or an earlier job with the same Idempotency-Key. */
  async #enqueue(job: NewJob): Promise<Job> {
    const { store } = this.#place;
    const answer = await store.enqueue(job);
    if (answer === 'lost')
      throw new SluiceError('job_lease_lost', 'the lease of the upload expired before the upload was complete');
    const there = answer === 'queued' ? await store.get(job.id) : await this.#sameKey(job);
    // The job was deleted before it could be read.
    if (!there) throw new SluiceError('job_not_found', 'the job was deleted immediately');
    return there;
  }

  /** Discards an upload that did not become a job. */
  async #discard(id: string): Promise<void> {
    const { store, files } = this.#place;
    try {
      await store.drop(id);
    } catch (error) {
      // The quota stays reserved until the lease expires; a sweep then removes the reservation.
      if (!areUnavailable(error)) throw error;
    }
    if (store.leaseMs === null || (await this.#isUnknown(id))) await files.removeUpload(id);
  }

  /** Whether the table does not contain the job. False if the table is unreachable. */
  async #isUnknown(id: string): Promise<boolean> {
    try {
      return (await this.#place.store.known([id])).size === 0;
    } catch {
      return false;
    }
  }

  /**
   * The job with the same Idempotency-Key; null if there is none.
   * @throws SluiceError idempotency_conflict: the key belongs to a different request
   */
  async #sameKey({ owner, idempotencyKey, fingerprint }: Repeated): Promise<Job | null> {
    if (idempotencyKey === null) return null;
    if (await this.uploads.hasKey(owner, idempotencyKey)) throw keyConflict();
    const job = await this.#place.store.byIdempotencyKey(owner, idempotencyKey);
    if (job === null || job.fingerprint === fingerprint) return job;
    throw keyConflict();
  }

  /**
   * The current state of a job, for a repeated request.
   * @throws SluiceError idempotency_key_reused: the body is different
   */
  async #again(job: Job, sha256: string | null): Promise<Job> {
    if (sha256 !== null && job.bodySha256 !== null && job.bodySha256 !== sha256) {
      throw new SluiceError('idempotency_key_reused', 'the Idempotency-Key was used with another body');
    }
    return (await this.#place.store.get(job.id)) ?? job;
  }

  /**
   * @throws SluiceError job_not_found; also for a job of another caller, and for a job of a model that the caller may
   * no longer use
   */
  async find(id: string, identity: Identity): Promise<Job> {
    return assertOwn(await this.#place.store.get(id), identity, this.#pipelines, 'job_not_found');
  }

  /** A page of the caller's jobs. Includes jobs of models that the caller may no longer use. */
  list({ name }: Identity, page: JobPage): Promise<Job[]> {
    return this.#place.store.list(name, page);
  }

  /** Whether an identity may still use the model of a job. */
  isVisible(job: Job, identity: Identity): boolean {
    return mayStillUse(identity, job, this.#pipelines);
  }

  /** @throws SluiceError job_not_found: the result was removed in the meantime | jobs_unavailable */
  readResult(job: Job, span: ByteSpan | null): Promise<Readable> {
    return this.#place.files.readResult(job, span);
  }

  /** Cancels a queued or running job, whichever server runs it. Removes a finished job with its result. */
  async cancel(job: Job): Promise<void> {
    const { store, files } = this.#place;
    const how = await store.cancel(job.id);
    if (how === 'asked') {
      this.#runner.cancel(job.id);
      return;
    }
    if (how === 'cancelled') this.#log.cancelled(job, null);
    else await store.remove(job.id);
    await files.removeUpload(job.id);
    // The job may have ended in the meantime; its epoch is then unchanged, so its result is removed.
    await files.removeResult(job);
  }

  /** Number of jobs being scored. */
  get running(): number {
    return this.#runner.running;
  }

  close(): Promise<void> {
    this.#closing ??= this.#close();
    return this.#closing;
  }

  async #close(): Promise<void> {
    stopTimer(this.#sweeper);
    this.#unmeasure();
    await this.uploads.close();
    await this.#runner.stop();
    await this.#place.close();
  }

  async #measure(): Promise<void> {
    const { metrics } = this.#services;
    const { store } = this.#place;
    metrics.jobTableUp.set(store.reachable ? 1 : 0);
    metrics.jobs.reset();
    // Only one server reports the metrics of the shared table, so that sums over all servers are correct.
    if (!this.#sweeps || !store.reachable) return;
    try {
      metrics.resumableUploads.set(await this.uploads.open());
      for (const [state, n] of Object.entries(await store.counts())) metrics.jobs.set({ state }, n);
    } catch {
      metrics.jobTableUp.set(0);
    }
  }

  /** Removes expired jobs, and files that belong to no job. One server does this for all. */
  async #sweep(): Promise<void> {
    const { store, files } = this.#place;
    try {
      this.#sweeps = await store.takeSweep(this.#sweepMs * 1.5);
      if (!this.#sweeps) return;
      for (const gone of await store.expire(this.#services.config.jobs.keep_ms)) {
        await files.removeUpload(gone.id);
        await files.removeResult(gone);
      }
      await this.uploads.sweep();
      await files.sweep((ids) => store.known(ids));
    } catch (error) {
      // The unreachable table was logged already. The next sweep continues.
      if (!areUnavailable(error)) throw error;
    }
  }
}

/**
 * Writes a body to an upload. When the promise resolves, the upload is durable; when it rejects, the upload was
 * removed. The hash covers the decoded body.
 * @throws errors of the body, the quota and the sink
 */
async function spool(body: RequestBody, upload: ByteSink, grow: GrowFile): Promise<{ bytes: number; sha256: string }> {
  const hash = createHash('sha256');
  let bytes = 0;
  try {
    for await (const chunk of body.chunks()) {
      bytes += chunk.length;
      await grow(chunk.length);
      hash.update(chunk);
      await upload.write(chunk);
    }
    await upload.commit();
  } catch (error) {
    await upload.abort();
    throw error;
  }
  return { bytes, sha256: hash.digest('hex') };
}

/** Computes the SHA-256 of a body. @throws errors of the body */
async function hashOf(body: RequestBody): Promise<string> {
  const hash = createHash('sha256');
  for await (const chunk of body.chunks()) hash.update(chunk);
  return hash.digest('hex');
}
