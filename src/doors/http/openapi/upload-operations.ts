// Operations of resumable uploads (tus 1.0), and what they are made with at the operations that take bodies.
import { headerParameter, type Json, pathParameter, problem, REFUSALS } from './operation-parts.ts';

const VERSION = { ...headerParameter('Tus-Resumable', '1.0.0'), required: true };
const text = (description: string): Json => ({ schema: { type: 'string' }, description });
const count = (description: string): Json => ({ schema: { type: 'integer' }, description });
const OFFSET = { 'Upload-Offset': count('bytes that are there for good') };
const STATE = {
  ...OFFSET,
  'Upload-Expires': text('removed if nothing comes until then'),
  'Sluice-Job': text('address of the job that it became; absent: it is not whole'),
};
const CONTENT = { 'application/offset+octet-stream': { schema: { type: 'string', format: 'binary' } } };

/** What makes an upload of a request for a prediction. */
export const UPLOAD_HEADERS = [
  headerParameter(
    'Tus-Resumable',
    '1.0.0 makes an upload that comes in parts: 201 with its Location; see docs/uploads.md',
  ),
  headerParameter('Upload-Length', 'with Tus-Resumable: bytes that it will have'),
  headerParameter('Upload-Metadata', 'with Tus-Resumable: given back by HEAD'),
];

export const uploadQuestion: Json = {
  summary: 'What can be uploaded in parts (tus)',
  tags: ['jobs'],
  responses: {
    204: {
      description: 'The version of tus, its extensions and limits',
      headers: {
        'Tus-Version': text('versions'),
        'Tus-Extension': text('extensions'),
        'Tus-Max-Size': count('bytes of an upload'),
        'Tus-Checksum-Algorithm': text('algorithms of Upload-Checksum'),
      },
    },
    401: REFUSALS[401],
    403: REFUSALS[403],
  },
};

const operation = (summary: string, rest: Json, responses: Json): Json => ({
  summary,
  tags: ['jobs'],
  ...rest,
  responses: {
    ...responses,
    401: REFUSALS[401],
    403: REFUSALS[403],
    404: problem('No such upload of this key'),
    412: problem('Another version of tus'),
  },
});

const part: Json = {
  parameters: [
    pathParameter('id'),
    VERSION,
    {
      ...headerParameter('Upload-Offset', 'where the part begins: at the end of the bytes that are there'),
      required: true,
    },
    headerParameter('Upload-Checksum', 'sha1, sha256 or sha512 and its base64; checked'),
    headerParameter('Content-Digest', 'sha-256=:base64: of the part; checked (RFC 9530)'),
  ],
  requestBody: { required: true, content: CONTENT },
};
const PART_ANSWERS = {
  204: { description: 'It is there for good', headers: STATE },
  400: REFUSALS[400],
  409: problem('The bytes that are there end elsewhere'),
  413: problem('It goes beyond Upload-Length'),
  415: problem('Another media type'),
  423: problem('Another request writes to the upload'),
  460: problem('Another checksum'),
  503: REFUSALS[503],
};

export function uploadOperations(): Json {
  const plain = { parameters: [pathParameter('id'), VERSION] };
  return {
    '/api/v1/scoring/uploads/{id}': {
      head: operation('How much of an upload is there', plain, {
        200: {
          description: 'Its state',
          headers: { ...STATE, 'Upload-Length': count('bytes it will have'), 'Upload-Metadata': text('as it came') },
        },
      }),
      patch: operation('Appends a part to an upload; the last one makes its job', part, PART_ANSWERS),
      post: operation(
        'The same for clients that cannot PATCH',
        {
          ...part,
          parameters: [
            ...(part.parameters as Json[]),
            { ...headerParameter('X-HTTP-Method-Override', 'PATCH'), required: true },
          ],
        },
        PART_ANSWERS,
      ),
      delete: operation('Removes an upload; of one that is whole the job is cancelled or removed', plain, {
        204: { description: 'Done' },
      }),
      options: { ...uploadQuestion, parameters: [pathParameter('id')] },
    },
  };
}
