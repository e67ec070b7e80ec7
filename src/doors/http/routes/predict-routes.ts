// HTTP routes of predictions: a body is scored and answered while it arrives, or it becomes a job.
import type { FastifyInstance, FastifyReply, FastifyRequest, FastifySchema } from 'fastify';
import type { Scope } from '../../../config/scopes.ts';
import type { ServerConfig } from '../../../config/server-config.ts';
import { SluiceError } from '../../../core/errors.ts';
import { assertExplainable } from '../../../engine/stream-spec.ts';
import { assertMayUse, assertScope } from '../access/permissions.ts';
import { FILE_PART, JOB_CREATED, REFUSALS, requestHeaders, schemaRef } from '../openapi/route-parts.ts';
import { tellModel } from '../wire/request-log.ts';
import {
  type AnswerFormat,
  type BodyFormat,
  bodyOptions,
  CONTENT_TYPES,
  checkContentType,
  type JobIntake,
  PREDICT_QUERY,
  type PredictQuery,
  requestedInterpretation,
  type ServiceContext,
  takeTurn,
  wantsJob,
  wantsUpload,
} from '../wire/scoring-request.ts';
import { answerBody } from './predict-answer.ts';

const PREFIX = '/api/v1/scoring/predict';
const FORMATS: AnswerFormat[] = ['json', 'csv', 'ndjson', 'arrow'];

const APPLICATION = {
  type: 'object',
  description: 'an application: every column of the model, null for a missing value',
};
const HEADERS = requestHeaders({
  Prefer: 'respond-async requests a job',
  'Idempotency-Key': 'with respond-async: a repeated request with the same key and body returns the same job',
  'Tus-Resumable': '1.0.0 starts a resumable upload: 201 with its Location; see docs/uploads.md',
  'Upload-Length': 'with Tus-Resumable: bytes of the complete upload',
  'Upload-Metadata': 'with Tus-Resumable: returned by HEAD',
  'Content-Digest': 'sha-256=:base64: of the body as sent; verified (RFC 9530)',
  'Accept-Encoding': 'zstd or gzip: the response is compressed if the service is configured to',
  'Want-Content-Digest': 'sha-256=1 requests the digest of the response',
});

function describePredict(format: AnswerFormat, scope: Scope) {
  const text = { type: 'string', ...(format === 'arrow' ? { format: 'binary' } : {}) };
  const body = format === 'json' ? { oneOf: [{ type: 'array', items: APPLICATION }, APPLICATION] } : text;
  const predictions = format === 'json' ? schemaRef('Predictions') : text;
  const [mediaType] = CONTENT_TYPES[format].split(';') as [string];
  return {
    summary: `Predictions ${scope === 'interpret' ? 'with their interpretation ' : ''}for ${format.toUpperCase()} applications`,
    tags: ['scoring'],
    querystring: PREDICT_QUERY,
    headers: HEADERS,
    body: { content: { [mediaType]: { schema: body }, ...FILE_PART } },
    response: {
      200: {
        description: 'A prediction or an error for each application, in order',
        content: { [mediaType]: { schema: predictions } },
      },
      ...(format === 'arrow' ? {} : { 201: JOB_CREATED }),
      ...REFUSALS,
    },
  };
}

const TABLE_MEDIA_TYPES = ['application/vnd.apache.parquet', 'application/vnd.apache.arrow.stream'];

/** The schema for a body whose columns have types. The suffix of the path names the format of the response. */
function describeTable(scope: Scope) {
  const schema = { type: 'string', format: 'binary' };
  const { body: _, summary: __, ...ndjson } = describePredict('ndjson', scope);
  return {
    ...ndjson,
    summary: `Predictions ${scope === 'interpret' ? 'with their interpretation ' : ''}for a Parquet or Arrow file, as NDJSON`,
    body: { content: { ...Object.fromEntries(TABLE_MEDIA_TYPES.map((type) => [type, { schema }])), ...FILE_PART } },
    response: { 200: ndjson.response[200], ...REFUSALS },
  };
}

/**
 * Removes `interactions` from the documented parameters of operations without interpretation. These operations reject
 * the parameter with a message that names the right path.
 */
function withoutInteractions({ schema, url }: { schema: FastifySchema; url: string }) {
  const { interactions: _, ...properties } = PREDICT_QUERY.properties;
  return { url, schema: { ...schema, querystring: { ...PREDICT_QUERY, properties } } };
}

interface PredictRoutes {
  services: ServiceContext;
  jobs: JobIntake;
  /** Whether new work is accepted. */
  ready: () => boolean;
}

