// Which models there are and what an application for each looks like.
import type { FastifyInstance } from 'fastify';
import { type DriftMonitor, type DriftSpan, emptyReport } from '../../../drift/drift-monitor.ts';
import type { ModelHost } from '../../../engine/model-host.ts';
import { parseReference } from '../../../model/registry/registry.ts';
import { describeModel } from '../../../onboarding/describe.ts';
import { permits } from '../access/identity.ts';
import { assertMayUse } from '../access/permissions.ts';
import { jsonResponse, REFUSALS, schemaRef } from '../openapi/route-parts.ts';
import { type COMPONENTS, DRIFT_WINDOW } from '../openapi/schemas.ts';
import { sendJson } from '../wire/content-coding.ts';
import { tellModel } from '../wire/request-log.ts';

/** Describes an operation on models. */
export const describeModelRoute = (summary: string, schema: keyof typeof COMPONENTS, more: object = {}) => ({
  summary,
  tags: ['models'],
  response: { 200: jsonResponse(summary, schemaRef(schema)), 401: REFUSALS[401], 403: REFUSALS[403], ...more },
});

export const MODEL_REFUSALS = { 400: REFUSALS[400], 404: REFUSALS[404] };

const LIST = describeModelRoute('The models this key may use', 'Models');
const SHOW = describeModelRoute('One model: columns, versions, aliases, a sample application', 'Model', MODEL_REFUSALS);
const DRIFT_REPORT = {
  ...describeModelRoute('How scores and columns are distributed against the training', 'Drift', MODEL_REFUSALS),
  querystring: { type: 'object', additionalProperties: false, properties: { window: DRIFT_WINDOW } },
};

/** `level` of compression, 0 for none. */
export function addModelRoutes(app: FastifyInstance, host: ModelHost, drift: DriftMonitor, level: number): void {
  app.get('/api/v1/models', { config: { scope: 'models:read' }, schema: LIST }, async (request, reply) => {
    const models = (await host.registry.list()).filter((m) => permits(request.identity!, 'models:read', m.id));
    return sendJson(request, reply, level, { models });
  });
  app.get<{ Params: { ref: string } }>(
    '/api/v1/models/:ref',
    { config: { scope: 'models:read' }, schema: SHOW },
    async (request, reply) => {
      assertMayUse(request, request.params.ref);
      const model = await host.registry.resolve(request.params.ref);
      tellModel(request, model);
      const entry = (await host.registry.list()).find((m) => m.id === parseReference(request.params.ref).id);
      return sendJson(request, reply, level, describeModel(model, entry));
    },
  );
  app.get<{ Params: { ref: string }; Querystring: { window: DriftSpan } }>(
    '/api/v1/models/:ref/drift',
    { config: { scope: 'models:read' }, schema: DRIFT_REPORT },
    async (request) => {
      const { ref } = request.params;
      assertMayUse(request, ref);
      const found = await host.meant(ref);
      tellModel(request, found);
      const { ref: model, manifest } = found;
      const { window } = request.query;
      const report = drift.report(model, window) ?? emptyReport(manifest);
      return {
        modelId: manifest.id,
        modelVersion: String(manifest.version),
        window,
        baseline: report !== null,
        ...report,
      };
    },
  );
}
