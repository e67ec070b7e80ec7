// The table of asynchronous jobs. The table belongs to one server, in a folder, or is shared by several servers, in a
// database.
import type { SluiceError } from '../../../core/errors.ts';
import type { BodyFormat, PredictQuery } from '../wire/scoring-request.ts';

export const JOB_STATES = ['queued', 'running', 'done', 'failed', 'cancelled'] as const;
export type JobState = (typeof JOB_STATES)[number];

export interface Job {
  id: string;
  /** Name of the caller that created the job. Other callers cannot see the job. */
  owner: string;
  idempotencyKey: string | null;
  format: BodyFormat;
  /** The query of the request. `modelId` is the resolved version. */
  query: PredictQuery;
  /** Fingerprint of the request, by which repetitions are recognised. */
  fingerprint: string;
  /** SHA-256 of the decoded body; null if unknown, because an earlier version of Sluice created the job. */
  bodySha256: string | null;
  /** Id of the request that created the job, and the trace of that request (traceparent). */
  requestId: string | null;
  trace: string | null;
  /**
   * Name of the pipeline that scores the upload, and the destination of its predictions. Both fields are null for a job
   * whose result is stored here.
   */
  pipeline: string | null;
  target: string | null;
  state: JobState;
  /**
   * Number of times the job was started. The number is the fencing token of the server that runs the job. Every write
   * names its epoch, and is accepted only if no newer epoch exists.
   */
  epoch: number;
  /** Number of server crashes while the job was running. */
  crashes: number;
  rows: number;
  scored: number;
  rejected: number;
  bytesRead: number;
  uploadBytes: number;
  resultBytes: number;
  /** Hash of the package that scored the job; null until the job is done. */
  packageSha256: string | null;
  /** Time in ms since 1970, by the clock of the database. */
  created: number;
  finished: number | null;
  errorCode: string | null;
  errorMessage: string | null;
}

/** The fields that the creator of a job sets; the table sets all others. */
export type NewJob = Pick<
  Job,
  | 'id'
  | 'owner'
  | 'idempotencyKey'
  | 'format'
  | 'query'
  | 'fingerprint'
  | 'bodySha256'
  | 'requestId'
  | 'trace'
  | 'pipeline'
  | 'target'
  | 'uploadBytes'
>;

/** A lease, which is held for an incoming upload (epoch 0) or for a running job. */
export type HeldJob = Pick<Job, 'id' | 'epoch'>;

/** A job that this server starts to run. */
export interface ClaimedJob {
  job: Job;
  /** Whether another server ran the job before and let its lease expire. */
  takenOver: boolean;
  /** Whether the owner has cancelled the job in the meantime. */
  cancelled: boolean;
}

/** Progress of a job. */
export type JobProgress = Pick<Job, 'rows' | 'scored' | 'rejected' | 'bytesRead'>;

/** How a job ended. */
export type JobEnd =
  | ({ state: 'done' } & JobProgress & Pick<Job, 'resultBytes' | 'packageSha256'>)
  | ({ state: 'failed' } & Pick<Job, 'errorCode' | 'errorMessage'>)
  | { state: 'cancelled' };

/** Selects a page of a caller's jobs, newest first. */
export interface JobPage {
  state: JobState | null;
  limit: number;
  /** The last job of the previous page; null for the first page. */
  after: Pick<Job, 'id' | 'created'> | null;
}

/**
 * States of a job: reserved (an upload in progress) → queued → running → done | failed | cancelled → removed. If the
 * server that runs a job crashes, the job is claimed again in a new epoch. Each method is atomic. Methods that take a
 * held job return false and change nothing if the epoch is outdated.
 *
 * Every method may throw SluiceError jobs_unavailable.
 */
