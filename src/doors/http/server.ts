// The HTTP service: routes, who may call them, and the one way errors are answered.
import type { IncomingMessage } from 'node:http';
import multipart from '@fastify/multipart';
import Fastify, {
  type FastifyInstance,
  type FastifyReply,
  type FastifyRequest,
  type FastifyServerOptions,
} from 'fastify';
import type { Scope } from '../../config/scopes.ts';
import type { ServerConfig } from '../../config/server-config.ts';
import { inBackground } from '../../core/async.ts';
import { SluiceError } from '../../core/errors.ts';
import { type Log, named, SILENT } from '../../core/log.ts';
import type { Tracer } from '../../core/tracing.ts';
import type { KeptModels, ModelHost } from '../../engine/model-host.ts';
import type { Metrics } from '../../monitor/metrics.ts';
import { RunAccount } from '../../runs/account.ts';
import { measureCertificatesOf } from '../../runs/measure-ends.ts';
import { type AuditTrail, noteRefusedTarget } from './access/audit-trail.ts';
import type { Gatekeeper } from './access/gatekeeper.ts';
import type { Identity } from './access/identity.ts';
import { assertScope, LoginRefused } from './access/permissions.ts';
import { addJobRoutes } from './jobs/job-routes.ts';
import { openJobs } from './jobs/open-jobs.ts';
import { addUploadPipelines, readUploadPipelines } from './jobs/pipeline-routes.ts';
import { TUS_VERSION } from './jobs/tus-headers.ts';
import { addUploadOptions, addUploadRoutes, jobIntake } from './jobs/upload-routes.ts';
import { collectRoutes } from './openapi/openapi.ts';
import { addModelRoutes } from './routes/model-routes.ts';
import { addOpenInference } from './routes/open-inference.ts';
import { addPredictRoutes } from './routes/predict-routes.ts';
import { addServiceRoutes } from './routes/service-routes.ts';
import { Admission } from './wire/admission.ts';
import { AnswerDigest } from './wire/content-digest.ts';
import { crossOrigin } from './wire/cross-origin.ts';
import { RequestLog, requestIdOf } from './wire/request-log.ts';
import type { ServiceContext } from './wire/scoring-request.ts';
import { commonHeaders, type ProblemSent, refuseAddress, sendProblem } from './wire/send-problem.ts';
import { protocolOf } from './wire/streaming-support.ts';
import { cutUnread } from './wire/unread-answer.ts';

declare module 'fastify' {
  interface FastifyRequest {
    /** Who it is of, once that is known. */
    identity: Identity | null;
  }
  interface FastifyContextConfig {
    /** Scope an identity must have; absent: none is needed. */
    scope?: Scope;
    /** Of the process: answered to all clients, even if other requests must come through a proxy. */
    health?: boolean;
    /** Of the Open Inference Protocol, whose clients expect `error` in refusals. */
    openInference?: boolean;
    /** Methods that a header may put in place of the one of the request. */
    override?: readonly string[];
    /** Handles tus requests, whose clients expect its version in answers. */
    tus?: boolean;
  }
}

interface ServerOptions {
  config: ServerConfig;
  host: ModelHost;
  gatekeeper: Gatekeeper;
  /** Records who asks what of which model; null: nothing does. */
  audit?: AuditTrail | null;
  metrics: Metrics;
  /** Creates the HTTP(S) server that the handler runs in. */
  serverFactory?: FastifyServerOptions['serverFactory'];
  /** Refuses requests that did not come over TLS; absent: the listener sees to it. */
  assertSecure?: (request: FastifyRequest) => void;
  log?: Log;
  tracer?: Tracer | null;
}

interface ServerState {
  /** false: /readyz answers 503 and new predict requests are refused. */
  ready: boolean;
  /** Until all are loaded, /readyz answers 503; requests wait for their model. */
  kept: Pick<KeptModels, 'ready'>;
}

