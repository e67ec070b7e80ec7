// The table of jobs of a single server, in an embedded database in the server's folder. The table survives restarts.
import path from 'node:path';
import { DatabaseSync, type SQLInputValue } from 'node:sqlite';
import { epochMs, monotonicMs } from '../../../core/clock.ts';
import { SluiceError } from '../../../core/errors.ts';
import { createPrivateFile } from '../../../core/file-system.ts';
import {
  type ClaimedJob,
  type HeldJob,
  type Job,
  type JobEnd,
  type JobPage,
  type JobProgress,
  type JobState,
  type JobStore,
  type NewJob,
  noJobs,
  UNBEGUN,
} from './job-store.ts';
import { SqliteUploads } from './sqlite-uploads.ts';

/** The columns of the table, by property of Job. */
const COLUMNS: Record<keyof Job, string> = {
  id: 'id TEXT PRIMARY KEY',
  owner: 'owner TEXT NOT NULL',
  idempotencyKey: 'idempotencyKey TEXT',
  format: 'format TEXT NOT NULL',
  query: 'query TEXT NOT NULL',
  fingerprint: 'fingerprint TEXT NOT NULL',
  bodySha256: 'bodySha256 TEXT',
  requestId: 'requestId TEXT',
  trace: 'trace TEXT',
  pipeline: 'pipeline TEXT',
  target: 'target TEXT',
  state: 'state TEXT NOT NULL',
  epoch: 'epoch INTEGER NOT NULL DEFAULT 0',
  crashes: 'crashes INTEGER NOT NULL DEFAULT 0',
  rows: 'rows INTEGER NOT NULL',
  scored: 'scored INTEGER NOT NULL',
  rejected: 'rejected INTEGER NOT NULL',
  bytesRead: 'bytesRead INTEGER NOT NULL',
  uploadBytes: 'uploadBytes INTEGER NOT NULL',
  resultBytes: 'resultBytes INTEGER NOT NULL',
  packageSha256: 'packageSha256 TEXT',
  created: 'created INTEGER NOT NULL',
  finished: 'finished INTEGER',
  errorCode: 'errorCode TEXT',
  errorMessage: 'errorMessage TEXT',
};
const NAMES = Object.keys(COLUMNS) as (keyof Job)[];
/** Whether the owner has cancelled the job while it was running. */
const CANCEL = 'cancel INTEGER NOT NULL DEFAULT 0';

type Row = Record<string, string | number | null>;

/**
 * Current size of an upload or a result that is being written. The size is held only in memory, because the write ends
 * with the process that owns the folder.
 */
interface Growing {
  owner: string;
  bytes: number;
}

export class SqliteJobs implements JobStore {
  readonly leaseMs = null;
  readonly reachable = true;
  /** The table of uploads that arrive in parts. The table survives restarts. */
  readonly uploads: SqliteUploads;
  readonly #db: DatabaseSync;
  /** Incoming uploads, by job. */
  readonly #reserved = new Map<string, Growing>();
  /** Results that are being written, by job. */
  readonly #results = new Map<string, Growing>();
  /** By caller: when a job was last started. */
  readonly #started = new Map<string, number>();
  /** By job: time before which it must stay in the queue. */
  readonly #waiting = new Map<string, number>();

