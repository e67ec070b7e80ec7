// The HTTP service: routes, who may call them, and the one way errors are answered.
import multipart from '@fastify/multipart';
import Fastify, {
  type FastifyInstance,
  type FastifyReply,
  type FastifyRequest,
  type FastifyServerOptions,
} from 'fastify';
import type { Scope } from '../../config/scopes.ts';
import type { ServerConfig } from '../../config/server-config.ts';
import { SluiceError } from '../../core/errors.ts';
import { VERSION } from '../../core/version.ts';
import type { ModelHost } from '../../engine/model-host.ts';
import { assertExplainable } from '../../engine/score-chunks.ts';
import type { Metrics } from '../../monitor/metrics.ts';
import { RunAccount } from '../../runs/account.ts';
import type { ApiKey, KeyRing } from './access/api-keys.ts';
import { assertMayUse } from './access/permissions.ts';
import { JobManager } from './jobs/job-manager.ts';
import { addJobRoutes, describeJob, jobUrl, wantsJob } from './jobs/job-routes.ts';
import { docsPage } from './openapi/docs-page.ts';
import { openApi } from './openapi/openapi.ts';
import { PREDICT_QUERY } from './openapi/schemas.ts';
import { addModelWrites } from './routes/model-writes.ts';
import { addModelRoutes } from './routes/models.ts';
import {
  type BodyFormat,
  checkContentType,
  type PredictQuery,
  type PredictServices,
  predict,
} from './routes/predict.ts';
import { addUploadPipelines, readUploadPipelines } from './routes/upload-pipelines.ts';
import { Admission } from './wire/admission.ts';
import { problemOf } from './wire/problem.ts';

declare module 'fastify' {
  interface FastifyRequest {
    apiKey: ApiKey | null;
  }
  interface FastifyContextConfig {
    /** Scope a key must have; absent: no key needed. */
    scope?: Scope;
  }
}

export interface ServerOptions {
  config: ServerConfig;
  host: ModelHost;
  keys: KeyRing;
  metrics: Metrics;
  /** Creates the HTTP(S) server that the handler runs in. */
  serverFactory?: FastifyServerOptions['serverFactory'];
  /** Refuses requests that did not come over TLS; absent: the listener sees to it. */
  assertSecure?: (request: FastifyRequest) => void;
}

export interface ServerState {
  /** false: /readyz says 503 and no new predict request is taken. */
  ready: boolean;
}

export interface SluiceServer {
  app: FastifyInstance;
  state: ServerState;
  /** Predict requests being answered or waiting. */
  busy(): number;
}

const PREFIX = '/api/v1/scoring/predict';
const FORMATS: BodyFormat[] = ['json', 'csv', 'ndjson'];
/** Bytes of a refused body that are read and thrown away, so that the client gets to see its answer. */
const LINGER_BYTES = 64 * 1024 * 1024;
const LINGER_MS = 10_000;

export async function buildServer(options: ServerOptions): Promise<SluiceServer> {
  const { config, host, keys, metrics } = options;
  const state: ServerState = { ready: false };
  const admission = new Admission(config.limits);
  const app: FastifyInstance = Fastify({
    logger: false,
    bodyLimit: Number.MAX_SAFE_INTEGER,
    requestTimeout: 0,
    keepAliveTimeout: config.timeouts.keep_alive_ms,
    routerOptions: { maxParamLength: 200 },
    genReqId: () => crypto.randomUUID(),
    ajv: { customOptions: { removeAdditional: false, coerceTypes: true, allErrors: true } },
    // The listener answers these: two handlers on one socket would cut each other off.
    clientErrorHandler: () => {},
    ...(options.serverFactory ? { serverFactory: options.serverFactory } : {}),
  }) as unknown as FastifyInstance;
  app.decorateRequest('apiKey', null);
  await app.register(multipart, { throwFileSizeLimit: false });
  app.removeContentTypeParser(['application/json', 'text/plain']);
  // Bodies are streams: nobody parses them before the operation that knows what they are.
  app.addContentTypeParser('*', (_request, _payload, done) => done(null));

  app.addHook('onRequest', async (request, reply) => {
    reply.header('x-request-id', request.id);
    reply.header('strict-transport-security', 'max-age=31536000');
    reply.header('x-content-type-options', 'nosniff');
    reply.header('cache-control', 'no-store');
    options.assertSecure?.(request);
    const { scope } = request.routeOptions.config;
    if (scope === undefined) return;
    request.apiKey = keys.find(request.headers.authorization);
    if (!request.apiKey) throw new SluiceError('unauthorized', 'no valid API key');
    if (!request.apiKey.scopes.includes(scope)) throw new SluiceError('forbidden', `the key lacks the scope ${scope}`);
  });
  app.addHook('onResponse', async (request, reply) => {
    const route = request.routeOptions.url ?? 'none';
    metrics.requests.observe({ route, status: String(reply.raw.statusCode) }, reply.elapsedTime / 1000);
  });
  app.setErrorHandler((error, request, reply) => sendProblem(error, request, reply));
  app.setNotFoundHandler((request, reply) => {
    sendProblem(new SluiceError('not_found', 'there is no such operation'), request, reply);
  });

  const methods = new Map<string, Set<string>>();
  app.addHook('onRoute', ({ url, method }) => {
    const known = methods.get(url) ?? new Set();
    for (const m of [method].flat()) known.add(m);
    methods.set(url, known);
  });
  const services: PredictServices = { config, host, admission, metrics, account: new RunAccount(metrics) };
  const pipelines = await readUploadPipelines(config.pipelines);
  const jobs = await JobManager.open(services, pipelines);
  app.addHook('onClose', () => jobs.close());
  for (const [prefix, scope] of predictPaths(config)) {
    for (const format of FORMATS) {
      app.post<{ Querystring: PredictQuery }>(
        `${prefix}.${format}`,
        { schema: { querystring: PREDICT_QUERY }, config: { scope } },
        async (request, reply) => {
          assertMayUse(request, request.query.modelId);
          if (!state.ready) throw new SluiceError('stopping', 'the server takes no new work');
          checkContentType(request, format);
          if (wantsJob(request) && !request.apiKey!.scopes.includes('jobs')) {
            throw new SluiceError('forbidden', 'the key lacks the scope jobs');
          }
          if (scope === 'interpret') {
            request.query.interpretation = true;
            assertExplainable(await host.registry.resolve(request.query.modelId));
          }
          if (wantsJob(request)) {
            const job = await jobs.create(request, { format, query: request.query, pipeline: null });
            reply.header('preference-applied', 'respond-async');
            return reply.code(201).header('location', jobUrl(job.id)).send(describeJob(job));
          }
          await predict(services, request, reply, format, request.apiKey!.name);
        },
      );
    }
  }
  addModelRoutes(app, host);
  addModelWrites(app, config, host.registry);
  addJobRoutes(app, jobs);
  addUploadPipelines(app, { services, jobs, pipelines, ready: () => state.ready });
  app.get('/livez', async () => ({ status: 'alive', version: VERSION }));
  app.get('/readyz', async (_request, reply) => {
    if (!state.ready) reply.code(503);
    return { status: state.ready ? 'ready' : 'not ready' };
  });
  app.get('/metrics', { config: { scope: 'metrics' } }, async (_request, reply) => {
    metrics.waiting.set(admission.waiting);
    reply.type(metrics.registry.contentType);
    return metrics.text();
  });
  app.get('/openapi.json', async () => openApi());
  app.get('/docs', async (_request, reply) => reply.type('text/html; charset=utf-8').send(docsPage()));
  refuseOtherMethods(app, methods);
  await app.ready();
  return { app, state, busy: () => admission.running + admission.waiting };
}

