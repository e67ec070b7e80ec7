// HTTP routes of the service itself: health, metrics, OpenAPI document.
import type { FastifyInstance, FastifySchema } from 'fastify';
import { VERSION } from '../../../core/version.ts';
import { parseReference } from '../../../model/registry/registry.ts';
import type { SeriesFilter } from '../../../monitor/metric-registration.ts';
import { type Identity, permits } from '../access/identity.ts';
import type { OpenApiDocument } from '../openapi/document-types.ts';
import { jsonResponse, REFUSALS, UNREADY } from '../openapi/route-parts.ts';
import type { ServiceContext } from '../wire/scoring-request.ts';
import { addReferenceRoutes } from './reference-routes.ts';

interface ServiceRoutes {
  services: Pick<ServiceContext, 'metrics' | 'admission'>;
  /** Whether the service accepts new work and can process it. */
  ready: () => boolean;
  /** Whether the job table is reachable. Predictions do not need the table. */
  jobsReachable: () => boolean;
  document: () => Promise<OpenApiDocument>;
}

const describe = (summary: string, response: object, more: object = {}): FastifySchema => ({
  summary,
  tags: ['operations'],
  response: { 200: response, ...more },
});

const textResponse = (description: string, mediaType: string) => ({
  description,
  content: { [mediaType]: { schema: { type: 'string' } } },
});

const METRICS = textResponse('Text exposition format', 'text/plain');
const METRICS_REFUSALS = { 401: REFUSALS[401], 403: REFUSALS[403] };

export function addServiceRoutes(
  app: FastifyInstance,
  { services, ready, jobsReachable, document }: ServiceRoutes,
): void {
  const { metrics, admission } = services;
  const alive = describe('The process is alive', jsonResponse('The process is alive'));
  app.get('/livez', { config: { health: true }, schema: alive }, async () => ({ status: 'alive', version: VERSION }));
  const isReady = describe('The service accepts new work', jsonResponse('The service accepts new work'), UNREADY);
  app.get('/readyz', { config: { health: true }, schema: isReady }, async (_request, reply) => {
    if (!ready()) reply.code(503);
    return { status: ready() ? 'ready' : 'not ready', ...(jobsReachable() ? {} : { jobs: 'unreachable' }) };
  });
  metrics.onScrape(() => {
    metrics.waiting.set(admission.waiting);
    metrics.ready.set(ready() ? 1 : 0);
  });
  for (const [path, summary, text] of [
    ['/metrics', 'Prometheus metrics', (filter: SeriesFilter | null) => metrics.text(filter)],
    ['/metrics/columns', 'Prometheus metrics by column', (filter: SeriesFilter | null) => metrics.columnsText(filter)],
  ] as const) {
    const schema = describe(summary, METRICS, METRICS_REFUSALS);
    app.get(path, { config: { scope: 'metrics' }, schema }, async (request, reply) => {
      reply.type(metrics.registry.contentType);
      return text(visibleSeries(request.identity!));
    });
  }
  let text: string | null = null;
  const thisDocument = describe('This document', jsonResponse('This document'));
  app.get('/openapi.json', { schema: thisDocument }, async (_request, reply) => {
    text ??= JSON.stringify(await document());
    return reply.type('application/json; charset=utf-8').send(text);
  });
  addReferenceRoutes(app);
}

/** Metrics without secrets, because /readyz and /livez show the same information without a key. */
const PUBLIC = ['sluice_ready', 'sluice_build_info'];

/**
 * The metric series that a caller may see; null for all. A caller restricted to some models sees only the series of
 * these models. All other series describe the keys, the load and the jobs of all callers.
 */
function visibleSeries(identity: Identity): SeriesFilter | null {
  const all = identity.grants.some(({ scopes, models }) => models === undefined && scopes.includes('metrics'));
  if (all) return null;
  return (family, { model, reference }) =>
    PUBLIC.includes(family) || mayRead(identity, String(model ?? reference ?? ''));
}

function mayRead(identity: Identity, reference: string): boolean {
  try {
    return permits(identity, 'metrics', parseReference(reference).id);
  } catch {
    // The series has no model, or its model reference is invalid.
    return false;
  }
}
