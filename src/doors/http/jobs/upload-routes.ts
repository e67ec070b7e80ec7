// HTTP routes of resumable uploads (tus 1.0). An upload is created by a POST to the URL that also accepts complete
// bodies, and continued at a URL of its own.
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import { SluiceError } from '../../../core/errors.ts';
import { named } from '../../../core/log.ts';
import { emptyResponse, problemResponse, REFUSALS, requestHeaders } from '../openapi/route-parts.ts';
import type { JobIntake, JobSpec } from '../wire/scoring-request.ts';
import type { JobManager } from './job-manager.ts';
import { describeJob, jobUrl } from './job-routes.ts';
import type { ResumableUploads } from './resumable-uploads.ts';
import { partHeadOf, TUS_VERSION, tusAbilities, uploadHeadOf } from './tus-headers.ts';
import type { Upload } from './upload-store.ts';

const UPLOADS = '/api/v1/scoring/uploads';

const text = (description: string) => ({ type: 'string', description });
const count = (description: string) => ({ type: 'integer', description });
const KEY_REFUSALS = { 401: REFUSALS[401], 403: REFUSALS[403] };

const ABILITIES = {
  summary: 'Capabilities of resumable uploads (tus)',
  tags: ['jobs'],
  response: {
    204: emptyResponse('The version of tus, its extensions and limits', {
      'Tus-Version': text('versions'),
      'Tus-Extension': text('extensions'),
      'Tus-Max-Size': count('largest upload in bytes'),
      'Tus-Checksum-Algorithm': text('algorithms of Upload-Checksum'),
    }),
    ...KEY_REFUSALS,
  },
};

const VERSION_HEADER = { 'Tus-Resumable': '1.0.0' };
const STATE_HEADERS = {
  'Upload-Offset': count('bytes stored so far'),
  'Upload-Expires': text('when the upload is removed unless a part arrives'),
  'Sluice-Job': text('URL of the job; absent until the upload is complete'),
};

const describe = (summary: string, responses: object) => ({
  summary,
  tags: ['jobs'],
  headers: requestHeaders(VERSION_HEADER, ['Tus-Resumable']),
  response: {
    ...responses,
    ...KEY_REFUSALS,
    404: problemResponse('This key has no such upload'),
    412: problemResponse('Unsupported version of tus'),
  },
});

const STATE = describe('State of an upload', {
  200: emptyResponse('State of the upload', {
    ...STATE_HEADERS,
    'Upload-Length': count('bytes of the complete upload'),
    'Upload-Metadata': text('as the client sent it'),
  }),
});
const REMOVE = describe('Removes an upload; for a complete upload, cancels or removes its job', {
  204: emptyResponse('Removed'),
});
const APPEND_HEADERS = {
  ...VERSION_HEADER,
  'Upload-Offset': 'offset of the part: the number of bytes stored so far',
  'Upload-Checksum': 'sha1, sha256 or sha512 and the checksum in base64; verified',
  'Content-Digest': 'sha-256=:base64: of the part; verified (RFC 9530)',
};
const APPEND = {
  ...describe('Appends a part to an upload; the last part creates the job', {
    204: emptyResponse('The part is stored', STATE_HEADERS),
    400: REFUSALS[400],
    409: problemResponse('Upload-Offset differs from the number of bytes stored'),
    413: problemResponse('The part exceeds Upload-Length'),
    415: problemResponse('Unsupported media type'),
    423: problemResponse('Another request is writing to the upload'),
    460: problemResponse('The checksum differs'),
    503: REFUSALS[503],
  }),
  headers: requestHeaders(APPEND_HEADERS, ['Tus-Resumable', 'Upload-Offset']),
  body: { content: { 'application/offset+octet-stream': { schema: { type: 'string', format: 'binary' } } } },
};
const OVERRIDE = 'X-HTTP-Method-Override';
const APPEND_BY_POST = {
  ...APPEND,
  summary: 'Appends a part, for clients that cannot send PATCH',
  headers: requestHeaders({ ...APPEND_HEADERS, [OVERRIDE]: 'PATCH' }, ['Tus-Resumable', 'Upload-Offset', OVERRIDE]),
};

interface Asking {
  request: FastifyRequest;
  reply: FastifyReply;
  /** Whether new work is accepted. */
  ready: () => boolean;
}

/** Creates an upload. The request may contain the first part. @throws SluiceError */
export async function createUpload(jobs: JobManager, asking: Asking, spec: JobSpec): Promise<FastifyReply> {
  const { request, reply } = asking;
  const { uploads } = jobs;
  assertVersion(request, reply);
  const head = uploadHeadOf(request.headers);
  const part = head.withPart ? partHeadOf(request.headers, 0) : null;
  let upload = await uploads.create(request, spec, head);
  tellStory(request, upload);
  if (part && upload.offset === 0 && head.length > 0) {
    try {
      upload = await uploads.append(upload.job.id, { ...asking, part });
    } catch (error) {
      // The client never gets the URL of the upload. Without an Idempotency-Key, the client could therefore not resume
      // the upload.
      if (upload.job.idempotencyKey === null) await uploads.remove(upload.job.id);
      throw error;
    }
  }
  tellUpload(reply, uploads, upload);
  return reply.code(201).header('location', `${UPLOADS}/${upload.job.id}`).send();
}

