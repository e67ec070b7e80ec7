// Connections to PostgreSQL: where the server is, who logs in, with which TLS, and how often it is tried.
import { readFileSync } from 'node:fs';
import { type ConnectionOptions, checkServerIdentity } from 'node:tls';
import pg from 'pg';
import { sleep } from '../../core/clock.ts';
import { SluiceError } from '../../core/errors.ts';
import { databaseError, saysOfDatabase, sqlStateOf } from './faults.ts';

/** The connection settings of a source or sink. */
export interface DatabaseSettings {
  /** `postgresql://user@host:port/database?sslmode=…`, without a password. */
  url?: string | undefined;
  /** Environment variable that holds such a URL, which may have a password. */
  url_env?: string | undefined;
  /** One attempt to connect, ms. */
  connect_timeout_ms: number;
  /** Any statement but the transfer of rows; 0: no limit. */
  statement_timeout_ms: number;
}

export type Database = pg.Client;

/** Attempts to connect, with pauses that double between them. */
const ATTEMPTS = 6;
const FIRST_PAUSE_MS = 200;
const SSL_MODES = ['disable', 'require', 'verify-ca', 'verify-full'] as const;
type SslMode = (typeof SSL_MODES)[number];

/** SQLSTATE of a database that starts or stops, or has no connection left: it may take the next attempt. */
export const NOT_NOW = /^(53300|57P0[123]|08)/;

/**
 * A connection of one's own, ready for statements: texts are UTF-8, times are those of UTC, numbers have all their digits.
 * @throws SluiceError database_unreachable | database_refused (login, database, TLS) | usage
 */
export async function connectDatabase(settings: DatabaseSettings, signal?: AbortSignal): Promise<Database> {
  const config = clientConfig(settings);
  const name = nameOf(config);
  for (let attempt = 1; ; attempt++) {
    if (signal?.aborted) throw new SluiceError('cancelled', 'the run was stopped');
    const client = new pg.Client(config);
    // Users of the connection see its end as a failed statement; without a listener, the event would end the process.
    client.on('error', () => {});
    try {
      await client.connect();
      await client.query(sessionSettings(settings));
      return client;
    } catch (error) {
      await client.end().catch(() => {});
      const state = sqlStateOf(error);
      if (state !== null && !NOT_NOW.test(state)) throw databaseError(error, `${name} refused the connection`);
      if (distrusted(error)) throw refusedByTls(name, error);
      if (attempt >= ATTEMPTS) {
        throw new SluiceError('database_unreachable', `${name}: ${saysOfDatabase(error)}`, { cause: error });
      }
    }
    await sleep(FIRST_PAUSE_MS * 2 ** (attempt - 1) * (0.75 + Math.random() / 2), { signal }).catch(() => {});
  }
}

/** Closes a connection in any state. Never throws. */
export async function disconnect(client: Database | null): Promise<void> {
  await client?.end().catch(() => {});
}

/** One text for a server whatever its own defaults are. */
function sessionSettings({ statement_timeout_ms }: DatabaseSettings): string {
  const settings = {
    statement_timeout: String(statement_timeout_ms),
    lock_timeout: '30s',
    // A source that waits for its workers is not idle.
    idle_in_transaction_session_timeout: '0',
    client_encoding: 'UTF8',
    timezone: 'UTC',
    datestyle: 'ISO, YMD',
    intervalstyle: 'iso_8601',
    bytea_output: 'hex',
    extra_float_digits: '1',
    // An unchanged table is read in the same order each time.
    synchronize_seqscans: 'off',
  };
  return Object.entries(settings)
    .map(([name, value]) => `SET ${name} = '${value}'`)
    .join('; ');
}

