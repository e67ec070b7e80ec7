// Whose a job is, and whether its model may still be used: asked again by each request about it.
import { SluiceError } from '../../../core/errors.ts';
import { parseReference } from '../../../model/registry/registry.ts';
import { type Identity, permits } from '../access/identity.ts';
import { LoginRefused } from '../access/permissions.ts';
import type { Job } from './job-store.ts';
import type { UploadPipeline } from './score-job.ts';

type Owned = Pick<Job, 'id' | 'owner' | 'query' | 'pipeline'>;
type Pipelines = ReadonlyMap<string, Pick<UploadPipeline, 'spec'>>;

/** The scope with which the job was made. Of a pipeline that is not served any more that is not known: it takes the lesser one. */
function scopeOf({ query, pipeline }: Owned, pipelines: Pipelines): 'predict' | 'interpret' {
  if (pipeline === null) return query.interpretation === true ? 'interpret' : 'predict';
  return (pipelines.get(pipeline)?.spec.score.interpretation ?? 'none') === 'none' ? 'predict' : 'interpret';
}

/** Whether an identity may use the model of a job, as it had to when it made the job. */
export const mayStillUse = (identity: Identity, job: Owned, pipelines: Pipelines): boolean =>
  permits(identity, scopeOf(job, pipelines), parseReference(job.query.modelId).id);

/**
 * Gives the job that was found if it is the caller's. A job of others, and one whose model the caller may not use any more, is refused as one that
 * does not exist.
 * @throws SluiceError with this code
 */
export function assertOwn<T extends Owned>(
  job: T | null,
  identity: Identity,
  pipelines: Pipelines,
  code: 'job_not_found' | 'upload_not_found',
): T {
  const message = code === 'job_not_found' ? 'there is no such job' : 'there is no such upload';
  if (!job) throw new SluiceError(code, message);
  const reason = job.owner !== identity.name ? 'owner' : mayStillUse(identity, job, pipelines) ? null : 'model';
  if (reason === null) return job;
  throw new LoginRefused(reason, identity.label, message, { code, asked: job.query.modelId, job: job.id });
}
