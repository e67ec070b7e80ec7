// Applies checks to every request: headers, TLS, authentication, scope, framing. Counts requests by route.
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
    /** Scope that the identity must have; absent: no key is needed. */
    scope?: Scope;
    /** Health checks, answered to all clients, even if other requests must come through a proxy. */
    health?: boolean;
    /** Routes of the Open Inference Protocol, whose clients expect the member `error` in error responses. */
    openInference?: boolean;
    /** Methods with which a header may replace the method of the request. */
    override?: readonly string[];
    /** Handles tus requests, whose clients expect the tus version in responses. */
    tus?: boolean;
  }
}

export interface RequestChecks {
  config: ServerConfig;
  gatekeeper: Gatekeeper;
  /** Records requests with caller and model; null: audit is off. */
  audit?: AuditTrail | null;
  metrics: Metrics;
  /** Rejects requests that did not arrive over TLS; absent: the listener accepts only TLS. */
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
    // Health checks reach the process directly, bypassing the proxy.
    if (!health) assertSecure?.(request);
    checkFraming(request.raw);
    // CORS preflight requests of browsers carry no key.
    if (cross?.(request, reply)) return reply.code(204).send();
    if (scope === undefined && (health || !needsKey(request))) return;
    request.identity = await gatekeeper.identify(request);
    // Whether a path or method exists is revealed only to clients with a key.
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
 * Whether a request without a key is rejected, whatever its method and even if its path does not exist: paths contain
 * names of pipelines. Encoded spellings that the router accepts for these paths count too.
 */
export function needsKey({ url }: FastifyRequest): boolean {
  const origin = /^https?:\/\/[^/]*/.exec(url)?.[0] ?? '';
  const [path = ''] = url.slice(origin.length).split('?');
  const plain = path.replaceAll(/%([0-9a-f]{2})/gi, (_, hex: string) => String.fromCharCode(Number.parseInt(hex, 16)));
  return /^\/(?:api|v2)(?:\/|$)/.test(plain);
}

/** Why a request would be rejected independent of its path; null: it has a valid key. */
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
