// Files of this program for browsers. A file is read on the first request and cached in compressed form.
import { readFile } from 'node:fs/promises';
import { promisify } from 'node:util';
import { gzip } from 'node:zlib';
import type { FastifyInstance, FastifyReply, FastifyRequest, FastifySchema } from 'fastify';

interface StaticFile {
  url: string;
  /** Returns the address of the file; called for each read. */
  file: () => URL;
  mediaType: string;
  /** Schema of the route. Without one, the route is not in the OpenAPI document. */
  schema?: FastifySchema;
}

/** Headers of pages with scripts. These headers prevent other pages from framing or opening the page. */
export const PAGE_HEADERS = {
  'referrer-policy': 'no-referrer',
  'cross-origin-opener-policy': 'same-origin',
  'permissions-policy': 'camera=(), microphone=(), geolocation=()',
};

export function addStaticFiles(
  app: FastifyInstance,
  files: readonly StaticFile[],
  headers: Readonly<Record<string, string>>,
): void {
  for (const { url, file, mediaType, schema = { hide: true } } of files) {
    let compressed: Promise<Buffer> | null = null;
    const read = async () => promisify(gzip)(await readFile(file()), { level: 9 });
    app.get(url, { schema }, async (request, reply) => {
      reply.headers(headers).type(mediaType).header('vary', 'accept-encoding');
      if (!acceptsGzip(request)) return reply.send(await readFile(file()));
      // An error is not cached, because it may be temporary: for example, no file descriptor may be free.
      compressed ??= read().catch((error) => {
        compressed = null;
        throw error;
      });
      return sendCompressed(reply, await compressed);
    });
  }
}

const acceptsGzip = ({ headers }: FastifyRequest): boolean => /\bgzip\b/.test(String(headers['accept-encoding'] ?? ''));

const sendCompressed = (reply: FastifyReply, bytes: Buffer): FastifyReply =>
  reply.header('content-encoding', 'gzip').send(bytes);
