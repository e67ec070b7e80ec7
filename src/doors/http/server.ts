// The HTTP service: creates the Fastify instance with routes, request checks and error handling.
import type { IncomingMessage } from 'node:http';
import multipart from '@fastify/multipart';
import Fastify, {
  type FastifyInstance,
  type FastifyReply,
  type FastifyRequest,
  type FastifyServerOptions,
} from 'fastify';
import { inBackground } from '../../core/async.ts';
import { SluiceError } from '../../core/errors.ts';
import { type Log, SILENT } from '../../core/log.ts';
import type { Tracer } from '../../core/tracing.ts';
import type { ModelHost } from '../../engine/model-host.ts';
import type { Metrics } from '../../monitor/metrics.ts';
import { noteRefusedTarget } from './access/audit-trail.ts';
import { LoginRefused } from './access/permissions.ts';
import { checkEveryRequest, needsKey, type RequestChecks, refusalOf } from './every-request.ts';
import { addOperations, type ServerState } from './operations.ts';
import { Admission } from './wire/admission.ts';
import { RequestLog, requestIdOf } from './wire/request-log.ts';
import { type ProblemSent, refuseAddress, sendProblem } from './wire/send-problem.ts';

interface ServerOptions extends RequestChecks {
  host: ModelHost;
  /** Creates the HTTP or HTTPS server that calls the handler. */
  serverFactory?: FastifyServerOptions['serverFactory'];
  log?: Log;
  tracer?: Tracer | null;
}

export interface SluiceServer {
  app: FastifyInstance;
  state: ServerState;
  /** Number of unfinished predict requests. */
  busy(): number;
}

export async function buildServer(options: ServerOptions): Promise<SluiceServer> {
  const { config, host, metrics, log = SILENT, tracer = null } = options;
  const state: ServerState = { ready: false, kept: { ready: true } };
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

  await addOperations(app, { config, host, admission, metrics, log, tracer, audit: options.audit ?? null, state });
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
    // The listener handles client errors. With two handlers on one socket, each would cut off the response of the
    // other.
    clientErrorHandler: () => {},
    frameworkErrors: (error, request, reply) => {
      // Fastify runs no hooks for requests with an invalid URL, so such requests are authenticated here.
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
  // Bodies are not parsed here; each operation reads the stream according to the format of the body.
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