export interface SluiceServer {
  app: FastifyInstance;
  state: ServerState;
  /** Predict requests that are not over. */
  busy(): number;
}

export async function buildServer(options: ServerOptions): Promise<SluiceServer> {
  const { config, host, metrics, log = SILENT, tracer = null } = options;
  const state: ServerState = { ready: false, kept: { ready: true } };
  const ready = (): boolean => state.ready;
  const admission = new Admission(config.limits);
  const requests = new RequestLog({ log, tracer, sampling: config.log });
  const app = await newApp(options, requests);
  checkEveryRequest(app, options);
  const answer = (error: unknown, request: FastifyRequest, reply: FastifyReply): FastifyReply => {
    countProblem(metrics, error, sendProblem(error, request, reply));
    return reply;
  };
  app.setErrorHandler(async (error, request, reply) => {
    const refused = error instanceof LoginRefused && request.identity !== null;
    if (refused && options.audit) await noteRefusedTarget(request, error, host.registry);
    return answer(error, request, reply);
  });
  app.setNotFoundHandler((request, reply) => {
    answer(new SluiceError('not_found', 'this operation does not exist'), request, reply);
  });

  const document = collectRoutes(app);
  const methods = new Map<string, Set<string>>();
  app.addHook('onRoute', ({ url, method }) => {
    const known = methods.get(url) ?? new Set();
    for (const m of [method].flat()) known.add(m);
    methods.set(url, known);
  });
  const account = new RunAccount(metrics, 'http');
  const told = options.audit?.ofJobs(log) ?? log;
  const services: ServiceContext = { config, host, admission, metrics, log: told, tracer, account };
  const pipelines = await readUploadPipelines(config.pipelines);
  measureCertificatesOf(
    pipelines.map(({ spec }) => spec),
    metrics,
  );
  const jobs = await openJobs(services, pipelines);
  app.addHook('onClose', () => jobs.close());
  const mostBytes = config.limits.body_bytes;
  const uploadUrls = addPredictRoutes(app, { services, jobs: jobIntake(jobs, ready), ready });
  for (const url of uploadUrls) addUploadOptions(app, { url, mostBytes });
  addModelRoutes(app, services);
  addJobRoutes(app, jobs, config.compression.level);
  addUploadRoutes(app, { jobs, mostBytes, ready });
  addUploadPipelines(app, { services, jobs, pipelines, ready });
  const canAnswer = () => state.ready && state.kept.ready && (options.audit?.ready ?? true);
  addServiceRoutes(app, { services, ready: canAnswer, jobsReachable: () => jobs.reachable, document });
  addOpenInference(app, { services, ready: canAnswer });
  refuseOtherMethods(app, methods);
  await app.ready();
  return { app, state, busy: () => admission.inside };
}

async function newApp(options: ServerOptions, requests: RequestLog): Promise<FastifyInstance> {
  const { config, metrics, audit, serverFactory } = options;
  const app: FastifyInstance = Fastify({
    logger: false,
    bodyLimit: Number.MAX_SAFE_INTEGER,
    requestTimeout: 0,
    keepAliveTimeout: config.timeouts.keep_alive_ms,
    routerOptions: { maxParamLength: 200 },
    genReqId: (raw) => requestIdOf(raw as IncomingMessage),
    ajv: { customOptions: { removeAdditional: false, coerceTypes: true, allErrors: true } },
    // The listener answers these: two handlers on one socket would cut each other off.
    clientErrorHandler: () => {},
    frameworkErrors: (error, request, reply) => {
      // Hooks do not run for these: a request of an unusable address shows its key here.
      const asking = request as FastifyRequest;
      inBackground('refusing an address', async () => {
        requests.begin(asking, reply as FastifyReply);
        audit?.begin(asking, reply as FastifyReply);
        const login = needsKey(asking) ? await refusalOf(asking, options) : null;
        countProblem(metrics, login, refuseAddress(login ?? error, asking, reply as FastifyReply));
      });
    },
    ...(serverFactory ? { serverFactory } : {}),
  }) as unknown as FastifyInstance;
  app.decorateRequest('identity', null);
  requests.follow(app);
  audit?.follow(app);
  await app.register(multipart, { throwFileSizeLimit: false });
  app.removeContentTypeParser(['application/json', 'text/plain']);
  // Bodies are streams, parsed by the operation that knows their format.
  app.addContentTypeParser('*', (_request, _payload, done) => done(null));
  return app;
}

