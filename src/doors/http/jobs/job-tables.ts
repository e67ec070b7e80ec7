// The tables that several servers share. The first server creates the tables; every server checks their version.

import { beside, literalOf, sqlIdentifier, sqlName, tableName } from '../../../connectors/postgres/names.ts';
import type { SharedConnections } from '../../../connectors/postgres/shared-connections.ts';
import { SluiceError } from '../../../core/errors.ts';

/** Must be incremented with every change that is incompatible with earlier versions of Sluice. */
const VERSION = 2;

export class JobTables {
  /** The names as quoted SQL. */
  readonly jobs: string;
  readonly meta: string;
  /** The table of uploads that arrive in parts. */
  readonly uploads: string;
  readonly #script: string;
  readonly #connections: SharedConnections;
  #there: Promise<void> | null = null;

  /** `table`: `table` or `schema.table`. @throws SluiceError usage */
  constructor(connections: SharedConnections, table: string) {
    const name = tableName(table);
    this.#connections = connections;
    this.jobs = sqlName(name);
    this.meta = beside(name, `${name.table}_meta`);
    this.uploads = beside(name, `${name.table}_uploads`);
    const index = (suffix: string) => sqlIdentifier(`${name.table}_${suffix}`);
    this.#script = `SELECT pg_advisory_xact_lock(hashtext(${literalOf(`sluice ${table}`)}));
      CREATE TABLE IF NOT EXISTS ${this.jobs} (
        id text PRIMARY KEY, owner text NOT NULL, idempotency_key text, format text, query text, fingerprint text, body_sha256 text,
        request_id text, trace text, pipeline text, target text, state text NOT NULL, epoch bigint NOT NULL DEFAULT 0,
        crashes integer NOT NULL DEFAULT 0, holder text, lease_until timestamptz, not_before timestamptz NOT NULL DEFAULT '-infinity', started timestamptz,
        cancel boolean NOT NULL DEFAULT false, rows bigint NOT NULL DEFAULT 0, scored bigint NOT NULL DEFAULT 0,
        rejected bigint NOT NULL DEFAULT 0, bytes_read bigint NOT NULL DEFAULT 0, upload_bytes bigint NOT NULL DEFAULT 0,
        result_bytes bigint NOT NULL DEFAULT 0, package_sha256 text, created bigint NOT NULL, finished bigint, error_code text,
        error_message text);
      CREATE UNIQUE INDEX IF NOT EXISTS ${index('idempotency')} ON ${this.jobs} (owner, idempotency_key) WHERE idempotency_key IS NOT NULL;
      CREATE INDEX IF NOT EXISTS ${index('turns')} ON ${this.jobs} (owner, started);
      CREATE INDEX IF NOT EXISTS ${index('waiting')} ON ${this.jobs} (state, created) WHERE state IN ('queued', 'running', 'reserved');
      CREATE TABLE IF NOT EXISTS ${this.meta} (name text PRIMARY KEY, value text, holder text, until timestamptz NOT NULL DEFAULT now());
      CREATE TABLE IF NOT EXISTS ${this.uploads} (
        id text PRIMARY KEY, owner text NOT NULL, idempotency_key text, job text NOT NULL, metadata text, length bigint NOT NULL,
        bytes bigint NOT NULL, tail text, touched bigint NOT NULL, epoch bigint NOT NULL DEFAULT 0, uses bigint NOT NULL DEFAULT 0,
        queued boolean NOT NULL DEFAULT false);
      CREATE UNIQUE INDEX IF NOT EXISTS ${index('uploads_idempotency')} ON ${this.uploads} (owner, idempotency_key)
        WHERE idempotency_key IS NOT NULL AND NOT queued;
      INSERT INTO ${this.meta} (name, value) VALUES ('version', '${VERSION}'), ('sweep', NULL) ON CONFLICT DO NOTHING`;
  }

  /**
   * Creates the tables once. After a failure, the next call tries again.
   * @throws SluiceError database_failed | database_refused
   */
  ensure(): Promise<void> {
    this.#there ??= this.#ensure().catch((error: unknown) => {
      this.#there = null;
      throw error;
    });
    return this.#there;
  }

  async #ensure(): Promise<void> {
    const sql = 'SELECT to_regclass($1) IS NOT NULL AND to_regclass($2) IS NOT NULL AS there';
    const there = await this.#connections.query(sql, [this.meta, this.uploads]);
    // Tables are created only if they do not exist. An administrator can create them for a role that lacks the
    // permission.
    if (!there.rows[0]!.there) await this.#connections.script(this.#script);
    const { rows } = await this.#connections.query(`SELECT value FROM ${this.meta} WHERE name = 'version'`);
    const found = Number(rows[0]?.value);
    if (found === VERSION) return;
    throw new SluiceError(
      'database_refused',
      `${this.jobs} has version ${found}, but this release of Sluice uses version ${VERSION}`,
    );
  }
}
