// The table of resumable uploads of a single server, in its embedded database.
import type { DatabaseSync, SQLInputValue } from 'node:sqlite';
import { epochMs } from '../../../core/clock.ts';
import type { HeldJob } from './job-store.ts';
import type { TakenUpload, Upload, UploadStore } from './upload-store.ts';

type Row = Record<string, string | number | null>;

const TABLE = `CREATE TABLE IF NOT EXISTS uploads (id TEXT PRIMARY KEY, owner TEXT NOT NULL, idempotencyKey TEXT, job TEXT NOT NULL,
    metadata TEXT, length INTEGER NOT NULL, offset INTEGER NOT NULL, touched INTEGER NOT NULL, queued INTEGER NOT NULL DEFAULT 0,
    tail TEXT, epoch INTEGER NOT NULL DEFAULT 0, uses INTEGER NOT NULL DEFAULT 0);
  CREATE UNIQUE INDEX IF NOT EXISTS uploads_idempotency ON uploads (owner, idempotencyKey)
    WHERE idempotencyKey IS NOT NULL AND queued = 0;`;

export class SqliteUploads implements UploadStore {
  readonly #db: DatabaseSync;
  readonly #onBegun: (id: string) => void;

  /** `onBegun`: called when this server has reserved the job of an upload. */
  constructor(db: DatabaseSync, onBegun: (id: string) => void) {
    this.#db = db;
    this.#onBegun = onBegun;
    db.exec(TABLE);
  }

  async begin({ job, metadata, offset, touched }: Upload): Promise<'begun' | 'key_taken'> {
    const { id, owner, idempotencyKey, uploadBytes } = job;
    const sql = `INSERT INTO uploads (id, owner, idempotencyKey, job, metadata, length, offset, touched)
      VALUES (?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (owner, idempotencyKey) WHERE idempotencyKey IS NOT NULL AND queued = 0 DO NOTHING`;
    const values = [id, owner, idempotencyKey, JSON.stringify(job), metadata, uploadBytes, offset, touched];
    if (!this.#run(sql, ...values)) return 'key_taken';
    this.#onBegun(id);
    return 'begun';
  }

  async get(id: string): Promise<Upload | null> {
    return this.#rows('SELECT * FROM uploads WHERE id = ?', id).map(toUpload)[0] ?? null;
  }

  async byIdempotencyKey(owner: string, key: string): Promise<Upload | null> {
    const sql = 'SELECT * FROM uploads WHERE owner = ? AND idempotencyKey = ? AND queued = 0';
    return this.#rows(sql, owner, key).map(toUpload)[0] ?? null;
  }

  async take(id: string, offset: number, uses: number): Promise<TakenUpload | null> {
    const row = this.#rows('SELECT epoch, uses FROM uploads WHERE id = ? AND offset = ? AND queued = 0', id, offset)[0];
    if (!row) return null;
    const held = { id, epoch: (row.epoch as number) + 1 };
    this.#run('UPDATE uploads SET epoch = ?, uses = ? WHERE id = ?', held.epoch, uses, id);
    return { ...held, left: row.uses as number };
  }

  async advance(
    { id, epoch }: HeldJob,
    { offset, tail, done }: Pick<Upload, 'offset' | 'tail'> & { done: boolean },
  ): Promise<boolean> {
    const sql = `UPDATE uploads SET offset = ?, tail = ?, touched = ?, uses = CASE ? WHEN 1 THEN 0 ELSE uses END
      WHERE id = ? AND epoch = ? AND queued = 0`;
    return this.#run(sql, offset, tail, epochMs(), done ? 1 : 0, id, epoch);
  }

  async remove(id: string): Promise<boolean> {
    return this.#run('DELETE FROM uploads WHERE id = ? AND queued = 0', id);
  }

  async whole(): Promise<Upload[]> {
    return this.#rows('SELECT * FROM uploads WHERE queued = 0 AND offset = length').map(toUpload);
  }

  async open(): Promise<number> {
    return this.#rows('SELECT count(*) AS n FROM uploads WHERE queued = 0')[0]!.n as number;
  }

  async expire(ttlMs: number, busy: ReadonlySet<string>): Promise<Upload[]> {
    this.#run('DELETE FROM uploads WHERE queued = 1 AND id NOT IN (SELECT id FROM jobs)');
    const old = this.#rows('SELECT * FROM uploads WHERE queued = 0 AND touched <= ?', epochMs() - ttlMs);
    const expired = old.map(toUpload).filter(({ job }) => !busy.has(job.id));
    for (const { job } of expired) this.#run('DELETE FROM uploads WHERE id = ?', job.id);
    return expired;
  }

  /** Number and total size of a caller's open uploads, for its quota. */
  kept(owner: string): { jobs: number; bytes: number } {
    const sql = 'SELECT count(*) AS jobs, total(length) AS bytes FROM uploads WHERE owner = ? AND queued = 0';
    return this.#rows(sql, owner)[0] as { jobs: number; bytes: number };
  }

  isOpen(id: string): boolean {
    return this.#rows('SELECT 1 FROM uploads WHERE id = ? AND queued = 0', id).length > 0;
  }

  /** Marks an upload as queued: its job is now in the job table. */
  queued(id: string): void {
    this.#run('UPDATE uploads SET queued = 1 WHERE id = ?', id);
  }

  #rows(sql: string, ...values: SQLInputValue[]): Row[] {
    return this.#db.prepare(sql).all(...values) as Row[];
  }

  /** Returns whether any row changed. */
  #run(sql: string, ...values: SQLInputValue[]): boolean {
    return Number(this.#db.prepare(sql).run(...values).changes) > 0;
  }
}

const toUpload = ({ job, metadata, offset, tail, touched, queued }: Row): Upload => ({
  job: JSON.parse(job as string),
  metadata: metadata as string | null,
  offset: offset as number,
  tail: tail as string | null,
  touched: touched as number,
  queued: queued === 1,
});
