// Several real servers with one table of jobs in a real PostgreSQL and one bucket of a real object storage.
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import http from 'node:http';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { AwsClient } from 'aws4fetch';
import { onTestFinished } from 'vitest';
import { createKey } from '../../src/doors/commands/keys.ts';
import type { S3Client } from '../../src/storage/s3/s3-client.ts';
import { openS3 } from '../../src/storage/s3/s3-store.ts';
import { type Run, type Started, scratch, start } from './cli.ts';
import { fileFolder } from './file-folder.ts';
import { PATIENCE_MS } from './patience.ts';
import { freePort } from './ports.ts';
import { type PostgresServer, startPostgres } from './postgres/server.ts';
import { Gate } from './registries/gate.ts';
import { installS3 } from './registries/install.ts';
import { S3_KEYS, Server } from './registries/servers.ts';
import { missingTools } from './tools.ts';

const BUCKET = 'jobs';

/** What replicas share. */
export interface SharedPlace {
  postgres: PostgresServer;
  gate: Gate | null;
  bucket: S3Client;
  env: Record<string, string>;
  close(): Promise<void>;
}

/** `gated`: object storage is reached through a gate that a test can shut. */
export async function openShared({ gated = false } = {}): Promise<SharedPlace> {
  const storage = await startStorage();
  const postgres = await startPostgres();
  const client = new AwsClient({
    accessKeyId: S3_KEYS.AWS_ACCESS_KEY_ID,
    secretAccessKey: S3_KEYS.AWS_SECRET_ACCESS_KEY,
    service: 's3',
    region: 'us-east-1',
  });
  const made = await client.fetch(new URL(`/${BUCKET}`, storage.url), { method: 'PUT' });
  if (made.status !== 200) throw new Error(`bucket: ${made.status}`);
  const gate = gated ? await Gate.open(storage.url) : null;
  const env = {
    ...S3_KEYS,
    AWS_ENDPOINT_URL: (gate ?? storage).url.href,
    AWS_REGION: 'us-east-1',
    JOBS_DATABASE: postgres.url,
  };
  return {
    postgres,
    gate,
    bucket: openS3(BUCKET, env),
    env,
    close: async () => {
      await postgres.stop();
      await gate?.[Symbol.asyncDispose]();
      await storage[Symbol.asyncDispose]();
    },
  };
}

/** The make that is there: one takes Go to install, the other Maven. */
async function startStorage(): Promise<Server> {
  if (missingTools('versitygw') === null) return Server.versitygw();
  const installed = await installS3();
  if (installed.missing !== null) throw new Error(`object storage: ${installed.missing}`);
  return Server.s3(installed.folder);
}

export interface SharedSettings {
  table: string;
  leaseMs: number;
  settings?: string[];
  /** Its caller closes them; else they end with the test. */
  keep?: boolean;
}

/** One server, which may end and begin again at its port. */
export class Replica {
  readonly port: number;
  readonly #args: string[];
  readonly #env: Record<string, string>;
  #process: Started | null = null;
  /** One for each of its processes. */
  readonly #folders: string[] = [];
  /** Log of all its processes so far. */
  log = '';

  constructor(port: number, args: string[], env: Record<string, string>) {
    this.port = port;
    this.#args = args;
    this.#env = env;
  }

  get pid(): number {
    return this.#process!.child.pid!;
  }

  /** Resolves when it is ready. */
  async start(): Promise<void> {
    const cwd = mkdtempSync(path.join(tmpdir(), 'sluice-replica-'));
    this.#folders.push(cwd);
    const started = start(['serve', ...this.#args, '--set', `listen.port=${this.port}`, `spill.folder=${cwd}`], {
      cwd,
      env: this.#env,
    });
    started.child.stderr!.on('data', (text: string) => {
      this.log += text;
    });
    this.#process = started;
    const until = Date.now() + PATIENCE_MS;
    while ((await this.status('/readyz')) !== 200) {
      if (started.child.exitCode !== null || Date.now() > until) throw new Error(`replica: ${this.log.slice(-2000)}`);
      await sleep(50);
    }
  }

