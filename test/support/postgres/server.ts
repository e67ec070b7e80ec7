// A real PostgreSQL of the test's own: made by initdb, listening on a port and a socket of its own, gone with the test.
import { type ChildProcess, spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { appendFileSync, chmodSync, chownSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import pg from 'pg';
import { freePort } from '../ports.ts';
import { postgresPrograms } from './require.ts';

/** It refuses to run as root: then it runs as nobody. */
const NOBODY = 65534;
const identity = process.getuid?.() === 0 ? { uid: NOBODY, gid: NOBODY } : {};
const PASSWORD = 'correct horse';

export interface PostgresServer {
  port: number;
  folder: string;
  /** Of the superuser, password and all. */
  url: string;
  /** `url` of another user or database. */
  urlOf(user: string, password?: string): string;
  query(sql: string, values?: unknown[]): Promise<pg.QueryResult>;
  /** Ends the process at once, as a power cut does, and starts it again. */
  crash(): Promise<void>;
  /** Ends it until `resume`. */
  pause(): Promise<{ resume(): Promise<void> }>;
  stop(): Promise<void>;
}

/** `settings`: lines of postgresql.conf. */
export async function startPostgres(settings: readonly string[] = []): Promise<PostgresServer> {
  const programs = postgresPrograms()!;
  const folder = mkdtempSync(path.join(tmpdir(), 'sluice-postgres-'));
  chmodSync(folder, 0o755);
  if ('uid' in identity) chownSync(folder, NOBODY, NOBODY);
  const data = path.join(folder, 'data');
  const secret = path.join(folder, 'password');
  writeFileSync(secret, `${PASSWORD}\n`);
  const made = spawnSync(
    path.join(programs, 'initdb'),
    ['-D', data, '-U', 'sluice', '-A', 'scram-sha-256', `--pwfile=${secret}`, '-E', 'UTF8', '--no-locale', '-N'],
    { encoding: 'utf8', cwd: folder, ...identity },
  );
  if (made.status !== 0) throw new Error(`initdb: ${made.stderr}`);
  const port = await freePort();
  const own = ["listen_addresses = '127.0.0.1'", `port = ${port}`, `unix_socket_directories = '${folder}'`];
  const quick = ['fsync = off', 'shared_buffers = 32MB', 'max_connections = 60'];
  appendFileSync(path.join(data, 'postgresql.conf'), `${[...own, ...quick, ...settings].join('\n')}\n`);
  const urlOf = (user: string, password = PASSWORD) =>
    `postgresql://${user}:${encodeURIComponent(password)}@127.0.0.1:${port}/postgres`;
  const url = urlOf('sluice');
  let child = await run(programs, data, folder, url);
  const end = async (signal: NodeJS.Signals) => {
    if (child.exitCode !== null || child.signalCode !== null) return;
    const gone = once(child, 'exit');
    child.kill(signal);
    await gone;
  };
  return {
    port,
    folder,
    url,
    urlOf,
    query: (sql, values) => withClient(url, (client) => client.query(sql, values)),
    crash: async () => {
      await end('SIGQUIT');
      child = await run(programs, data, folder, url);
    },
    pause: async () => {
      await end('SIGQUIT');
      return {
        resume: async () => {
          child = await run(programs, data, folder, url);
        },
      };
    },
    stop: async () => {
      await end('SIGQUIT');
      rmSync(folder, { recursive: true, force: true });
    },
  };
}

async function run(programs: string, data: string, cwd: string, url: string): Promise<ChildProcess> {
  const child = spawn(path.join(programs, 'postgres'), ['-D', data], {
    cwd,
    stdio: ['ignore', 'ignore', 'pipe'],
    ...identity,
  });
  let said = '';
  child.stderr!.setEncoding('utf8').on('data', (text: string) => {
    said = (said + text).slice(-4000);
  });
  process.once('exit', () => child.kill('SIGQUIT'));
  for (;;) {
    if (child.exitCode !== null) throw new Error(`postgres ended: ${said}`);
    const up = await withClient(url, (client) => client.query('SELECT 1')).catch(() => null);
    if (up) return child;
    await sleep(50);
  }
}

async function withClient<T>(url: string, work: (client: pg.Client) => Promise<T>): Promise<T> {
  const client = new pg.Client({ connectionString: url });
  client.on('error', () => {});
  await client.connect();
  try {
    return await work(client);
  } finally {
    await client.end().catch(() => {});
  }
}