/** @throws SluiceError usage: a URL that is none, a variable that is not set, a file that cannot be read */
export function clientConfig(settings: DatabaseSettings, env = process.env): pg.ClientConfig {
  const url = addressOf(settings, env);
  const said = (name: string): string | undefined => url?.searchParams.get(name) ?? undefined;
  const host = said('host') ?? (url && url.hostname !== '' ? decodeURIComponent(url.hostname) : env.PGHOST);
  const { PGSSLMODE, PGSSLROOTCERT, PGSSLCERT, PGSSLKEY } = env;
  const files = {
    ca: said('sslrootcert') ?? PGSSLROOTCERT,
    cert: said('sslcert') ?? PGSSLCERT,
    key: said('sslkey') ?? PGSSLKEY,
  };
  const port = said('port') ?? (url?.port || env.PGPORT);
  const config: pg.ClientConfig = {
    host: host ?? 'localhost',
    ssl: tlsOf(sslModeOf(said('sslmode') ?? PGSSLMODE, host), files, host),
    application_name: said('application_name') ?? 'sluice',
    connectionTimeoutMillis: settings.connect_timeout_ms,
    keepAlive: true,
    keepAliveInitialDelayMillis: 10_000,
  };
  if (port) config.port = Number(port);
  if (url?.username) config.user = decodeURIComponent(url.username);
  if (url?.password) config.password = decodeURIComponent(url.password);
  if (url && url.pathname.length > 1) config.database = decodeURIComponent(url.pathname.slice(1));
  return config;
}

function addressOf({ url, url_env }: DatabaseSettings, env: NodeJS.ProcessEnv): URL | null {
  const text = url_env === undefined ? url : env[url_env];
  if (text === undefined || text === '') {
    if (url_env === undefined) return null;
    throw new SluiceError('usage', `the environment variable ${url_env} is not set: set it to the URL of the database`);
  }
  // A URL without a host (postgresql:///db?host=/run/postgresql) is one for libpq, but not for everybody.
  const parsed = URL.canParse(text) ? new URL(text) : null;
  if (parsed && /^postgres(ql)?:$/.test(parsed.protocol)) return parsed;
  const place = url_env === undefined ? 'url' : `the environment variable ${url_env}`;
  throw new SluiceError('usage', `${place} must have the form postgresql://user@host:port/database`);
}

/** Configured, or by the address: connections over a network are encrypted, and the server has to prove its name. */
function sslModeOf(said: string | undefined, host: string | undefined): SslMode {
  if (said === undefined || said === '') return isLocal(host) ? 'disable' : 'verify-full';
  if ((SSL_MODES as readonly string[]).includes(said)) return said as SslMode;
  throw new SluiceError('usage', `sslmode must be one of ${SSL_MODES.join(', ')}`);
}

const isLocal = (host: string | undefined): boolean =>
  host === undefined || host.startsWith('/') || /^(localhost|127(\.\d+){3}|\[?::1\]?)$/.test(host);

type Files = Readonly<Record<'ca' | 'cert' | 'key', string | undefined>>;

function tlsOf(mode: SslMode, files: Files, host: string | undefined): false | ConnectionOptions {
  if (mode === 'disable') return false;
  const options: ConnectionOptions = {};
  for (const [name, file] of Object.entries(files)) if (file) options[name as keyof Files] = pem(file);
  // As libpq has it: with authorities to compare with, `require` compares.
  if (mode === 'require' && !files.ca) options.rejectUnauthorized = false;
  else if (mode === 'verify-full') {
    options.checkServerIdentity = (name, certificate) => checkServerIdentity(host ?? name, certificate);
  } else options.checkServerIdentity = () => undefined;
  return options;
}

function pem(file: string): Buffer {
  try {
    return readFileSync(file);
  } catch (cause) {
    throw new SluiceError('usage', `${file} cannot be read`, { cause });
  }
}

/** TLS or the login failed: a retry would fail, too. */
export const distrusted = (error: unknown): boolean =>
  /^(CERT_|ERR_TLS|DEPTH_ZERO|SELF_SIGNED|UNABLE_TO|HOSTNAME)/.test(String((error as { code?: unknown }).code ?? '')) ||
  /does not support SSL|wants a password|password must be a string/i.test(String((error as Error).message));

function refusedByTls(name: string, error: unknown): SluiceError {
  const { code } = error as { code?: string };
  const words =
    code === undefined
      ? saysOfDatabase(error)
      : `its certificate is not trusted (${code}); set sslrootcert to the certificate authority`;
  return new SluiceError('database_refused', `${name}: ${words}`, { cause: error });
}

/** Host, port and database; never a user or a password. */
export function nameOf({ host, port, database }: pg.ClientConfig): string {
  const at = host?.startsWith('/') ? host : `${host}:${port ?? 5432}`;
  return `the database ${database ?? process.env.PGDATABASE ?? ''} at ${at}`.replace('database  at', 'database at');
}
