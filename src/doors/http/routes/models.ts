// Which models there are and what an application for each looks like.
import type { FastifyInstance } from 'fastify';
import type { ModelHost } from '../../../engine/model-host.ts';
import { parseReference } from '../../../model/registry/registry.ts';
import { describeModel } from '../../../onboarding/describe.ts';
import { mayUse } from '../access/api-keys.ts';
import { assertMayUse } from '../access/permissions.ts';

export function addModelRoutes(app: FastifyInstance, host: ModelHost): void {
  app.get('/api/v1/models', { config: { scope: 'models:read' } }, async (request) => ({
    models: (await host.registry.list()).filter((m) => mayUse(request.apiKey!, m.id)),
  }));
  app.get<{ Params: { ref: string } }>('/api/v1/models/:ref', { config: { scope: 'models:read' } }, async (request) => {
    assertMayUse(request, request.params.ref);
    const model = await host.registry.resolve(request.params.ref);
    const entry = (await host.registry.list()).find((m) => m.id === parseReference(request.params.ref).id);
    return describeModel(model, entry?.versions ?? [], entry?.aliases ?? {});
  });
}
