// Writes the predictions of a file to a table.
// Collects rows in a temporary table, then appends, merges or replaces rows of the table in one transaction.
//
// 1. The table is checked before the first row is scored.
// 2. COPY sends rows to a temporary table, which is not written to the log of the database, is invisible to other
//    sessions, and is removed with the session. So a killed run or a lost connection leaves no rows.
// 3. `commit` ends the transfer. In one transaction it then creates a missing table, deletes earlier rows (replace) and
//    inserts new ones. Until this transaction commits, readers see the earlier rows.
// 4. Repeating a run changes nothing, because replaced or merged rows are identical. Appended runs are recorded in
//    `sluice_runs` with a digest of input and output, in the same transaction, so a repeated run adds no rows. If
//    several inputs of a run are identical, their digests contain a number. The entries end with the table.
import { createHash } from 'node:crypto';
import { SluiceError } from '../../core/errors.ts';
import type { ByteSink } from '../../io/sink/byte-sink.ts';
import { type CopyIn, copyIn } from './copy-in.ts';
import { connectDatabase, type Database, type DatabaseSettings, disconnect } from './database.ts';
import { databaseError, sqlStateOf } from './faults.ts';
import { beside, sqlIdentifier, sqlName, type TableName, tableName } from './names.ts';
import { ensureTable } from './own-table.ts';
import {
  copyInto,
  createStaging,
  createTarget,
  insertStaged,
  inspectTarget,
  mayDiscard,
  STAGING,
  type StoredColumn,
  type TableMode,
  type Target,
} from './table-layout.ts';

export interface TableSinkSettings extends DatabaseSettings {
  table: string;
  mode: TableMode;
  key?: readonly string[] | undefined;
}

interface TableSinkOptions {
  columns: readonly StoredColumn[];
  /** Returns the SHA-256 of the input. Called after all input was read. */
  inputDigest: () => string;
  /** Number of stored inputs of this run by a digest of input and output; see `SinkRun`. */
  stored: Map<string, number>;
  /** Called if no rows are added because an identical run was appended earlier. */
  onRepeated?: (() => void) | undefined;
}

/** The table that records appended runs. It is in the schema of the target. */
const RUNS = 'sluice_runs';

/**
 * Opens a sink for CSV with a header, in the format of `OutputSpec.copy`.
 * @throws SluiceError database_unreachable | database_refused | usage; later also database_failed
 */
export async function openTableSink(settings: TableSinkSettings, options: TableSinkOptions): Promise<ByteSink> {
  const name = tableName(settings.table);
  const key = settings.mode === 'merge' ? (settings.key ?? []) : [];
  const client = await connectDatabase(settings);
  try {
    const target = await inspectTarget(client, name, { columns: options.columns, key, mode: settings.mode });
    if (settings.mode === 'append') await ensureRuns(client, name);
    await client.query(createStaging(target));
    // The transfer lasts as long as the run, so it has no timeout.
    await client.query('SET statement_timeout = 0');
    return tableSink(client, settings, target, options);
  } catch (error) {
    await disconnect(client);
    throw databaseError(error, `the table ${sqlName(name)}`);
  }
}

function tableSink(
  client: Database,
  settings: TableSinkSettings,
  target: Target,
  { inputDigest, stored, onRepeated }: TableSinkOptions,
): ByteSink {
  const doing = `the table ${sqlName(target.name)}`;
  const hash = createHash('sha256');
  let copy: CopyIn | null = copyIn(client, copyInto(STAGING, target, true));
  let written = 0;
  const attempt = async <T>(work: () => Promise<T>): Promise<T> => {
    try {
      return await work();
    } catch (error) {
      await disconnect(client);
      throw databaseError(error, doing);
    }
  };
  return {
    revocable: true,
    get bytesWritten() {
      return written;
    },
    write: (bytes) =>
      attempt(async () => {
        hash.update(bytes);
        await copy!.write(bytes);
        written += bytes.length;
      }),
    commit: () =>
      attempt(async () => {
        const rows = await copy!.end();
        copy = null;
        await client.query(`SET statement_timeout = ${settings.statement_timeout_ms}`);
        const digest = createHash('sha256').update(inputDigest()).update(hash.digest()).digest('hex');
        const identical = stored.get(digest) ?? 0;
        const run = identical === 0 ? digest : createHash('sha256').update(`${digest} ${identical}`).digest('hex');
        if (!(await publish(client, settings.mode, target, { run, rows }))) onRepeated?.();
        stored.set(digest, identical + 1);
        await disconnect(client);
      }),
    abort: () => disconnect(client),
  };
}

