// Pipelines as endpoints: an upload to POST /api/v1/pipelines/{name} becomes a job whose predictions go to the sink of the pipeline.
import path from 'node:path';
import type { FastifyInstance } from 'fastify';
import { readPipeline } from '../../../config/pipeline-config.ts';
import { SluiceError } from '../../../core/errors.ts';
import { assertExplainable } from '../../../engine/score-chunks.ts';
import { interpretationOf } from '../../../runs/spec.ts';
import type { UploadSpec } from '../../../runs/upload-run.ts';
import { assertMayUse, assertScope } from '../access/permissions.ts';
import type { JobManager } from '../jobs/job-manager.ts';
import { describeJob, jobUrl } from '../jobs/job-routes.ts';
import type { UploadPipeline } from '../jobs/score-job.ts';
import { addUploadQuestion, createUpload, wantsUpload } from '../jobs/upload-routes.ts';
import { type BodyFormat, checkContentType, type PredictServices } from './predict.ts';

const PIPELINES = '/api/v1/pipelines';

/** Reads the pipelines of the configuration. @throws SluiceError usage: faults, another source, a name twice */
export async function readUploadPipelines(files: readonly string[]): Promise<UploadPipeline[]> {
  const pipelines: UploadPipeline[] = [];
  for (const file of files) {
    const spec = await readPipeline(file);
    const name = path.basename(file).replace(/\.ya?ml$/i, '');
    if (spec.source.type !== 'upload') {
      throw new SluiceError('usage', `${file}: a pipeline that is served has source: { type: upload }`);
    }
    if (!/^[\w.-]{1,100}$/.test(name)) throw new SluiceError('usage', `${file}: its name is part of an address`);
    if (pipelines.some((p) => p.name === name)) throw new SluiceError('usage', `${file}: ${name} is there twice`);
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
    services: PredictServices;
    jobs: JobManager;
    pipelines: readonly UploadPipeline[];
    /** Whether new work is taken. */
    ready: () => boolean;
  },
): void {
  for (const { name, spec } of pipelines) {
    const interpretation = spec.score.interpretation !== 'none';
    app.post(
      `${PIPELINES}/${name}`,
      { config: { scope: interpretation ? 'interpret' : 'predict', tus: true } },
      async (request, reply) => {
        assertMayUse(request, spec.model);
        if (!ready()) throw new SluiceError('stopping', 'the server takes no new work');
        const format: BodyFormat = spec.source.format === 'tsv' ? 'csv' : spec.source.format;
        const inParts = wantsUpload(request);
        if (!inParts) checkContentType(request, format);
        assertScope(request, 'jobs');
        if (interpretation) assertExplainable(await services.host.meant(spec.model), interpretationOf(spec));
        const asked = { format, query: { modelId: spec.model }, pipeline: name };
        if (inParts) return createUpload(jobs, { request, reply, ready }, asked);
        const job = await jobs.create(request, asked);
        return reply.code(201).header('location', jobUrl(job.id)).send(describeJob(job));
      },
    );
    addUploadQuestion(app, { url: `${PIPELINES}/${name}`, mostBytes: services.config.limits.body_bytes });
  }
}