  /** Status of an answer of this very server; null: none came. */
  status(url: string): Promise<number | null> {
    return ask(this.port, 'GET', url).then((a) => a.status);
  }

  signal(signal: NodeJS.Signals): void {
    this.#process!.child.kill(signal);
  }

  async end(signal: 'SIGKILL' | 'SIGTERM'): Promise<Run> {
    this.signal(signal);
    return this.#process!.done;
  }

  async close(): Promise<void> {
    const child = this.#process?.child;
    if (child && child.exitCode === null && child.signalCode === null) {
      child.kill('SIGKILL');
      await once(child, 'exit');
    }
    for (const folder of this.#folders) rmSync(folder, { recursive: true, force: true });
  }
}

/** Starts so many of them; they end with the test. */
export async function startReplicas(
  count: number,
  place: SharedPlace,
  { table, leaseMs, settings = [], keep = false }: SharedSettings,
): Promise<{ replicas: Replica[]; token: string }> {
  const keys = path.join(keep ? fileFolder() : scratch(), 'keys.yaml');
  const token = await createKey('night', { file: keys, scopes: 'predict,interpret,jobs,metrics' });
  const args = [
    '--registry',
    path.resolve('src/bundled'),
    '--set',
    'listen.host=127.0.0.1',
    'behind_tls_proxy=["127.0.0.0/8"]',
    `keys_file=${keys}`,
    'workers=1',
    'preload=["credit-default"]',
    'jobs.shared.database.url_env=JOBS_DATABASE',
    `jobs.shared.table=${table}`,
    `jobs.shared.files=s3://${BUCKET}/${table}`,
    `jobs.shared.lease_ms=${leaseMs}`,
    ...settings,
  ];
  const replicas: Replica[] = [];
  for (let i = 0; i < count; i++) replicas.push(new Replica(await freePort(), args, place.env));
  if (!keep) {
    onTestFinished(async () => {
      for (const replica of replicas) await replica.close();
    });
  }
  for (const replica of replicas) await replica.start();
  return { replicas, token };
}

export interface Asked {
  body?: Uint8Array;
  token?: string;
  headers?: Record<string, string>;
}

export interface Got {
  /** null: no answer came, or the client was told that it is not whole. */
  status: number | null;
  bytes: Buffer;
  headers: http.IncomingHttpHeaders;
  // biome-ignore lint/suspicious/noExplicitAny: tests look into answers of many shapes
  json: any;
}

/** One request over HTTP on a connection of its own, as a client that notices cut answers. */
export function ask(port: number, method: string, url: string, { body, token, headers }: Asked = {}): Promise<Got> {
  return new Promise((resolve) => {
    const nothing = () => resolve({ status: null, bytes: Buffer.alloc(0), headers: {}, json: null });
    const request = http.request(
      {
        host: '127.0.0.1',
        port,
        method,
        path: url,
        agent: false,
        headers: {
          'x-forwarded-proto': 'https',
          ...(token ? { authorization: `API-Key ${token}` } : {}),
          ...(body ? { 'content-length': body.length } : {}),
          ...headers,
        },
      },
      (response) => {
        const chunks: Buffer[] = [];
        response.on('data', (chunk: Buffer) => chunks.push(chunk));
        response.on('error', nothing);
        response.on('close', () => {
          if (!response.complete) return nothing();
          const bytes = Buffer.concat(chunks);
          resolve({ status: response.statusCode!, bytes, headers: response.headers, json: jsonOf(bytes) });
        });
      },
    );
    request.on('error', nothing);
    request.end(body);
  });
}

function jsonOf(bytes: Buffer): unknown {
  try {
    return JSON.parse(bytes.toString());
  } catch {
    return null;
  }
}
