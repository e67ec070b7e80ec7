// The table of asynchronous jobs: kept by one server in a folder, or by several servers in one database.
import type { SluiceError } from '../../../core/errors.ts';
import type { BodyFormat, PredictQuery } from '../wire/scoring-request.ts';

export const JOB_STATES = ['queued', 'running', 'done', 'failed', 'cancelled'] as const;
export type JobState = (typeof JOB_STATES)[number];

export interface Job {
  id: string;
  /** Name of the API key that created it; invisible to other keys. */
  owner: string;
  idempotencyKey: string | null;
  format: BodyFormat;
  /** The query as it came, with modelId pinned to a version. */
  query: PredictQuery;
  /** The request, to distinguish a repetition from another request. */
  fingerprint: string;
  /** SHA-256 of the body, decoded; null: made by a version that did not keep it. */
  bodySha256: string | null;
  /** Id of the request that made it, and the trace it belongs to (traceparent). */
  requestId: string | null;
  trace: string | null;
  /** Name of the pipeline that takes the upload, and where its predictions go; null: the result is kept here. */
  pipeline: string | null;
  target: string | null;
  state: JobState;
  /**
   * Number of starts: the fencing token of the server that runs it. Every write for a job names its epoch, and
   * counts only while that is the newest.
   */
  epoch: number;
  /** How often a server ended without a word while it ran this. */
  crashes: number;
  rows: number;
  scored: number;
  rejected: number;
  bytesRead: number;
  uploadBytes: number;
  resultBytes: number;
  /** Hash of the package that scored it; null: it is not done. */
  packageSha256: string | null;
  /** Milliseconds since 1970, by the clock of the table. */
  created: number;
  finished: number | null;
  errorCode: string | null;
  errorMessage: string | null;
}

/** A job as created by its upload; the table adds the rest. */
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

/** A held lease: of an upload in progress (epoch 0), or of a running job. */
export type HeldJob = Pick<Job, 'id' | 'epoch'>;

/** A job that this server runs from now on. */
export interface ClaimedJob {
  job: Job;
  /** It was running before, and its lease was not renewed. */
  takenOver: boolean;
  /** Its owner cancelled it meanwhile. */
  cancelled: boolean;
}

/** Progress of a job. */
export type JobProgress = Pick<Job, 'rows' | 'scored' | 'rejected' | 'bytesRead'>;

/** How a job ended. */
export type JobEnd =
  | ({ state: 'done' } & JobProgress & Pick<Job, 'resultBytes' | 'packageSha256'>)
  | ({ state: 'failed' } & Pick<Job, 'errorCode' | 'errorMessage'>)
  | { state: 'cancelled' };

/** Some of the jobs of a key, the newest first. */
export interface JobPage {
  state: JobState | null;
  limit: number;
  /** The last one of the page before; null: from the newest. */
  after: Pick<Job, 'id' | 'created'> | null;
}

/**
 * States of a job: reserved (an upload in progress) → queued → running → done | failed | cancelled → removed. A job whose server has ended
 * is claimed again, in a new epoch. Each method is atomic; those that say
 * whether they held change nothing where the epoch is another one by now.
 *
 * Every method may throw SluiceError jobs_unavailable.
 */
export interface JobStore {
  /** Lifetime of a lease without renewal, ms; null: one server owns the table, and leases never end. */
  readonly leaseMs: number | null;
  /** false: the last call to the table failed. */
  readonly reachable: boolean;
  /** Reserves a job: it counts for the quota of its owner, and is invisible. */
  reserve(id: string, owner: string): Promise<void>;
  /** Counts the size of the upload (epoch 0) or of the result for the quota. false: not held. */
  grow(held: HeldJob, bytes: number): Promise<boolean>;
  /** Nothing becomes of a reservation. */
  drop(id: string): Promise<void>;
  /** Makes a job of a reservation. `key_taken`: its owner has one with this Idempotency-Key. `lost`: the reservation is gone. */
  enqueue(job: NewJob): Promise<'queued' | 'key_taken' | 'lost'>;
  get(id: string): Promise<Job | null>;
  byIdempotencyKey(owner: string, key: string): Promise<Job | null>;
  list(owner: string, page: JobPage): Promise<Job[]>;
  /** How many jobs a key has, and the bytes of their uploads and results, reservations included. */
  kept(owner: string): Promise<{ jobs: number; bytes: number }>;
  /** Cancels a queued job; requests it of a running one, which its server sees when it renews the lease. null: neither. */
  cancel(id: string): Promise<'cancelled' | 'asked' | null>;
  /** A finished job is gone. */
  remove(id: string): Promise<void>;
  /**
   * Takes the job whose turn it is, keys in turns. `pipelines`: jobs of others are left alone. `alone`: nothing else runs here; a job
   * whose server ended is not claimed otherwise, so that a crash identifies the job. `busy`: owners whose jobs are skipped.
   * null: there is none, or it is not for this server.
   */
  claim(pipelines: readonly string[], alone: boolean, busy?: readonly string[]): Promise<ClaimedJob | null>;
  /** Renews held leases; those missing in the answer are lost. */
  renew(held: readonly HeldJob[]): Promise<ReadonlyMap<string, 'held' | 'cancel'>>;
  progress(held: HeldJob, so: JobProgress): Promise<boolean>;
  finish(held: HeldJob, end: JobEnd): Promise<boolean>;
  /** Returns a job to the queue for at least this time; `why`: the reason. */
  putBack(held: HeldJob, pauseMs: number, why: Pick<Job, 'errorCode' | 'errorMessage'> | null): Promise<boolean>;
  /** This server lost a job: it is queued again unless another server has started it, which does not count as a crash. */
  giveUp(held: HeldJob): Promise<void>;
  /** Removes jobs that finished before this time, and reservations of ended servers. Returns the removed ones. */
  expire(keepMs: number): Promise<HeldJob[]>;
  /** The jobs with these ids; reservations have epoch 0 and state null. */
  known(ids: readonly string[]): Promise<ReadonlyMap<string, { epoch: number; state: JobState | null }>>;
  /** true: this server cleans up for everybody, for the next `forMs` at least. */
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

/** Whether the table or the files of jobs were unreachable; logged where it happens, and retried by the callers. */
export const areUnavailable = (error: unknown): boolean => (error as Partial<SluiceError>).code === 'jobs_unavailable';
