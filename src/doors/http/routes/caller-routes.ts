// HTTP route that describes the caller: name, permissions and limits.
import type { FastifyInstance } from 'fastify';
import { SCOPES, type Scope } from '../../../config/scopes.ts';
import type { ServerConfig } from '../../../config/server-config.ts';
import type { Identity } from '../access/identity.ts';
import { jsonResponse, REFUSALS, schemaRef } from '../openapi/route-parts.ts';

const SUMMARY = 'The caller: name, scopes, models and limits; any valid key may ask';
const WHOAMI = {
  summary: SUMMARY,
  tags: ['operations'],
  response: { 200: jsonResponse(SUMMARY, schemaRef('Caller')), 401: REFUSALS[401] },
};

export function addCallerRoutes(app: FastifyInstance, config: ServerConfig): void {
  app.get('/api/v1/whoami', { schema: WHOAMI }, async (request) => describeCaller(request.identity!, config));
}

export function describeCaller({ name, kind, grants }: Identity, { limits, jobs, console }: ServerConfig) {
  const modelsOf = (scope: Scope): string[] | null => {
    const having = grants.filter(({ scopes }) => scopes.includes(scope));
    return having.some(({ models }) => models === undefined)
      ? null
      : [...new Set(having.flatMap(({ models }) => models!))].sort();
  };
  const scopes = SCOPES.filter((scope) => grants.some((grant) => grant.scopes.includes(scope)));
  const grafana = typeof console === 'object' ? console.grafana : undefined;
  return {
    name,
    kind,
    scopes,
    /** Listed by scope, because a token may grant different models for each scope. */
    models: Object.fromEntries(scopes.map((scope) => [scope, modelsOf(scope)])),
    limits: {
      body_bytes: limits.body_bytes,
      rows: limits.rows,
      row_bytes: limits.row_bytes,
      columns: limits.columns,
      concurrent_requests: limits.concurrent_requests_per_key,
      requests_per_second: limits.requests_per_second_per_key,
      jobs: jobs.max_jobs,
      job_bytes: jobs.max_bytes,
    },
    ...(grafana === undefined ? {} : { links: { grafana } }),
  };
}
