// The table of jobs in PostgreSQL, shared by several servers. Leases use the clock of the database, and every write
// checks the epoch.
import { randomUUID } from 'node:crypto';
import { hostname } from 'node:os';
import type { DatabaseSettings } from '../../../connectors/postgres/database.ts';
import {
  SharedConnections,
  type SqlResult,
  type SqlRow,
  type SqlValue,
} from '../../../connectors/postgres/shared-connections.ts';
import { SluiceError } from '../../../core/errors.ts';
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
} from './job-store.ts';
import { JobTables } from './job-tables.ts';
import { PostgresUploads, type UploadTables } from './postgres-uploads.ts';

interface PostgresJobsOptions {
  database: DatabaseSettings;
  /** `table` or `schema.table`. A second table has this name with the suffix `_meta`. */
  table: string;
  leaseMs: number;
  /** Called when the table becomes unreachable, and when it becomes reachable again. */
  onReach: (reached: boolean, error: unknown) => void;
}

/** Current time in ms since 1970, by the clock of the database. */
const NOW_MS = '(extract(epoch FROM now()) * 1000)::bigint';
/** A running job with an expired lease is claimed like a queued job. */
const CLAIMABLE = "(state = 'queued' AND not_before <= now() OR state = 'running' AND lease_until < now())";
const VISIBLE = "state <> 'reserved'";
/** SQLSTATE unique_violation. */
const UNIQUE = '23505';

type Statement = (jobs: string, meta: string, tables: UploadTables) => string;

/**
 * Each method is a single statement. A server that is suspended (SIGSTOP, a paused machine) therefore holds no lock.
 * `now()` is the start of a statement. If a statement had to wait, leases end earlier than by the actual time, and an
 * expired lease is noticed later.
 */
export class PostgresJobs implements JobStore {
  readonly leaseMs: number;
  reachable = true;
  /** The table of uploads that arrive in parts. */
  readonly uploads = new PostgresUploads((sql, values) => this.#ask((_jobs, _meta, tables) => sql(tables), values));
  /** Identifies this process. Host and process id are only for people who read the table. */
  readonly #holder = `${hostname()} ${process.pid} ${randomUUID()}`;
  readonly #connections: SharedConnections;
  readonly #tables: JobTables;
  readonly #onReach: PostgresJobsOptions['onReach'];

  /** Connects on the first call. @throws SluiceError usage */
  constructor({ database, table, leaseMs, onReach }: PostgresJobsOptions) {
    this.leaseMs = leaseMs;
    this.#connections = new SharedConnections(database);
    this.#tables = new JobTables(this.#connections, table);
    this.#onReach = onReach;
  }

  /** Creates missing tables. Waits while the database is unreachable. @throws SluiceError database_refused | usage */
  async prepare(): Promise<void> {
    try {
      await this.#tables.ensure();
    } catch (error) {
      if ((error as SluiceError).code !== 'database_failed') throw error;
      this.#heard(false, error);
    }
  }

  async reserve(id: string, owner: string): Promise<void> {
    await this.#ask(
      (
        t,
      ) => `INSERT INTO ${t} (id, owner, state, lease_until, created) VALUES ($1, $2, 'reserved', ${until('$3')}, ${NOW_MS})
        ON CONFLICT (id) DO NOTHING`,
      [id, owner, this.leaseMs],
    );
  }

  async grow(held: HeldJob, bytes: number): Promise<boolean> {
    const column = held.epoch === 0 ? 'upload_bytes' : 'result_bytes';
    return this.#changes((t) => `UPDATE ${t} SET ${column} = $3 WHERE ${HELD}`, [held.id, held.epoch, bytes]);
  }

  async drop(id: string): Promise<void> {
    await this.#ask((t) => `DELETE FROM ${t} WHERE id = $1 AND state = 'reserved'`, [id]);
  }

