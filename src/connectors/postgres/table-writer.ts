// Writes the rows of a topic run to a table exactly once: one transaction writes a micro-batch and its offset.
//
// The protocol:
// 1. The next offset of a partition is stored only in `sluice_offsets`. It is read when the partition is assigned, and
//    after every failure. It is stored with the ID of the topic: an offset of a topic that was deleted and created
//    again is an offset that was lost.
// 2. A transaction first changes the offset of the partition from the value that this member knows (compare and set).
//    This locks the row, so another member waits. If this member stalled and another member has changed the offset, the
//    transaction changes nothing and rolls back. So the protocol depends on no clock and no group session.
// 3. COPY writes rows and dead letters, then the transaction commits. If the connection is lost, either everything or
//    nothing was stored. Step 1 determines which.
// 4. A suspended member holds the row lock for at most `transactionTimeoutMs`. If it is suspended between two
//    statements, the server ends its session. During a COPY, the server has no timeout, so the member that waits for
//    the lock ends the session.
import { SluiceError } from '../../core/errors.ts';
import { copyIn } from './copy-in.ts';
import { connectDatabase, type Database, type DatabaseSettings, disconnect } from './database.ts';
import { databaseError, sqlStateOf } from './faults.ts';
import { listOf, sqlIdentifier, sqlName, type TableName, tableName } from './names.ts';
import { OffsetTable, type StoredOffset } from './offset-table.ts';
import { ensureTable } from './own-table.ts';
import { LETTER_KEY, LETTER_LAYOUT } from './record-rows.ts';
import { copyInto, createStaging, createTarget, discarded, insertStaged, inspectTarget, STAGING, type StoredColumn, type Target } from './table-layout.ts'; // biome-ignore format: one line

interface TableWriterOptions {
  database: DatabaseSettings;
  table: string;
  mode: 'append' | 'merge';
  key: readonly string[];
  /** Table for dead letters; null: the pipeline has none. */
  letters: string | null;
  group: string;
  topic: string;
  /** Time after which the server ends the session of an idle transaction, ms. */
  transactionTimeoutMs: number;
}

interface TableBatch {
  partition: number;
  /** The offset of the partition in `sluice_offsets`, as far as this member knows; null: none is stored. */
  from: StoredOffset | null;
  /** Offset after the last record. */
  to: StoredOffset;
  columns: readonly StoredColumn[];
  /** CSV lines in the order of `columns`. */
  rows: readonly string[];
  /** CSV lines in `LETTER_LAYOUT`. */
  letters: readonly string[];
}

/**
 * Suffix of the application name of these sessions. The sessions of file transfers do not have this suffix, because
 * they may wait for their input without a limit.
 */
const APPLICATION = ' topic';
/** Maximum time to wait for the lock of a partition, ms. */
const LOCK_MS = 30_000;
const LOCK_TIMEOUT = '55P03';

/** Writes with one connection, which is opened again after each failure. Only one call at a time is allowed. */
export class TableWriter {
  readonly #options: TableWriterOptions;
  readonly #name: TableName;
  readonly #letters: TableName | null;
  readonly #offsets: OffsetTable;
  #client: Database | null = null;
  #target: Target | null = null;
  /** Names and kinds of the columns for which the target was checked. */
  #layout = '';
  #lettersTarget: Target | null = null;

  /** @throws SluiceError usage if a table name is invalid */
  constructor(options: TableWriterOptions) {
    this.#options = options;
    this.#name = tableName(options.table);
    this.#letters = options.letters === null ? null : tableName(options.letters);
    this.#offsets = new OffsetTable({ target: this.#name, group: options.group, topic: options.topic });
  }

  /** Whether offsets are stored with their topic. Known after the first connection. */
  get storesTopicIds(): boolean {
    return this.#offsets.hasTopicId;
  }

  /** The next offset of the partition; null: nothing was written yet. @throws SluiceError database_* */
  committed(partition: number): Promise<StoredOffset | null> {
    return this.#attempt((client) => this.#offsets.read(client, partition));
  }

  /**
   * Replaces the offset `stored` of a partition by its start offset `at`, before the first write.
   * @throws SluiceError database_* | Overtaken
   */
  begin(partition: number, stored: StoredOffset | null, at: StoredOffset): Promise<void> {
    return this.#attempt((client) => this.#offsets.advance(client, partition, stored, at));
  }

