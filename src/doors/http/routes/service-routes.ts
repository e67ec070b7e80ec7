// The service about itself: its health, its metrics, its description.
import type { FastifyInstance } from 'fastify';
import { VERSION } from '../../../core/version.ts';
import type { SeriesFilter } from '../../../monitor/metric-families.ts';
import { visibleSeries } from '../access/visible-series.ts';
import { DOCS_POLICY, docsPage } from '../openapi/docs-page.ts';
import { openApi } from '../openapi/openapi.ts';
import type { PredictServices } from './predict.ts';

export interface ServiceRoutes {
  services: Pick<PredictServices, 'metrics' | 'admission'>;
  /** Whether new work is taken, and can be answered. */
  ready: () => boolean;
  /** Whether jobs can be asked for; predictions do without. */
  jobsReachable: () => boolean;
}

export function addServiceRoutes(app: FastifyInstance, { services, ready, jobsReachable }: ServiceRoutes): void {
  const { metrics, admission } = services;
  app.get('/livez', { config: { health: true } }, async () => ({ status: 'alive', version: VERSION }));
  app.get('/readyz', { config: { health: true } }, async (_request, reply) => {
    if (!ready()) reply.code(503);
    return { status: ready() ? 'ready' : 'not ready', ...(jobsReachable() ? {} : { jobs: 'unreachable' }) };
  });
  metrics.onScrape(() => {
    metrics.waiting.set(admission.waiting);
    metrics.ready.set(ready() ? 1 : 0);
  });
  for (const [path, text] of [
    ['/metrics', (filter: SeriesFilter | null) => metrics.text(filter)],
    ['/metrics/columns', (filter: SeriesFilter | null) => metrics.columnsText(filter)],
  ] as const) {
    app.get(path, { config: { scope: 'metrics' } }, async (request, reply) => {
      reply.type(metrics.registry.contentType);
      return text(visibleSeries(request.identity!));
    });
  }
  let description: string | null = null;
  app.get('/openapi.json', async (_request, reply) => {
    description ??= JSON.stringify(openApi());
    return reply.type('application/json; charset=utf-8').send(description);
  });
  app.get('/docs', async (_request, reply) => {
    reply.header('content-security-policy', DOCS_POLICY);
    return reply.type('text/html; charset=utf-8').send(docsPage());
  });
}
