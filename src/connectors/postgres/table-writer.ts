// Rows of a topic into a table, each micro-batch with its offset in one transaction, exactly once.
//
// The protocol:
//  1. `sluice_offsets` alone holds the next offset of a partition. It is read when the partition is assigned, and after every failure.
//  2. A transaction first moves the row of the partition from where this member believes it to be (compare and set). That holds the
//     row, so another member waits; and a member that was overtaken while it was stalled changes nothing and rolls back. No clock and no
//     session of the group has a part in it.
//  3. Rows and dead letters follow by COPY, then COMMIT. A lost connection leaves either all or nothing; step 1 finds out which.
//  4. A member that stops in the middle holds the row no longer than `transactionTimeoutMs`: the server ends its session then.
import { SluiceError } from '../../core/errors.ts';
import { copyIn } from './copy-in.ts';
import { connectDatabase, type Database, type DatabaseSettings, disconnect } from './database.ts';
import { databaseError } from './faults.ts';
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
  /** Table of dead letters; null: there is none. */
  letters: string | null;
  group: string;
  topic: string;
  /** The server ends a transaction that is idle for longer, ms. */
  transactionTimeoutMs: number;
}

interface TableBatch {
  partition: number;
  /** The offset in `sluice_offsets` as known to this member. */
  from: bigint | null;
  /** Offset behind the last record. */
  to: bigint;
  columns: readonly StoredColumn[];
  /** Lines of CSV in the order of the columns. */
  rows: string;
  /** Lines of `LETTER_LAYOUT`. */
  letters: string;
}

/** One connection, made again after each failure. One call at a time. */
export class TableWriter {
  readonly #options: TableWriterOptions;
  readonly #name: TableName;
  readonly #letters: TableName | null;
  readonly #offsets: OffsetTable;
  #client: Database | null = null;
  #target: Target | null = null;
  #lettersTarget: Target | null = null;

  /** @throws SluiceError usage: a name that is none */
  constructor(options: TableWriterOptions) {
    this.#options = options;
    this.#name = tableName(options.table);
    this.#letters = options.letters === null ? null : tableName(options.letters);
    this.#offsets = new OffsetTable({ target: this.#name, group: options.group, topic: options.topic });
  }

  /** The next offset of the partition; null: nothing was written. @throws SluiceError database_* */
  committed(partition: number): Promise<bigint | null> {
    return this.#attempt((client) => this.#offsets.read(client, partition));
  }

  /** Enters where a partition begins, instead of `stored`, before anything is written. @throws SluiceError database_* | Overtaken */
  begin(partition: number, stored: bigint | null, at: bigint): Promise<void> {
    return this.#attempt((client) => this.#offsets.advance(client, partition, stored, at));
  }

  /** @throws SluiceError database_* | Overtaken; then nothing or all of the batch is written, as `committed` returns */
  write(batch: TableBatch): Promise<void> {
    return this.#attempt(async (client) => {
      // Outside of the transaction, because two members may make the same table, and a refusal would end it.
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

  /** Whatever fails, the session goes, and all that was open in it. */
  async #attempt<T>(work: (client: Database) => Promise<T>): Promise<T> {
    try {
      return await work(await this.#connected());
    } catch (error) {
      await this.close();
      throw error instanceof SluiceError ? error : databaseError(error, `the table ${sqlName(this.#name)}`);
    }
  }

  async #connected(): Promise<Database> {
    if (this.#client) return this.#client;
    const client = await connectDatabase(this.#options.database);
    this.#client = client;
    await client.query(`SET idle_in_transaction_session_timeout = ${this.#options.transactionTimeoutMs}`);
    await this.#offsets.ensure(client);
    return client;
  }

  #forget(): void {
    this.#client = null;
    this.#target = null;
    this.#lettersTarget = null;
  }

  /** The table, created if missing; checked again if another version of the model has other columns. */
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
    // Of several records with one key the last one of the partition counts.
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
