// The table of asynchronous jobs, in an embedded database: it survives a restart of the server.
import path from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { SluiceError } from '../../../core/errors.ts';
import type { BodyFormat, PredictQuery } from '../routes/predict.ts';

export type JobState = 'queued' | 'running' | 'done' | 'failed' | 'cancelled';

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
  rows: number;
  scored: number;
  rejected: number;
  bytesRead: number;
  uploadBytes: number;
  resultBytes: number;
  /** Hash of the package that scored it; null: it is not done. */
  packageSha256: string | null;
  /** Milliseconds since 1970. */
  created: number;
  finished: number | null;
  errorCode: string | null;
  errorMessage: string | null;
}

/** Columns of the table: Job property → column and how it is kept. */
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

type Row = Record<string, string | number | null>;

export class JobStore {
  readonly #db: DatabaseSync;

  /** Opens (or makes) `jobs.sqlite` in a folder that nobody else works in. @throws SluiceError folder_unusable */
  constructor(folder: string) {
    try {
      this.#db = new DatabaseSync(path.join(folder, 'jobs.sqlite'));
    } catch (cause) {
      throw new SluiceError('folder_unusable', `jobs.folder: ${folder}: ${(cause as Error).message}`, { cause });
    }
    this.#db.exec(`PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL;
      CREATE TABLE IF NOT EXISTS jobs (${Object.values(COLUMNS).join(', ')});
      CREATE UNIQUE INDEX IF NOT EXISTS jobs_idempotency ON jobs (owner, idempotencyKey) WHERE idempotencyKey IS NOT NULL;`);
    this.#addMissingColumns();
  }

  /** A table of an earlier version lacks the newer columns. */
  #addMissingColumns(): void {
    const there = new Set(
      this.#db
        .prepare('PRAGMA table_info(jobs)')
        .all()
        .map((c) => c.name),
    );
    for (const name of NAMES) if (!there.has(name)) this.#db.exec(`ALTER TABLE jobs ADD COLUMN ${COLUMNS[name]}`);
  }

  /** @throws when the owner has a job with this idempotencyKey already */
  insert(job: Job): void {
    const marks = NAMES.map(() => '?').join(', ');
    this.#db
      .prepare(`INSERT INTO jobs (${NAMES.join(', ')}) VALUES (${marks})`)
      .run(...NAMES.map((n) => toColumn(job, n)));
  }

  update(id: string, change: Partial<Omit<Job, 'id' | 'query'>>): void {
    const names = Object.keys(change) as (keyof typeof change)[];
    const values = names.map((n) => change[n] as string | number | null);
    this.#db.prepare(`UPDATE jobs SET ${names.map((n) => `${n} = ?`).join(', ')} WHERE id = ?`).run(...values, id);
  }

  get(id: string): Job | null {
    return toJob(this.#db.prepare('SELECT * FROM jobs WHERE id = ?').get(id) as Row | undefined);
  }

  byIdempotencyKey(owner: string, key: string): Job | null {
    const row = this.#db.prepare('SELECT * FROM jobs WHERE owner = ? AND idempotencyKey = ?').get(owner, key);
    return toJob(row as Row | undefined);
  }

  /** Oldest first. */
  all(): Job[] {
    const rows = this.#db.prepare('SELECT * FROM jobs ORDER BY created, id').all() as Row[];
    return rows.map((row) => toJob(row)!);
  }

  /** How many jobs a key has, and the bytes of their uploads and results on the disk. */
  kept(owner: string): { jobs: number; bytes: number } {
    const row = this.#db
      .prepare('SELECT count(*) AS jobs, total(uploadBytes + resultBytes) AS bytes FROM jobs WHERE owner = ?')
      .get(owner);
    return row as { jobs: number; bytes: number };
  }

  remove(id: string): void {
    this.#db.prepare('DELETE FROM jobs WHERE id = ?').run(id);
  }

  close(): void {
    this.#db.close();
  }
}

const toColumn = (job: Job, name: keyof Job): string | number | null =>
  name === 'query' ? JSON.stringify(job.query) : (job[name] as string | number | null);

const toJob = (row: Row | undefined): Job | null =>
  row ? ({ ...row, query: JSON.parse(row.query as string) } as unknown as Job) : null;