/** Adds the predict routes. Returns the URLs that also accept resumable uploads. */
export function addPredictRoutes(app: FastifyInstance, { services, jobs, ready }: PredictRoutes): string[] {
  const { config, host } = services;
  const uploadUrls: string[] = [];
  for (const [prefix, scope] of predictPaths(config)) {
    const shown = scope === 'interpret' ? {} : { swaggerTransform: withoutInteractions };
    for (const format of FORMATS) {
      const url = `${prefix}.${format}`;
      const schema = { ...describePredict(format, scope), ...operationId(prefix, format) };
      app.post<{ Querystring: PredictQuery }>(
        url,
        { schema, config: { scope, tus: true, ...shown } },
        async (request, reply) => {
          assertMayUse(request, request.query.modelId);
          if (!ready()) throw new SluiceError('stopping', 'the server accepts no new work');
          const inParts = wantsUpload(request);
          if (!inParts) checkContentType(request, format);
          // For Arrow, the client's preference for a job is ignored, which RFC 7240 permits.
          const asJob = format !== 'arrow' && (inParts || wantsJob(request));
          if (inParts && !asJob) throw jobsTakeText();
          if (asJob) assertScope(request, 'jobs');
          await applyInterpretation(host, request, scope);
          const spec = { format: format as BodyFormat, query: request.query, pipeline: null };
          if (inParts) return jobs.createUpload(request, reply, spec);
          if (asJob) {
            const job = await jobs.createJob(request, spec);
            reply.header('preference-applied', 'respond-async');
            return reply.code(201).header('location', job.url).send(job.description);
          }
          await predict(services, request, reply, { format });
        },
      );
      // Only text formats can be stored as jobs.
      if (format !== 'arrow') uploadUrls.push(url);
    }
    const schema = { ...describeTable(scope), ...operationId(prefix, 'table') };
    app.post<{ Querystring: PredictQuery }>(
      `${prefix}/table.ndjson`,
      { schema, config: { scope, tus: true, ...shown } },
      async (request, reply) => {
        assertMayUse(request, request.query.modelId);
        if (!ready()) throw new SluiceError('stopping', 'the server accepts no new work');
        if (wantsUpload(request)) throw jobsTakeText();
        checkContentType(request, 'table');
        await applyInterpretation(host, request, scope);
        await predict(services, request, reply, { format: 'ndjson', fromTable: true });
      },
    );
  }
  return uploadUrls;
}

const jobsTakeText = (): SluiceError =>
  new SluiceError('bad_request', 'a resumable upload creates a job, and jobs accept text formats only');

/** @throws SluiceError bad_request | an error of `assertExplainable` */
async function applyInterpretation(
  host: ServiceContext['host'],
  { query }: { query: PredictQuery },
  scope: Scope,
): Promise<void> {
  if (scope === 'interpret') {
    query.interpretation = true;
    assertExplainable(await host.meant(query.modelId), requestedInterpretation(query));
  } else if (query.interactions !== undefined) {
    throw new SluiceError('bad_request', 'interactions require an interpretation: use predict/interpretation.json');
  }
}

/** The name of an operation in generated clients. Alias paths have no name. */
function operationId(prefix: string, format: AnswerFormat | 'table'): { operationId?: string } {
  const names: Record<string, string> = { [PREFIX]: 'predict', [`${PREFIX}/interpretation`]: 'predictInterpretation' };
  const name = names[prefix];
  return name === undefined ? {} : { operationId: `${name}${format[0]!.toUpperCase()}${format.slice(1)}` };
}

/** Path prefixes of the predict operations, with the scope that each prefix requires. */
function predictPaths(config: ServerConfig): [string, Scope][] {
  return [
    [PREFIX, 'predict'],
    [`${PREFIX}/interpretation`, 'interpret'],
    ...config.interpretation_aliases.map((alias): [string, Scope] => [alias, 'interpret']),
  ];
}

/**
 * Answers a predict request on the raw socket. Errors before the response head are thrown; later errors end the
 * connection.
 * @throws SluiceError
 */
async function predict(
  services: ServiceContext,
  request: FastifyRequest,
  reply: FastifyReply,
  body: { format: AnswerFormat; fromTable?: boolean },
): Promise<void> {
  const { host, metrics } = services;
  await takeTurn(services, request, reply, bodyOptions(services, request), async (turn) => {
    const hosted = await host.use((request.query as PredictQuery).modelId);
    tellModel(request, hosted.model);
    metrics.uploads.inc();
    try {
      await answerBody(services, { request, reply, ...body, hosted, ...turn });
    } finally {
      metrics.uploads.dec();
      hosted.release();
    }
  });
}
