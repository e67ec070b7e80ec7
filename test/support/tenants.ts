// A service with two tenants: each has a key with every scope, for a model of its own, and a pipeline that takes uploads for it.
import { subscribe, unsubscribe } from 'node:diagnostics_channel';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import http from 'node:http';
import { tmpdir } from 'node:os';
import path from 'node:path';
import type { FastifyInstance } from 'fastify';
import { loadConfig } from '../../src/config/load-config.ts';
import { SCOPES } from '../../src/config/scopes.ts';
import { ServerConfigSchema } from '../../src/config/server-config.ts';
import { createKey } from '../../src/doors/commands/keys.ts';
import { changeKeys } from '../../src/doors/http/access/keys-file.ts';
import { serve } from '../../src/doors/http/service.ts';
import { FolderRegistry } from '../../src/model/registry/folder.ts';
import { copyUnlocked } from './registries/packages.ts';

export const TENANTS = ['alpha', 'beta'] as const;
export type Tenant = (typeof TENANTS)[number];
export const modelOf = (tenant: Tenant): string => `model-${tenant}`;
export const pipelineOf = (tenant: Tenant): string => `pipeline-${tenant}`;

export interface Answer {
  status: number;
  headers: http.IncomingHttpHeaders;
  text: string;
}

export interface TwoTenants {
  /** Stops the service and removes its folder. */
  close(): Promise<void>;
  folder: string;
  keysFile: string;
  /** Paths that the service has registered, with their parameters as `:name`. */
  routes: readonly string[];
  /** `tenant`: null sends no key. */
  ask(
    tenant: Tenant | null,
    method: string,
    url: string,
    more?: { headers?: http.OutgoingHttpHeaders; body?: string },
  ): Promise<Answer>;
  /** Restricts the key of a tenant to these models; undefined: to none. */
  restrict(tenant: Tenant, models: string[]): Promise<void>;
}

/** Behind a proxy, which is this process: without TLS of its own the service starts faster. */
export async function startTenants(settings: (folder: string) => string[] = () => []): Promise<TwoTenants> {
  const folder = mkdtempSync(path.join(tmpdir(), 'sluice-tenants-'));
  const at = (name: string) => path.join(folder, name);
  const keysFile = at('keys.yaml');
  const tokens = {} as Record<Tenant, string>;
  for (const tenant of TENANTS) {
    tokens[tenant] = await createKey(tenant, { file: keysFile, scopes: SCOPES.join(), models: modelOf(tenant) });
    const model = at(`models/${modelOf(tenant)}/1`);
    copyUnlocked(path.resolve('src/bundled/credit-default/1'), model);
    const manifest = path.join(model, 'model.yaml');
    const yaml = readFileSync(manifest, 'utf8').replace('id: credit-default', `id: ${modelOf(tenant)}`);
    writeFileSync(manifest, yaml);
    writeFileSync(
      at(`${pipelineOf(tenant)}.yaml`),
      `model: ${modelOf(tenant)}\nsource: { type: upload }\nsink: { type: file, path: "${folder}/out/{name}.csv" }\n`,
    );
  }
  const config = await loadConfig(ServerConfigSchema, {
    settings: [
      ...['listen.port=0', 'listen.host=127.0.0.1', 'workers=1', 'behind_tls_proxy=["127.0.0.1"]'],
      ...[`keys_file=${keysFile}`, `jobs.folder=${at('jobs')}`, `spill.folder=${folder}`],
      `pipelines=${JSON.stringify(TENANTS.map((t) => at(`${pipelineOf(t)}.yaml`)))}`,
      ...settings(folder),
    ],
  });
  const routes = new Set<string>();
  const onApp = (message: unknown): void => {
    const { fastify } = message as { fastify: FastifyInstance };
    fastify.addHook('onRoute', ({ url }) => void routes.add(url));
  };
  subscribe('fastify.initialization', onApp);
  const running = await serve({ config, registry: new FolderRegistry([at('models')]) });
  unsubscribe('fastify.initialization', onApp);
  const port = Number(new URL(running.url).port);
  const ask: TwoTenants['ask'] = (tenant, method, url, { headers = {}, body } = {}) =>
    new Promise((resolve, reject) => {
      const key = tenant === null ? {} : { authorization: `API-Key ${tokens[tenant]}` };
      const all = { 'x-forwarded-proto': 'https', ...key, ...headers };
      const request = http.request({ host: '127.0.0.1', port, method, path: url, headers: all }, (response) => {
        const chunks: Buffer[] = [];
        response.on('data', (chunk: Buffer) => chunks.push(chunk));
        response.on('error', reject);
        response.on('end', () => {
          resolve({ status: response.statusCode!, headers: response.headers, text: Buffer.concat(chunks).toString() });
        });
      });
      request.on('error', reject);
      request.end(body);
    });
  const restrict = (tenant: Tenant, models: string[]) =>
    changeKeys(keysFile, (keys) => keys.map((key) => (key.name === tenant ? { ...key, models } : key)));
  const close = async (): Promise<void> => {
    await running.stop();
    rmSync(folder, { recursive: true, force: true });
  };
  return { close, folder, keysFile, routes: [...routes], ask, restrict };
}
