// A few connections that many short statements share: each is a transaction of its own, and repeated where its connection was lost.
import pg from 'pg';
import { sleep } from '../../core/clock.ts';
import { clientConfig, type DatabaseSettings, distrusted, NOT_NOW, nameOf } from './database.ts';
import { databaseError, sqlStateOf } from './faults.ts';

const CONNECTIONS = 6;
/** A database that starts again, or changes its primary, is back within seconds or much later. */
const PAUSES_MS = [50, 250, 700];

export type SqlValue = string | number | boolean | null | readonly (string | number)[];
export type SqlRow = Record<string, unknown>;

export interface SqlResult {
  rows: SqlRow[];
  /** Rows that were changed or read. */
  count: number;
  /** Sent more than once: an earlier statement may have succeeded. */
  repeated: boolean;
}

export class SharedConnections {
  /** Host, port and database, for messages of operators. */
  readonly name: string;
  readonly #pool: pg.Pool;

  /** Connects on the first query. @throws SluiceError usage */
  constructor(settings: DatabaseSettings) {
    const config = clientConfig(settings);
    const limit = settings.statement_timeout_ms;
    this.name = nameOf(config);
    this.#pool = new pg.Pool({
      ...config,
      max: CONNECTIONS,
      // A statement without an answer fails, too, if the network drops packets.
      ...(limit > 0 ? { statement_timeout: limit, query_timeout: limit + settings.connect_timeout_ms } : {}),
      idleTimeoutMillis: 30_000,
    });
    // An idle connection that ends is not an error.
    this.#pool.on('error', () => {});
  }

  /** @throws SluiceError database_failed | database_refused */
  async query(sql: string, values: readonly SqlValue[] = []): Promise<SqlResult> {
    for (let attempt = 0; ; attempt++) {
      try {
        const result = await this.#pool.query({ text: sql, values: values as unknown[] });
        return { rows: result.rows as SqlRow[], count: result.rowCount ?? 0, repeated: attempt > 0 };
      } catch (error) {
        const pause = PAUSES_MS[attempt];
        if (pause === undefined || !mayPass(error)) throw databaseError(error, this.name);
        await sleep(pause);
      }
    }
  }

  /** Several statements without values as one transaction. @throws as `query` does */
  async script(sql: string): Promise<void> {
    try {
      await this.#pool.query(sql);
    } catch (error) {
      throw databaseError(error, this.name);
    }
  }

  async close(): Promise<void> {
    await this.#pool.end().catch(() => {});
  }
}

/** An error of the connection, not of the statement; statements that timed out are not repeated. */
function mayPass(error: unknown): boolean {
  const state = sqlStateOf(error);
  if (state !== null) return NOT_NOW.test(state) || state === '40001' || state === '40P01';
  return !distrusted(error) && !/timeout/i.test(String((error as Error).message));
}
