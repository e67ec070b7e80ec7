// Connects to PostgreSQL: address, login, TLS and retries.
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
  /** Environment variable that contains the URL. This URL may include a password. */
  url_env?: string | undefined;
  /** Timeout of one connection attempt, ms. */
  connect_timeout_ms: number;
  /** Timeout of all statements except the transfer of rows, ms; 0: no limit. */
  statement_timeout_ms: number;
}

export type Database = pg.Client;

/** Maximum number of connection attempts. The pause between attempts doubles each time. */
const ATTEMPTS = 6;
const FIRST_PAUSE_MS = 200;
const SSL_MODES = ['disable', 'require', 'verify-ca', 'verify-full'] as const;
type SslMode = (typeof SSL_MODES)[number];

/**
 * Matches the SQLSTATEs of a database that is starting, is stopping or has no free connection. A later attempt may
 * succeed.
 */
export const NOT_NOW = /^(53300|57P0[123]|08)/;

/**
 * Opens a connection that is configured for UTF-8 text, UTC times and numbers with all digits.
 * @throws SluiceError database_unreachable | database_refused (login, database, TLS) | usage
 */
export async function connectDatabase(settings: DatabaseSettings, signal?: AbortSignal): Promise<Database> {
  const config = clientConfig(settings);
  const name = nameOf(config);
  for (let attempt = 1; ; attempt++) {
    if (signal?.aborted) throw new SluiceError('cancelled', 'the run was stopped');
    const client = new pg.Client(config);
    // A closed connection is reported by the next statement. Without this listener, the error event would end the
    // process.
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

/** SQL that sets session parameters, so that results do not depend on the server's defaults. */
function sessionSettings({ statement_timeout_ms }: DatabaseSettings): string {
  const settings = {
    statement_timeout: String(statement_timeout_ms),
    lock_timeout: '30s',
    // The server must not end the session while the source waits for the workers.
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

/**
 * The client options for these settings.
 * @throws SluiceError usage if the URL is invalid, the variable is not set, or a file cannot be read
 */
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
  // libpq accepts URLs without a host, such as postgresql:///db?host=/run/postgresql, but the parser may reject them.
  const parsed = URL.canParse(text) ? new URL(text) : null;
  if (parsed && /^postgres(ql)?:$/.test(parsed.protocol)) return parsed;
  const place = url_env === undefined ? 'url' : `the environment variable ${url_env}`;
  throw new SluiceError('usage', `${place} must have the form postgresql://user@host:port/database`);
}

/**
 * The configured mode, or a default that depends on the address. By default, network connections are encrypted and the
 * name in the server's certificate is verified.
 */
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
  // As in libpq, `require` verifies the certificate only if root certificates are given.
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

/** Whether TLS or the login failed. A retry would then fail too. */
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

/** Host, port and database for messages, without user name and password. */
export function nameOf({ host, port, database }: pg.ClientConfig): string {
  const at = host?.startsWith('/') ? host : `${host}:${port ?? 5432}`;
  return `the database ${database ?? process.env.PGDATABASE ?? ''} at ${at}`.replace('database  at', 'database at');
}
