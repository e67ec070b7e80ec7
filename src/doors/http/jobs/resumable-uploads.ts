// Resumable uploads (tus): appends each part to a file, and queues a complete upload as a job.
import { createHash, type Hash, randomUUID } from 'node:crypto';
import type { IncomingMessage } from 'node:http';
import type { FastifyReply, FastifyRequest } from 'fastify';
import { inBackground } from '../../../core/async.ts';
import { epochMs, monotonicMs } from '../../../core/clock.ts';
import { SluiceError, tooMany } from '../../../core/errors.ts';
import type { Identity } from '../access/identity.ts';
import { bodyOptions, type JobSpec, type ServiceContext, type Turn, takeTurn } from '../wire/scoring-request.ts';
import type { JobFiles, ResumableFiles } from './job-files.ts';
import type { JobLog } from './job-log.ts';
import type { JobQuota } from './job-quota.ts';
import { assertOwn, idempotencyKeyOf, keyConflict, newJob, type Repeated } from './job-requests.ts';
import type { JobStore } from './job-store.ts';
import type { UploadPipeline } from './score-job.ts';
import type { PartHead, UploadHead } from './tus-headers.ts';
import type { Upload, UploadStore } from './upload-store.ts';

/** Received bytes are made durable after this many bytes or this many ms. */
const SYNC_BYTES = 64 * 1024 * 1024;
const SYNC_MS = 5000;
/** If a client sends nothing for this many ms, the next request for its upload takes the upload over. */
const SILENT_MS = 1000;

interface UploadParts {
  services: ServiceContext;
  store: JobStore;
  uploads: UploadStore;
  files: JobFiles & ResumableFiles;
  quota: JobQuota;
  log: JobLog;
  pipelines: ReadonlyMap<string, UploadPipeline>;
  /** Renews the reservation of an upload until `release` is called. */
  reserve: (id: string) => { release: () => void };
  /** Called when a job was queued. */
  wake: () => void;
}

/** A request that is writing to an upload. */
interface Hold {
  /** Start of the current wait for the client, by the monotonic clock in ms; null if the request is not waiting. */
  waitsSince: number | null;
  /** Whether the client disconnected and its bytes are being made durable. */
  ending: boolean;
  /** Aborts the request by closing its connection. */
  cut: () => void;
  over: Promise<void>;
}

/** A request that writes a part of an upload, with its response. */
interface Writing {
  request: FastifyRequest;
  reply: FastifyReply;
  part: PartHead;
  /** Whether new work is accepted. A stopping server stores the bytes received so far, and the client resumes later. */
  ready: () => boolean;
}

/**
 * The offset that clients see counts only durable bytes. Bytes beyond this offset are removed before anything is
 * appended. A killed server therefore neither loses nor duplicates acknowledged bytes.
 */
export class ResumableUploads {
  readonly #parts: UploadParts;
  readonly #holds = new Map<string, Hold>();
  /** Hashes of uploads that this process has received from the first byte on. */
  readonly #hashes = new Map<string, { hash: Hash; bytes: number }>();
  /** By upload: whether its last part was received completely by this server. */
  readonly #known = new Map<string, 'whole' | 'cut'>();

  constructor(parts: UploadParts) {
    this.#parts = parts;
  }

