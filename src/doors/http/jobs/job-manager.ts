// Asynchronous jobs: an upload is spooled, scored in its turn, and its result kept for a time.
import { randomUUID } from 'node:crypto';
import { readdir, rm, stat, unlink } from 'node:fs/promises';
import path from 'node:path';
import type { FastifyRequest } from 'fastify';
import { asSluiceError, SluiceError } from '../../../core/errors.ts';
import { inBackground } from '../../../core/in-background.ts';
import { named, words } from '../../../core/log.ts';
import { traceparentOf } from '../../../core/tracing.ts';
import { assertUsable } from '../../../core/usable-folder.ts';
import type { RunCounts } from '../../../engine/counts.ts';
import { type UploadSpec, uploadTarget } from '../../../runs/upload-run.ts';
import {
  type BodyFormat,
  bodyOptions,
  type PredictQuery,
  type PredictServices,
  refuseNothingSent,
} from '../routes/predict.ts';
import { withoutNames } from '../wire/no-echo.ts';
import { systemFault } from '../wire/problem.ts';
import { openBody, type RequestBody } from '../wire/request-body.ts';
import { tellModel } from '../wire/request-log.ts';
import { lockFolder } from './folder-lock.ts';
import { JobLog } from './job-log.ts';
import { nextOf } from './job-order.ts';
import { JobQuota } from './job-quota.ts';
import { type Job, JobStore } from './job-store.ts';
import { type JobDone, scoreJob, scoreUpload } from './score-job.ts';
import { hashOf, spool } from './spool.ts';

const SWEEP_MS = 60_000;
const PROGRESS_MS = 500;
/** Pauses between attempts at an upload while something it needs is away; they double. */
const FIRST_PAUSE_MS = 500;
const MAX_PAUSE_MS = 60_000;

/** What a job knows of itself before it is scored. */
const UNBEGUN = { rows: 0, scored: 0, rejected: 0, bytesRead: 0, packageSha256: null, errorCode: null, errorMessage: null }; // biome-ignore format: one line

/** A pipeline whose source is an upload. */
export interface UploadPipeline {
  name: string;
  spec: UploadSpec;
}

/** What a request wants of a job. */
export interface AskedJob {
  format: BodyFormat;
  query: PredictQuery;
  /** Name of the pipeline that takes the upload; null: the result is fetched. */
  pipeline: string | null;
}

/**
 * Modes of a job: queued → running → done | failed | cancelled → removed when its time is up. A server that stops puts
 * what it was running back to queued; what is found running at the start was cut off by a crash and is queued again.
 */
export class JobManager {
  readonly #services: PredictServices;
  readonly #store: JobStore;
  readonly #log: JobLog;
  readonly #quota: JobQuota;
  readonly #folder: string;
  /** Lets go of the folder. */
  readonly #unlock: () => void;
  readonly #pipelines: ReadonlyMap<string, UploadPipeline>;
  readonly #running = new Map<string, { owner: string; controller: AbortController }>();
  /** When a job of each key was started last. */
  readonly #started = new Map<string, number>();
  /** Uploads that failed for want of something else, and when they are tried again. */
  readonly #waiting = new Map<string, { failures: number; until: number }>();
  readonly #sweeper: NodeJS.Timeout;
  #stopped = false;

  private constructor(services: PredictServices, pipelines: readonly UploadPipeline[], unlock: () => void) {
    this.#services = services;
    this.#log = new JobLog(services.log, services.tracer);
    this.#pipelines = new Map(pipelines.map((p) => [p.name, p]));
    this.#folder = path.resolve(services.config.jobs.folder);
    this.#unlock = unlock;
    this.#store = new JobStore(this.#folder);
    this.#quota = new JobQuota(this.#store, services.config.jobs);
    this.#sweeper = setInterval(() => inBackground('sweeping the jobs', () => this.#sweep()), SWEEP_MS);
    this.#sweeper.unref();
  }