/** A known path with another method is 405 with what it allows, not 404. */
function refuseOtherMethods(app: FastifyInstance, methods: ReadonlyMap<string, ReadonlySet<string>>): void {
  for (const method of ['TRACE', 'QUERY']) app.addHttpMethod(method, { overrideExisting: true });
  const all = ['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS', 'TRACE', 'QUERY'];
  for (const [url, allowed] of [...methods]) {
    const allow = [...allowed].join(', ');
    app.route({
      url,
      method: all.filter((m) => !allowed.has(m)),
      handler: async (_request, reply) => {
        reply.header('allow', allow);
        throw new SluiceError('method_not_allowed', `the path takes ${allow}`);
      },
    });
  }
}

/** Path prefixes of the predict operations and the scope each needs. */
function predictPaths(config: ServerConfig): [string, Scope][] {
  return [
    [PREFIX, 'predict'],
    [`${PREFIX}/interpretation`, 'interpret'],
    ...config.interpretation_aliases.map((alias): [string, Scope] => [alias, 'interpret']),
  ];
}

function sendProblem(error: unknown, request: FastifyRequest, reply: FastifyReply): void {
  if (reply.raw.headersSent || reply.raw.destroyed) {
    reply.hijack();
    reply.raw.destroy();
    return;
  }
  const { status, headers, body } = problemOf(inOurWords(error), request.id);
  linger(request, reply);
  reply.code(status).headers(headers).send(body);
}

/** What fastify itself finds wrong, as an error of the catalogue. */
function inOurWords(error: unknown): unknown {
  if (error instanceof SluiceError) return error;
  const e = error as {
    validation?: { instancePath: string; message?: string; params?: object }[];
    statusCode?: number;
    code?: string;
  };
  if (e.validation) {
    const words = e.validation.map((v) => {
      const name = v.instancePath.slice(1) || Object.values(v.params ?? {})[0];
      return `${typeof name === 'string' ? name : 'query'}: ${v.message}`;
    });
    return new SluiceError('bad_request', words.join('; '));
  }
  if (e.statusCode !== undefined && e.statusCode >= 400 && e.statusCode < 500) {
    return new SluiceError('bad_request', 'the request is malformed', { cause: error });
  }
  return error;
}

/**
 * Reads on for a while after a refusal: a connection closed while the client still sends would take the answer with it.
 */
function linger(request: FastifyRequest, reply: FastifyReply): void {
  const { raw } = request;
  if (raw.complete || raw.destroyed) return;
  const { socket } = raw;
  const limit = socket.bytesRead + LINGER_BYTES;
  raw.resume();
  const timer = setTimeout(() => socket.destroy(), LINGER_MS);
  const onData = () => {
    if (socket.bytesRead > limit) socket.destroy();
  };
  raw.on('data', onData);
  raw.on('close', () => clearTimeout(timer));
  raw.on('end', () => clearTimeout(timer));
  raw.on('error', () => {});
  reply.raw.on('error', () => {});
}