  /**
   * Creates an upload. The upload counts towards the quota of its owner immediately. The same Idempotency-Key returns
   * the same upload while the upload is open or its job exists.
   * @throws SluiceError upload_too_large | limit_exceeded | idempotency_conflict | model_not_found
   */
  async create(request: FastifyRequest, spec: JobSpec, { length, metadata }: UploadHead): Promise<Upload> {
    const { services, store, uploads, files, quota } = this.#parts;
    const { body_bytes } = services.config.limits;
    if (length > body_bytes) throw tooLarge(`Upload-Length exceeds limits.body_bytes, ${body_bytes} bytes`, body_bytes);
    const owner = request.identity!.name;
    const idempotencyKey = idempotencyKeyOf(request);
    const { format, query, pipeline } = spec;
    const who = { owner, idempotencyKey, fingerprint: JSON.stringify(['upload', format, query, pipeline, length]) };
    const place = services.admission.enter(owner);
    const id = randomUUID();
    const lease = this.#parts.reserve(id);
    let begun = false;
    try {
      const earlier = await this.#sameKey(who);
      if (earlier) return earlier;
      await quota.reserve(id, owner);
      await quota.file({ id, epoch: 0 }, owner)(length);
      const { model, release } = await services.host.use(query.modelId);
      release();
      await files.beginUpload(id);
      const { pipelines } = this.#parts;
      const made = { ...who, id, bodySha256: null, uploadBytes: length };
      const job = newJob(request, spec, made, { modelId: model.ref, pipelines });
      const upload = { job, metadata, offset: 0, tail: null, touched: epochMs(), queued: false };
      begun = (await uploads.begin(upload)) === 'begun';
      if (!begun) return (await this.#sameKey(who)) ?? fail(keyConflict());
      return length === 0 ? await this.#queue(upload) : upload;
    } finally {
      place.leave();
      lease.release();
      if (!begun) {
        await store.drop(id);
        await files.removeUpload(id);
      }
    }
  }

  /**
   * @throws SluiceError upload_not_found: the upload was removed, or belongs to another caller, or the caller may no
   * longer use its model
   */
  async find(id: string, identity: Identity): Promise<Upload> {
    const { uploads, store, pipelines } = this.#parts;
    const upload = await uploads.get(id);
    const exists = upload && (upload.queued ? (await store.get(id)) !== null : !this.#isExpired(upload));
    assertOwn(exists ? upload.job : null, identity, pipelines, 'upload_not_found');
    return upload!;
  }

  /**
   * The offset at which the client can resume. Ends a request whose client is silent.
   * @throws SluiceError upload_not_found
   */
  async resume(id: string, identity: Identity): Promise<Upload> {
    await this.find(id, identity);
    await this.#takeOver(id);
    const upload = await this.find(id, identity);
    if (upload.queued || upload.offset < upload.job.uploadBytes || this.#holds.has(id)) return upload;
    return this.#holding(id, null, () => this.#queue(upload));
  }

  /**
   * Appends a part. If the connection breaks, the bytes received so far are stored.
   * @throws SluiceError upload_not_found | upload_locked | upload_offset_conflict | upload_too_large |
   * upload_checksum_mismatch, errors of the body
   */
  async append(id: string, writing: Writing): Promise<Upload> {
    const { request, part } = writing;
    const identity = request.identity!;
    await this.find(id, identity);
    await this.#takeOver(id);
    return this.#holding(id, request.raw, async (hold) => {
      const upload = await this.find(id, identity);
      const { uploadBytes: length } = upload.job;
      if (part.offset > length) throw new SluiceError('bad_request', 'Upload-Offset exceeds Upload-Length');
      if (part.offset !== upload.offset)
        throw new SluiceError('upload_offset_conflict', `the upload has ${upload.offset} bytes`);
      if (Number(request.headers['content-length'] ?? 0) > length - part.offset) throw beyondLength();
      if (upload.queued) return upload;
      const now = upload.offset < length ? await this.#receive(upload, hold, writing) : upload;
      return now.offset < length ? now : this.#queue(now);
    });
  }

  /** Removes an open upload. Returns false if the upload is queued; its job must then be removed instead. */
  async remove(id: string): Promise<boolean> {
    const { uploads, files, services } = this.#parts;
    const hold = this.#holds.get(id);
    hold?.cut();
    await hold?.over;
    const upload = await uploads.get(id);
    if (!upload || !(await uploads.remove(id))) return false;
    this.#forget(id);
    await files.discardUpload(upload);
    services.metrics.resumableUploadEnds.inc({ end: 'removed' });
    return true;
  }

  /** Queues uploads that are complete but not queued, because a server crashed or an error occurred. */
  async recover(): Promise<void> {
    for (const upload of await this.#parts.uploads.whole()) {
      const { id } = upload.job;
      if (this.#holds.has(id)) continue;
      inBackground('queue a complete upload', () => this.#holding(id, null, () => this.#queue(upload)));
    }
  }

  /** Removes abandoned uploads. */
  async sweep(): Promise<void> {
    const { uploads, files, log, services } = this.#parts;
    await this.recover();
    const ttl = services.config.jobs.upload_ttl_ms;
    for (const upload of await uploads.expire(ttl, new Set(this.#holds.keys()))) {
      this.#forget(upload.job.id);
      await files.discardUpload(upload);
      log.uploadExpired(upload.job);
      services.metrics.resumableUploadEnds.inc({ end: 'expired' });
    }
  }

  /** Time at which an upload expires if no further bytes arrive. */
  expiresAt({ touched }: Upload): Date {
    return new Date(touched + this.#parts.services.config.jobs.upload_ttl_ms);
  }

  /** Whether the caller has an open upload with this Idempotency-Key. */
  async hasKey(owner: string, key: string): Promise<boolean> {
    return (await this.#parts.uploads.byIdempotencyKey(owner, key)) !== null;
  }

  /** Number of open uploads. */
  open(): Promise<number> {
    return this.#parts.uploads.open();
  }

  /** Ends the requests that are writing, and stores the bytes received so far. */
  async close(): Promise<void> {
    for (const hold of this.#holds.values()) hold.cut();
    await Promise.all(this.#holds.values().map((hold) => hold.over));
  }

  #isExpired(upload: Upload): boolean {
    return !this.#holds.has(upload.job.id) && this.expiresAt(upload).getTime() <= epochMs();
  }

  /**
   * The upload with the same Idempotency-Key; null if there is none.
   * @throws SluiceError idempotency_conflict: the key belongs to a different request
   */
  async #sameKey({ owner, idempotencyKey: key, fingerprint }: Repeated): Promise<Upload | null> {
    if (key === null) return null;
    const { uploads, store } = this.#parts;
    const open = await uploads.byIdempotencyKey(owner, key);
    const job = open?.job ?? (await store.byIdempotencyKey(owner, key));
    if (!job) return null;
    const upload = open ?? (await uploads.get(job.id));
    if (upload?.job.fingerprint !== fingerprint) throw keyConflict();
    return upload;
  }

  /**
   * Waits for a request whose client has disconnected, and ends a request whose client is silent. Neither then keeps
   * the upload locked.
   */
  async #takeOver(id: string): Promise<void> {
    const hold = this.#holds.get(id);
    if (!hold) return;
    const silent = hold.waitsSince !== null && monotonicMs() - hold.waitsSince >= SILENT_MS;
    if (silent) hold.cut();
    if (silent || hold.ending) await hold.over;
  }

  /** Runs `work` as the only writer of the upload in this process. @throws SluiceError upload_locked */
  async #holding<T>(id: string, raw: IncomingMessage | null, work: (hold: Hold) => Promise<T>): Promise<T> {
    if (this.#holds.has(id)) throw new SluiceError('upload_locked', 'another request is writing to the upload');
    const over = Promise.withResolvers<void>();
    const hold: Hold = { waitsSince: null, ending: false, cut: () => raw?.destroy(), over: over.promise };
    this.#holds.set(id, hold);
    try {
      return await work(hold);
    } finally {
      this.#holds.delete(id);
      over.resolve();
    }
  }

  /** Receives a part and returns the updated upload. @throws SluiceError */
  async #receive(upload: Upload, hold: Hold, writing: Writing): Promise<Upload> {
    const { services } = this.#parts;
    const { request, reply } = writing;
    const { id } = upload.job;
    if (upload.offset > 0 && this.#known.get(id) !== 'whole') services.metrics.uploadsResumed.inc();
    this.#known.set(id, 'cut');
    hold.waitsSince = monotonicMs();
    const now = await takeTurn(services, request, reply, bodyOptions(services, request), (turn) =>
      this.#write(upload, hold, { ...writing, ...turn }),
    );
    this.#known.set(id, 'whole');
    return now;
  }

  async #write(upload: Upload, hold: Hold, { request, body, part, ready }: Writing & Turn): Promise<Upload> {
    const { uploads, files } = this.#parts;
    const { id, uploadBytes: length } = upload.job;
    const hash = this.#hashAt(id, upload.offset);
    let at = upload.offset;
    let kept = upload;
    let keptAt = monotonicMs();
    const mostBytes = part.whole ? Number(request.headers['content-length'] ?? length - at) : SYNC_BYTES;
    const held = await uploads.take(id, at, files.usesOf(mostBytes, length));
    if (!held) throw await this.#overtaken(id);
    const tail = await files.openTail(held, { ...upload, length, left: held.left });
    const keep = async (done: boolean): Promise<void> => {
      const so = { offset: at, tail: await tail.sync(done) };
      if (!(await uploads.advance(held, { ...so, done }))) throw await this.#overtaken(id);
      await tail.told();
      kept = { ...upload, ...so, touched: epochMs() };
      keptAt = monotonicMs();
    };
    try {
      // An earlier writer may have used part numbers that this writer will use, so the offset is stored first.
      if (held.left > 0) await keep(false);
      for await (const chunk of heard(body.chunks(), hold)) {
        if (at + chunk.length > length) throw beyondLength();
        await tail.write(chunk);
        hash?.update(chunk);
        part.check?.update(chunk);
        at += chunk.length;
        if (!part.whole && (at - kept.offset >= SYNC_BYTES || monotonicMs() - keptAt >= SYNC_MS)) await keep(false);
        if (!ready()) throw new SluiceError('stopping', 'the server stops');
      }
      part.check?.verify();
      await keep(true);
    } catch (error) {
      hold.ending = true;
      // Bytes that cannot be stored here are not lost, because the client sends them again.
      if (!part.whole && at > kept.offset) await keep(true).catch(() => {});
      throw error;
    } finally {
      await tail.close();
      if (hash && at === kept.offset) this.#hashes.set(id, { hash, bytes: at });
      else this.#hashes.delete(id);
    }
    return kept;
  }

  /** The error for a writer that no longer holds the upload. */
  async #overtaken(id: string): Promise<SluiceError> {
    const upload = await this.#parts.uploads.get(id);
    if (upload && !upload.queued) return new SluiceError('upload_locked', 'another request has resumed the upload');
    return new SluiceError('upload_not_found', 'the upload is complete or was removed');
  }

  /** Hash of the bytes before `offset`; null if another process received some of these bytes. */
  #hashAt(id: string, offset: number): Hash | null {
    if (offset === 0) return createHash('sha256');
    const known = this.#hashes.get(id);
    return known?.bytes === offset ? known.hash : null;
  }

  /**
   * Queues a complete upload, as if it had been the body of a single request.
   * @throws SluiceError idempotency_conflict | upload_not_found | jobs_unavailable
   */
  async #queue(upload: Upload): Promise<Upload> {
    const { store, services, log, files, wake } = this.#parts;
    const { id } = upload.job;
    await files.completeUpload(upload);
    const answer = await store.enqueue({ ...upload.job, bodySha256: await this.#sha256(upload) });
    this.#forget(id);
    if (answer === 'key_taken') throw keyConflict();
    const job = await store.get(id);
    if (!job) throw new SluiceError('upload_not_found', 'the upload was removed');
    // Otherwise, another server has already queued the upload.
    if (answer === 'queued') {
      log.queued(job);
      services.metrics.resumableUploadEnds.inc({ end: 'queued' });
      wake();
    }
    return { ...upload, queued: true };
  }

  /** SHA-256 of the upload; null if several processes received it and reading it again would be expensive. */
  async #sha256({ job: { id }, offset }: Upload): Promise<string | null> {
    const known = this.#hashAt(id, offset);
    if (known) return known.copy().digest('hex');
    const bytes = this.#parts.files.readBack(id);
    if (!bytes) return null;
    const hash = createHash('sha256');
    for await (const chunk of bytes) hash.update(chunk);
    return hash.digest('hex');
  }

  #forget(id: string): void {
    this.#hashes.delete(id);
    this.#known.delete(id);
  }
}

/** Passes chunks through. Records in `hold` since when the request has been waiting for its client. */
async function* heard(chunks: AsyncIterable<Uint8Array>, hold: Hold): AsyncGenerator<Uint8Array> {
  hold.waitsSince = monotonicMs();
  for await (const chunk of chunks) {
    hold.waitsSince = null;
    yield chunk;
    hold.waitsSince = monotonicMs();
  }
  hold.waitsSince = null;
}

function fail(error: SluiceError): never {
  throw error;
}

const tooLarge = (message: string, value: number): SluiceError =>
  new SluiceError('upload_too_large', message, { extra: tooMany('body_bytes', value, 'bytes').extra });
const beyondLength = (): SluiceError => new SluiceError('upload_too_large', 'the part exceeds Upload-Length');
