// Stores the offsets of a topic in the database that receives its rows.
// Rows and offsets are written in one transaction, so they are always consistent.
import { SluiceError } from '../../core/errors.ts';
import type { Database } from './database.ts';
import { sqlStateOf } from './faults.ts';
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

/** An offset with the topic that it belongs to; null: unknown. */
export interface StoredOffset {
  readonly offset: bigint;
  readonly topicId: string | null;
}

const INSUFFICIENT_PRIVILEGE = '42501';

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
  #hasTopicId = true;

  constructor(scope: OffsetScope) {
    this.#scope = scope;
    this.#name = beside(scope.target, OFFSETS);
  }

  /** Whether the table has the column `topic_id`. Tables of earlier releases do not have it. Known after `ensure`. */
  get hasTopicId(): boolean {
    return this.#hasTopicId;
  }

  /**
   * Creates the table, and adds the column `topic_id` to a table of an earlier release. If this role does not own the
   * table, the column stays missing, and offsets are stored without their topic.
   */
  async ensure(client: Database): Promise<void> {
    await ensureTable(
      client,
      this.#name,
      `CREATE TABLE ${this.#name} (pipeline text, target text, topic text, partition integer, next_offset bigint NOT NULL,
         updated_at timestamptz NOT NULL DEFAULT now(), topic_id text, PRIMARY KEY (pipeline, target, topic, partition))`,
    );
    this.#hasTopicId = await this.#findTopicId(client);
    if (this.#hasTopicId) return;
    try {
      await client.query(`ALTER TABLE ${this.#name} ADD COLUMN IF NOT EXISTS topic_id text`);
      this.#hasTopicId = true;
    } catch (error) {
      if (sqlStateOf(error) !== INSUFFICIENT_PRIVILEGE) throw error;
    }
  }

  async #findTopicId(client: Database): Promise<boolean> {
    const { rows } = await client.query<{ there: boolean }>(
      `SELECT EXISTS (SELECT FROM pg_attribute
         WHERE attrelid = to_regclass($1) AND attname = 'topic_id' AND NOT attisdropped) AS there`,
      [this.#name],
    );
    return rows[0]!.there;
  }

  /** The next offset; null: no rows of the partition were written. */
  async read(client: Database, partition: number): Promise<StoredOffset | null> {
    const { rows } = await client.query<{ next_offset: string; topic_id: string | null }>(
      // A conversion to JSON, because an expression with the column itself would be invalid if the column is missing.
      `SELECT next_offset, to_jsonb(o) ->> 'topic_id' AS topic_id FROM ${this.#name} AS o WHERE pipeline = $1 AND target = $2 AND topic = $3 AND partition = $4`,
      this.#key(partition),
    );
    return rows[0] ? { offset: BigInt(rows[0].next_offset), topicId: rows[0].topic_id } : null;
  }

  /**
   * Changes the offset of a partition from `from` to `to` (compare and set). An offset of another topic differs, even
   * if the number is the same. Locks the row of the partition until the transaction ends, so concurrent writers wait
   * and are then rejected.
   * @throws Overtaken if the stored offset differs
   */
  async advance(client: Database, partition: number, from: StoredOffset | null, to: StoredOffset): Promise<void> {
    const ids = this.#hasTopicId;
    const after = ids ? [String(to.offset), to.topicId] : [String(to.offset)];
    const values = [...this.#key(partition), ...after];
    const moved =
      from === null
        ? await client.query(
            `INSERT INTO ${this.#name} (pipeline, target, topic, partition, next_offset${ids ? ', topic_id' : ''})
               VALUES ($1, $2, $3, $4, $5${ids ? ', $6' : ''}) ON CONFLICT DO NOTHING`,
            values,
          )
        : await client.query(
            `UPDATE ${this.#name} SET next_offset = $5, updated_at = now()${ids ? ', topic_id = $6' : ''}
              WHERE pipeline = $1 AND target = $2 AND topic = $3 AND partition = $4
                AND ${ids ? 'next_offset = $7 AND topic_id IS NOT DISTINCT FROM $8' : 'next_offset = $6'}`,
            [...values, String(from.offset), ...(ids ? [from.topicId] : [])],
          );
    if (moved.rowCount !== 1) throw new Overtaken(partition);
  }

  #key(partition: number): [string, string, string, number] {
    const { target, group, topic } = this.#scope;
    return [group, target.table, topic, partition];
  }
}
