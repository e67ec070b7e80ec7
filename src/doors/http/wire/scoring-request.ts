// What all operations that score share, whether synchronous or as a job: query parameters, limits, admission.

import type { FastifyReply, FastifyRequest } from 'fastify';
import type { TSchema } from 'typebox';
import { SCORING } from '../../../config/options/scoring.ts';
import type { ServerConfig } from '../../../config/server-config.ts';
import { monotonicMs } from '../../../core/clock.ts';
import { SluiceError } from '../../../core/errors.ts';
import { passthroughNames } from '../../../core/input-declaration.ts';
import type { Log } from '../../../core/log.ts';
import type { Tracer } from '../../../core/tracing.ts';
import type { Tally } from '../../../engine/counts.ts';
import type { ModelHost } from '../../../engine/model-host.ts';
import type { InputFormat, StreamLimits } from '../../../engine/stream-spec.ts';
import { DELIMITERS, type DelimiterName } from '../../../formats/delimited/header.ts';
import { formatEntry } from '../../../formats/formats.ts';
import type { OutputFormat } from '../../../formats/write/formatter.ts';
import type { Metrics } from '../../../monitor/metrics.ts';
import type { RunAccount } from '../../../runs/account.ts';
import type { Scoring } from '../../../runs/spec.ts';
import type { Admission, Admitted } from './admission.ts';
import { type BodyOptions, openBody, type RequestBody } from './request-body.ts';

export type BodyFormat = 'json' | 'csv' | 'ndjson';
/** Arrow is possible only in responses to requests, because jobs store text. */
export type AnswerFormat = BodyFormat | 'arrow';
/** `table` is a Parquet or Arrow file. */
export type AcceptedBody = AnswerFormat | 'table';

export const CONTENT_TYPES: Record<AnswerFormat, string> = {
  json: `${formatEntry('json').mediaType}; charset=utf-8`,
  csv: `${formatEntry('csv').mediaType}; charset=utf-8; header=present`,
  ndjson: `${formatEntry('ndjson').mediaType}; charset=utf-8`,
  arrow: formatEntry('arrow').mediaType,
};

/** Media types that are compatible with the format in the path. */
const ACCEPTED: Record<AcceptedBody, RegExp> = {
  json: /^(application|text)\/([\w.-]+\+)?json$/,
  csv: /^(text\/(csv|tab-separated-values|plain)|application\/(csv|vnd\.ms-excel))$/,
  ndjson: /^application\/(x-)?(ndjson|jsonl|jsonlines)$|^text\/plain$/,
  arrow: /^application\/vnd\.apache\.arrow\.(stream|file)$/,
  table: /^application\/vnd\.apache\.(arrow\.(stream|file)|parquet)$/,
};
/** ASCII is accepted because it is a subset of UTF-8. */
const UTF8 = /^charset\s*=\s*"?(utf-?8|us-ascii)"?$/;
const NEUTRAL = /^(multipart\/form-data|application\/octet-stream)$/;

/** Adds the type of an enumeration, because client generators need it. */
const withType = (schema: TSchema) => ({ type: 'string', ...schema });

export const PREDICT_QUERY = {
  type: 'object',
  required: ['modelId'],
  additionalProperties: false,
  properties: {
    modelId: { ...SCORING.model(), maxLength: 200, examples: ['credit-default'] },
    delimiter: withType(SCORING.delimiter({ otherwise: 'tab' })),
    passthrough: { ...SCORING.passthrough_text(), maxLength: 4000 },
    on_invalid: withType(SCORING.on_invalid({ otherwise: 'report' })),
    interpret_below: SCORING.interpret_below(),
    top_effects: SCORING.top_effects(),
    interactions: SCORING.interactions(),
    max_evaluations: SCORING.max_evaluations(),
  },
} as const;

export interface PredictQuery {
  modelId: string;
  delimiter?: DelimiterName;
  passthrough?: string;
  on_invalid?: 'report' | 'fail';
  top_effects?: number;
  interpret_below?: number;
  interactions?: number;
  max_evaluations?: number;
  /** Set by the operation; callers cannot set it. */
  interpretation?: boolean;
}

/** What the operations of one service share. */
export interface ServiceContext {
  config: ServerConfig;
  host: ModelHost;
  admission: Admission;
  metrics: Metrics;
  /** Counts the rows of all requests and jobs of the service. */
  account: RunAccount;
  log: Log;
  tracer: Tracer | null;
}

/** How rows are read, scored and written. Requests and jobs use the same settings. */
interface RunSettings {
  input: InputFormat;
  output: { format: OutputFormat; delimiter: string };
  scoring: Scoring;
}

/** Returns null for predictions without an interpretation. */
export function requestedInterpretation(query: PredictQuery): Scoring['interpretation'] {
  if (!query.interpretation) return null;
  return {
    effects: true,
    reasons: true,
    top: query.top_effects ?? null,
    below: query.interpret_below ?? null,
    maxEvaluations: query.max_evaluations ?? null,
    ...(query.interactions === undefined ? {} : { interactions: query.interactions }),
  };
}

export function runSettings(format: BodyFormat, query: PredictQuery, { limits }: ServerConfig): RunSettings {
  const delimiter = DELIMITERS[query.delimiter ?? 'tab'];
  return {
    input: format === 'csv' ? { format: 'delimited', delimiter } : { format },
    output: { format, delimiter },
    scoring: {
      passthrough: passthroughNames(query.passthrough),
      interpretation: requestedInterpretation(query),
      limits: streamLimits(limits),
      failOnInvalid: query.on_invalid === 'fail',
    },
  };
}

