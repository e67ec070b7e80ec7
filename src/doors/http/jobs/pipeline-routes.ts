// Uploads to pipelines: POST /api/v1/pipelines/{name} creates a job whose predictions go to the sink of the pipeline.

import path from 'node:path';
import type { FastifyInstance, FastifyRequest } from 'fastify';
import { connectorOf } from '../../../connectors/connectors.ts';
import { SluiceError } from '../../../core/errors.ts';
import { named } from '../../../core/log.ts';
import { assertExplainable } from '../../../engine/stream-spec.ts';
import { parseReference } from '../../../model/registry/registry.ts';
import { readPipeline } from '../../../runs/read-pipeline.ts';
import { checkDelivery, interpretationOf } from '../../../runs/spec.ts';
import type { UploadSpec } from '../../../runs/upload-run.ts';
import { permits } from '../access/identity.ts';
import { LoginRefused } from '../access/permissions.ts';
import { FILE_PART, JOB_CREATED, problemResponse, REFUSALS, requestHeaders } from '../openapi/route-parts.ts';
import { type BodyFormat, checkContentType, type ServiceContext, wantsUpload } from '../wire/scoring-request.ts';
import type { JobManager } from './job-manager.ts';
import { ANY_FORMAT, describeJob, jobUrl } from './job-routes.ts';
import type { UploadPipeline } from './score-job.ts';
import { addUploadOptions, createUpload } from './upload-routes.ts';

const PIPELINES = '/api/v1/pipelines';

const PARAMS = {
  type: 'object',
  properties: { name: { type: 'string', description: 'name of the pipeline file without its extension' } },
};
const UPLOAD = {
  operationId: 'uploadToPipeline',
  summary:
    'Creates a job from an upload to a pipeline with source: { type: upload }; its sink receives the predictions',
  description: 'The body holds applications in the format of the pipeline.',
  tags: ['jobs'],
  params: PARAMS,
  headers: requestHeaders({ 'Idempotency-Key': 'a repeated request with the same key and body returns the same job' }),
  body: { content: { ...ANY_FORMAT, ...FILE_PART } },
  response: {
    201: JOB_CREATED,
    ...REFUSALS,
    404: problemResponse('No such pipeline or model'),
  },
};

/**
 * Reads the configured pipelines.
 * @throws SluiceError usage: a file is invalid, its source is not an upload, or two pipelines have the same name
 * @throws SluiceError kafka_config: exactly-once delivery without transactions
 */
export async function readUploadPipelines(files: readonly string[]): Promise<UploadPipeline[]> {
  const pipelines: UploadPipeline[] = [];
  for (const file of files) {
    const spec = await readPipeline(file);
    const name = path.basename(file).replace(/\.ya?ml$/i, '');
    if (connectorOf(spec.source).capabilities.reads !== 'requests') {
      throw new SluiceError('usage', `${file}: a pipeline of the service must have source: { type: upload }`);
    }
    if (!/^[\w.-]{1,100}$/.test(name))
      throw new SluiceError(
        'usage',
        `${file}: the file name is part of a URL: use 1 to 100 letters, digits, ".", "_" and "-"`,
      );
    if (pipelines.some((p) => p.name === name))
      throw new SluiceError('usage', `${file}: two pipelines have the name ${name}`);
    await checkDelivery(spec);
    pipelines.push({ name, spec: spec as UploadSpec });
  }
  return pipelines;
}

export function addUploadPipelines(
  app: FastifyInstance,
  {
    services,
    jobs,
    pipelines,
    ready,
  }: {
    services: ServiceContext;
    jobs: JobManager;
    pipelines: readonly UploadPipeline[];
    /** Whether the service accepts new work. */
    ready: () => boolean;
  },
): void {
  const url = `${PIPELINES}/:name`;
  const byName = new Map(pipelines.map((pipeline) => [pipeline.name, pipeline]));
  const requested = (request: PipelineRequest): UploadPipeline => pipelineFor(request, byName);
  app.post(url, { config: { scope: 'jobs', tus: true }, schema: UPLOAD }, async (request: PipelineRequest, reply) => {
    const { name, spec } = requested(request);
    if (!ready()) throw new SluiceError('stopping', 'the server accepts no new work');
    const format: BodyFormat = spec.source.format === 'tsv' ? 'csv' : spec.source.format;
    const inParts = wantsUpload(request);
    if (!inParts) checkContentType(request, format);
    if (spec.score.interpretation !== 'none') {
      assertExplainable(await services.host.meant(spec.model), interpretationOf(spec));
    }
    const wanted = { format, query: { modelId: spec.model }, pipeline: name };
    if (inParts) return createUpload(jobs, { request, reply, ready }, wanted);
    const job = await jobs.create(request, wanted);
    return reply.code(201).header('location', jobUrl(job.id)).send(describeJob(job));
  });
  const check = (request: FastifyRequest): unknown => requested(request as PipelineRequest);
  addUploadOptions(app, { url, mostBytes: services.config.limits.body_bytes, params: PARAMS, check });
}

type PipelineRequest = FastifyRequest<{ Params: { name: string } }>;

/**
 * The requested pipeline. If the caller may not use its model, the pipeline counts as missing, because all pipelines
 * share one route.
 * @throws SluiceError not_found: the pipeline does not exist, or the caller may not use its model
 */
function pipelineFor(request: PipelineRequest, pipelines: ReadonlyMap<string, UploadPipeline>): UploadPipeline {
  const pipeline = pipelines.get(request.params.name);
  const message = 'this key has no such pipeline';
  if (!pipeline) throw new SluiceError('not_found', message);
  request.story.pipeline = named(pipeline.name);
  const { model, score } = pipeline.spec;
  const identity = request.identity!;
  const scope = score.interpretation === 'none' ? 'predict' : 'interpret';
  if (permits(identity, scope, parseReference(model).id)) return pipeline;
  throw new LoginRefused('model', identity.label, message, { code: 'not_found', asked: model });
}
