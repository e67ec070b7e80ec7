// Writes one log line when a request ends, whether it was answered, rejected or cut off. Under load, only successful
// requests are sampled.
import { randomUUID } from 'node:crypto';
import type { IncomingMessage } from 'node:http';
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import type { ServerConfig } from '../../../config/server-config.ts';
import { monotonicMs } from '../../../core/clock.ts';
import { SluiceError } from '../../../core/errors.ts';
import {
  faultFields,
  fixedWord,
  idOf,
  type Log,
  type LogFields,
  type LogLevel,
  named,
  saysOf,
  type Word,
  words,
} from '../../../core/log.ts';
import {
  parseTraceparent,
  Sampler,
  type Span,
  type TraceParent,
  type Tracer,
  traceFields,
} from '../../../core/tracing.ts';
import { type LoginFault, LoginRefused } from '../access/permissions.ts';
import { protocolOf } from './streaming-support.ts';

/** Records the model of a request for its log line. */
export function tellModel({ story }: FastifyRequest, { ref, sha256 }: { ref: string; sha256: string }): void {
  story.model = named(ref);
  story.packageSha256 = sha256;
}

/** Fields of a request's log line, which are set while the request is processed. */
interface RequestStory {
  /** The trace of the request's span. Without tracing: the trace that the client named, or null if it named none. */
  trace: TraceParent | null;
  span: Span | null;
  model: Word | null;
  /** Hash of the package of `model`. */
  packageSha256: string | null;
  /** The effective method, if a header overrides the method in the request line. */
  method: Word | null;
  /** The alias, for requests about aliases. */
  alias: Word | null;
  pipeline: Word | null;
  job: Word | null;
  rows: number;
  scored: number;
  rejected: number;
  bytesIn: number;
  bytesOut: number;
  /** The error for which the request was rejected or cut off. */
  fault: unknown;
}

declare module 'fastify' {
  interface FastifyRequest {
    story: RequestStory;
  }
}

/** The request id from the client if it is safe to repeat; otherwise a new id. */
export const requestIdOf = ({ headers }: IncomingMessage): string =>
  idOf(headers['x-request-id'] as string | undefined) ?? randomUUID();

/** Label of rejections beyond the limit of invalid keys. These rejections are sampled on their own. */
const BEYOND_LIMIT = fixedWord('beyond the limit of invalid keys');

interface RequestLogOptions {
  log: Log;
  tracer: Tracer | null;
  sampling: ServerConfig['log'];
}

export class RequestLog {
  readonly #log: Log;
  readonly #tracer: Tracer | null;
  readonly #sampling: ServerConfig['log'];
  readonly #samplers = new Map<string, Sampler>();

  constructor({ log, tracer, sampling }: RequestLogOptions) {
    this.#log = log;
    this.#tracer = tracer;
    this.#sampling = sampling;
  }

  /**
   * Adds the hook that logs requests. The hook must be registered first, because every check that rejects a request
   * uses the request's story.
   */
  follow(app: FastifyInstance): void {
    app.decorateRequest('story', null as never);
    app.addHook('onRequest', (request, reply, done) => {
      this.begin(request, reply);
      done();
    });
  }

  /** Starts the story of a request, and logs the story when the connection has finished with the request. */
  begin(request: FastifyRequest, reply: FastifyReply): void {
    const came = parseTraceparent(request.headers.traceparent as string | undefined);
    const { url = 'none', config } = request.routeOptions;
    const quiet = config?.health === true || config?.scope === 'metrics';
    const span =
      this.#tracer === null || quiet
        ? null
        : this.#tracer.begin(words`${named(request.method)} ${named(url)}`, { kind: 'server', parent: came });
    request.story = {
      trace: span?.context ?? came,
      span,
      model: null,
      packageSha256: null,
      method: null,
      alias: null,
      pipeline: null,
      job: null,
      rows: 0,
      scored: 0,
      rejected: 0,
      bytesIn: 0,
      bytesOut: 0,
      fault: null,
    };
    const began = monotonicMs();
    // `close` is emitted exactly once, even if the connection was lost.
    reply.raw.once('close', () => this.#end(request, reply, { began, quiet }));
  }

  #end(request: FastifyRequest, { raw }: FastifyReply, { began, quiet }: { began: number; quiet: boolean }): void {
    const { story } = request;
    const cut = !raw.writableFinished;
    const fault = story.fault ?? (cut ? new SluiceError('client_gone', 'the client closed the connection') : null);
    const status = raw.headersSent ? raw.statusCode : 0;
    const level = levelOf(fault, status, quiet);
    const route = named(request.routeOptions.url ?? 'none');
    const many = (fault === null && status < 400 && !quiet) || (fault instanceof LoginRefused && fault.limited);
    const sampled = many ? this.#samplerOf(fault === null ? route : BEYOND_LIMIT).take() : 1;
    if (sampled === 0 && story.span === null) return;
    const ms = Math.round((monotonicMs() - began) * 10) / 10;
    const bytesOut = story.bytesOut || Number(raw.getHeader('content-length') ?? 0) || 0;
    const fields: LogFields = {
      request_id: named(request.id),
      ...traceFields(story.trace),
      protocol: fixedWord<ReturnType<typeof protocolOf>>(protocolOf(request.raw)),
      method: story.method ?? named(request.method),
      route,
      ...(status === 0 ? {} : { status }),
      ...(cut ? { cut } : {}),
      ms,
      key: request.identity ? named(request.identity.label) : null,
      model: story.model,
      ...(story.job === null ? {} : { job_id: story.job }),
      rows: story.rows,
      rejected: story.rejected,
      bytes_in: story.bytesIn,
      bytes_out: bytesOut,
      ...(sampled > 1 ? { sampled } : {}),
      ...(fault === null ? {} : faultFields(fault)),
      ...(fault instanceof LoginRefused ? { login: fixedWord<LoginFault>(fault.reason) } : {}),
    };
    story.span?.end(fields, level === 'error' ? fault : undefined);
    if (sampled === 0) return;
    const how = cut ? words`cut` : words`${status}`;
    const why = fault === null ? words`` : words`: ${saysOf(fault)}`;
    this.#log(level, 'request', words`${named(request.method)} ${route} ${how}, ${ms} ms${why}`, fields);
  }

  #samplerOf(route: Word): Sampler {
    const known = this.#samplers.get(route);
    if (known) return known;
    const sampler = new Sampler(this.#sampling.requests_per_second, this.#sampling.sample_one_in);
    this.#samplers.set(route, sampler);
    return sampler;
  }
}

/**
 * Log levels: `error` needs immediate attention, `warn` needs attention if it persists, `info` is only for the record.
 */
function levelOf(fault: unknown, status: number, quiet: boolean): LogLevel {
  if (fault === null) return status >= 500 ? 'error' : quiet ? 'debug' : 'info';
  if (!(fault instanceof SluiceError)) return 'error';
  switch (fault.entry.fault) {
    case 'bug':
    case 'dependency':
      return 'error';
    case 'overload':
      return 'warn';
    default:
      // Errors of the operator. Of these, only errors with a 5xx status need attention.
      return fault.entry.status >= 500 ? 'error' : 'info';
  }
}
