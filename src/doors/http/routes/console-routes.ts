// HTTP routes of the console: its page, script and style from files of this program, and the settings that it needs before login.
import { readFile } from 'node:fs/promises';
import { promisify } from 'node:util';
import { gzip } from 'node:zlib';
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import type { ServerConfig } from '../../../config/server-config.ts';
import { VERSION } from '../../../core/version.ts';

const FOLDER = new URL('../console/', import.meta.url);

const FILES = {
  '/console': ['console.html', 'text/html; charset=utf-8'],
  '/console/console.js': ['console.js', 'text/javascript; charset=utf-8'],
  '/console/console.css': ['console.css', 'text/css; charset=utf-8'],
  '/console/icon.svg': ['icon.svg', 'image/svg+xml'],
} as const;

const hidden = { hide: true };

/**
 * No inline script or style runs, nothing is loaded from another origin, and the script cannot turn text into HTML.
 * Only identity providers with a login for the console may be called from the page.
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

/** `console: false` in the configuration registers no route. */
export function addConsoleRoutes(app: FastifyInstance, { console, oidc }: ServerConfig): void {
  if (console === false) return;
  const headers = {
    'content-security-policy': policyFor(oidc),
    'referrer-policy': 'no-referrer',
    'cross-origin-opener-policy': 'same-origin',
    'permissions-policy': 'camera=(), microphone=(), geolocation=()',
  };
  app.get('/', { schema: hidden }, async (_request, reply) => reply.redirect('/console', 302));
  for (const [url, [file, type]] of Object.entries(FILES)) {
    let stored: Promise<StoredFile> | null = null;
    app.get(url, { schema: hidden }, async (request, reply) => {
      stored ??= readStored(file);
      reply.headers(headers).type(type);
      return sendFile(request, reply, await stored);
    });
  }
  const logins = oidc.flatMap(({ name, issuer, console: login }) => (login ? [{ name, issuer, ...login }] : []));
  app.get('/console/settings.json', { schema: hidden }, async () => ({ version: VERSION, logins }));
}

interface StoredFile {
  plain: Buffer;
  compressed: Buffer;
}

async function readStored(file: string): Promise<StoredFile> {
  const plain = await readFile(new URL(file, FOLDER));
  return { plain, compressed: await promisify(gzip)(plain, { level: 9 }) };
}

function sendFile({ headers }: FastifyRequest, reply: FastifyReply, { plain, compressed }: StoredFile): FastifyReply {
  reply.header('vary', 'accept-encoding');
  if (!/\bgzip\b/.test(String(headers['accept-encoding'] ?? ''))) return reply.send(plain);
  return reply.header('content-encoding', 'gzip').send(compressed);
}