interface Made {
  /** Digest of input and output. */
  run: string;
  rows: number;
}

/** Returns false if the table already contains the rows of an identical run. */
async function publish(
  client: Database,
  mode: TableSinkSettings['mode'],
  target: Target,
  made: Made,
): Promise<boolean> {
  const table = sqlName(target.name);
  if (mode === 'merge') await refuseDoubtfulKeys(client, target);
  await client.query('BEGIN');
  if (!target.exists) {
    await client.query(createTarget(target));
    if (mode === 'append') await forgetRuns(client, target.name);
  }
  if (mode === 'append' && !(await enterRun(client, target.name, made))) {
    await client.query('ROLLBACK');
    return false;
  }
  // The lock serializes runs that replace the rows of the table. Readers still see the earlier rows.
  if (mode === 'replace') await client.query(`LOCK TABLE ${table} IN SHARE ROW EXCLUSIVE MODE`);
  if (mode === 'replace') await deleteAll(client, target);
  await insertStaged(client, target);
  await commit(client, table);
  return true;
}

/** Deletes all rows of the table. @throws SluiceError database_refused: a trigger or rule of the table keeps some */
async function deleteAll(client: Database, target: Target): Promise<void> {
  const table = sqlName(target.name);
  await client.query(`DELETE FROM ${table}`);
  if (!(await mayDiscard(client, target))) return;
  const { rowCount } = await client.query(`SELECT 1 FROM ${table} LIMIT 1`);
  if (rowCount === 0) return;
  const why = 'a trigger or rule of the table kept earlier rows, which mode: replace deletes';
  throw new SluiceError('database_refused', `the table ${table}: ${why}`);
}

/**
 * Commits.
 * @throws SluiceError database_failed; if the outcome of the commit is unknown, its message explains what to do
 */
async function commit(client: Database, table: string): Promise<void> {
  try {
    await client.query('COMMIT');
  } catch (error) {
    if (sqlStateOf(error) !== null) throw error;
    const says = `the connection was lost while the rows of ${table} were committed: either all or none are stored`;
    throw new SluiceError('database_failed', `${says}; repeating the run changes nothing if they are stored`, {
      cause: error,
    });
  }
}

/** Deletes the entries of an earlier table of this name, if the role may do so. */
async function forgetRuns(client: Database, name: TableName): Promise<void> {
  const runs = beside(name, RUNS);
  const may = `SELECT has_table_privilege($1, 'DELETE') AND has_table_privilege($1, 'SELECT') AS may`;
  const { rows } = await client.query<{ may: boolean }>(may, [runs]);
  if (rows[0]!.may) await client.query(`DELETE FROM ${runs} WHERE target = $1`, [name.table]);
}

/** Returns false if the table already contains the rows of an identical run. */
async function enterRun(client: Database, name: TableName, { run, rows }: Made): Promise<boolean> {
  const entered = await client.query(
    `INSERT INTO ${beside(name, RUNS)} (target, run, rows) VALUES ($1, $2, $3) ON CONFLICT DO NOTHING`,
    [name.table, run, rows],
  );
  return entered.rowCount === 1;
}

/**
 * Rejects NULL keys and duplicate keys. A NULL key matches no row, so each repetition of the run would add it again. A
 * duplicate key is ambiguous.
 */
async function refuseDoubtfulKeys(client: Database, { key, name }: Target): Promise<void> {
  const columns = key.map(sqlIdentifier);
  const none = columns.map((c) => `${c} IS NULL`).join(' OR ');
  const nulls = await client.query(`SELECT 1 FROM ${STAGING} WHERE ${none} LIMIT 1`);
  const where = `the key of ${sqlName(name)} (${key.join(', ')})`;
  if (nulls.rowCount) throw new SluiceError('database_refused', `${where} is NULL in a row`);
  const list = columns.join(', ');
  const twice = await client.query<{ n: string }>(
    `SELECT count(*) AS n FROM (SELECT 1 FROM ${STAGING} GROUP BY ${list} HAVING count(*) > 1) AS d`,
  );
  const { n } = twice.rows[0]!;
  if (n !== '0')
    throw new SluiceError('database_refused', `${where} is not unique in the input; duplicate values: ${n}`);
}

async function ensureRuns(client: Database, name: TableName): Promise<void> {
  const runs = beside(name, RUNS);
  await ensureTable(
    client,
    runs,
    `CREATE TABLE ${runs} (target text, run text, rows bigint NOT NULL, finished_at timestamptz NOT NULL DEFAULT now(),
       PRIMARY KEY (target, run))`,
  );
}
