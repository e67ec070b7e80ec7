// The table of resumable uploads that several servers share. The job table reserves a job for each upload; this
// reservation does not expire.
import type { SqlResult, SqlRow, SqlValue } from '../../../connectors/postgres/shared-connections.ts';
import type { HeldJob } from './job-store.ts';
import type { TakenUpload, Upload, UploadStore } from './upload-store.ts';

/** The names as quoted SQL. */
export interface UploadTables {
  jobs: string;
  uploads: string;
}

type Ask = (sql: (tables: UploadTables) => string, values?: readonly SqlValue[]) => Promise<SqlResult>;

/** Current time in ms since 1970, by the clock of the database. */
const NOW_MS = '(extract(epoch FROM now()) * 1000)::bigint';
/** SQL condition: the upload `u` is open, because its job is only reserved. */
const open = (jobs: string): string => `EXISTS (SELECT 1 FROM ${jobs} r WHERE r.id = u.id AND r.state = 'reserved')`;

/** A method consists of one or more statements. If a server crashes between two of them, a sweep completes the work. */
export class PostgresUploads implements UploadStore {
  readonly #ask: Ask;

  constructor(ask: Ask) {
    this.#ask = ask;
  }

  async begin({ job, metadata }: Upload): Promise<'begun' | 'key_taken'> {
    const { id, owner, idempotencyKey, uploadBytes } = job;
    const { count } = await this.#ask(
      ({
        jobs,
        uploads,
      }) => `WITH held AS (UPDATE ${jobs} SET lease_until = 'infinity' WHERE id = $1 AND state = 'reserved' RETURNING id)
        INSERT INTO ${uploads} (id, owner, idempotency_key, job, metadata, length, bytes, touched)
        SELECT id, $2::text, $3::text, $4::text, $5::text, $6::bigint, 0, ${NOW_MS} FROM held
        ON CONFLICT (owner, idempotency_key) WHERE idempotency_key IS NOT NULL AND NOT queued DO NOTHING`,
      [id, owner, idempotencyKey, JSON.stringify(job), metadata, uploadBytes],
    );
    return count > 0 ? 'begun' : 'key_taken';
  }

  async get(id: string): Promise<Upload | null> {
    const { rows } = await this.#ask(
      ({ jobs, uploads }) => `SELECT u.*, ${open(jobs)} AS open FROM ${uploads} u WHERE id = $1`,
      [id],
    );
    return rows.map(toUpload)[0] ?? null;
  }

  async byIdempotencyKey(owner: string, key: string): Promise<Upload | null> {
    const { rows } = await this.#ask(
      ({ jobs, uploads }) =>
        `SELECT u.*, true AS open FROM ${uploads} u WHERE owner = $1 AND idempotency_key = $2 AND ${open(jobs)}`,
      [owner, key],
    );
    return rows.map(toUpload)[0] ?? null;
  }

  async take(id: string, offset: number, uses: number): Promise<TakenUpload | null> {
    const { rows } = await this.#ask(
      ({ jobs, uploads }) => `WITH old AS (SELECT id, uses FROM ${uploads} WHERE id = $1 FOR UPDATE)
        UPDATE ${uploads} u SET epoch = u.epoch + 1, uses = greatest($3::bigint, old.uses) FROM old
        WHERE u.id = old.id AND u.bytes = $2 AND ${open(jobs)} RETURNING u.epoch, old.uses AS before`,
      [id, offset, uses],
    );
    const row = rows[0];
    return row ? { id, epoch: Number(row.epoch), left: Number(row.before) } : null;
  }

  async advance(
    { id, epoch }: HeldJob,
    { offset, tail, done }: Pick<Upload, 'offset' | 'tail'> & { done: boolean },
  ): Promise<boolean> {
    const { count } = await this.#ask(
      ({
        jobs,
        uploads,
      }) => `UPDATE ${uploads} u SET bytes = $3, tail = $4, touched = ${NOW_MS}, uses = CASE WHEN $5 THEN 0 ELSE uses END
        WHERE id = $1 AND epoch = $2 AND ${open(jobs)}`,
      [id, epoch, offset, tail, done],
    );
    return count > 0;
  }

  async remove(id: string): Promise<boolean> {
    const { count } = await this.#ask(
      ({ jobs, uploads }) => `WITH gone AS (DELETE FROM ${jobs} WHERE id = $1 AND state = 'reserved' RETURNING id)
        DELETE FROM ${uploads} u USING gone WHERE u.id = gone.id`,
      [id],
    );
    return count > 0;
  }

  async whole(): Promise<Upload[]> {
    const { rows } = await this.#ask(
      ({ jobs, uploads }) =>
        `SELECT u.*, true AS open FROM ${uploads} u WHERE NOT queued AND bytes = length AND ${open(jobs)}`,
    );
    return rows.map(toUpload);
  }

  async open(): Promise<number> {
    const { rows } = await this.#ask(
      ({ jobs, uploads }) => `SELECT count(*) AS n FROM ${uploads} u WHERE NOT queued AND ${open(jobs)}`,
    );
    return Number(rows[0]!.n);
  }

  async expire(ttlMs: number, busy: ReadonlySet<string>): Promise<Upload[]> {
    await this.#ask(
      ({ jobs, uploads }) => `DELETE FROM ${uploads} u WHERE NOT EXISTS (SELECT 1 FROM ${jobs} j WHERE j.id = u.id)`,
    );
    await this.#ask(
      ({ jobs, uploads }) => `UPDATE ${uploads} u SET queued = true WHERE NOT queued AND NOT ${open(jobs)}`,
    );
    const { rows } = await this.#ask(
      ({
        jobs,
        uploads,
      }) => `WITH old AS (DELETE FROM ${jobs} j USING ${uploads} u WHERE j.id = u.id AND j.state = 'reserved'
          AND u.touched <= ${NOW_MS} - $1::bigint AND u.id <> ALL($2) RETURNING j.id)
        DELETE FROM ${uploads} u USING old WHERE u.id = old.id RETURNING u.*, true AS open`,
      [ttlMs, [...busy]],
    );
    return rows.map(toUpload);
  }
}

const toUpload = ({ job, metadata, bytes, tail, touched, open }: SqlRow): Upload => ({
  job: JSON.parse(job as string),
  metadata: metadata as string | null,
  offset: Number(bytes),
  tail: tail as string | null,
  touched: Number(touched),
  queued: open !== true,
});
