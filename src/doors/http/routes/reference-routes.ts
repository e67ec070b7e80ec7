// HTTP routes of /docs: Swagger UI with the OpenAPI document of this service. All files are part of this program.
import { existsSync } from 'node:fs';
import { createRequire } from 'node:module';
import { pathToFileURL } from 'node:url';
import type { FastifyInstance } from 'fastify';
import { addStaticFiles, PAGE_HEADERS } from './static-files.ts';

const OWN = new URL('../reference/', import.meta.url);

/**
 * Swagger UI is a development dependency whose files the build copies. In a checkout, the files are read from
 * node_modules.
 */
function swaggerFolder(): URL {
  const copied = new URL('swagger-ui/', OWN);
  if (existsSync(copied)) return copied;
  return pathToFileURL(createRequire(import.meta.url).resolve('swagger-ui-dist/swagger-ui.css'));
}

const own = (name: string) => () => new URL(name, OWN);
const swagger = (name: string) => () => new URL(name, swaggerFolder());

/**
 * The content security policy: no inline script or style runs, and nothing is loaded from another origin. Swagger UI
 * needs data: images for its icons.
 */
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
  addStaticFiles(
    app,
    [
      { url: '/docs', file: own('reference.html'), mediaType: 'text/html; charset=utf-8', schema: PAGE },
      { url: '/docs/reference.js', file: own('reference.js'), mediaType: JS },
      { url: '/docs/reference.css', file: own('reference.css'), mediaType: CSS },
      { url: '/docs/icon.svg', file: own('../console/icon.svg'), mediaType: 'image/svg+xml' },
      { url: '/docs/swagger-ui-bundle.js', file: swagger('swagger-ui-bundle.js'), mediaType: JS },
      { url: '/docs/swagger-ui.css', file: swagger('swagger-ui.css'), mediaType: CSS },
    ],
    { ...PAGE_HEADERS, 'content-security-policy': POLICY },
  );
}
