// The table of asynchronous jobs: local to one server in a folder, or shared by several servers in a database.
import type { SluiceError } from '../../../core/errors.ts';
import type { BodyFormat, PredictQuery } from '../wire/scoring-request.ts';

export const JOB_STATES = ['queued', 'running', 'done', 'failed', 'cancelled'] as const;
export type JobState = (typeof JOB_STATES)[number];

export interface Job {
  id: string;
  /** Name of the caller that created the job; other callers cannot see it. */
  owner: string;
  idempotencyKey: string | null;
  format: BodyFormat;
  /** The query of the request, with modelId pinned to a version. */
  query: PredictQuery;
  /** Fingerprint of the request, to recognise repetitions of it. */
  fingerprint: string;
  /** SHA-256 of the decoded body; null: unknown, because an earlier version created the job. */
  bodySha256: string | null;
  /** Id of the request that created the job, and its trace (traceparent). */
  requestId: string | null;
  trace: string | null;
  /** Name of the pipeline that scores the upload, and the target of its predictions; null: the result is stored here. */
  pipeline: string | null;
  target: string | null;
  state: JobState;
  /**
   * Number of starts; it is the fencing token of the server that runs the job. Every write for a job names its epoch
   * and is accepted only if no newer epoch exists.
   */
  epoch: number;
  /** How often a server crashed while it ran this job. */
  crashes: number;
  rows: number;
  scored: number;
  rejected: number;
  bytesRead: number;
  uploadBytes: number;
  resultBytes: number;
  /** Hash of the package that scored the job; null: the job is not done. */
  packageSha256: string | null;
  /** Milliseconds since 1970, by the clock of the database. */
  created: number;
  finished: number | null;
  errorCode: string | null;
  errorMessage: string | null;
}

/** The fields of a new job; the table adds all others. */
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

/** The holder of a lease: for an incoming upload (epoch 0) or a running job. */
export type HeldJob = Pick<Job, 'id' | 'epoch'>;

/** A job that this server starts to run. */
export interface ClaimedJob {
  job: Job;
  /** Whether another server ran the job before and did not renew its lease. */
  takenOver: boolean;
  /** Whether its owner cancelled the job meanwhile. */
  cancelled: boolean;
}

/** Progress of a job. */
export type JobProgress = Pick<Job, 'rows' | 'scored' | 'rejected' | 'bytesRead'>;

/** The outcome of a job. */
export type JobEnd =
  | ({ state: 'done' } & JobProgress & Pick<Job, 'resultBytes' | 'packageSha256'>)
  | ({ state: 'failed' } & Pick<Job, 'errorCode' | 'errorMessage'>)
  | { state: 'cancelled' };

/** A page of a caller's jobs, newest first. */
export interface JobPage {
  state: JobState | null;
  limit: number;
  /** The last job of the previous page; null: start with the newest. */
  after: Pick<Job, 'id' | 'created'> | null;
}

/**
 * States of a job: reserved (an upload in progress) → queued → running → done | failed | cancelled → removed. If its
 * server crashes, a job is claimed again in a new epoch. Each method is atomic. Methods that take a held job return
 * false and change nothing if its epoch is outdated.
 *
 * Every method may throw SluiceError jobs_unavailable.
 */
export interface JobStore {
  /** Duration of a lease without renewal in ms; null: a single server owns the table, and leases do not expire. */
  readonly leaseMs: number | null;
  /** false: the last call to the table failed. */
  readonly reachable: boolean;
  /** Reserves a job. It counts towards the quota of its owner but is invisible. */
  reserve(id: string, owner: string): Promise<void>;
  /** Adds the growth of the upload (epoch 0) or the result to the quota. false: the lease is lost. */
  grow(held: HeldJob, bytes: number): Promise<boolean>;
  /** Drops a reservation that will not become a job. */
  drop(id: string): Promise<void>;
  /** Turns a reservation into a job. `key_taken`: the owner has a job with this Idempotency-Key. `lost`: the reservation was removed. */
  enqueue(job: NewJob): Promise<'queued' | 'key_taken' | 'lost'>;
  get(id: string): Promise<Job | null>;
  byIdempotencyKey(owner: string, key: string): Promise<Job | null>;
  list(owner: string, page: JobPage): Promise<Job[]>;
  /** Number of a caller's jobs, and the bytes of their uploads and results, including reservations. */
  kept(owner: string): Promise<{ jobs: number; bytes: number }>;
  /**
   * Cancels a queued job. For a running job, requests cancellation, which its server sees when it renews the lease.
   * null: the job is neither queued nor running.
   */
  cancel(id: string): Promise<'cancelled' | 'asked' | null>;
  /** Removes a finished job. */
  remove(id: string): Promise<void>;
  /**
   * Claims the next job, giving callers turns. `pipelines`: jobs of other pipelines are skipped. `alone`: this server
   * runs no other job; only then are jobs of crashed servers claimed, so that a second crash identifies the job.
   * `busy`: owners whose jobs are skipped. null: no job for this server.
   */
  claim(pipelines: readonly string[], alone: boolean, busy?: readonly string[]): Promise<ClaimedJob | null>;
  /** Renews leases; leases missing in the result are lost. */
  renew(held: readonly HeldJob[]): Promise<ReadonlyMap<string, 'held' | 'cancel'>>;
  progress(held: HeldJob, so: JobProgress): Promise<boolean>;
  finish(held: HeldJob, end: JobEnd): Promise<boolean>;
  /** Returns a job to the queue; it is not claimed again before `pauseMs`. `why`: the reason. */
  putBack(held: HeldJob, pauseMs: number, why: Pick<Job, 'errorCode' | 'errorMessage'> | null): Promise<boolean>;
  /** Returns a job that this server lost to the queue, unless another server has started it; this is not counted as a crash. */
  giveUp(held: HeldJob): Promise<void>;
  /** Removes jobs that finished more than `keepMs` ago, and reservations of crashed servers. Returns the removed ones. */
  expire(keepMs: number): Promise<HeldJob[]>;
  /** The jobs with these ids; reservations have epoch 0 and state null. */
  known(ids: readonly string[]): Promise<ReadonlyMap<string, { epoch: number; state: JobState | null }>>;
  /** Claims the sweep for the next `forMs`. true: this server sweeps for all servers. */
  takeSweep(forMs: number): Promise<boolean>;
  counts(): Promise<Record<JobState, number>>;
  close(): Promise<void>;
}

/** Initial values of a job. */
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

/** Whether the job table or storage was unreachable. The error is logged where it occurs; callers retry. */
export const areUnavailable = (error: unknown): boolean => (error as Partial<SluiceError>).code === 'jobs_unavailable';