  async enqueue(job: NewJob): Promise<'queued' | 'key_taken' | 'lost'> {
    const values = [job.id, ...NEW_COLUMNS.map((c) => job[c.name])].map(toValue);
    const set = NEW_COLUMNS.map((c, i) => `${c.column} = $${i + 2}`).join(', ');
    try {
      const { count, repeated } = await this.#ask(
        (t) => `UPDATE ${t} SET ${set}, state = 'queued', lease_until = NULL, created = ${NOW_MS}
          WHERE id = $1 AND state = 'reserved'`,
        values,
      );
      if (count > 0) return 'queued';
      return repeated && (await this.get(job.id)) ? 'queued' : 'lost';
    } catch (error) {
      if (sqlStateBehind(error) === UNIQUE) return 'key_taken';
      throw error;
    }
  }

  async get(id: string): Promise<Job | null> {
    return this.#job((t) => `SELECT * FROM ${t} WHERE id = $1 AND ${VISIBLE}`, [id]);
  }

  async byIdempotencyKey(owner: string, key: string): Promise<Job | null> {
    return this.#job(
      (t) => `SELECT * FROM ${t} WHERE owner = $1 AND idempotency_key = $2 AND ${VISIBLE}`,
      [owner, key],
    );
  }

  async list(owner: string, { state, limit, after }: JobPage): Promise<Job[]> {
    const { rows } = await this.#ask(
      (t) => `SELECT * FROM ${t} WHERE owner = $1 AND ${VISIBLE} AND ($2::text IS NULL OR state = $2)
        AND ($3::text IS NULL OR (created, id) < ($4::bigint, $3)) ORDER BY created DESC, id DESC LIMIT $5`,
      [owner, state, after?.id ?? null, after?.created ?? null, limit],
    );
    return rows.map(toJob);
  }

  async kept(owner: string): Promise<{ jobs: number; bytes: number }> {
    const { rows } = await this.#ask(
      (t) => `SELECT count(*) AS jobs, coalesce(sum(upload_bytes + result_bytes), 0) AS bytes FROM ${t}
        WHERE owner = $1 AND (${VISIBLE} OR lease_until >= now())`,
      [owner],
    );
    return { jobs: Number(rows[0]!.jobs), bytes: Number(rows[0]!.bytes) };
  }

  async cancel(id: string): Promise<'cancelled' | 'asked' | null> {
    const { rows, repeated } = await this.#ask(
      (t) => `UPDATE ${t} SET cancel = true,
          finished = CASE state WHEN 'queued' THEN ${NOW_MS} END,
          upload_bytes = CASE state WHEN 'queued' THEN 0 ELSE upload_bytes END,
          state = CASE state WHEN 'queued' THEN 'cancelled' ELSE state END
        WHERE id = $1 AND state IN ('queued', 'running') RETURNING state`,
      [id],
    );
    const state = rows[0]?.state ?? (repeated ? (await this.get(id))?.state : null);
    return state === 'cancelled' ? 'cancelled' : state === 'running' ? 'asked' : null;
  }

  async remove(id: string): Promise<void> {
    await this.#ask((t) => `DELETE FROM ${t} WHERE id = $1 AND state IN ('done', 'failed', 'cancelled')`, [id]);
  }

  async claim(pipelines: readonly string[], alone: boolean, busy: readonly string[] = []): Promise<ClaimedJob | null> {
    const mine = '(pipeline IS NULL OR pipeline = ANY($2)) AND owner <> ALL($5::text[])';
    const { rows } = await this.#ask(
      (t) => `WITH waiting AS (SELECT id, owner FROM ${t} WHERE ${CLAIMABLE} AND ${mine}),
        turns AS (SELECT owner,
            (SELECT count(*) FROM ${t} r WHERE r.owner = o.owner AND r.state = 'running' AND r.lease_until >= now()) AS running,
            (SELECT max(started) FROM ${t} s WHERE s.owner = o.owner) AS last
          FROM (SELECT DISTINCT owner FROM waiting) o),
        next AS (SELECT j.id, j.state FROM ${t} j JOIN turns USING (owner) WHERE ${CLAIMABLE} AND ${mine}
          ORDER BY turns.running, turns.last NULLS FIRST, j.created, j.id LIMIT 1 FOR UPDATE OF j SKIP LOCKED)
        UPDATE ${t} AS job SET state = 'running', epoch = job.epoch + 1,
          crashes = job.crashes + (next.state = 'running')::int, holder = $1, lease_until = ${until('$3')},
          started = clock_timestamp(), rows = 0, scored = 0, rejected = 0, bytes_read = 0, result_bytes = 0, package_sha256 = NULL,
          error_code = NULL, error_message = NULL
        FROM next WHERE job.id = next.id AND ($4 OR next.state = 'queued' AND job.crashes = 0) RETURNING job.*, next.state AS was`,
      [this.#holder, pipelines, this.leaseMs, alone, busy],
    );
    const row = rows[0];
    return row ? { job: toJob(row), takenOver: row.was === 'running', cancelled: row.cancel === true } : null;
  }

  async renew(held: readonly HeldJob[]): Promise<ReadonlyMap<string, 'held' | 'cancel'>> {
    const { rows } = await this.#ask(
      (t) => `UPDATE ${t} AS job SET lease_until = greatest(job.lease_until, ${until('$3')})
        FROM unnest($1::text[], $2::bigint[]) AS mine (id, epoch)
        WHERE job.id = mine.id AND job.epoch = mine.epoch AND job.state IN ('running', 'reserved') RETURNING job.id, job.cancel`,
      [held.map((h) => h.id), held.map((h) => h.epoch), this.leaseMs],
    );
    return new Map(rows.map((row) => [row.id as string, row.cancel === true ? 'cancel' : 'held']));
  }

  async progress({ id, epoch }: HeldJob, { rows, scored, rejected, bytesRead }: JobProgress): Promise<boolean> {
    return this.#changes(
      (t) => `UPDATE ${t} SET rows = $3, scored = $4, rejected = $5, bytes_read = $6 WHERE ${HELD}`,
      [id, epoch, rows, scored, rejected, bytesRead],
    );
  }

  async finish({ id, epoch }: HeldJob, end: JobEnd): Promise<boolean | 'cancelled'> {
    const { state, ...change } = end;
    const names = Object.keys(change) as (keyof typeof change)[];
    const set = names.map((name, i) => `${snake(name)} = $${i + 4}`);
    const none = state === 'done' ? [] : ['result_bytes = 0'];
    const values = [id, epoch, state, ...names.map((name) => change[name] as SqlValue)];
    const { count, repeated } = await this.#ask(
      (t) => `UPDATE ${t} SET ${[...set, ...none].map((s) => `${s}, `).join('')} state = $3, finished = ${NOW_MS},
        upload_bytes = 0, lease_until = NULL WHERE ${HELD}${state === 'done' ? ` AND NOT (${CANCELLED})` : ''}`,
      values,
    );
    if (count > 0 || (repeated && (await this.#isRecorded({ id, epoch }, state)))) return true;
    if (state !== 'done') return false;
    const { rows } = await this.#ask((t) => `SELECT id FROM ${t} WHERE ${HELD} AND ${CANCELLED}`, [id, epoch]);
    return rows.length > 0 && 'cancelled';
  }

  async putBack(
    { id, epoch }: HeldJob,
    pauseMs: number,
    why: Pick<Job, 'errorCode' | 'errorMessage'> | null,
  ): Promise<boolean> {
    const { count, repeated } = await this.#ask(
      (t) => `UPDATE ${t} SET state = 'queued', lease_until = NULL, not_before = ${until('$3')}, result_bytes = 0,
        error_code = $4, error_message = $5 WHERE ${HELD}`,
      [id, epoch, pauseMs, why?.errorCode ?? null, why?.errorMessage ?? null],
    );
    return count > 0 || (repeated && (await this.#isRecorded({ id, epoch }, 'queued')));
  }

  async giveUp({ id, epoch }: HeldJob): Promise<void> {
    await this.#ask(
      (t) => `UPDATE ${t} SET state = CASE epoch WHEN $2 THEN 'queued' ELSE state END,
          lease_until = CASE epoch WHEN $2 THEN NULL ELSE lease_until END,
          crashes = greatest(0, crashes - CASE epoch WHEN $2 THEN 0 ELSE 1 END)
        WHERE id = $1 AND (epoch = $2 AND state = 'running' OR epoch > $2 AND state IN ('queued', 'running'))`,
      [id, epoch],
    );
  }

  async expire(keepMs: number): Promise<HeldJob[]> {
    const { rows } = await this.#ask(
      (t) =>
        `DELETE FROM ${t} WHERE finished <= ${NOW_MS} - $1::bigint OR state = 'reserved' AND lease_until < now() RETURNING id, epoch`,
      [keepMs],
    );
    return rows.map((row) => ({ id: row.id as string, epoch: number(row.epoch) }));
  }

  async known(ids: readonly string[]): Promise<ReadonlyMap<string, { epoch: number; state: JobState | null }>> {
    const { rows } = await this.#ask((t) => `SELECT id, epoch, state FROM ${t} WHERE id = ANY($1)`, [ids]);
    const stateOf = (row: SqlRow) => (row.state === 'reserved' ? null : (row.state as JobState));
    return new Map(rows.map((row) => [row.id as string, { epoch: Number(row.epoch), state: stateOf(row) }]));
  }

  async takeSweep(forMs: number): Promise<boolean> {
    return this.#changes(
      (_, meta) =>
        `UPDATE ${meta} SET holder = $1, until = ${until('$2')} WHERE name = 'sweep' AND (holder = $1 OR until < now())`,
      [this.#holder, forMs],
    );
  }

  async counts(): Promise<Record<JobState, number>> {
    const { rows } = await this.#ask((t) => `SELECT state, count(*) AS n FROM ${t} WHERE ${VISIBLE} GROUP BY state`);
    const counts = noJobs();
    for (const { state, n } of rows) counts[state as JobState] = Number(n);
    return counts;
  }

  async close(): Promise<void> {
    // Releases the claim on the sweep, so that another server can take over immediately.
    const sql = (_: string, meta: string) => `UPDATE ${meta} SET until = now() WHERE name = 'sweep' AND holder = $1`;
    if (this.reachable) await this.#ask(sql, [this.#holder]).catch(() => {});
    await this.#connections.close();
  }

  /** Whether the job is already in this state, because an earlier attempt of the same statement has succeeded. */
  async #isRecorded({ id, epoch }: HeldJob, state: JobState): Promise<boolean> {
    const job = await this.get(id);
    return job?.epoch === epoch && job.state === state;
  }

  async #job(sql: (table: string) => string, values: readonly SqlValue[]): Promise<Job | null> {
    const { rows } = await this.#ask(sql, values);
    return rows.map(toJob)[0] ?? null;
  }

  async #changes(sql: (table: string, meta: string) => string, values: readonly SqlValue[]): Promise<boolean> {
    return (await this.#ask(sql, values)).count > 0;
  }

  /** @throws SluiceError jobs_unavailable */
  async #ask(sql: Statement, values: readonly SqlValue[] = []): Promise<SqlResult> {
    try {
      await this.#tables.ensure();
      const result = await this.#connections.query(sql(this.#tables.jobs, this.#tables.meta, this.#tables), values);
      this.#heard(true, null);
      return result;
    } catch (error) {
      if (sqlStateBehind(error) !== UNIQUE) this.#heard(false, error);
      throw new SluiceError('jobs_unavailable', 'the job table is unreachable', { cause: error });
    }
  }

  #heard(reached: boolean, error: unknown): void {
    if (this.reachable === reached) return;
    this.reachable = reached;
    this.#onReach(reached, error);
  }
}

