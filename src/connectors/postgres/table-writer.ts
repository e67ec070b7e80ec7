// Writes rows from a topic to a table exactly once: each micro-batch and its offset in one transaction.
//
// The protocol:
// 1. Only `sluice_offsets` stores the next offset of a partition. It is read when the partition is assigned, and after
//    every failure.
// 2. A transaction first advances the partition's offset from the value that this member knows (compare and set). This
//    locks the row, so another member waits. A member that stalled and was overtaken changes nothing and rolls back.
//    The protocol depends on no clock and no group session.
// 3. COPY writes rows and dead letters, then the transaction commits. After a lost connection either all or nothing is
//    stored; step 1 determines which.
// 4. A suspended member holds the row lock for at most `transactionTimeoutMs`. Between two statements the server ends its
//    session. Within a COPY no timeout of the server applies, so the member that waits for the lock ends it.
import { SluiceError } from '../../core/errors.ts';
import { copyIn } from './copy-in.ts';
import { connectDatabase, type Database, type DatabaseSettings, disconnect } from './database.ts';
import { databaseError, sqlStateOf } from './faults.ts';
import { listOf, sqlIdentifier, sqlName, type TableName, tableName } from './names.ts';
import { OffsetTable } from './offset-table.ts';
import { ensureTable } from './own-table.ts';
import { LETTER_KEY, LETTER_LAYOUT } from './record-rows.ts';
import { copyInto, createStaging, createTarget, insertFrom, inspectTarget, STAGING, type StoredColumn, type Target } from './table-layout.ts'; // biome-ignore format: one line

interface TableWriterOptions {
  database: DatabaseSettings;
  table: string;
  mode: 'append' | 'merge';
  key: readonly string[];
  /** Table of dead letters; null: none. */
  letters: string | null;
  group: string;
  topic: string;
  /** The server ends the session of a transaction that is idle for longer than this, ms. */
  transactionTimeoutMs: number;
}

interface TableBatch {
  partition: number;
  /** The partition's offset in `sluice_offsets` as known to this member. */
  from: bigint | null;
  /** Offset behind the last record. */
  to: bigint;
  columns: readonly StoredColumn[];
  /** CSV lines in the order of `columns`. */
  rows: string;
  /** CSV lines in `LETTER_LAYOUT`. */
  letters: string;
}

/** End of the application name of these sessions. Transfers of files lack it: they may wait for their input without a limit. */
const APPLICATION = ' topic';
/** Maximum wait for the lock of a partition, ms. */
const LOCK_MS = 30_000;
const LOCK_TIMEOUT = '55P03';

/** Writes over one connection, which is reopened after each failure. Supports one call at a time. */
export class TableWriter {
  readonly #options: TableWriterOptions;
  readonly #name: TableName;
  readonly #letters: TableName | null;
  readonly #offsets: OffsetTable;
  #client: Database | null = null;
  #target: Target | null = null;
  #lettersTarget: Target | null = null;

  /** @throws SluiceError usage if a table name is invalid */
  constructor(options: TableWriterOptions) {
    this.#options = options;
    this.#name = tableName(options.table);
    this.#letters = options.letters === null ? null : tableName(options.letters);
    this.#offsets = new OffsetTable({ target: this.#name, group: options.group, topic: options.topic });
  }

  /** The next offset of the partition; null: nothing was written yet. @throws SluiceError database_* */
  committed(partition: number): Promise<bigint | null> {
    return this.#attempt((client) => this.#offsets.read(client, partition));
  }

  /**
   * Stores the start offset of a partition in place of `stored`, before anything is written. @throws SluiceError
   * database_* | Overtaken
   */
  begin(partition: number, stored: bigint | null, at: bigint): Promise<void> {
    return this.#attempt((client) => this.#offsets.advance(client, partition, stored, at));
  }

  /**
   * @throws SluiceError database_* | Overtaken. The batch is then written completely or not at all; `committed` shows
   * which
   */
  write(batch: TableBatch): Promise<void> {
    return this.#attempt(async (client) => {
      // Outside the transaction: two members may create the same table concurrently, and the resulting error would end
      // the transaction.
      const target = await this.#targetOf(client, batch.columns);
      const letters = batch.letters === '' ? null : await this.#lettersOf(client);
      await client.query('BEGIN');
      await this.#offsets.advance(client, batch.partition, batch.from, batch.to);
      if (batch.rows !== '') await this.#put(client, target, batch.rows);
      if (letters !== null) await put(client, sqlName(letters.name), letters, batch.letters);
      await client.query('COMMIT');
    });
  }

  async close(): Promise<void> {
    const client = this.#client;
    this.#forget();
    await disconnect(client);
  }

  /** Runs `work`. Any failure closes the session and thereby ends an open transaction. */
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

  /** Ends sessions of this role that have waited within a COPY for their client for longer than a transaction may last. */
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

  /** The table, created if missing. Checked again if a new model version has other columns. */
  async #targetOf(client: Database, columns: readonly StoredColumn[]): Promise<Target> {
    const known = this.#target;
    if (known && known.columns.map((c) => c.name).join('\0') === columns.map((c) => c.name).join('\0')) return known;
    const { mode, key } = this.#options;
    const target = await this.#present(client, this.#name, { columns, key: mode === 'merge' ? key : [], mode });
    if (mode === 'merge') {
      await client.query(`DROP TABLE IF EXISTS ${STAGING}`);
      await client.query(createStaging(target, { emptied: true }));
    }
    this.#target = target;
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

  async #put(client: Database, target: Target, rows: string): Promise<void> {
    if (this.#options.mode === 'append') return put(client, sqlName(this.#name), target, rows);
    await put(client, STAGING, target, rows);
    // Among records with the same key, the last one of the partition counts.
    const names = listOf(target.columns.map((c) => c.name));
    const last = `SELECT DISTINCT ON (${listOf(target.key)}) ${names} FROM ${STAGING} ORDER BY ${listOf(target.key)}, ${sqlIdentifier('offset')} DESC`;
    await client.query(insertFrom(target, last));
  }
}

async function put(client: Database, table: string, target: Target, rows: string): Promise<void> {
  const copy = copyIn(client, copyInto(table, target, false));
  await copy.write(Buffer.from(rows));
  await copy.end();
}