  /** @throws SluiceError folder_unusable | folder_in_use */
  static async open(services: PredictServices, pipelines: readonly UploadPipeline[]): Promise<JobManager> {
    const { folder, lock_wait_ms } = services.config.jobs;
    const place = path.resolve(folder);
    await assertUsable('jobs.folder', place);
    const unlock = await lockFolder(place, lock_wait_ms, () => {
      services.log('warn', 'folder_in_use', words`another server works in ${named(place)}: waiting for it`);
    });
    try {
      const manager = new JobManager(services, pipelines, unlock);
      for (const job of manager.#store.all()) {
        if (job.state !== 'running') continue;
        manager.#store.update(job.id, { state: 'queued' });
        manager.#log.queued(job, 'crash');
      }
      await manager.#sweep();
      manager.#next();
      return manager;
    } catch (error) {
      unlock();
      throw error;
    }
  }

  /**
   * Spools the body of a request and queues it. The same Idempotency-Key with the same body gives the same job again.
   * @throws SluiceError limit_exceeded | idempotency_conflict | idempotency_key_reused | model_not_found | what the body throws
   */
  async create(request: FastifyRequest, asked: AskedJob): Promise<Job> {
    const { admission } = this.#services;
    const owner = request.identity!.name;
    const idempotencyKey = (request.headers['idempotency-key'] as string | undefined) ?? null;
    if (idempotencyKey !== null && !/^[\x21-\x7e]{1,200}$/.test(idempotencyKey)) {
      throw new SluiceError('bad_request', 'an Idempotency-Key is 1 to 200 visible ASCII characters');
    }
    const { format, query, pipeline } = asked;
    const fingerprint = JSON.stringify(pipeline === null ? [format, query] : [format, query, pipeline]);
    const gone = new AbortController();
    const onClose = () => gone.abort(new SluiceError('client_gone', 'the client closed the connection'));
    const { socket } = request.raw;
    socket.on('close', onClose);
    // An upload takes its turn like a request that is answered at once, and a stopping server waits for it.
    const place = admission.enter(owner);
    try {
      const body = await openBody(request, { ...bodyOptions(this.#services, request), whileIdle: place.idle });
      await place.begin(gone.signal);
      return await this.#take(request, body, asked, { owner, idempotencyKey, fingerprint });
    } finally {
      place.leave();
      socket.off('close', onClose);
    }
  }

  async #take(
    request: FastifyRequest,
    body: RequestBody,
    { format, query, pipeline }: AskedJob,
    who: Pick<Job, 'owner' | 'idempotencyKey' | 'fingerprint'>,
  ): Promise<Job> {
    const { owner } = who;
    const earlier = this.#sameKey(who);
    // Which body it belongs to is known at the end of this one only.
    if (earlier) return this.#again(earlier, earlier.bodySha256 === null ? null : await hashOf(body));
    this.#quota.assertRoom(owner);
    // A version is pinned now: what was asked for is what is scored, however long it waits.
    const hosted = await this.#services.host.use(query.modelId);
    const { model } = hosted;
    hosted.release();
    const id = randomUUID();
    const upload = this.#path(id, 'upload');
    const room = this.#quota.file(owner);
    try {
      const { bytes, sha256 } = await spool(body, upload, room);
      // Two requests with one Idempotency-Key may have been spooled side by side: the first one in the table stands.
      const rival = this.#sameKey(who);
      if (rival) return this.#again(rival, sha256);
      refuseNothingSent({ rows: bytes }, format, request.headers);
      const job: Job = {
        ...who,
        id,
        format,
        query: { ...query, modelId: model.ref },
        bodySha256: sha256,
        requestId: request.id,
        trace: request.story.trace === null ? null : traceparentOf(request.story.trace),
        pipeline,
        target: pipeline === null ? null : uploadTarget(this.#pipelines.get(pipeline)!.spec, id),
        ...UNBEGUN,
        state: 'queued',
        uploadBytes: bytes,
        resultBytes: 0,
        created: Date.now(),
        finished: null,
      };
      this.#store.insert(job);
      request.story.job = named(id);
      tellModel(request, model);
      this.#log.queued(job);
      this.#next();
      return job;
    } finally {
      room.close();
      if (!this.#store.get(id)) await unlink(upload).catch(() => {});
    }
  }

  /** The job that has this Idempotency-Key. @throws SluiceError idempotency_conflict: it was asked for something else */
  #sameKey({ owner, idempotencyKey, fingerprint }: Pick<Job, 'owner' | 'idempotencyKey' | 'fingerprint'>): Job | null {
    const job = idempotencyKey === null ? null : this.#store.byIdempotencyKey(owner, idempotencyKey);
    if (job === null || job.fingerprint === fingerprint) return job;
    throw new SluiceError(
      'idempotency_conflict',
      'the Idempotency-Key belongs to a request that asked for something else',
    );
  }

  /** A job as it stands now, for a request that repeats it. @throws SluiceError idempotency_key_reused: with another body */
  #again(job: Job, sha256: string | null): Job {
    if (sha256 !== null && job.bodySha256 !== null && job.bodySha256 !== sha256) {
      throw new SluiceError('idempotency_key_reused', 'the Idempotency-Key belongs to a request with another body');
    }
    return this.#store.get(job.id) ?? job;
  }

  /** @throws SluiceError job_not_found, also for a job of another key */
  find(id: string, owner: string): Job {
    const job = this.#store.get(id);
    if (!job || job.owner !== owner) throw new SluiceError('job_not_found', 'there is no such job');
    return job;
  }

  resultPath(job: Job): string {
    return this.#path(job.id, 'result');
  }

  /** Cancels a job that is queued or running; a finished one is removed with its result. */
  async cancel(job: Job): Promise<void> {
    if (job.state === 'queued') {
      this.#finish(job.id, { state: 'cancelled' });
      this.#log.cancelled(job, null);
    } else if (job.state === 'running') {
      this.#running.get(job.id)?.controller.abort(new SluiceError('cancelled', 'the job was cancelled'));
      return;
    } else this.#store.remove(job.id);
    await this.#removeFiles(job.id);
  }

  /** Jobs being scored now. */
  get running(): number {
    return this.#running.size;
  }

  async close(): Promise<void> {
    if (this.#stopped) return;
    this.#stopped = true;
    clearInterval(this.#sweeper);
    for (const { controller } of this.#running.values())
      controller.abort(new SluiceError('stopping', 'the server stops'));
    while (this.#running.size > 0) await new Promise((resolve) => setTimeout(resolve, 10));
    this.#store.close();
    this.#unlock();
  }

  #next(): void {
    if (this.#stopped) return;
    const jobs = this.#store.all();
    this.#services.metrics.jobs.reset();
    for (const j of jobs) this.#services.metrics.jobs.inc({ state: j.state });
    while (this.#running.size < this.#services.config.jobs.concurrent) {
      const job = nextOf(
        jobs.filter((j) => j.state === 'queued' && this.#mayRun(j)),
        [...this.#running.values()].map((r) => r.owner),
        this.#started,
      );
      if (!job) return;
      const controller = new AbortController();
      this.#running.set(job.id, { owner: job.owner, controller });
      this.#started.set(job.owner, performance.now());
      this.#store.update(job.id, { ...UNBEGUN, state: 'running' });
      inBackground('running a job', async () => {
        try {
          await this.#run(job, controller.signal);
        } finally {
          this.#running.delete(job.id);
          this.#next();
        }
      });
    }
  }

  #mayRun({ id, pipeline }: Job): boolean {
    if (this.#running.has(id) || (this.#waiting.get(id)?.until ?? 0) > Date.now()) return false;
    // It waits until a service has its pipeline again.
    return pipeline === null || this.#pipelines.has(pipeline);
  }

  async #run(job: Job, signal: AbortSignal): Promise<void> {
    const running = this.#log.started(job);
    try {
      const { counts, resultBytes, packageSha256 } = await this.#score(job, signal);
      const { rows, scored, rejected } = counts;
      this.#finish(job.id, {
        state: 'done',
        rows,
        scored,
        rejected,
        bytesRead: job.uploadBytes,
        resultBytes,
        packageSha256,
        uploadBytes: 0,
      });
      this.#log.done(job, running, counts, resultBytes);
      await unlink(this.#path(job.id, 'upload')).catch(() => {});
    } catch (error) {
      // Whoever ended it says why: what was thrown on the way may be another word for it, and a stop must not lose an upload.
      const fault = signal.aborted ? signal.reason : systemFault(error);
      const e = withoutNames(asSluiceError(fault, 'internal_error'));
      if (job.pipeline !== null && e.entry.fault === 'dependency' && e.entry.retryable && !signal.aborted) {
        this.#log.failed(job, running, fault, 'job_put_off');
        this.#putOff(job.id, e);
        return;
      }
      if (e.code === 'stopping') {
        this.#log.queued(job, 'stopping');
        this.#store.update(job.id, { state: 'queued' });
        return;
      }
      if (e.code === 'cancelled') this.#log.cancelled(job, running);
      else this.#log.failed(job, running, fault, 'job_failed');
      await this.#removeFiles(job.id);
      this.#finish(
        job.id,
        e.code === 'cancelled'
          ? { state: 'cancelled', uploadBytes: 0 }
          : {
              state: 'failed',
              uploadBytes: 0,
              errorCode: e.code,
              errorMessage: e.entry.fault === 'bug' ? null : e.message,
            },
      );
    }
  }

  async #score(job: Job, signal: AbortSignal): Promise<JobDone> {
    const files = { upload: this.#path(job.id, 'upload'), result: this.resultPath(job) };
    let told = 0;
    const onProgress = ({ rows, scored, rejected }: Readonly<RunCounts>, bytesRead: number): void => {
      if (performance.now() - told < PROGRESS_MS) return;
      told = performance.now();
      this.#store.update(job.id, { rows, scored, rejected, bytesRead });
    };
    if (job.pipeline !== null) {
      return scoreUpload(this.#services, job, files, this.#pipelines.get(job.pipeline)!, { signal, onProgress });
    }
    const room = this.#quota.file(job.owner);
    try {
      return await scoreJob(this.#services, job, files, { signal, onProgress, onGrowth: room.grow });
    } finally {
      room.close();
    }
  }

  /** Back to the queue for a while: an acknowledged upload is not lost because something it needs is away. */
  #putOff(id: string, { code, message }: SluiceError): void {
    const failures = (this.#waiting.get(id)?.failures ?? 0) + 1;
    const pause = Math.min(MAX_PAUSE_MS, FIRST_PAUSE_MS * 2 ** Math.min(failures - 1, 20));
    this.#waiting.set(id, { failures, until: Date.now() + pause });
    this.#store.update(id, { state: 'queued', errorCode: code, errorMessage: message });
    setTimeout(() => inBackground('starting a job', () => this.#next()), pause + 1).unref();
  }

  #finish(id: string, change: Partial<Omit<Job, 'id' | 'query'>>): void {
    this.#waiting.delete(id);
    this.#store.update(id, { ...change, finished: Date.now() });
  }

  /** Removes what is too old, and files that belong to no job. */
  async #sweep(): Promise<void> {
    const before = Date.now() - this.#services.config.jobs.keep_ms;
    const jobs = this.#store.all();
    for (const job of jobs) {
      if (job.finished === null || job.finished > before) continue;
      this.#store.remove(job.id);
      await this.#removeFiles(job.id);
    }
    const known = new Set(jobs.map((j) => j.id));
    for (const name of await readdir(this.#folder)) {
      const id = /^\.?([0-9a-f-]{36})\.(upload|result)/.exec(name)?.[1];
      if (id === undefined || known.has(id)) continue;
      const file = path.join(this.#folder, name);
      // An upload that is being spooled right now is in no table yet.
      const info = await stat(file).catch(() => null);
      if (info && Date.now() - info.mtimeMs > this.#services.config.timeouts.body_idle_ms * 2)
        await rm(file, { force: true });
    }
  }

  async #removeFiles(id: string): Promise<void> {
    await Promise.all(['upload', 'result'].map((kind) => unlink(this.#path(id, kind)).catch(() => {})));
  }

  #path(id: string, kind: string): string {
    return path.join(this.#folder, `${id}.${kind}`);
  }
}