  /**
   * Writes a batch.
   * @throws SluiceError database_* | Overtaken. The batch was then written completely or not at all; `committed` shows
   * which
   */
  write(batch: TableBatch): Promise<void> {
    return this.#attempt(async (client) => {
      // The table is created outside the transaction. If two members create it at the same time, one of them gets an
      // error, which would end its transaction.
      const target = await this.#targetOf(client, batch.columns);
      const letters = batch.letters.length === 0 ? null : await this.#lettersOf(client);
      await client.query('BEGIN');
      await this.#offsets.advance(client, batch.partition, batch.from, batch.to);
      if (batch.rows.length > 0) await this.#put(client, target, batch.rows);
      if (letters !== null) await put(client, sqlName(letters.name), letters, batch.letters);
      await client.query('COMMIT');
    });
  }

  async close(): Promise<void> {
    const client = this.#client;
    this.#forget();
    await disconnect(client);
  }

  /** Runs `work`. A failure closes the session, which ends an open transaction. */
  async #attempt<T>(work: (client: Database) => Promise<T>): Promise<T> {
    try {
      return await work(await this.#connected());
    } catch (error) {
      await this.close();
      if (sqlStateOf(error) === LOCK_TIMEOUT) await this.#endSuspended().catch(() => {});
      throw error instanceof SluiceError ? error : databaseError(error, `the table ${sqlName(this.#name)}`);
    }
  }

  async #connected(): Promise<Database> {
    if (this.#client) return this.#client;
    const client = await connectDatabase(this.#options.database);
    this.#client = client;
    const { transactionTimeoutMs } = this.#options;
    await client.query(
      `SET idle_in_transaction_session_timeout = ${transactionTimeoutMs}; SELECT set_config('application_name', current_setting('application_name') || '${APPLICATION}', false); SET lock_timeout = ${Math.min(LOCK_MS, transactionTimeoutMs)}`,
    );
    await this.#offsets.ensure(client);
    return client;
  }

  /**
   * Ends sessions of this role that wait in a COPY for their client, if they have waited longer than
   * `transactionTimeoutMs`.
   */
  async #endSuspended(): Promise<void> {
    const client = await connectDatabase(this.#options.database);
    try {
      await client.query(
        `SELECT pg_terminate_backend(pid) FROM pg_stat_activity
          WHERE right(application_name, length($1)) = $1 AND datname = current_database() AND usename = current_user
            AND state = 'active' AND wait_event = 'ClientRead' AND xact_start < clock_timestamp() - $2 * interval '1 ms'`,
        [APPLICATION, this.#options.transactionTimeoutMs],
      );
    } finally {
      await disconnect(client);
    }
  }

  #forget(): void {
    this.#client = null;
    this.#target = null;
    this.#lettersTarget = null;
  }

  /** The table, which is created if it is missing. It is checked again if a new model version has other columns. */
  async #targetOf(client: Database, columns: readonly StoredColumn[]): Promise<Target> {
    const layout = JSON.stringify(columns.map(({ name, kind }) => [name, kind]));
    if (this.#target && this.#layout === layout) return this.#target;
    const { mode, key } = this.#options;
    const target = await this.#present(client, this.#name, { columns, key: mode === 'merge' ? key : [], mode });
    if (mode === 'merge') {
      await client.query(`DROP TABLE IF EXISTS ${STAGING}`);
      await client.query(createStaging(target, { emptied: true }));
    }
    this.#target = target;
    this.#layout = layout;
    return target;
  }

  async #lettersOf(client: Database): Promise<Target> {
    this.#lettersTarget ??= await this.#present(client, this.#letters!, {
      columns: LETTER_LAYOUT,
      key: [],
      mode: 'append',
    });
    return this.#lettersTarget;
  }

  async #present(client: Database, name: TableName, options: Parameters<typeof inspectTarget>[2]): Promise<Target> {
    const target = await inspectTarget(client, name, options);
    if (target.exists) return target;
    const key = options.key.length > 0 ? options.key : LETTER_KEY;
    await ensureTable(client, sqlName(name), createTarget({ ...target, key }));
    return inspectTarget(client, name, options);
  }

  async #put(client: Database, target: Target, rows: readonly string[]): Promise<void> {
    if (this.#options.mode === 'append') return put(client, sqlName(this.#name), target, rows);
    await put(client, STAGING, target, rows);
    await insertStaged(client, target, lastOfKeys(target));
  }
}

/** @throws SluiceError database_refused: the table did not store all rows */
async function put(client: Database, table: string, target: Target, rows: readonly string[]): Promise<void> {
  const copy = copyIn(client, copyInto(table, target, false));
  await copy.write(Buffer.from(rows.join('')));
  const missing = rows.length - (await copy.end());
  if (missing > 0) throw discarded(target, missing);
}

/**
 * SQL that returns the staged rows of a partition: of several rows with the same key, the last one. A row with NULL in
 * its key has the key of no other row, as in the index. The column `offset` may have any type, also text, in which 9
 * follows 10.
 */
function lastOfKeys({ columns, key, nullsDiffer }: Target): string {
  const offset = `${sqlIdentifier('offset')}::numeric`;
  const isNull = key.map((c) => `${sqlIdentifier(c)} IS NULL`).join(' OR ');
  const same = nullsDiffer ? `${listOf(key)}, CASE WHEN ${isNull} THEN ${offset} END` : listOf(key);
  const names = listOf(columns.map((c) => c.name));
  return `SELECT DISTINCT ON (${same}) ${names} FROM ${STAGING} ORDER BY ${same}, ${offset} DESC`;
}
