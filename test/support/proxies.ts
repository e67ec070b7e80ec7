// Real proxies in front of a service, with the settings people find them with.
import { spawn } from 'node:child_process';
import { mkdirSync, writeFileSync } from 'node:fs';
import http from 'node:http';
import https from 'node:https';
import net from 'node:net';
import path from 'node:path';
import { onTestFinished } from 'vitest';
import { loadConfig } from '../../src/config/load-config.ts';
import { ServerConfigSchema } from '../../src/config/server-config.ts';
import { createKey } from '../../src/doors/commands/keys.ts';
import { serve } from '../../src/doors/http/service.ts';
import { scratch } from './cli.ts';
import { fileFolder } from './file-folder.ts';
import { freePort } from './ports.ts';
import { REGISTRY } from './service.ts';
import { until } from './until.ts';

/** A service that speaks plain HTTP to proxies on this machine, stopped when the test ends unless `keep`. */
export async function startBehindProxy(
  settings: string[] = [],
  { keep = false } = {},
): Promise<{ port: number; token: string; stop: () => Promise<void> }> {
  const folder = keep ? fileFolder() : scratch();
  const file = path.join(folder, 'keys.yaml');
  const token = await createKey('all', { file, scopes: 'predict,interpret,jobs,models:read,metrics' });
  const config = await loadConfig(ServerConfigSchema, {
    settings: [
      'listen.port=0',
      'listen.host=127.0.0.1',
      'workers=1',
      'behind_tls_proxy=["127.0.0.0/8"]',
      `keys_file=${file}`,
      `jobs.folder=${folder}/jobs`,
      `spill.folder=${folder}`,
      ...settings,
    ],
  });
  const running = await serve({ config, registry: REGISTRY });
  const stop = () => running.stop();
  if (!keep) onTestFinished(stop);
  return { port: Number(new URL(running.url).port), token, stop };
}

/** nginx as it comes, but for the size of bodies; `location`: further lines of its location. Gives its port. */
export const startNginx = (upstream: string, location = ''): Promise<number> =>
  startNginxServer(
    (port) => `server {
    listen 127.0.0.1:${port};
    client_max_body_size 0;
    location / { proxy_pass ${upstream}; proxy_set_header X-Forwarded-Proto https; ${location} }
  }`,
  );

/** nginx with this block `server`. Gives its port. */
export async function startNginxServer(server: (port: number) => string): Promise<number> {
  const folder = scratch();
  const port = await freePort();
  const temporary = ['client_body', 'proxy', 'fastcgi', 'uwsgi', 'scgi'].map((kind) => {
    mkdirSync(path.join(folder, kind));
    return `${kind}_temp_path ${folder}/${kind};`;
  });
  const file = path.join(folder, 'nginx.conf');
  writeFileSync(
    file,
    `daemon off; master_process off; pid ${folder}/pid; error_log ${folder}/error.log;
events {}
http {
  access_log off; ${temporary.join(' ')}
  ${server(port)}
}
`,
  );
  return run('nginx', ['-c', file, '-p', folder, '-e', path.join(folder, 'error.log')], port);
}

/** HAProxy with time limits and nothing else. Gives its port. */
export async function startHaproxy(upstream: number): Promise<number> {
  const port = await freePort();
  const file = path.join(scratch(), 'haproxy.cfg');
  writeFileSync(
    file,
    `defaults
  mode http
  timeout connect 10s
  timeout client 600s
  timeout server 600s
frontend in
  bind 127.0.0.1:${port}
  http-request set-header X-Forwarded-Proto https
  default_backend out
backend out
  server one 127.0.0.1:${upstream}
`,
  );
  return run('haproxy', ['-db', '-f', file], port);
}

/** HAProxy in turns before several servers that speak plain HTTP, whose readiness it asks for. Gives its port. */
export async function startBalancer(upstreams: readonly number[]): Promise<number> {
  const port = await freePort();
  const file = path.join(scratch(), 'haproxy.cfg');
  writeFileSync(
    file,
    `defaults
  mode http
  timeout connect 2s
  timeout client 600s
  timeout server 600s
  timeout check 5s
frontend in
  bind 127.0.0.1:${port}
  http-request set-header X-Forwarded-Proto https
  default_backend out
backend out
  balance roundrobin
  option httpchk GET /readyz
  option redispatch 1
  retries 5
  retry-on conn-failure
  default-server check inter 200ms fall 1 rise 1
${upstreams.map((upstream, i) => `  server replica${i} 127.0.0.1:${upstream}`).join('\n')}
`,
  );
  return run('haproxy', ['-db', '-f', file], port);
}

async function run(command: string, args: string[], port: number): Promise<number> {
  const child = spawn(command, args, { stdio: ['ignore', 'ignore', 'pipe'] });
  let words = '';
  child.stderr.setEncoding('utf8').on('data', (text: string) => {
    words += text;
  });
  const ended = new Promise<void>((resolve) => child.once('close', () => resolve()));
  onTestFinished(async () => {
    child.kill('SIGTERM');
    await ended;
  });
  await until(async () => {
    if (child.exitCode !== null) throw new Error(`${command} ended: ${words}`);
    return listens(port);
  });
  return port;
}

const listens = (port: number): Promise<boolean> =>
  new Promise((resolve) => {
    const socket = net.connect(port, '127.0.0.1', () => {
      socket.destroy();
      resolve(true);
    });
    socket.on('error', () => resolve(false));
  });

export interface Outcome {
  /** null: the client was told that the answer is not whole, or none came. */
  status: number | null;
  text: string;
  headers: http.IncomingHttpHeaders;
}

/** A POST as a client of HTTP/1.1 sees it. */
export function post(
  port: number,
  url: string,
  {
    token,
    body,
    headers = {},
    tls = {},
  }: {
    token: string;
    body: Uint8Array;
    headers?: Record<string, string>;
    /** Connects with TLS that trusts `ca`, from `localAddress`. */
    tls?: { ca?: string; localAddress?: string; servername?: string };
  },
): Promise<Outcome> {
  return new Promise((resolve) => {
    const failed = () => resolve({ status: null, text: '', headers: {} });
    const request = (tls.ca === undefined ? http : https).request(
      {
        ...tls,
        host: '127.0.0.1',
        port,
        method: 'POST',
        path: url,
        agent: false,
        headers: { authorization: `API-Key ${token}`, 'content-length': body.length, ...headers },
      },
      (response) => {
        const chunks: Buffer[] = [];
        response.on('data', (c: Buffer) => chunks.push(c));
        response.on('error', failed);
        response.on('close', () => {
          if (!response.complete) return failed();
          const text = Buffer.concat(chunks).toString();
          return resolve({ status: response.statusCode!, text, headers: response.headers });
        });
      },
    );
    request.on('error', failed);
    request.end(body);
  });
}
