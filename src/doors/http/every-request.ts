// Applies the checks that every request must pass: headers, TLS, authentication, scope, framing. Counts requests by
// route.
import type { IncomingMessage } from 'node:http';
import type { FastifyInstance, FastifyRequest } from 'fastify';
import type { Scope } from '../../config/scopes.ts';
import type { ServerConfig } from '../../config/server-config.ts';
import { SluiceError } from '../../core/errors.ts';
import { named } from '../../core/log.ts';
import type { Metrics } from '../../monitor/metrics.ts';
import type { AuditTrail } from './access/audit-trail.ts';
import type { Gatekeeper } from './access/gatekeeper.ts';
import type { Identity } from './access/identity.ts';
import { assertScope } from './access/permissions.ts';
import { TUS_VERSION } from './jobs/tus-headers.ts';
import { AnswerDigest } from './wire/content-digest.ts';
import { crossOrigin } from './wire/cross-origin.ts';
import { commonHeaders } from './wire/send-problem.ts';
import { protocolOf } from './wire/streaming-support.ts';
import { cutUnread } from './wire/unread-answer.ts';

declare module 'fastify' {
  interface FastifyRequest {
    /** The caller; null until it is authenticated. */
    identity: Identity | null;
  }
  interface FastifyContextConfig {
    /** Scope that the caller must have. If absent, no key is needed. */
    scope?: Scope;
    /**
     * Whether the route is a health check. Health checks are answered to all clients, even if other requests must come
     * through a proxy.
     */
    health?: boolean;
    /**
     * Whether the route belongs to the Open Inference Protocol, whose clients expect the member `error` in error
     * responses.
     */
    openInference?: boolean;
    /** Methods that a header of the request may select instead of the request's own method. */
    override?: readonly string[];
    /** Whether the route belongs to tus, whose clients expect the tus version in responses. */
    tus?: boolean;
  }
}

export interface RequestChecks {
  config: ServerConfig;
  gatekeeper: Gatekeeper;
  /** Records requests with caller and model; null if audit is off. */
  audit?: AuditTrail | null;
  metrics: Metrics;
  /** Rejects requests that did not arrive over TLS. Absent if the listener accepts only TLS. */
  assertSecure?: (request: FastifyRequest) => void;
}

export function checkEveryRequest(app: FastifyInstance, options: RequestChecks): void {
  const { config, gatekeeper, audit, metrics, assertSecure } = options;
  const cross = config.cors.origins.length > 0 ? crossOrigin(config.cors.origins, config.cors.max_age_s) : null;
  app.addHook('onRequest', async (request, reply) => {
    reply.headers(commonHeaders(request));
    const { scope, health, tus, override } = request.routeOptions.config;
    const method = String(request.headers['x-http-method-override'] ?? '').toUpperCase();
    if (override?.includes(method)) request.story.method = named(method);
    if (tus && request.headers['tus-resumable'] !== undefined) reply.header('tus-resumable', TUS_VERSION);
    // Health checks bypass the proxy and reach the process directly.
    if (!health) assertSecure?.(request);
    checkFraming(request.raw);
    // The CORS preflight requests of browsers have no key.
    if (cross?.(request, reply)) return reply.code(204).send();
    if (scope === undefined && (health || !needsKey(request))) return;
    request.identity = await gatekeeper.identify(request);
    // Only clients with a key may learn whether a path or a method exists.
    if (scope === undefined) return;
    assertScope(request, scope);
    if (scope !== 'metrics') audit?.assertReady();
  });
  app.addHook('onSend', async (request, reply, payload) => {
    cutUnread(reply.raw, config.timeouts.answer_idle_ms);
    const digest = typeof payload === 'string' ? AnswerDigest.wantedBy(request.headers) : null;
    if (!digest) return;
    digest.update(Buffer.from(payload as string));
    reply.header('content-digest', digest.value());
  });
  app.addHook('onResponse', async (request, reply) => {
    const route = request.routeOptions.url ?? 'none';
    metrics.protocols.inc({ protocol: protocolOf(request.raw) });
    metrics.requests.observe({ route, status: String(reply.raw.statusCode) }, reply.elapsedTime / 1000);
  });
}

/**
 * Whether a request without a key is rejected. That applies to all methods, and even to paths that do not exist,
 * because paths contain names of pipelines. Encoded spellings of these paths are rejected as well, because the router
 * accepts them.
 */
export function needsKey({ url }: FastifyRequest): boolean {
  const origin = /^https?:\/\/[^/]*/.exec(url)?.[0] ?? '';
  const [path = ''] = url.slice(origin.length).split('?');
  const plain = path.replaceAll(/%([0-9a-f]{2})/gi, (_, hex: string) => String.fromCharCode(Number.parseInt(hex, 16)));
  return /^\/(?:api|v2)(?:\/|$)/.test(plain);
}

/** The error that rejects a request whatever its path; null if the request has a valid key. */
export async function refusalOf(
  request: FastifyRequest,
  { gatekeeper, assertSecure }: Pick<RequestChecks, 'gatekeeper' | 'assertSecure'>,
): Promise<unknown> {
  try {
    assertSecure?.(request);
    request.identity = await gatekeeper.identify(request);
    return null;
  } catch (error) {
    return error;
  }
}

/** Rejects framing that Node accepts but this service does not support. @throws SluiceError bad_request | invalid_content */
function checkFraming(raw: IncomingMessage): void {
  const { headers } = raw;
  const host = headers.host ?? headers[':authority'];
  if (host === undefined && protocolOf(raw) !== 'HTTP/1.0')
    throw new SluiceError('bad_request', 'the Host header is missing');
  const coding = headers['transfer-encoding'];
  if (coding !== undefined && coding.trim().toLowerCase() !== 'chunked') {
    throw new SluiceError('invalid_content', 'Transfer-Encoding must be chunked; compress with Content-Encoding');
  }
}
