// HTTP routes of jobs: list, state, result (with byte ranges), and cancellation.

import { pipeline, Readable } from 'node:stream';
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import { SluiceError } from '../../../core/errors.ts';
import { named } from '../../../core/log.ts';
import { formatEntry } from '../../../formats/formats.ts';
import { emptyResponse, jsonResponse, problemResponse, REFUSALS, schemaRef } from '../openapi/route-parts.ts';
import { agreedCoding, compressor, varyWith } from '../wire/response-coding.ts';
import { CONTENT_TYPES } from '../wire/scoring-request.ts';
import type { ByteSpan } from './job-files.ts';
import type { JobManager } from './job-manager.ts';
import { JOB_STATES, type Job, type JobPage, type JobState } from './job-store.ts';

const JOBS = '/api/v1/scoring/jobs';

export const jobUrl = (id: string): string => `${JOBS}/${id}`;

/** Describes a job for its owner. */
export function describeJob(job: Job) {
  const [modelId, modelVersion] = job.query.modelId.split(':');
  const done = job.state === 'done';
  return {
    id: job.id,
    state: job.state,
    modelId,
    modelVersion,
    packageSha256: job.packageSha256,
    format: job.format,
    created: new Date(job.created).toISOString(),
    finished: job.finished === null ? null : new Date(job.finished).toISOString(),
    progress: done ? 1 : job.uploadBytes > 0 ? Math.min(1, job.bytesRead / job.uploadBytes) : 0,
    summary: { rows: job.rows, scored: job.scored, rejected: job.rejected },
    ...(job.pipeline === null ? {} : { pipeline: job.pipeline, target: job.target }),
    ...(done && job.pipeline === null ? { result: `${jobUrl(job.id)}/result`, resultBytes: job.resultBytes } : {}),
    ...(job.errorCode === null ? {} : { error: { code: job.errorCode, message: job.errorMessage } }),
  };
}

interface ListQuery {
  state?: JobState;
  limit?: number;
  after?: string;
}

const LIST_QUERY = {
  type: 'object',
  additionalProperties: false,
  properties: {
    state: { enum: [...JOB_STATES], description: 'only jobs in this state' },
    limit: { type: 'integer', minimum: 1, maximum: 1000, default: 100, description: 'at most this many jobs' },
    after: { type: 'string', description: 'value of `next` on the previous page' },
  },
} as const;

/** @throws SluiceError bad_request */
function pageOf({ state, limit, after }: ListQuery): JobPage {
  const [, created, id] = /^(\d{1,15})\.([0-9a-f-]{36})$/.exec(after ?? '') ?? [];
  if (after !== undefined && id === undefined)
    throw new SluiceError('bad_request', 'after must be the `next` of a page of jobs');
  return {
    state: state ?? null,
    limit: limit ?? 100,
    after: id === undefined ? null : { id, created: Number(created) },
  };
}

/** Content of an upload or a result. The format determines the media type. */
export const ANY_FORMAT = Object.fromEntries(
  (['json', 'csv', 'ndjson'] as const).map((name) => [formatEntry(name).mediaType, { schema: { type: 'string' } }]),
);

const describe = (summary: string, responses: object) => ({
  summary,
  tags: ['jobs'],
  response: { ...responses, 401: REFUSALS[401], 403: REFUSALS[403], 404: problemResponse('This key has no such job') },
});

const JOB_PAGE = {
  type: 'object',
  required: ['jobs'],
  properties: {
    jobs: { type: 'array', items: schemaRef('Job') },
    next: { type: 'string', description: 'value of `after` for the next page; absent on the last page' },
  },
};
const LIST = {
  summary: 'Jobs of this key, newest first',
  tags: ['jobs'],
  querystring: LIST_QUERY,
  response: { 200: jsonResponse('A page of jobs', JOB_PAGE), ...REFUSALS },
};
const SHOW = describe('State, counts and progress of a job', { 200: jsonResponse('The job', schemaRef('Job')) });
const CANCEL = describe('Cancels a job, or removes a finished job and its result', {
  204: emptyResponse('Cancelled or removed'),
});
const RESULT = describe('The result of a job, or a range of its bytes', {
  200: { description: 'The whole result', content: ANY_FORMAT },
  206: { description: 'The requested range', content: ANY_FORMAT },
  409: problemResponse('The job has no result yet, or failed'),
  416: emptyResponse('The range is outside the result'),
});

type JobRequest = FastifyRequest<{ Params: { id: string } }>;

