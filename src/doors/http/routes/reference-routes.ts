// HTTP routes of /docs: Swagger UI with the OpenAPI document of this service, from files of this program.
import { existsSync } from 'node:fs';
import { createRequire } from 'node:module';
import { pathToFileURL } from 'node:url';
import type { FastifyInstance } from 'fastify';
import { addStaticFiles, PAGE_HEADERS } from './static-files.ts';

const OWN = new URL('../reference/', import.meta.url);

/** The build copies these files of a development dependency; a checkout reads them from node_modules. */
function swaggerFolder(): URL {
  const copied = new URL('swagger-ui/', OWN);
  if (existsSync(copied)) return copied;
  return pathToFileURL(createRequire(import.meta.url).resolve('swagger-ui-dist/swagger-ui.css'));
}

/** Swagger UI draws its icons from data: images. No inline script or style runs, and nothing is loaded from another origin. */
const POLICY = [
  "default-src 'none'",
  "script-src 'self'",
  "style-src 'self'",
  "img-src 'self' data:",
  "connect-src 'self'",
  "base-uri 'none'",
  "form-action 'none'",
  "frame-ancestors 'none'",
].join('; ');

const PAGE = {
  summary: 'This document as a page',
  tags: ['operations'],
  response: { 200: { description: 'HTML', content: { 'text/html': { schema: { type: 'string' } } } } },
};

const [JS, CSS] = ['text/javascript; charset=utf-8', 'text/css; charset=utf-8'];

export function addReferenceRoutes(app: FastifyInstance): void {
  const swagger = swaggerFolder();
  addStaticFiles(
    app,
    [
      { url: '/docs', file: new URL('reference.html', OWN), mediaType: 'text/html; charset=utf-8', schema: PAGE },
      { url: '/docs/reference.js', file: new URL('reference.js', OWN), mediaType: JS },
      { url: '/docs/reference.css', file: new URL('reference.css', OWN), mediaType: CSS },
      { url: '/docs/icon.svg', file: new URL('../console/icon.svg', OWN), mediaType: 'image/svg+xml' },
      { url: '/docs/swagger-ui-bundle.js', file: new URL('swagger-ui-bundle.js', swagger), mediaType: JS },
      { url: '/docs/swagger-ui.css', file: new URL('swagger-ui.css', swagger), mediaType: CSS },
    ],
    { ...PAGE_HEADERS, 'content-security-policy': POLICY },
  );
}
