// One log line for each request at its end: answered, refused or cut. Only successes are sampled under load.
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

/** Fields of a request's log line, filled in while it is answered. */
interface RequestStory {
  /** Its span; without tracing the one the client named; null where there is none. */
  trace: TraceParent | null;
  span: Span | null;
  model: Word | null;
  /** Of the package that `model` is. */
  packageSha256: string | null;
  /** The effective method, if headers override the request line. */
  method: Word | null;
  /** Of a request that asks for aliases. */
  alias: Word | null;
  pipeline: Word | null;
  job: Word | null;
  rows: number;
  scored: number;
  rejected: number;
  bytesIn: number;
  bytesOut: number;
  /** The error that refused or cut it. */
  fault: unknown;
}

declare module 'fastify' {
  interface FastifyRequest {
    story: RequestStory;
  }
}

/** The id a client gave its request, if it is fit to be repeated; else a new one. */
export const requestIdOf = ({ headers }: IncomingMessage): string =>
  idOf(headers['x-request-id'] as string | undefined) ?? randomUUID();

/** Those that are refused without being looked at have a sampler of their own. */
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

  /** Its hook comes first, so that whatever refuses a request finds its story. */
  follow(app: FastifyInstance): void {
    app.decorateRequest('story', null as never);
    app.addHook('onRequest', (request, reply, done) => {
      this.begin(request, reply);
      done();
    });
  }

  /** From here to the end of the connection's part in it. */
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
    // Emitted once, also where the connection was cut.
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

/** Levels: error for immediate attention, warn if it continues, info for the record. */
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
      // A fault of the operator that a request met.
      return fault.entry.status >= 500 ? 'error' : 'info';
  }
}
