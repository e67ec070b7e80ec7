// Asynchronous jobs: an upload is spooled, scored in its turn, and its result kept for a time.
import { randomUUID } from 'node:crypto';
import { createReadStream } from 'node:fs';
import { open, readdir, rm, stat, unlink } from 'node:fs/promises';
import path from 'node:path';
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import { asSluiceError, SluiceError } from '../../../core/errors.ts';
import type { RunCounts } from '../../../engine/counts.ts';
import { tooMany } from '../../../engine/score-stream.ts';
import { openFileSink } from '../../../io/sink/file-sink.ts';
import { openFile } from '../../../io/source/byte-source.ts';
import { withOutput } from '../../../runs/endpoints.ts';
import { runOnce } from '../../../runs/run-once.ts';
import {
  askedOf,
  type BodyFormat,
  bodyOptions,
  CONTENT_TYPES,
  type PredictQuery,
  type PredictServices,
  refuseNothingScored,
  refuseOutcome,
} from '../routes/predict.ts';
import { openBody } from '../wire/request-body.ts';
import { type Job, JobStore } from './job-store.ts';

const SWEEP_MS = 60_000;
const PROGRESS_MS = 500;
const JOBS = '/api/v1/scoring/jobs';

/**
 * Modes of a job: queued → running → done | failed | cancelled → removed when its time is up. A server that stops puts
 * what it was running back to queued; what is found running at the start was cut off by a crash and is queued again.
 */
export class JobManager {
  readonly #services: PredictServices;
  readonly #store: JobStore;
  readonly #folder: string;
  readonly #running = new Map<string, AbortController>();
  readonly #sweeper: NodeJS.Timeout;
  /** Bytes of uploads that are being spooled now, not in the table yet. */
  #spooling = 0;
  #stopped = false;

  private constructor(services: PredictServices) {
    this.#services = services;
    this.#folder = path.resolve(services.config.jobs.folder);
    this.#store = new JobStore(this.#folder);
    this.#sweeper = setInterval(() => void this.#sweep(), SWEEP_MS);
    this.#sweeper.unref();
  }