function countProblem(metrics: Metrics, error: unknown, { code, cut }: ProblemSent): void {
  metrics.httpErrors.inc({ code });
  if (cut) metrics.cutAnswers.inc();
  if (error instanceof LoginRefused) {
    metrics.failedLogins.inc({ key: error.label ?? 'unknown', reason: error.reason });
  }
}

/** What holds for every request: headers, TLS, the key and its scope, the metric of its route. */
function checkEveryRequest(app: FastifyInstance, options: ServerOptions): void {
  const { config, gatekeeper, audit, metrics, assertSecure } = options;
  const cross = config.cors.origins.length > 0 ? crossOrigin(config.cors.origins, config.cors.max_age_s) : null;
  app.addHook('onRequest', async (request, reply) => {
    reply.headers(commonHeaders(request));
    const { scope, health, tus, override } = request.routeOptions.config;
    const method = String(request.headers['x-http-method-override'] ?? '').toUpperCase();
    if (override?.includes(method)) request.story.method = named(method);
    if (tus && request.headers['tus-resumable'] !== undefined) reply.header('tus-resumable', TUS_VERSION);
    // Health checks reach the process directly, not through the proxy.
    if (!health) assertSecure?.(request);
    checkFraming(request.raw);
    // A browser asks without a key whether it may show one.
    if (cross?.(request, reply)) return reply.code(204).send();
    if (scope === undefined && (health || !needsKey(request))) return;
    request.identity = await gatekeeper.identify(request);
    // An unknown path or method: only clients with a key learn it.
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
 * Whether a request is refused without a key, whatever its method and whether its path exists: names of pipelines are part of paths. Spellings
 * that the router would take for these paths count, too.
 */
function needsKey({ url }: FastifyRequest): boolean {
  const origin = /^https?:\/\/[^/]*/.exec(url)?.[0] ?? '';
  const [path = ''] = url.slice(origin.length).split('?');
  const plain = path.replaceAll(/%([0-9a-f]{2})/gi, (_, hex: string) => String.fromCharCode(Number.parseInt(hex, 16)));
  return /^\/(?:api|v2)(?:\/|$)/.test(plain);
}

/** Why a request is refused whatever its address; null: it has a valid key. */
async function refusalOf(
  request: FastifyRequest,
  { gatekeeper, assertSecure }: Pick<ServerOptions, 'gatekeeper' | 'assertSecure'>,
): Promise<unknown> {
  try {
    assertSecure?.(request);
    request.identity = await gatekeeper.identify(request);
    return null;
  } catch (error) {
    return error;
  }
}

/** @throws SluiceError bad_request | invalid_content: what Node lets through and this service cannot take */
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

/** A known path with another method is 405 with its allowed methods, not 404. */
function refuseOtherMethods(app: FastifyInstance, methods: ReadonlyMap<string, ReadonlySet<string>>): void {
  for (const method of ['TRACE', 'QUERY']) app.addHttpMethod(method, { overrideExisting: true });
  const all = ['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS', 'TRACE', 'QUERY'];
  for (const [url, allowed] of [...methods]) {
    const allow = [...allowed].join(', ');
    app.route({
      url,
      method: all.filter((m) => !allowed.has(m)),
      schema: { hide: true },
      handler: async (_request, reply) => {
        reply.header('allow', allow);
        throw new SluiceError('method_not_allowed', `the path supports ${allow}`);
      },
    });
  }
}
