// What a request says of the job it makes, whether its body comes at once or in parts.
import type { FastifyRequest } from 'fastify';
import { SluiceError } from '../../../core/errors.ts';
import { traceparentOf } from '../../../core/tracing.ts';
import { uploadTarget } from '../../../runs/upload-run.ts';
import type { JobSpec } from '../wire/scoring-request.ts';
import type { Job, NewJob } from './job-store.ts';
import type { UploadPipeline } from './score-job.ts';

/** What tells a request from its repetition. */
export type Repeated = Pick<Job, 'owner' | 'idempotencyKey' | 'fingerprint'>;

/** null: it has none. @throws SluiceError bad_request */
export function idempotencyKeyOf(request: FastifyRequest): string | null {
  const key = (request.headers['idempotency-key'] as string | undefined) ?? null;
  if (key === null || /^[\x21-\x7e]{1,200}$/.test(key)) return key;
  throw new SluiceError('bad_request', 'an Idempotency-Key is 1 to 200 visible ASCII characters');
}

export const keyConflict = (): SluiceError =>
  new SluiceError('idempotency_conflict', 'the Idempotency-Key belongs to a request that asked for something else');

/** `modelId`: the version that was asked for; it is scored however long the job waits. */
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
