// The predict operations: an answer, or a job for those who prefer one.
import type { FastifyInstance, FastifySchema } from 'fastify';
import type { Scope } from '../../../config/scopes.ts';
import type { ServerConfig } from '../../../config/server-config.ts';
import { SluiceError } from '../../../core/errors.ts';
import { assertExplainable } from '../../../engine/score-chunks.ts';
import { assertMayUse, assertScope } from '../access/permissions.ts';
import type { JobManager } from '../jobs/job-manager.ts';
import { describeJob, jobUrl, wantsJob } from '../jobs/job-routes.ts';
import { addUploadQuestion, createUpload, wantsUpload } from '../jobs/upload-routes.ts';
import { FILE_PART, REFUSALS, requestHeaders, schemaRef } from '../openapi/route-parts.ts';
import {
  type AnswerFormat,
  type BodyFormat,
  checkContentType,
  interpretationAsked,
  PREDICT_QUERY,
  type PredictQuery,
  type PredictServices,
  predict,
} from './predict.ts';

const PREFIX = '/api/v1/scoring/predict';
const FORMATS: AnswerFormat[] = ['json', 'csv', 'ndjson', 'arrow'];

const APPLICATION = { type: 'object', description: 'one application: every column of the model, null for missing' };
const MEDIA_TYPES: Record<AnswerFormat, string> = {
  json: 'application/json',
  csv: 'text/csv',
  ndjson: 'application/x-ndjson',
  arrow: 'application/vnd.apache.arrow.stream',
};
const HEADERS = requestHeaders({
  Prefer: 'respond-async makes a job',
  'Idempotency-Key': 'with respond-async: the same key with the same body gives the same job again',
  'Tus-Resumable': '1.0.0 makes an upload that comes in parts: 201 with its Location; see docs/uploads.md',
  'Upload-Length': 'with Tus-Resumable: bytes that it will have',
  'Upload-Metadata': 'with Tus-Resumable: given back by HEAD',
  'Content-Digest': 'sha-256=:base64: of the body as it is sent; checked (RFC 9530)',
  'Accept-Encoding': 'zstd or gzip: the answer is encoded, where the service is configured to',
  'Want-Content-Digest': 'sha-256=1 asks for the digest of the answer',
});

function describePredict(format: AnswerFormat, scope: Scope) {
  const text = { type: 'string', ...(format === 'arrow' ? { format: 'binary' } : {}) };
  const body = format === 'json' ? { oneOf: [{ type: 'array', items: APPLICATION }, APPLICATION] } : text;
  const predictions = format === 'json' ? schemaRef('Predictions') : text;
  const mediaType = MEDIA_TYPES[format];
  return {
    summary: `Predictions ${scope === 'interpret' ? 'with their interpretation ' : ''}for ${format.toUpperCase()} applications`,
    tags: ['scoring'],
    querystring: PREDICT_QUERY,
    headers: HEADERS,
    body: { content: { [mediaType]: { schema: body }, ...FILE_PART } },
    response: {
      200: {
        description: 'One prediction or error an application, in order',
        content: { [mediaType]: { schema: predictions } },
      },
      ...REFUSALS,
    },
  };
}

/** Operations without an interpretation check `interactions` only to say where it belongs. */
function withoutInteractions({ schema, url }: { schema: FastifySchema; url: string }) {
  const { interactions: _, ...properties } = PREDICT_QUERY.properties;
  return { url, schema: { ...schema, querystring: { ...PREDICT_QUERY, properties } } };
}

export interface PredictRoutes {
  services: PredictServices;
  jobs: JobManager;
  /** Whether new work is taken. */
  ready: () => boolean;
}

export function addPredictRoutes(app: FastifyInstance, { services, jobs, ready }: PredictRoutes): void {
  const { config, host } = services;
  const mostBytes = config.limits.body_bytes;
  for (const [prefix, scope] of predictPaths(config)) {
    for (const format of FORMATS) {
      const schema = { ...describePredict(format, scope), ...operationId(prefix, format) };
      const shown = scope === 'interpret' ? {} : { swaggerTransform: withoutInteractions };
      app.post<{ Querystring: PredictQuery }>(
        `${prefix}.${format}`,
        { schema, config: { scope, tus: true, ...shown } },
        async (request, reply) => {
          assertMayUse(request, request.query.modelId);
          if (!ready()) throw new SluiceError('stopping', 'the server takes no new work');
          const inParts = wantsUpload(request);
          if (!inParts) checkContentType(request, format);
          // A preference may be passed over (RFC 7240): a job stores text.
          const asJob = format !== 'arrow' && (inParts || wantsJob(request));
          if (inParts && !asJob)
            throw new SluiceError('bad_request', 'an upload in parts becomes a job, which takes text');
          if (asJob) assertScope(request, 'jobs');
          if (scope === 'interpret') {
            request.query.interpretation = true;
            assertExplainable(await host.meant(request.query.modelId), interpretationAsked(request.query));
          } else if (request.query.interactions !== undefined) {
            throw new SluiceError('bad_request', 'interactions: are of an interpretation, predict/interpretation.json');
          }
          const asked = { format: format as BodyFormat, query: request.query, pipeline: null };
          if (inParts) return createUpload(jobs, { request, reply, ready }, asked);
          if (asJob) {
            const job = await jobs.create(request, asked);
            reply.header('preference-applied', 'respond-async');
            return reply.code(201).header('location', jobUrl(job.id)).send(describeJob(job));
          }
          await predict(services, request, reply, format);
        },
      );
      if (format !== 'arrow') addUploadQuestion(app, { url: `${prefix}.${format}`, mostBytes });
    }
  }
}

/** The name of an operation in clients made from the document; an alias of a path has none. */
function operationId(prefix: string, format: AnswerFormat): { operationId?: string } {
  const names: Record<string, string> = { [PREFIX]: 'predict', [`${PREFIX}/interpretation`]: 'predictInterpretation' };
  const name = names[prefix];
  return name === undefined ? {} : { operationId: `${name}${format[0]!.toUpperCase()}${format.slice(1)}` };
}

/** Path prefixes of the predict operations and the scope each needs. */
function predictPaths(config: ServerConfig): [string, Scope][] {
  return [
    [PREFIX, 'predict'],
    [`${PREFIX}/interpretation`, 'interpret'],
    ...config.interpretation_aliases.map((alias): [string, Scope] => [alias, 'interpret']),
  ];
}
