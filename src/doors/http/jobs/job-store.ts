// The table of asynchronous jobs, whoever keeps it: one server in a folder of its own, or several in one database.
import type { SluiceError } from '../../../core/errors.ts';
import type { BodyFormat, PredictQuery } from '../wire/scoring-request.ts';

export const JOB_STATES = ['queued', 'running', 'done', 'failed', 'cancelled'] as const;
export type JobState = (typeof JOB_STATES)[number];

export interface Job {
  id: string;
  /** Name of the API key that made it; nobody else sees it. */
  owner: string;
  idempotencyKey: string | null;
  format: BodyFormat;
  /** The query as it came, with modelId pinned to a version. */
  query: PredictQuery;
  /** What the request asked for, to tell a repeated request from another one. */
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
   * How often it was begun: the fencing token of whoever runs it. Everything that is written for a job is written for one epoch, and
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

/** A job as its upload makes it; the rest of it the table says. */
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

/** What was taken hold of: an upload that comes in (epoch 0), or a job that is run. */
export type HeldJob = Pick<Job, 'id' | 'epoch'>;

/** A job that this server runs from now on. */
export interface ClaimedJob {
  job: Job;
  /** It was running before: whoever ran it did not renew its lease. */
  takenOver: boolean;
  /** Its owner cancelled it meanwhile. */
  cancelled: boolean;
}

/** What a job knows of its scoring so far. */
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
 * Modes of a job: reserved (an upload that comes in) → queued → running → done | failed | cancelled → removed. What was running where
 * nobody is any more is claimed again, in a new epoch. Each method is one step that happens whole or not at all; those that say
 * whether they held change nothing where the epoch is another one by now.
 *
 * Every method may throw SluiceError jobs_unavailable.
 */
export interface JobStore {
  /** A lease that is not renewed ends after so many ms; null: one server has the table to itself, and no lease ends. */
  readonly leaseMs: number | null;
  /** false: the last that was asked of the table was not answered. */
  readonly reachable: boolean;
  /** From now on it counts for the quota of its owner, and nobody can ask for it. */
  reserve(id: string, owner: string): Promise<void>;
  /** The upload (epoch 0) or the result will have so many bytes: they count for the quota from now on. false: not held. */
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
  /** A queued job ends; a running one is asked to, which whoever runs it hears when it renews its lease. null: neither. */
  cancel(id: string): Promise<'cancelled' | 'asked' | null>;
  /** A finished job is gone. */
  remove(id: string): Promise<void>;
  /**
   * Takes the job whose turn it is, keys in turns. `pipelines`: jobs of others are left alone. `alone`: nothing else runs here; a job
   * whose server ended is not claimed otherwise, so that a crash says which job it was. `busy`: jobs of these owners are left alone.
   * null: there is none, or it is not for this server.
   */
  claim(pipelines: readonly string[], alone: boolean, busy?: readonly string[]): Promise<ClaimedJob | null>;
  /** Renews the leases of what is held; those that are missing in the answer are lost. */
  renew(held: readonly HeldJob[]): Promise<ReadonlyMap<string, 'held' | 'cancel'>>;
  progress(held: HeldJob, so: JobProgress): Promise<boolean>;
  finish(held: HeldJob, end: JobEnd): Promise<boolean>;
  /** Back into the queue, for at least so long; `why`: what it waits for. */
  putBack(held: HeldJob, pauseMs: number, why: Pick<Job, 'errorCode' | 'errorMessage'> | null): Promise<boolean>;
  /**
   * This server lives and has given up what it held: the job is queued again where nobody has begun it since, and where somebody has,
   * that was no crash.
   */
  giveUp(held: HeldJob): Promise<void>;
  /** Removes jobs that finished longer ago than that, and reservations whose server is gone. Gives what was removed. */
  expire(keepMs: number): Promise<HeldJob[]>;
  /** Of these ids: what there is, reservations as epoch 0 of state null. */
  known(ids: readonly string[]): Promise<ReadonlyMap<string, { epoch: number; state: JobState | null }>>;
  /** true: this server cleans up for everybody, for the next `forMs` at least. */
  takeSweep(forMs: number): Promise<boolean>;
  counts(): Promise<Record<JobState, number>>;
  close(): Promise<void>;
}

/** What a job begins with. */
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

/** Whether the table or the files of jobs could not be reached: it is told where it happens, and tried again by whoever needs it. */
export const areUnavailable = (error: unknown): boolean => (error as Partial<SluiceError>).code === 'jobs_unavailable';
