// The OpenAPI 3.1 document, which @fastify/swagger generates from the schemas of the routes.
import Fastify, { type FastifyInstance, type RouteOptions } from 'fastify';
import { VERSION } from '../../../core/version.ts';
import { addBodyExamples } from './body-examples.ts';
import type { OpenApiDocument } from './document-types.ts';
import { COMPONENTS } from './schemas.ts';

type DescribedRoute = Pick<RouteOptions, 'method' | 'url' | 'schema' | 'config'>;

/**
 * Collects the schemas of all routes that are registered after this call. Fastify keeps only the query schemas, because
 * it validates requests with them; descriptions thus affect neither responses nor start-up time. Returns a function
 * that generates the document when it is first called.
 */
export function collectRoutes(app: FastifyInstance): () => Promise<OpenApiDocument> {
  const routes: DescribedRoute[] = [];
  app.addHook('onRoute', (route) => {
    const { method, url, schema = {}, config = {} } = route;
    // HEAD routes that Fastify derives from GET routes are not collected.
    const isDerived = method === 'HEAD' && routes.some((r) => r.url === url && r.method === 'GET');
    if (!isDerived) routes.push({ method, url, schema, config });
    if (schema.querystring === undefined) delete route.schema;
    else route.schema = { querystring: schema.querystring };
  });
  let document: Promise<OpenApiDocument> | null = null;
  return () => {
    // An error is not cached: the library may fail to load, for example if no file descriptor is free.
    document ??= describe(routes).catch((error) => {
      document = null;
      throw error;
    });
    return document;
  };
}

async function describe(routes: readonly DescribedRoute[]): Promise<OpenApiDocument> {
  const { default: swagger } = await import('@fastify/swagger');
  // This instance serves no requests; it only describes routes.
  const app = Fastify({ exposeHeadRoutes: false });
  app.setValidatorCompiler(() => () => true);
  app.setSerializerCompiler(() => JSON.stringify);
  await app.register(swagger, {
    exposeHeadRoutes: true,
    convertConstToEnum: false,
    openapi: {
      openapi: '3.1.0',
      info: {
        title: 'Sluice',
        version: VERSION,
        description: 'Bulk credit scoring: a prediction for each application, streamed in both directions.',
        license: { name: 'Apache 2.0', identifier: 'Apache-2.0' } as { name: string },
      },
      security: [{ apiKey: [] }, { token: [] }, { certificate: [] }],
      components: {
        securitySchemes: {
          apiKey: {
            type: 'apiKey',
            in: 'header',
            name: 'Authorization',
            description: '`API-Key <token>`, `Bearer <token>` or the bare token',
          },
          certificate: {
            type: 'mutualTLS',
            description: 'issued by a configured authority',
          } as never,
          token: {
            type: 'http',
            scheme: 'bearer',
            bearerFormat: 'JWT',
            description: 'issued by a configured identity provider',
          },
        },
        // A copy, because addBodyExamples changes the document.
        schemas: structuredClone(COMPONENTS) as never,
      },
    },
  });
  for (const { schema, config, ...route } of routes) {
    const isPublic = config?.scope === undefined && !route.url.startsWith('/api/');
    const security = isPublic ? { security: [] } : {};
    app.route({ ...route, config: config ?? {}, schema: { ...schema, ...security }, handler: () => null });
  }
  await app.ready();
  const document = app.swagger() as unknown as OpenApiDocument;
  addBodyExamples(document);
  return document;
}