/** Limits of the rows in a body. */
export const streamLimits = (limits: ServerConfig['limits']): StreamLimits => ({
  maxRecordBytes: limits.row_bytes,
  maxRows: limits.rows,
  maxColumns: limits.columns,
  maxDepth: limits.nesting_depth,
});

/** Size limits and timeouts of a body, and the function that counts its bytes. */
export function bodyOptions({ config, metrics }: ServiceContext, { story }: FastifyRequest): BodyOptions {
  return {
    maxBytes: config.limits.body_bytes,
    maxExpandedBytes: config.limits.expanded_bytes,
    idleMs: config.timeouts.body_idle_ms,
    minBytesPerSecond: config.timeouts.body_min_bytes_per_second,
    onBytes: (n) => {
      metrics.bytesIn.inc(n);
      story.bytesIn += n;
    },
  };
}

/** @throws SluiceError invalid_content: the Content-Type contradicts the suffix of the path */
export function checkContentType(request: FastifyRequest, format: AcceptedBody): void {
  const header = request.headers['content-type'];
  if (header === undefined) return;
  const [type = '', ...parameters] = header.split(';').map((part) => part.trim().toLowerCase());
  if (!NEUTRAL.test(type) && !ACCEPTED[format].test(type)) {
    throw new SluiceError(
      'invalid_content',
      `Content-Type does not match ${format === 'table' ? 'a table: send Parquet or Arrow' : `.${format}`}`,
    );
  }
  const charset = parameters.find((p) => /^charset\s*=/.test(p));
  if (charset === undefined || UTF8.test(charset)) return;
  throw new SluiceError('invalid_content', 'the charset of Content-Type must be utf-8');
}

/** Rejects applications that contain the outcome column. @throws SluiceError outcome_present */
export function refuseOutcome({ rejectedByCode, details }: Tally): void {
  if (!rejectedByCode.outcome_present) return;
  throw new SluiceError('outcome_present', 'the applications contain the outcome column; remove it', {
    details: details.filter((d) => d.code === 'outcome_present').slice(0, 1),
  });
}

/**
 * Rejects an empty NDJSON body, unless the request has `Content-Length: 0`. The response would be empty, too, and would
 * look like a transmission error.
 * @throws SluiceError empty_input
 */
export function refuseEmptyBody(
  { rows }: { rows: number },
  format: AnswerFormat,
  headers: FastifyRequest['headers'],
): void {
  if (rows > 0 || format !== 'ndjson' || headers['content-length'] === '0') return;
  throw new SluiceError('empty_input', 'the body contains no application; an empty body must have Content-Length: 0');
}

/** A request that was admitted and has a slot. */
export interface Turn {
  body: RequestBody;
  place: Admitted;
  /** Aborted when the client closes the connection. */
  signal: AbortSignal;
}

/**
 * Counts a request towards the limits of its key until `use` has ended. `signal` is aborted when the client closes the
 * connection.
 * @throws SluiceError limit_exceeded | overloaded, or an error of `use`
 */
export async function admit<T>(
  { admission }: ServiceContext,
  request: FastifyRequest,
  reply: FastifyReply,
  use: (place: Admitted, signal: AbortSignal) => Promise<T>,
): Promise<T> {
  const gone = new AbortController();
  const onClose = () => {
    if (!reply.raw.writableFinished) gone.abort(new SluiceError('client_gone', 'the client closed the connection'));
  };
  const place = admission.enter(request.identity!.name);
  reply.raw.on('close', onClose);
  try {
    return await use(place, gone.signal);
  } finally {
    reply.raw.off('close', onClose);
    place.leave();
  }
}

/**
 * Admits a request, opens its body, waits for a slot, and runs `use`.
 * @throws errors of `admit`, of the body and of `use`
 */
export const takeTurn = <T>(
  services: ServiceContext,
  request: FastifyRequest,
  reply: FastifyReply,
  options: BodyOptions,
  use: (turn: Turn) => Promise<T>,
): Promise<T> =>
  admit(services, request, reply, async (place, signal) => {
    const body = await openBody(request, { ...options, whileIdle: place.idle });
    const waitingSince = monotonicMs();
    await place.begin(signal);
    services.metrics.queueWait.observe((monotonicMs() - waitingSince) / 1000);
    return use({ body, place, signal });
  });

/** A job that a request asks for. */
export interface JobSpec {
  format: BodyFormat;
  query: PredictQuery;
  /** Name of the pipeline that scores the upload; null if the client fetches the result. */
  pipeline: string | null;
}

/**
 * Creates jobs from requests. The predict operations use only this interface, so that they do not depend on the
 * implementation of jobs.
 */
export interface JobIntake {
  /** Creates a job from the body of a request. @throws SluiceError */
  createJob(request: FastifyRequest, spec: JobSpec): Promise<{ url: string; description: object }>;
  /** Creates a resumable upload. The body arrives in parts and becomes a job. @throws SluiceError */
  createUpload(request: FastifyRequest, reply: FastifyReply, spec: JobSpec): Promise<FastifyReply>;
}

/** Whether the client prefers a job to a synchronous response (RFC 7240). */
export const wantsJob = (request: FastifyRequest): boolean =>
  [request.headers.prefer].flat().some((p) => p !== undefined && /(^|[,;\s])respond-async($|[,;\s])/i.test(p));

/** Whether the body will arrive later, in parts (tus). */
export const wantsUpload = (request: FastifyRequest): boolean => request.headers['tus-resumable'] !== undefined;
