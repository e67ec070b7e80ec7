// Stores the offsets of a topic in the database that receives its rows.
// Rows and offsets are written in one transaction, so they are always consistent.
import { SluiceError } from '../../core/errors.ts';
import type { Database } from './database.ts';
import { beside, type TableName } from './names.ts';
import { ensureTable } from './own-table.ts';

/** The table with the offsets of all pipelines that write to tables of a schema. */
const OFFSETS = 'sluice_offsets';

/**
 * The error if another member has written these records or later records, so that this member no longer owns the
 * partition.
 */
export class Overtaken extends SluiceError {
  constructor(partition: number) {
    super('database_failed', `another member has written partition ${partition}`);
  }
}

interface OffsetScope {
  target: TableName;
  /** Consumer group. */
  group: string;
  topic: string;
}

/** The rows of one pipeline in `sluice_offsets`: one per partition, with the next offset. */
export class OffsetTable {
  readonly #scope: OffsetScope;
  readonly #name: string;

  constructor(scope: OffsetScope) {
    this.#scope = scope;
    this.#name = beside(scope.target, OFFSETS);
  }

  async ensure(client: Database): Promise<void> {
    await ensureTable(
      client,
      this.#name,
      `CREATE TABLE ${this.#name} (pipeline text, target text, topic text, partition integer, next_offset bigint NOT NULL,
         updated_at timestamptz NOT NULL DEFAULT now(), PRIMARY KEY (pipeline, target, topic, partition))`,
    );
  }

  /** The next offset; null: no rows of the partition were written. */
  async read(client: Database, partition: number): Promise<bigint | null> {
    const { rows } = await client.query<{ next_offset: string }>(
      `SELECT next_offset FROM ${this.#name} WHERE pipeline = $1 AND target = $2 AND topic = $3 AND partition = $4`,
      this.#key(partition),
    );
    return rows[0] ? BigInt(rows[0].next_offset) : null;
  }

  /**
   * Changes the offset of a partition from `from` to `to` (compare and set). Locks the row of the partition until the
   * transaction ends, so concurrent writers wait and are then rejected.
   * @throws Overtaken if the stored offset differs
   */
  async advance(client: Database, partition: number, from: bigint | null, to: bigint): Promise<void> {
    const values = [...this.#key(partition), String(to)];
    const moved =
      from === null
        ? await client.query(
            `INSERT INTO ${this.#name} (pipeline, target, topic, partition, next_offset) VALUES ($1, $2, $3, $4, $5)
               ON CONFLICT DO NOTHING`,
            values,
          )
        : await client.query(
            `UPDATE ${this.#name} SET next_offset = $5, updated_at = now()
              WHERE pipeline = $1 AND target = $2 AND topic = $3 AND partition = $4 AND next_offset = $6`,
            [...values, String(from)],
          );
    if (moved.rowCount !== 1) throw new Overtaken(partition);
  }

  #key(partition: number): [string, string, string, number] {
    const { target, group, topic } = this.#scope;
    return [group, target.table, topic, partition];
  }
}
