// Cross-origin requests (CORS): the origins that may call, and the response headers that their pages can read.
import type { FastifyReply, FastifyRequest } from 'fastify';
import { SluiceError } from '../../../core/errors.ts';

const METHODS = 'GET, HEAD, POST, PUT, PATCH, DELETE';
/** Request headers of this service, in addition to the CORS-safelisted headers. */
const ASKED_WITH =
  'authorization, content-type, content-encoding, content-digest, want-content-digest, idempotency-key, prefer, range, if-range, traceparent, x-request-id, inference-header-content-length, tus-resumable, upload-length, upload-offset, upload-metadata, upload-checksum, x-http-method-override';
const READABLE =
  'location, retry-after, content-digest, content-range, accept-ranges, etag, preference-applied, x-request-id, www-authenticate, sluice-model, sluice-package-sha256, sluice-version, sluice-job, inference-header-content-length, tus-resumable, tus-version, tus-extension, tus-max-size, tus-checksum-algorithm, upload-offset, upload-length, upload-metadata, upload-expires';

/** Adds CORS headers. Returns true if the request is a preflight, which needs no other response. */
type CrossOrigin = (request: FastifyRequest, reply: FastifyReply) => boolean;

/**
 * Returns the function that handles CORS. Browser credentials are never allowed, because pages must set the key in a
 * header themselves. Responses to an origin that is not listed have no CORS headers, so the browser blocks them.
 * @throws SluiceError usage: an invalid origin
 */
export function crossOrigin(origins: readonly string[], maxAgeSeconds: number): CrossOrigin {
  const wrong = origins.find(
    (origin) => origin !== '*' && (!URL.canParse(origin) || new URL(origin).origin !== origin),
  );
  if (wrong !== undefined) {
    throw new SluiceError('usage', `cors.origins: ${wrong} is not an origin such as https://desk.bank.example, or *`);
  }
  const all = origins.includes('*');
  return ({ method, headers }, reply) => {
    if (!all) reply.header('vary', 'origin');
    const { origin } = headers;
    if (origin === undefined || !(all || origins.includes(origin))) return false;
    reply.headers({ 'access-control-allow-origin': all ? '*' : origin, 'access-control-expose-headers': READABLE });
    if (method !== 'OPTIONS' || headers['access-control-request-method'] === undefined) return false;
    reply.headers({
      'access-control-allow-methods': METHODS,
      'access-control-allow-headers': ASKED_WITH,
      'access-control-max-age': String(maxAgeSeconds),
    });
    return true;
  };
}