export interface JobStore {
  /** Duration of a lease without renewal in ms. Null if a single server owns the table; leases then do not expire. */
  readonly leaseMs: number | null;
  /** False if the last call to the table failed. */
  readonly reachable: boolean;
  /** Reserves a job. The reservation is invisible, but counts towards the quota of its owner. */
  reserve(id: string, owner: string): Promise<void>;
  /** Adds the growth of an upload (epoch 0) or of a result to the quota. Returns false if the lease is lost. */
  grow(held: HeldJob, bytes: number): Promise<boolean>;
  /** Drops the reservation of a job that will not be created. */
  drop(id: string): Promise<void>;
  /**
   * Turns a reservation into a job. `key_taken`: the owner already has a job with this Idempotency-Key. `lost`: the
   * reservation was removed.
   */
  enqueue(job: NewJob): Promise<'queued' | 'key_taken' | 'lost'>;
  get(id: string): Promise<Job | null>;
  byIdempotencyKey(owner: string, key: string): Promise<Job | null>;
  list(owner: string, page: JobPage): Promise<Job[]>;
  /** Number of a caller's jobs, and total bytes of their uploads and results. Reservations count, too. */
  kept(owner: string): Promise<{ jobs: number; bytes: number }>;
  /**
   * Cancels a queued job. For a running job, requests the cancellation; the server that runs the job sees the request
   * when it renews the lease, and at the latest when it records a result. The request survives a crash of this server.
   * Returns null if the job is neither queued nor running.
   */
  cancel(id: string): Promise<'cancelled' | 'asked' | null>;
  /** Removes a finished job. */
  remove(id: string): Promise<void>;
  /**
   * Claims the next job; callers take turns. `pipelines`: only jobs of these pipelines, and jobs without a pipeline,
   * are claimed. `alone`: this server runs no other job. Jobs of crashed servers are claimed only then, so that a
   * second crash identifies the job that causes it. `busy`: jobs of these owners are skipped. Returns null if this
   * server has no job to run.
   */
  claim(pipelines: readonly string[], alone: boolean, busy?: readonly string[]): Promise<ClaimedJob | null>;
  /** Renews leases. Leases that are missing in the result are lost. */
  renew(held: readonly HeldJob[]): Promise<ReadonlyMap<string, 'held' | 'cancel'>>;
  progress(held: HeldJob, so: JobProgress): Promise<boolean>;
  /**
   * Records how a job ended. `cancelled`: nothing was recorded, because the job has a result and its owner cancelled it
   * while it was running.
   */
  finish(held: HeldJob, end: JobEnd): Promise<boolean | 'cancelled'>;
  /** Returns a job to the queue. The job is not claimed again before `pauseMs` have passed. `why`: the reason. */
  putBack(held: HeldJob, pauseMs: number, why: Pick<Job, 'errorCode' | 'errorMessage'> | null): Promise<boolean>;
  /**
   * Returns a job to the queue that this server has lost, unless another server has already started it. Not counted as
   * a crash.
   */
  giveUp(held: HeldJob): Promise<void>;
  /**
   * Removes jobs that finished more than `keepMs` ago, and reservations of crashed servers. Returns the removed jobs
   * and reservations.
   */
  expire(keepMs: number): Promise<HeldJob[]>;
  /** The jobs with these ids. Reservations have epoch 0 and the state null. */
  known(ids: readonly string[]): Promise<ReadonlyMap<string, { epoch: number; state: JobState | null }>>;
  /** Claims the sweep for the next `forMs`. Returns true if this server must sweep for all servers. */
  takeSweep(forMs: number): Promise<boolean>;
  counts(): Promise<Record<JobState, number>>;
  close(): Promise<void>;
}

/** Initial values of a new job. */
export const UNBEGUN = {
  rows: 0,
  scored: 0,
  rejected: 0,
  bytesRead: 0,
  packageSha256: null,
  errorCode: null,
  errorMessage: null,
} as const satisfies Partial<Job>;

export const noJobs = (): Record<JobState, number> => ({ queued: 0, running: 0, done: 0, failed: 0, cancelled: 0 });

/**
 * Whether the error means that the job table or the storage was unreachable. The error is logged where it occurs;
 * callers try again.
 */
export const areUnavailable = (error: unknown): boolean => (error as Partial<SluiceError>).code === 'jobs_unavailable';
