// Which models there are and what an application for each looks like.
import type { FastifyInstance } from 'fastify';
import type { ModelHost } from '../pipeline/model-host.ts';
import { describeModel } from '../register/describe.ts';
import { parseReference } from '../registry/registry.ts';
import { assertMayUse } from './access.ts';
import { mayUse } from './keys.ts';

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