/** `ready`: whether the service accepts new work. */
export const jobIntake = (jobs: JobManager, ready: () => boolean): JobIntake => ({
  async createJob(request, spec) {
    const job = await jobs.create(request, spec);
    return { url: jobUrl(job.id), description: describeJob(job) };
  },
  createUpload: (request, reply, spec) => createUpload(jobs, { request, reply, ready }, spec),
});

/** Adds OPTIONS to a path that accepts uploads. `check` may reject a request first. */
export function addUploadOptions(
  app: FastifyInstance,
  {
    url,
    mostBytes,
    params,
    check = () => {},
  }: { url: string; mostBytes: number; params?: object; check?: (request: FastifyRequest) => unknown },
): void {
  const schema = params ? { ...ABILITIES, params } : ABILITIES;
  app.options(url, { config: { scope: 'jobs' }, schema }, async (request, reply) => {
    await check(request);
    return reply.code(204).headers(tusAbilities(mostBytes)).send();
  });
}

type UploadRequest = FastifyRequest<{ Params: { id: string } }>;

export function addUploadRoutes(
  app: FastifyInstance,
  { jobs, mostBytes, ready }: { jobs: JobManager; mostBytes: number; ready: () => boolean },
): void {
  const url = `${UPLOADS}/:id`;
  const config = { scope: 'jobs' as const, tus: true };
  const { uploads } = jobs;
  const asked = (request: UploadRequest, reply: FastifyReply) => {
    assertVersion(request, reply);
    return { id: request.params.id, identity: request.identity! };
  };
  const told = (request: UploadRequest, reply: FastifyReply, upload: Upload) => {
    tellStory(request, upload);
    tellUpload(reply, uploads, upload);
    return reply;
  };
  const tell = async (request: UploadRequest, reply: FastifyReply) => {
    const { id, identity } = asked(request, reply);
    const upload = await uploads.resume(id, identity);
    reply.header('upload-length', upload.job.uploadBytes);
    if (upload.metadata !== null) reply.header('upload-metadata', upload.metadata);
    return told(request, reply, upload).code(200).send();
  };
  const append = async (request: UploadRequest, reply: FastifyReply) => {
    const { id, identity } = asked(request, reply);
    if (!ready()) throw new SluiceError('stopping', 'the server accepts no new work');
    tellStory(request, await uploads.find(id, identity));
    const part = partHeadOf(request.headers);
    const upload = await uploads.append(id, { request, reply, part, ready });
    return told(request, reply, upload).code(204).send();
  };
  const remove = async (request: UploadRequest, reply: FastifyReply) => {
    const { id, identity } = asked(request, reply);
    tellStory(request, await uploads.find(id, identity));
    if (!(await uploads.remove(id))) await jobs.cancel(await jobs.find(id, identity));
    return reply.code(204).send();
  };
  // The methods that a POST can select by header, for clients behind a proxy or firewall that blocks other methods.
  const instead = new Map([['PATCH', append], ['DELETE', remove], ['HEAD', tell]]); // biome-ignore format: a table
  app.head(url, { config, schema: STATE }, tell);
  app.patch(url, { config, schema: APPEND }, append);
  app.delete(url, { config, schema: REMOVE }, remove);
  const overriding = { ...config, override: [...instead.keys()] };
  app.post(url, { config: overriding, schema: APPEND_BY_POST }, async (request: UploadRequest, reply) => {
    const work = instead.get(request.story.method ?? '');
    if (work) return work(request, reply);
    reply.header('allow', 'HEAD, PATCH, DELETE, OPTIONS');
    throw new SluiceError('method_not_allowed', 'send PATCH to resume an upload');
  });
  addUploadOptions(app, { url, mostBytes });
}

/** @throws SluiceError tus_version */
function assertVersion({ headers }: FastifyRequest, reply: FastifyReply): void {
  if (headers['tus-resumable'] === TUS_VERSION) return;
  reply.header('tus-version', TUS_VERSION).header('tus-resumable', TUS_VERSION);
  throw new SluiceError('tus_version', `Tus-Resumable must be ${TUS_VERSION}`);
}

function tellUpload(reply: FastifyReply, uploads: ResumableUploads, upload: Upload): void {
  reply.header('upload-offset', upload.offset);
  if (upload.queued) reply.header('sluice-job', jobUrl(upload.job.id));
  else reply.header('upload-expires', uploads.expiresAt(upload).toUTCString());
}

function tellStory({ story }: FastifyRequest, { job }: Upload): void {
  story.job = named(job.id);
  story.model = named(job.query.modelId);
}
