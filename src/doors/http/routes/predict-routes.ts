// The predict operations: an answer, or a job for those who prefer one.
import type { FastifyInstance } from 'fastify';
import type { Scope } from '../../../config/scopes.ts';
import type { ServerConfig } from '../../../config/server-config.ts';
import { SluiceError } from '../../../core/errors.ts';
import { assertExplainable } from '../../../engine/score-chunks.ts';
import { assertMayUse, assertScope } from '../access/permissions.ts';
import type { JobManager } from '../jobs/job-manager.ts';
import { describeJob, jobUrl, wantsJob } from '../jobs/job-routes.ts';
import { PREDICT_QUERY } from '../openapi/schemas.ts';
import { type AnswerFormat, checkContentType, type PredictQuery, type PredictServices, predict } from './predict.ts';

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
  for (const [prefix, scope] of predictPaths(config)) {
    for (const format of FORMATS) {
      app.post<{ Querystring: PredictQuery }>(
        `${prefix}.${format}`,
        { schema: { querystring: PREDICT_QUERY }, config: { scope } },
        async (request, reply) => {
          assertMayUse(request, request.query.modelId);
          if (!ready()) throw new SluiceError('stopping', 'the server takes no new work');
          checkContentType(request, format);
          // A preference may be passed over (RFC 7240): a job stores text.
          const asJob = format !== 'arrow' && wantsJob(request);
          if (asJob) assertScope(request, 'jobs');
          if (scope === 'interpret') {
            request.query.interpretation = true;
            assertExplainable(await host.meant(request.query.modelId));
          }
          if (asJob) {
            const job = await jobs.create(request, { format, query: request.query, pipeline: null });
            reply.header('preference-applied', 'respond-async');
            return reply.code(201).header('location', jobUrl(job.id)).send(describeJob(job));
          }
          await predict(services, request, reply, format);
        },
      );
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
