// Asynchronous jobs: an upload is spooled, scored in its turn, and its result kept for a time.
import { randomUUID } from 'node:crypto';
import { open, readdir, rm, stat, unlink } from 'node:fs/promises';
import path from 'node:path';
import type { FastifyRequest } from 'fastify';
import { asSluiceError, SluiceError } from '../../../core/errors.ts';
import type { RunCounts } from '../../../engine/counts.ts';
import { tooMany } from '../../../engine/score-chunks.ts';
import { type UploadSpec, uploadTarget } from '../../../runs/upload-run.ts';
import { type BodyFormat, bodyOptions, type PredictQuery, type PredictServices } from '../routes/predict.ts';
import { openBody } from '../wire/request-body.ts';
import { type Job, JobStore } from './job-store.ts';
import { type JobDone, scoreJob, scoreUpload } from './score-job.ts';

const SWEEP_MS = 60_000;
const PROGRESS_MS = 500;
/** Pauses between attempts at an upload while something it needs is away; they double. */
const FIRST_PAUSE_MS = 500;
const MAX_PAUSE_MS = 60_000;

/** What a job knows of itself before it is scored. */
const UNBEGUN = { rows: 0, scored: 0, rejected: 0, bytesRead: 0, errorCode: null, errorMessage: null };

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
  readonly #folder: string;
  readonly #pipelines: ReadonlyMap<string, UploadPipeline>;
  readonly #running = new Map<string, AbortController>();
  /** Uploads that failed for want of something else, and when they are tried again. */
  readonly #waiting = new Map<string, { failures: number; until: number }>();
  readonly #sweeper: NodeJS.Timeout;
  /** Bytes of uploads that are being spooled now, not in the table yet. */
  #spooling = 0;
  #stopped = false;

  private constructor(services: PredictServices, pipelines: readonly UploadPipeline[]) {
    this.#services = services;
    this.#pipelines = new Map(pipelines.map((p) => [p.name, p]));
    this.#folder = path.resolve(services.config.jobs.folder);
    this.#store = new JobStore(this.#folder);
    this.#sweeper = setInterval(() => void this.#sweep(), SWEEP_MS);
    this.#sweeper.unref();
  }

  static async open(services: PredictServices, pipelines: readonly UploadPipeline[]): Promise<JobManager> {
    const manager = new JobManager(services, pipelines);
    for (const job of manager.#store.all()) {
      if (job.state === 'running') manager.#store.update(job.id, { state: 'queued' });
    }
    await manager.#sweep();
    manager.#next();
    return manager;
  }

  /**
   * Spools the body of a request and queues it. The same Idempotency-Key gives the same job again.
   * @throws SluiceError limit_exceeded | idempotency_conflict | model_not_found | what the body throws
   */
  async create(request: FastifyRequest, asked: AskedJob): Promise<Job> {
    const { admission } = this.#services;
    const owner = request.apiKey!.name;
    const idempotencyKey = (request.headers['idempotency-key'] as string | undefined) ?? null;
    if (idempotencyKey !== null && !/^[\x21-\x7e]{1,200}$/.test(idempotencyKey)) {
      throw new SluiceError('bad_request', 'an Idempotency-Key is 1 to 200 visible ASCII characters');
    }
    const { format, query, pipeline } = asked;
    const fingerprint = JSON.stringify(pipeline === null ? [format, query] : [format, query, pipeline]);
    // An upload takes its turn like a request that is answered at once, and a stopping server waits for it.
    const leave = await admission.enter(owner, new AbortController().signal);
    try {
      return await this.#spool(request, asked, { owner, idempotencyKey, fingerprint });
    } finally {
      leave();
    }
  }

  async #spool(
    request: FastifyRequest,
    { format, query, pipeline }: AskedJob,
    { owner, idempotencyKey, fingerprint }: Pick<Job, 'owner' | 'idempotencyKey' | 'fingerprint'>,
  ): Promise<Job> {
    const { config, host } = this.#services;
    const earlier = idempotencyKey === null ? null : this.#store.byIdempotencyKey(owner, idempotencyKey);
    if (earlier) return sameRequest(earlier, fingerprint);
    const jobs = this.#store.all();
    if (jobs.length >= config.jobs.max_jobs) throw tooMany('jobs.max_jobs', config.jobs.max_jobs, 'jobs');
    const kept = jobs.reduce((n, j) => n + j.uploadBytes + j.resultBytes, 0);
    // A version is pinned now: what was asked for is what is scored, however long it waits.
    const hosted = await host.use(query.modelId);
    const { model } = hosted;
    hosted.release();
    const id = randomUUID();
    const upload = this.#path(id, 'upload');
    const bytes = await this.#receive(request, upload, kept);
    const job: Job = {
      id,
      owner,
      idempotencyKey,
      format,
      query: { ...query, modelId: model.ref },
      fingerprint,
      pipeline,
      target: pipeline === null ? null : uploadTarget(this.#pipelines.get(pipeline)!.spec, id),
      state: 'queued',
      rows: 0,
      scored: 0,
      rejected: 0,
      bytesRead: 0,
      uploadBytes: bytes,
      resultBytes: 0,
      created: Date.now(),
      finished: null,
      errorCode: null,
      errorMessage: null,
    };
    // Two requests with one Idempotency-Key may have been spooled side by side: the first one in the table stands.
    const rival = idempotencyKey === null ? null : this.#store.byIdempotencyKey(owner, idempotencyKey);
    if (rival) {
      await unlink(upload).catch(() => {});
      return sameRequest(rival, fingerprint);
    }
    this.#store.insert(job);
    this.#next();
    return job;
  }

  /** Writes the body of a request to the disk; gives its bytes. */
  async #receive(request: FastifyRequest, upload: string, kept: number): Promise<number> {
    const { config } = this.#services;
    const body = await openBody(request, bodyOptions(this.#services));
    let bytes = 0;
    const handle = await open(upload, 'wx', 0o600);
    try {
      for await (const chunk of body.chunks()) {
        bytes += chunk.length;
        this.#spooling += chunk.length;
        if (kept + this.#spooling > config.jobs.max_bytes)
          throw tooMany('jobs.max_bytes', config.jobs.max_bytes, 'bytes');
        for (let at = 0; at < chunk.length; ) at += (await handle.write(chunk, at)).bytesWritten;
      }
      await handle.sync();
    } catch (error) {
      await unlink(upload).catch(() => {});
      throw (error as NodeJS.ErrnoException).code === 'ENOSPC'
        ? new SluiceError('output_full', 'there is no room for the upload', { cause: error })
        : error;
    } finally {
      this.#spooling -= bytes;
      await handle.close();
    }
    return bytes;
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
    if (job.state === 'queued') this.#finish(job.id, { state: 'cancelled' });
    else if (job.state === 'running') {
      this.#running.get(job.id)?.abort(new SluiceError('cancelled', 'the job was cancelled'));
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
    for (const controller of this.#running.values()) controller.abort(new SluiceError('stopping', 'the server stops'));
    while (this.#running.size > 0) await new Promise((resolve) => setTimeout(resolve, 10));
    this.#store.close();
  }

  #next(): void {
    if (this.#stopped) return;
    const jobs = this.#store.all();
    this.#services.metrics.jobs.reset();
    for (const j of jobs) this.#services.metrics.jobs.inc({ state: j.state });
    for (const job of jobs) {
      if (this.#running.size >= this.#services.config.jobs.concurrent) return;
      if (job.state !== 'queued' || this.#running.has(job.id)) continue;
      if ((this.#waiting.get(job.id)?.until ?? 0) > Date.now()) continue;
      // It waits until a service has its pipeline again.
      if (job.pipeline !== null && !this.#pipelines.has(job.pipeline)) continue;
      const controller = new AbortController();
      this.#running.set(job.id, controller);
      this.#store.update(job.id, { ...UNBEGUN, state: 'running' });
      void this.#run(job, controller.signal).finally(() => {
        this.#running.delete(job.id);
        this.#next();
      });
    }
  }

  async #run(job: Job, signal: AbortSignal): Promise<void> {
    try {
      const { counts, resultBytes } = await this.#score(job, signal);
      const { rows, scored, rejected } = counts;
      this.#finish(job.id, {
        state: 'done',
        rows,
        scored,
        rejected,
        bytesRead: job.uploadBytes,
        resultBytes,
        uploadBytes: 0,
      });
      await unlink(this.#path(job.id, 'upload')).catch(() => {});
    } catch (error) {
      const e = asSluiceError(error, 'worker_failed');
      if (job.pipeline !== null && e.entry.fault === 'dependency' && e.entry.retryable && !signal.aborted) {
        this.#putOff(job.id, e);
        return;
      }
      if (e.code === 'stopping') {
        this.#store.update(job.id, { state: 'queued' });
        return;
      }
      await this.#removeFiles(job.id);
      this.#finish(
        job.id,
        e.code === 'cancelled'
          ? { state: 'cancelled', uploadBytes: 0 }
          : { state: 'failed', uploadBytes: 0, errorCode: e.code, errorMessage: e === error ? e.message : null },
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
    if (job.pipeline === null) return scoreJob(this.#services, job, files, { signal, onProgress });
    return scoreUpload(this.#services, job, files, this.#pipelines.get(job.pipeline)!, { signal, onProgress });
  }

  /** Back to the queue for a while: an acknowledged upload is not lost because something it needs is away. */
  #putOff(id: string, { code, message }: SluiceError): void {
    const failures = (this.#waiting.get(id)?.failures ?? 0) + 1;
    const pause = Math.min(MAX_PAUSE_MS, FIRST_PAUSE_MS * 2 ** Math.min(failures - 1, 20));
    this.#waiting.set(id, { failures, until: Date.now() + pause });
    this.#store.update(id, { state: 'queued', errorCode: code, errorMessage: message });
    setTimeout(() => this.#next(), pause + 1).unref();
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

function sameRequest(job: Job, fingerprint: string): Job {
  if (job.fingerprint === fingerprint) return job;
  throw new SluiceError(
    'idempotency_conflict',
    'the Idempotency-Key belongs to a request that asked for something else',
  );
}