  static async open(services: PredictServices): Promise<JobManager> {
    const manager = new JobManager(services);
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
  async create(request: FastifyRequest, format: BodyFormat): Promise<Job> {
    const { admission } = this.#services;
    const query = request.query as PredictQuery;
    const owner = request.apiKey!.name;
    const idempotencyKey = (request.headers['idempotency-key'] as string | undefined) ?? null;
    if (idempotencyKey !== null && !/^[\x21-\x7e]{1,200}$/.test(idempotencyKey)) {
      throw new SluiceError('bad_request', 'an Idempotency-Key is 1 to 200 visible ASCII characters');
    }
    const fingerprint = JSON.stringify([format, query]);
    // An upload takes its turn like a request that is answered at once, and a stopping server waits for it.
    const leave = await admission.enter(owner, new AbortController().signal);
    try {
      return await this.#spool(request, format, query, owner, idempotencyKey, fingerprint);
    } finally {
      leave();
    }
  }

  async #spool(
    request: FastifyRequest,
    format: BodyFormat,
    query: PredictQuery,
    owner: string,
    idempotencyKey: string | null,
    fingerprint: string,
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
    const body = await openBody(request, bodyOptions(this.#services));
    const id = randomUUID();
    const upload = this.#path(id, 'upload');
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
    const job: Job = {
      id,
      owner,
      idempotencyKey,
      format,
      query: { ...query, modelId: model.ref },
      fingerprint,
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
      const controller = new AbortController();
      this.#running.set(job.id, controller);
      this.#store.update(job.id, { state: 'running', rows: 0, scored: 0, rejected: 0, bytesRead: 0 });
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

  /** Scores the upload of a job into its result. */
  async #score(job: Job, signal: AbortSignal): Promise<{ counts: Readonly<RunCounts>; resultBytes: number }> {
    const { config, host, account } = this.#services;
    const hosted = await host.use(job.query.modelId);
    const source = await openFile(this.#path(job.id, 'upload'));
    try {
      const result = await openFileSink(this.resultPath(job));
      const { input, output, scoring } = askedOf(job.format, job.query, config);
      const unit = account.unit({ live: true });
      let told = 0;
      const counts = await runOnce({
        model: hosted.model,
        pool: hosted.pool,
        source: { chunks: source.chunks, input },
        scoring,
        sink: withOutput(result, output),
        account: unit,
        signal,
        onPart: (part) => {
          refuseOutcome(part);
          if (performance.now() - told < PROGRESS_MS) return;
          told = performance.now();
          const { rows, scored, rejected } = unit.counts;
          this.#store.update(job.id, { rows, scored, rejected, bytesRead: source.bytesRead() });
        },
        beforeCommit: refuseNothingScored,
      });
      return { counts, resultBytes: result.bytesWritten };
    } finally {
      await source.close();
      hosted.release();
    }
  }

  #finish(id: string, change: Partial<Omit<Job, 'id' | 'query'>>): void {
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

/** true if the request wants a job instead of an answer (RFC 7240). */
export const wantsJob = (request: FastifyRequest): boolean =>
  [request.headers.prefer].flat().some((p) => p !== undefined && /(^|[,;\s])respond-async($|[,;\s])/i.test(p));

export const jobUrl = (id: string): string => `${JOBS}/${id}`;

/** A job as its owner sees it. */
export function describeJob(job: Job) {
  const [modelId, modelVersion] = job.query.modelId.split(':');
  const done = job.state === 'done';
  return {
    id: job.id,
    state: job.state,
    modelId,
    modelVersion,
    format: job.format,
    created: new Date(job.created).toISOString(),
    finished: job.finished === null ? null : new Date(job.finished).toISOString(),
    progress: done ? 1 : job.uploadBytes > 0 ? Math.min(1, job.bytesRead / job.uploadBytes) : 0,
    summary: { rows: job.rows, scored: job.scored, rejected: job.rejected },
    ...(done ? { result: `${jobUrl(job.id)}/result`, resultBytes: job.resultBytes } : {}),
    ...(job.errorCode === null ? {} : { error: { code: job.errorCode, message: job.errorMessage } }),
  };
}

type JobRequest = FastifyRequest<{ Params: { id: string } }>;

export function addJobRoutes(app: FastifyInstance, jobs: JobManager): void {
  const config = { scope: 'jobs' as const };
  const of = (request: JobRequest): Job => jobs.find(request.params.id, request.apiKey!.name);
  app.get(`${JOBS}/:id`, { config }, async (request: JobRequest) => describeJob(of(request)));
  app.delete(`${JOBS}/:id`, { config }, async (request: JobRequest, reply) => {
    await jobs.cancel(of(request));
    return reply.code(204).send();
  });
  app.get(`${JOBS}/:id/result`, { config }, async (request: JobRequest, reply) => {
    const job = of(request);
    if (job.state !== 'done') throw new SluiceError('job_not_finished', `the job is ${job.state}`);
    return sendFile(request, reply, jobs.resultPath(job), job.resultBytes, CONTENT_TYPES[job.format], job.id);
  });
}

/** A file with byte ranges (RFC 9110): one range a request. */
function sendFile(request: FastifyRequest, reply: FastifyReply, file: string, size: number, type: string, tag: string) {
  const etag = `"${tag}"`;
  reply.header('accept-ranges', 'bytes').header('etag', etag).type(type);
  const { range, 'if-range': ifRange } = request.headers;
  const asked = range === undefined || (ifRange !== undefined && ifRange !== etag) ? null : parseRange(range, size);
  if (asked === 'unsatisfiable') return reply.code(416).header('content-range', `bytes */${size}`).send();
  if (!asked) return reply.header('content-length', size).send(createReadStream(file));
  const { start, end } = asked;
  return reply
    .code(206)
    .header('content-range', `bytes ${start}-${end}/${size}`)
    .header('content-length', end - start + 1)
    .send(createReadStream(file, { start, end }));
}

/** The one range of a Range header; null when it is to be ignored. */
export function parseRange(header: string, size: number): { start: number; end: number } | 'unsatisfiable' | null {
  const m = /^bytes=(\d*)-(\d*)$/.exec(header.trim());
  if (!m || (m[1] === '' && m[2] === '')) return null;
  if (m[1] === '') {
    const n = Number(m[2]);
    return n === 0 || size === 0 ? 'unsatisfiable' : { start: Math.max(0, size - n), end: size - 1 };
  }
  const start = Number(m[1]);
  const end = m[2] === '' ? size - 1 : Math.min(Number(m[2]), size - 1);
  if (m[2] !== '' && Number(m[2]) < start) return null;
  return start >= size ? 'unsatisfiable' : { start, end };
}
