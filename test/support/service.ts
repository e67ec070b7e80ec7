// A whole service on a free port, with keys of its own, stopped when the test ends.
import { readFileSync } from 'node:fs';
import type http from 'node:http';
import https from 'node:https';
import path from 'node:path';
import { onTestFinished } from 'vitest';
import { loadConfig } from '../../src/config/load-config.ts';
import { ServerConfigSchema } from '../../src/config/server-config.ts';
import type { Log } from '../../src/core/log.ts';
import type { Tracer } from '../../src/core/tracing.ts';
import { type RunningService, serve } from '../../src/doors/http/service.ts';
import { FolderRegistry } from '../../src/model/registry/folder.ts';
import type { Registry } from '../../src/model/registry/registry.ts';
import { scratch, start } from './cli.ts';
import { until } from './until.ts';

export interface Service {
  running: RunningService;
  port: number;
  token: string;
  folder: string;
  call(method: string, path: string, options?: CallOptions): Promise<Reply>;
}

export interface CallOptions {
  body?: string | Uint8Array;
  headers?: Record<string, string>;
  /** null: no Authorization. */
  token?: string | null;
}

export interface Reply {
  status: number;
  headers: Record<string, string | string[] | undefined>;
  text: string;
  bytes: Buffer;
  // biome-ignore lint/suspicious/noExplicitAny: tests look into answers of many shapes
  json: any;
}

export const REGISTRY = new FolderRegistry([path.resolve('src/bundled'), path.resolve('test/fixtures/packages')]);
const agent = new https.Agent({ rejectUnauthorized: false, keepAlive: true, maxSockets: 100 });

/** Starts `serve --dev` with these settings over small ones; stopped when the test ends unless `keep`. */
export async function startService(
  settings: string[] = [],
  folder = scratch(),
  options: { registry?: Registry; keep?: boolean; log?: Log; tracer?: Tracer | null } = {},
): Promise<Service> {
  const config = await loadConfig(ServerConfigSchema, {
    settings: [
      'listen.port=0',
      'workers=1',
      `jobs.folder=${path.join(folder, 'jobs')}`,
      `spill.folder=${folder}`,
      ...settings,
    ],
  });
  const { registry = REGISTRY, log, tracer = null } = options;
  const running = await serve({ config, registry, dev: true, tracer, ...(log ? { log } : {}) });
  if (!options.keep) onTestFinished(() => running.stop());
  const port = Number(new URL(running.url).port);
  const token = running.token!;
  return { running, port, token, folder, call: (method, url, options) => call(port, token, method, url, options) };
}

/** The same as a process of its own, as people start it. */
export async function startProcess(
  registry: string,
  settings: string[] = [],
): Promise<Omit<Service, 'running'> & { pid: number; words: () => string }> {
  const folder = scratch();
  const { child, done } = start(
    [
      'serve',
      '--dev',
      '--port',
      '0',
      '--registry',
      path.resolve(registry),
      '--set',
      'workers=1',
      `spill.folder=${folder}`,
      ...settings,
    ],
    // A small heap: what may be collected is, and what grows is a leak.
    { cwd: folder, env: { NODE_OPTIONS: '--max-old-space-size=96 --max-semi-space-size=4' } },
  );
  onTestFinished(async () => {
    child.kill('SIGTERM');
    await done;
  });
  let words = '';
  child.stderr!.on('data', (text: string) => {
    words += text;
  });
  await until(() => words.includes('key of this run'));
  const port = Number(/localhost:(\d+)/.exec(words)![1]);
  const token = /sluice_[\w-]+/.exec(words)![0];
  const service = { port, token, folder, pid: child.pid!, words: () => words };
  return { ...service, call: (method, url, options) => call(port, token, method, url, options) };
}

export function call(
  port: number,
  token: string,
  method: string,
  url: string,
  options: CallOptions = {},
): Promise<Reply> {
  return new Promise((resolve, reject) => {
    const authorization = options.token === null ? {} : { authorization: `API-Key ${options.token ?? token}` };
    const request = https.request(
      { host: '127.0.0.1', port, method, path: url, agent, headers: { ...authorization, ...options.headers } },
      (response) => {
        const chunks: Buffer[] = [];
        response.on('data', (c: Buffer) => chunks.push(c));
        response.on('error', reject);
        response.on('end', () => {
          const bytes = Buffer.concat(chunks);
          const text = bytes.toString();
          let json: unknown = null;
          try {
            json = JSON.parse(text);
          } catch {
            // not every answer is JSON
          }
          resolve({ status: response.statusCode!, headers: response.headers, text, bytes, json });
        });
      },
    );
    request.on('error', reject);
    request.end(options.body);
  });
}

/** An upload on a connection of its own, which the test sends and ends as it likes. */
export function openUpload(
  port: number,
  headers: http.OutgoingHttpHeaders,
  onAnswer?: (response: http.IncomingMessage) => void,
  format = 'csv',
): http.ClientRequest {
  const to = { host: '127.0.0.1', port, method: 'POST', path: predictUrl(format) };
  return https.request({ ...to, rejectUnauthorized: false, agent: false, headers }, onAnswer);
}

export const PREDICT = '/api/v1/scoring/predict';
export const predictUrl = (format: string, query = ''): string => `${PREDICT}.${format}?modelId=credit-default${query}`;

/** Rows of a generated portfolio (comma-separated, unquoted) as objects of strings. */
export function asObjects(csv: string): Record<string, string>[] {
  const [header, ...lines] = csv.trimEnd().split('\n');
  const names = header!.split(',');
  return lines.map((line) => Object.fromEntries(line.split(',').map((v, i) => [names[i]!, v])));
}

/** The same with native JSON types: numbers, booleans, null for missing. */
export function asNative(rows: Record<string, string>[]): Record<string, unknown>[] {
  const numbers = new Set(['amount', 'term', 'income', 'monthly_payment', 'pt_income']);
  return rows.map((row) =>
    Object.fromEntries(
      Object.entries(row).map(([k, v]) => [
        k,
        v === '' ? null : numbers.has(k) ? Number(v) : v === 'true' ? true : v === 'false' ? false : v,
      ]),
    ),
  );
}

export const readText = (file: string): string => readFileSync(file, 'utf8');
