// A connection pool for many short statements.
// Each statement is its own transaction. A statement is repeated if its connection is lost.
import pg from 'pg';
import { sleep } from '../../core/clock.ts';
import { clientConfig, type DatabaseSettings, distrusted, NOT_NOW, nameOf } from './database.ts';
import { databaseError, sqlStateOf } from './faults.ts';

const CONNECTIONS = 6;
/**
 * Pauses before retries, ms. A database that restarts or changes its primary is usually available again within seconds;
 * if not, it takes too long to wait.
 */
const PAUSES_MS = [50, 250, 700];

export type SqlValue = string | number | boolean | null | readonly (string | number)[];
export type SqlRow = Record<string, unknown>;

export interface SqlResult {
  rows: SqlRow[];
  /** Number of rows changed or read. */
  count: number;
  /** Whether the statement was sent more than once. An earlier attempt may have succeeded. */
  repeated: boolean;
}

export class SharedConnections {
  /** Host, port and database, for operator messages. */
  readonly name: string;
  readonly #pool: pg.Pool;

  /** The first query opens a connection. @throws SluiceError usage */
  constructor(settings: DatabaseSettings) {
    const config = clientConfig(settings);
    const limit = settings.statement_timeout_ms;
    this.name = nameOf(config);
    this.#pool = new pg.Pool({
      ...config,
      max: CONNECTIONS,
      // The query timeout is enforced by this process, so it ends a statement even if the network drops packets.
      ...(limit > 0 ? { statement_timeout: limit, query_timeout: limit + settings.connect_timeout_ms } : {}),
      idleTimeoutMillis: 30_000,
    });
    // The end of an idle connection is not an error, so it is ignored.
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

  /** Runs several statements without parameters as one transaction. @throws as `query` does */
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

/**
 * Whether a retry may succeed: the connection failed, or transactions conflicted. Statements that timed out are not
 * repeated.
 */
function mayPass(error: unknown): boolean {
  const state = sqlStateOf(error);
  if (state !== null) return NOT_NOW.test(state) || state === '40001' || state === '40P01';
  return !distrusted(error) && !/timeout/i.test(String((error as Error).message));
}
