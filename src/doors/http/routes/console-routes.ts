// HTTP routes of the console: its page, script and style, and the settings that it needs before login.
import type { FastifyInstance } from 'fastify';
import type { ServerConfig } from '../../../config/server-config.ts';
import { VERSION } from '../../../core/version.ts';
import { addStaticFiles, PAGE_HEADERS } from './static-files.ts';

const FOLDER = new URL('../console/', import.meta.url);

const FILES = {
  '/console': ['console.html', 'text/html; charset=utf-8'],
  '/console/console.js': ['console.js', 'text/javascript; charset=utf-8'],
  '/console/console.css': ['console.css', 'text/css; charset=utf-8'],
  '/console/icon.svg': ['icon.svg', 'image/svg+xml'],
} as const;

const hidden = { hide: true };

/**
 * The content security policy: no inline script or style runs, nothing is loaded from another origin, and the script
 * cannot turn text into HTML. The page may call only those identity providers that have a console login.
 */
function policyFor(oidc: ServerConfig['oidc']): string {
  const providers = oidc.flatMap(({ issuer, console }) => (console ? [new URL(issuer).origin] : []));
  return [
    "default-src 'none'",
    "script-src 'self'",
    "style-src 'self'",
    "img-src 'self'",
    ["connect-src 'self'", ...new Set(providers)].join(' '),
    "base-uri 'none'",
    "form-action 'none'",
    "frame-ancestors 'none'",
    "require-trusted-types-for 'script'",
    "trusted-types 'none'",
  ].join('; ');
}

/** With `console: false` in the configuration, no route is registered. */
export function addConsoleRoutes(app: FastifyInstance, { console, oidc }: ServerConfig): void {
  if (console === false) return;
  app.get('/', { schema: hidden }, async (_request, reply) => reply.redirect('/console', 302));
  const files = Object.entries(FILES).map(([url, [name, mediaType]]) => ({
    url,
    file: () => new URL(name, FOLDER),
    mediaType,
  }));
  addStaticFiles(app, files, { ...PAGE_HEADERS, 'content-security-policy': policyFor(oidc) });
  const logins = oidc.flatMap(({ name, issuer, console: login }) => (login ? [{ name, issuer, ...login }] : []));
  app.get('/console/settings.json', { schema: hidden }, async () => ({ version: VERSION, logins }));
}
