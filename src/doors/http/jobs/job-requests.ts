// Creates jobs from requests, and decides whether a caller may see a job.
import type { FastifyRequest } from 'fastify';
import { SluiceError } from '../../../core/errors.ts';
import { traceparentOf } from '../../../core/tracing.ts';
import { parseReference } from '../../../model/registry/registry.ts';
import { uploadTarget } from '../../../runs/upload-run.ts';
import { type Identity, permits } from '../access/identity.ts';
import { LoginRefused } from '../access/permissions.ts';
import type { JobSpec } from '../wire/scoring-request.ts';
import type { Job, NewJob } from './job-store.ts';
import type { UploadPipeline } from './score-job.ts';

/** The fields that must be equal if a request repeats an earlier one. */
export type Repeated = Pick<Job, 'owner' | 'idempotencyKey' | 'fingerprint'>;

/** Returns null if the request has no Idempotency-Key. @throws SluiceError bad_request */
export function idempotencyKeyOf(request: FastifyRequest): string | null {
  const key = (request.headers['idempotency-key'] as string | undefined) ?? null;
  if (key === null || /^[\x21-\x7e]{1,200}$/.test(key)) return key;
  throw new SluiceError('bad_request', 'an Idempotency-Key is 1 to 200 visible ASCII characters');
}

export const keyConflict = (): SluiceError =>
  new SluiceError(
    'idempotency_conflict',
    'the Idempotency-Key was used for a request with another format, query or pipeline',
  );

/** `modelId`: the resolved version. The job is scored with this version even if the alias moves in the meantime. */
export function newJob(
  request: FastifyRequest,
  { format, query, pipeline }: JobSpec,
  made: Repeated & Pick<Job, 'id' | 'bodySha256' | 'uploadBytes'>,
  { modelId, pipelines }: { modelId: string; pipelines: ReadonlyMap<string, UploadPipeline> },
): NewJob {
  const { id, owner, idempotencyKey, fingerprint, bodySha256, uploadBytes } = made;
  return {
    id,
    owner,
    idempotencyKey,
    format,
    query: { ...query, modelId },
    fingerprint,
    bodySha256,
    requestId: request.id,
    trace: request.story.trace === null ? null : traceparentOf(request.story.trace),
    pipeline,
    target: pipeline === null ? null : uploadTarget(pipelines.get(pipeline)!.spec, id),
    uploadBytes,
  };
}

type Owned = Pick<Job, 'id' | 'owner' | 'query' | 'pipeline'>;
type Pipelines = ReadonlyMap<string, Pick<UploadPipeline, 'spec'>>;

/**
 * The scope that was required to create the job. If its pipeline is no longer configured, `predict` is assumed, which
 * is the lesser scope.
 */
function scopeOf({ query, pipeline }: Owned, pipelines: Pipelines): 'predict' | 'interpret' {
  if (pipeline === null) return query.interpretation === true ? 'interpret' : 'predict';
  return (pipelines.get(pipeline)?.spec.score.interpretation ?? 'none') === 'none' ? 'predict' : 'interpret';
}

/** Whether an identity may still use the model of a job. Every request about a job checks this. */
export const mayStillUse = (identity: Identity, job: Owned, pipelines: Pipelines): boolean =>
  permits(identity, scopeOf(job, pipelines), parseReference(job.query.modelId).id);

/**
 * Returns the job if the caller owns it. A job of another caller counts as missing; so does a job of a model that the
 * caller may no longer use.
 * @throws SluiceError with the given code
 */
export function assertOwn<T extends Owned>(
  job: T | null,
  identity: Identity,
  pipelines: Pipelines,
  code: 'job_not_found' | 'upload_not_found',
): T {
  const message = code === 'job_not_found' ? 'this key has no such job' : 'this key has no such upload';
  if (!job) throw new SluiceError(code, message);
  const reason = job.owner !== identity.name ? 'owner' : mayStillUse(identity, job, pipelines) ? null : 'model';
  if (reason === null) return job;
  throw new LoginRefused(reason, identity.label, message, { code, asked: job.query.modelId, job: job.id });
}
