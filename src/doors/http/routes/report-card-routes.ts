// HTTP route of a model's report card: the findings of the model's registration, as text for people.
import type { FastifyInstance } from 'fastify';
import { SluiceError } from '../../../core/errors.ts';
import type { ModelHost } from '../../../engine/model-host.ts';
import { readPackageFile } from '../../../model/package/model-package.ts';
import { assertMayUse } from '../access/permissions.ts';
import { problemResponse, REFUSALS } from '../openapi/route-parts.ts';
import { tellModel } from '../wire/request-log.ts';

const FILE = 'report.md';

const SHOW = {
  summary: 'Report card of a model: findings of its registration, as Markdown',
  tags: ['models'],
  response: {
    200: { description: 'The report card', content: { 'text/markdown': { schema: { type: 'string' } } } },
    401: REFUSALS[401],
    403: REFUSALS[403],
    404: problemResponse('No such model, or its package has no report card'),
  },
};

export function addReportCardRoutes(app: FastifyInstance, { registry }: Pick<ModelHost, 'registry'>): void {
  app.get<{ Params: { ref: string } }>(
    '/api/v1/models/:ref/report-card',
    { config: { scope: 'models:read' }, schema: SHOW },
    async (request, reply) => {
      assertMayUse(request, request.params.ref);
      const model = await registry.resolve(request.params.ref);
      tellModel(request, model);
      if (!model.files.some(({ name }) => name === FILE)) {
        throw new SluiceError('not_found', 'the package has no report card');
      }
      const text = (await readPackageFile(model, FILE)).toString();
      return reply.type('text/markdown; charset=utf-8').send(text);
    },
  );
}
