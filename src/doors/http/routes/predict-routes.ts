// The predict operations: an answer, or a job for those who prefer one.
import type { FastifyInstance } from 'fastify';
import type { Scope } from '../../../config/scopes.ts';
import type { ServerConfig } from '../../../config/server-config.ts';
import { SluiceError } from '../../../core/errors.ts';
import { assertExplainable } from '../../../engine/score-chunks.ts';
import { assertMayUse, assertScope } from '../access/permissions.ts';
import type { JobManager } from '../jobs/job-manager.ts';
import { describeJob, jobUrl, wantsJob } from '../jobs/job-routes.ts';
import { addUploadQuestion, createUpload, wantsUpload } from '../jobs/upload-routes.ts';
import { PREDICT_QUERY } from '../openapi/schemas.ts';
import {
  type AnswerFormat,
  type BodyFormat,
  checkContentType,
  interpretationAsked,
  type PredictQuery,
  type PredictServices,
  predict,
} from './predict.ts';

const PREFIX = '/api/v1/scoring/predict';
const FORMATS: AnswerFormat[] = ['json', 'csv', 'ndjson', 'arrow'];

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
      app.post<{ Querystring: PredictQuery }>(
        `${prefix}.${format}`,
        { schema: { querystring: PREDICT_QUERY }, config: { scope, tus: true } },
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

/** Path prefixes of the predict operations and the scope each needs. */
function predictPaths(config: ServerConfig): [string, Scope][] {
  return [
    [PREFIX, 'predict'],
    [`${PREFIX}/interpretation`, 'interpret'],
    ...config.interpretation_aliases.map((alias): [string, Scope] => [alias, 'interpret']),
  ];
}
