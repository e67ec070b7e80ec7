// The service about itself: its health, its metrics, its description.
import type { FastifyInstance, FastifySchema } from 'fastify';
import { VERSION } from '../../../core/version.ts';
import type { SeriesFilter } from '../../../monitor/metric-families.ts';
import { visibleSeries } from '../access/visible-series.ts';
import { DOCS_POLICY, docsPage } from '../openapi/docs-page.ts';
import type { OpenApiDocument } from '../openapi/openapi.ts';
import { jsonResponse, REFUSALS, UNREADY } from '../openapi/route-parts.ts';
import type { PredictServices } from './predict.ts';

export interface ServiceRoutes {
  services: Pick<PredictServices, 'metrics' | 'admission'>;
  /** Whether new work is taken, and can be answered. */
  ready: () => boolean;
  /** Whether jobs can be asked for; predictions do without. */
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
  const alive = describe('The process runs', jsonResponse('The process runs'));
  app.get('/livez', { config: { health: true }, schema: alive }, async () => ({ status: 'alive', version: VERSION }));
  const isReady = describe('New work is taken', jsonResponse('New work is taken'), UNREADY);
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
  let page: string | null = null;
  const forPeople = describe('This document for people', textResponse('HTML', 'text/html'));
  app.get('/docs', { schema: forPeople }, async (_request, reply) => {
    page ??= docsPage(await document());
    reply.header('content-security-policy', DOCS_POLICY);
    return reply.type('text/html; charset=utf-8').send(page);
  });
}