/** `level`: compression level of results; 0 disables compression. */
export function addJobRoutes(app: FastifyInstance, jobs: JobManager, level: number): void {
  const config = { scope: 'jobs' as const };
  const of = async (request: JobRequest): Promise<Job> => {
    const job = await jobs.find(request.params.id, request.identity!);
    Object.assign(request.story, {
      job: named(job.id),
      model: named(job.query.modelId),
      packageSha256: job.packageSha256,
    });
    return job;
  };
  app.get<{ Querystring: ListQuery }>(JOBS, { schema: LIST, config }, async (request) => {
    const page = pageOf(request.query);
    const identity = request.identity!;
    const found = await jobs.list(identity, { ...page, limit: page.limit + 1 });
    const taken = found.slice(0, page.limit);
    const last = taken.at(-1);
    return {
      jobs: taken.filter((job) => jobs.isVisible(job, identity)).map(describeJob),
      ...(found.length > page.limit ? { next: `${last!.created}.${last!.id}` } : {}),
    };
  });
  app.get(`${JOBS}/:id`, { config, schema: SHOW }, async (request: JobRequest) => describeJob(await of(request)));
  app.delete(`${JOBS}/:id`, { config, schema: CANCEL }, async (request: JobRequest, reply) => {
    await jobs.cancel(await of(request));
    return reply.code(204).send();
  });
  app.get(`${JOBS}/:id/result`, { config, schema: RESULT }, async (request: JobRequest, reply) => {
    const job = await of(request);
    if (job.pipeline !== null) throw new SluiceError('not_found', `the predictions are in ${job.target}`);
    if (job.state !== 'done') throw new SluiceError('job_not_finished', `the job is ${job.state}`);
    if (job.packageSha256 !== null) reply.header('sluice-package-sha256', job.packageSha256);
    reply.type(CONTENT_TYPES[job.format]);
    return sendResult(request, reply, { ...job, level }, (span) => jobs.readResult(job, span));
  });
}

/**
 * Sends a result. Supports a single byte range (RFC 9110), which refers to the uncompressed result. A compressed result
 * has an ETag of its own, so that clients do not combine compressed and uncompressed bytes.
 */
async function sendResult(
  request: FastifyRequest,
  reply: FastifyReply,
  { id, resultBytes: size, level }: Job & { level: number },
  read: (span: ByteSpan | null) => Promise<Readable>,
) {
  const etag = `"${id}"`;
  reply.header('accept-ranges', 'bytes').header('etag', etag);
  if (level > 0) reply.header('vary', varyWith(reply.getHeader('vary')));
  const { range, 'if-range': ifRange } = request.headers;
  const asked = range === undefined || (ifRange !== undefined && ifRange !== etag) ? null : parseRange(range, size);
  if (asked === 'unsatisfiable') return reply.code(416).header('content-range', `bytes */${size}`).send();
  // The read is skipped, because object storage rejects ranges of an empty object.
  const bytes = size === 0 ? Readable.from([]) : await read(asked);
  if (!asked) {
    const agreed = agreedCoding(request.headers['accept-encoding'], level);
    if (!agreed || size < agreed.leastBytes)
      return reply.header('content-length', size).send(counted(request, bytes, size));
    reply.header('content-encoding', agreed.coding).header('etag', `"${id}-${agreed.coding}"`);
    // Nothing reads the body of the response to a HEAD request, so the body is not compressed.
    if (request.method === 'HEAD') return reply.send(bytes);
    // An error destroys both streams and the connection. Fastify logs the error.
    const compressed = pipeline(bytes, compressor(agreed), () => {});
    return reply.send(counted(request, compressed));
  }
  const { start, end } = asked;
  const length = end - start + 1;
  return reply
    .code(206)
    .header('content-range', `bytes ${start}-${end}/${size}`)
    .header('content-length', length)
    .send(counted(request, bytes, length));
}

/**
 * Counts the sent bytes for the records of the request. The stream ends with byte `length`: a client that closes the
 * connection after this byte, before the source has reported its end, would be recorded as cut off.
 */
function counted({ story }: FastifyRequest, bytes: Readable, length = Infinity): Readable {
  const chunks = async function* () {
    let left = length;
    for await (const chunk of bytes as AsyncIterable<Buffer>) {
      story.bytesOut += chunk.length;
      left -= chunk.length;
      yield chunk;
      if (left <= 0) return;
    }
  };
  return Readable.from(chunks(), { objectMode: false });
}

/** The single range of a Range header; null if the header must be ignored. */
export function parseRange(header: string, size: number): ByteSpan | 'unsatisfiable' | null {
  const m = /^bytes=(\d*)-(\d*)$/.exec(header.trim());
  if (!m || (m[1] === '' && m[2] === '')) return null;
  if (m[1] === '') {
    const n = Number(m[2]);
    return n === 0 || size === 0 ? 'unsatisfiable' : { start: Math.max(0, size - n), end: size - 1 };
  }
  const start = Number(m[1]);
  const end = m[2] === '' ? size - 1 : Math.min(Number(m[2]), size - 1);
  if (m[2] !== '' && Number(m[2]) < start) return null;
  return start >= size ? 'unsatisfiable' : { start, end };
}