  /** Opens `jobs.sqlite` in the folder. @throws SluiceError folder_unusable */
  constructor(folder: string) {
    const file = path.join(folder, 'jobs.sqlite');
    try {
      // The journals of SQLite get the same file mode as the database file.
      createPrivateFile(file);
      this.#db = new DatabaseSync(file);
    } catch (cause) {
      throw new SluiceError('folder_unusable', `jobs.folder: ${folder}: ${(cause as Error).message}`, { cause });
    }
    this.#db.exec(`PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL;
      CREATE TABLE IF NOT EXISTS jobs (${[...Object.values(COLUMNS), CANCEL].join(', ')});
      CREATE UNIQUE INDEX IF NOT EXISTS jobs_idempotency ON jobs (owner, idempotencyKey) WHERE idempotencyKey IS NOT NULL;`);
    this.#addMissingColumns();
    this.uploads = new SqliteUploads(this.#db, (id) => this.#reserved.delete(id));
  }

  /** Adds the columns that a table of an earlier version does not have. */
  #addMissingColumns(): void {
    const there = new Set(this.#rows('PRAGMA table_info(jobs)').map((c) => c.name));
    for (const name of NAMES) if (!there.has(name)) this.#db.exec(`ALTER TABLE jobs ADD COLUMN ${COLUMNS[name]}`);
    if (!there.has('cancel')) this.#db.exec(`ALTER TABLE jobs ADD COLUMN ${CANCEL}`);
  }

  /** Returns those jobs to the queue that were running when the previous server process ended. */
  requeueRunning(): Job[] {
    const cutOff = this.#rows("SELECT * FROM jobs WHERE state = 'running' ORDER BY created, id").map(toJob);
    this.#run("UPDATE jobs SET state = 'queued', crashes = crashes + 1 WHERE state = 'running'");
    return cutOff;
  }

  async reserve(id: string, owner: string): Promise<void> {
    this.#reserved.set(id, { owner, bytes: 0 });
  }

  async grow({ id, epoch }: HeldJob, bytes: number): Promise<boolean> {
    const growing = (epoch === 0 ? this.#reserved : this.#results).get(id);
    if (!growing || (epoch > 0 && !this.#holds({ id, epoch }))) return false;
    growing.bytes = bytes;
    return true;
  }

  async drop(id: string): Promise<void> {
    this.#reserved.delete(id);
  }

  async enqueue(job: NewJob): Promise<'queued' | 'key_taken' | 'lost'> {
    const resumable = this.uploads.isOpen(job.id);
    if (!resumable && !this.#reserved.has(job.id)) return 'lost';
    if (job.idempotencyKey !== null && (await this.byIdempotencyKey(job.owner, job.idempotencyKey))) return 'key_taken';
    const row: Job = {
      ...job,
      ...UNBEGUN,
      state: 'queued',
      epoch: 0,
      crashes: 0,
      resultBytes: 0,
      created: epochMs(),
      finished: null,
    };
    const values = NAMES.map((n) => (n === 'query' ? JSON.stringify(row.query) : (row[n] as SQLInputValue)));
    this.#whole(() => {
      this.#run(`INSERT INTO jobs (${NAMES.join(', ')}) VALUES (${NAMES.map(() => '?').join(', ')})`, ...values);
      if (resumable) this.uploads.queued(job.id);
    });
    this.#reserved.delete(job.id);
    return 'queued';
  }

  async get(id: string): Promise<Job | null> {
    return this.#rows('SELECT * FROM jobs WHERE id = ?', id).map(toJob)[0] ?? null;
  }

  async byIdempotencyKey(owner: string, key: string): Promise<Job | null> {
    const rows = this.#rows('SELECT * FROM jobs WHERE owner = ? AND idempotencyKey = ?', owner, key);
    return rows.map(toJob)[0] ?? null;
  }

  async list(owner: string, { state, limit, after }: JobPage): Promise<Job[]> {
    const rows = this.#rows(
      `SELECT * FROM jobs WHERE owner = ? AND (? IS NULL OR state = ?) AND (? IS NULL OR (created, id) < (?, ?))
       ORDER BY created DESC, id DESC LIMIT ?`,
      ...[owner, state, state, after?.id ?? null, after?.created ?? null, after?.id ?? null, limit],
    );
    return rows.map(toJob);
  }

  async kept(owner: string): Promise<{ jobs: number; bytes: number }> {
    const sql = 'SELECT count(*) AS jobs, total(uploadBytes + resultBytes) AS bytes FROM jobs WHERE owner = ?';
    const sum = { ...(this.#rows(sql, owner)[0] as { jobs: number; bytes: number }) };
    const open = this.uploads.kept(owner);
    sum.jobs += open.jobs;
    sum.bytes += open.bytes;
    for (const growing of this.#reserved.values()) {
      if (growing.owner !== owner) continue;
      sum.jobs++;
      sum.bytes += growing.bytes;
    }
    for (const growing of this.#results.values()) if (growing.owner === owner) sum.bytes += growing.bytes;
    return sum;
  }

  async cancel(id: string): Promise<'cancelled' | 'asked' | null> {
    const sql = "UPDATE jobs SET state = 'cancelled', uploadBytes = 0, finished = ? WHERE id = ? AND state = 'queued'";
    if (this.#run(sql, epochMs(), id)) return 'cancelled';
    return this.#run("UPDATE jobs SET cancel = 1 WHERE id = ? AND state = 'running'", id) ? 'asked' : null;
  }

  async remove(id: string): Promise<void> {
    this.#run("DELETE FROM jobs WHERE id = ? AND state NOT IN ('queued', 'running')", id);
  }

  async claim(pipelines: readonly string[], alone: boolean, busy: readonly string[] = []): Promise<ClaimedJob | null> {
    const now = epochMs();
    const queued = this.#rows("SELECT * FROM jobs WHERE state = 'queued' ORDER BY created, id")
      .map(toJob)
      .filter((j) => j.pipeline === null || pipelines.includes(j.pipeline))
      .filter((j) => !busy.includes(j.owner))
      .filter((j) => (this.#waiting.get(j.id) ?? 0) <= now);
    const running = this.#rows("SELECT owner FROM jobs WHERE state = 'running'").map((r) => r.owner as string);
    const next = nextOf(queued, running, this.#started);
    if (!next || (next.crashes > 0 && !alone)) return null;
    const job: Job = { ...next, ...UNBEGUN, state: 'running', epoch: next.epoch + 1 };
    this.#run(
      `UPDATE jobs SET state = 'running', epoch = ?, rows = 0, scored = 0, rejected = 0, bytesRead = 0, packageSha256 = NULL,
       errorCode = NULL, errorMessage = NULL WHERE id = ?`,
      ...[job.epoch, job.id],
    );
    this.#started.set(job.owner, monotonicMs());
    this.#results.set(job.id, { owner: job.owner, bytes: 0 });
    return { job, takenOver: false, cancelled: this.#isCancelled(job.id) };
  }

  async renew(held: readonly HeldJob[]): Promise<ReadonlyMap<string, 'held' | 'cancel'>> {
    const there = held.filter((h) => (h.epoch === 0 ? this.#reserved.has(h.id) : this.#holds(h)));
    return new Map(there.map(({ id }) => [id, this.#isCancelled(id) ? 'cancel' : 'held']));
  }

  async progress(held: HeldJob, { rows, scored, rejected, bytesRead }: JobProgress): Promise<boolean> {
    return this.#change(held, { rows, scored, rejected, bytesRead });
  }

  async finish(held: HeldJob, end: JobEnd): Promise<boolean | 'cancelled'> {
    if (end.state === 'done' && this.#refusesResult(held)) return 'cancelled';
    const changed = this.#change(held, { ...end, uploadBytes: 0, finished: epochMs() });
    if (changed) this.#forget(held.id);
    return changed;
  }

  async putBack(held: HeldJob, pauseMs: number, why: Pick<Job, 'errorCode' | 'errorMessage'> | null): Promise<boolean> {
    const changed = this.#change(held, { state: 'queued', ...why });
    if (!changed) return false;
    this.#forget(held.id);
    this.#waiting.set(held.id, epochMs() + pauseMs);
    return true;
  }

  async giveUp(held: HeldJob): Promise<void> {
    await this.putBack(held, 0, null);
  }

  async expire(keepMs: number): Promise<HeldJob[]> {
    const before = epochMs() - keepMs;
    const gone = this.#rows('SELECT id, epoch FROM jobs WHERE finished <= ?', before) as unknown as HeldJob[];
    this.#run('DELETE FROM jobs WHERE finished <= ?', before);
    return gone;
  }

  async known(ids: readonly string[]): Promise<ReadonlyMap<string, { epoch: number; state: JobState | null }>> {
    const known = new Map<string, { epoch: number; state: JobState | null }>();
    for (const id of ids) {
      const comesIn = this.#reserved.has(id) || this.uploads.isOpen(id);
      const job = comesIn ? { epoch: 0, state: null } : await this.get(id);
      if (job) known.set(id, { epoch: job.epoch, state: job.state });
    }
    return known;
  }

  async takeSweep(): Promise<boolean> {
    return true;
  }

  async counts(): Promise<Record<JobState, number>> {
    const counts = noJobs();
    for (const { state, n } of this.#rows('SELECT state, count(*) AS n FROM jobs GROUP BY state')) {
      counts[state as JobState] = n as number;
    }
    return counts;
  }

  async close(): Promise<void> {
    this.#db.close();
  }

  #holds({ id, epoch }: HeldJob): boolean {
    return this.#rows("SELECT 1 FROM jobs WHERE id = ? AND epoch = ? AND state = 'running'", id, epoch).length > 0;
  }

  /** Whether a job with a result was cancelled. Predictions that a pipeline wrote cannot be revoked. */
  #refusesResult({ id, epoch }: HeldJob): boolean {
    const sql =
      "SELECT 1 FROM jobs WHERE id = ? AND epoch = ? AND state = 'running' AND cancel = 1 AND pipeline IS NULL";
    return this.#rows(sql, id, epoch).length > 0;
  }

  #isCancelled(id: string): boolean {
    return this.#rows('SELECT 1 FROM jobs WHERE id = ? AND cancel = 1', id).length > 0;
  }

  #forget(id: string): void {
    this.#results.delete(id);
    this.#waiting.delete(id);
  }

  #change({ id, epoch }: HeldJob, change: Partial<Omit<Job, 'id' | 'query'>>): boolean {
    const names = Object.keys(change) as (keyof typeof change)[];
    const sql = `UPDATE jobs SET ${names.map((n) => `${n} = ?`).join(', ')} WHERE id = ? AND epoch = ? AND state = 'running'`;
    return this.#run(sql, ...names.map((n) => change[n] as SQLInputValue), id, epoch);
  }

  /** Runs `work` in a transaction. */
  #whole(work: () => void): void {
    this.#db.exec('BEGIN IMMEDIATE');
    try {
      work();
      this.#db.exec('COMMIT');
    } catch (error) {
      this.#db.exec('ROLLBACK');
      throw error;
    }
  }

  #rows(sql: string, ...values: SQLInputValue[]): Row[] {
    return this.#db.prepare(sql).all(...values) as Row[];
  }

  /** Returns whether any row changed. */
  #run(sql: string, ...values: SQLInputValue[]): boolean {
    return Number(this.#db.prepare(sql).run(...values).changes) > 0;
  }
}

const toJob = ({ cancel: _, ...row }: Row): Job =>
  ({ ...row, query: JSON.parse(row.query as string) }) as unknown as Job;

/**
 * Picks the next job so that callers get fair turns: a job of the caller with the fewest running jobs. If several
 * callers have equally few, picks the caller whose last job was started longest ago. `queued`: oldest first. `started`:
 * time of the last start by caller, from any clock.
 */
export function nextOf(
  queued: readonly Job[],
  runningOwners: readonly string[],
  started: ReadonlyMap<string, number>,
): Job | null {
  const running = (owner: string) => runningOwners.filter((o) => o === owner).length;
  const rank = ({ owner }: Job) => [running(owner), started.get(owner) ?? Number.NEGATIVE_INFINITY] as const;
  let best: Job | null = null;
  for (const job of queued) {
    if (best === null) best = job;
    else {
      const [a, b] = [rank(job), rank(best)];
      if (a[0] < b[0] || (a[0] === b[0] && a[1] < b[1])) best = job;
    }
  }
  return best;
}