const HELD = "id = $1 AND epoch = $2 AND state = CASE $2::bigint WHEN 0 THEN 'reserved' ELSE 'running' END";
/** Jobs with a result that their owner has cancelled. Predictions that a pipeline wrote cannot be revoked. */
const CANCELLED = 'cancel IS TRUE AND pipeline IS NULL';
const until = (ms: string): string => `now() + ${ms}::float8 * interval '1 ms'`;
const snake = (name: string): string => name.replace(/[A-Z]/g, (c) => `_${c.toLowerCase()}`);

/** The columns of a job that are set when the job is created. */
const NEW_COLUMNS = (
  [
    'idempotencyKey',
    'format',
    'query',
    'fingerprint',
    'bodySha256',
    'requestId',
    'trace',
    'pipeline',
    'target',
    'uploadBytes',
  ] as const
).map((name) => ({ name, column: snake(name) }));
const toValue = (value: unknown): SqlValue =>
  typeof value === 'object' && value !== null ? JSON.stringify(value) : (value as SqlValue);

/** The first SQLSTATE in an error's chain of causes; null if there is none. */
function sqlStateBehind(error: unknown): string | null {
  for (let e = error as { code?: unknown; cause?: unknown } | undefined; e; e = e.cause as typeof e) {
    if (typeof e.code === 'string' && /^[0-9A-Z]{5}$/.test(e.code)) return e.code;
  }
  return null;
}

const number = (value: unknown): number => Number(value);
const text = (value: unknown): string | null => value as string | null;

const toJob = (row: SqlRow): Job => ({
  id: row.id as string,
  owner: row.owner as string,
  idempotencyKey: text(row.idempotency_key),
  format: row.format as Job['format'],
  query: JSON.parse(row.query as string),
  fingerprint: row.fingerprint as string,
  bodySha256: text(row.body_sha256),
  requestId: text(row.request_id),
  trace: text(row.trace),
  pipeline: text(row.pipeline),
  target: text(row.target),
  state: row.state as JobState,
  epoch: number(row.epoch),
  crashes: number(row.crashes),
  rows: number(row.rows),
  scored: number(row.scored),
  rejected: number(row.rejected),
  bytesRead: number(row.bytes_read),
  uploadBytes: number(row.upload_bytes),
  resultBytes: number(row.result_bytes),
  packageSha256: text(row.package_sha256),
  created: number(row.created),
  finished: row.finished === null ? null : number(row.finished),
  errorCode: text(row.error_code),
  errorMessage: text(row.error_message),
});
