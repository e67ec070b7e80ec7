// Operations that make jobs of uploads, and those on a job.
import { LIST_QUERY } from '../jobs/list-query.ts';
import {
  FILE_PART,
  headerParameter,
  IDEMPOTENCY_KEY,
  type Json,
  jsonContent,
  pathParameter,
  problem,
  REFUSALS,
  schemaRef,
} from './operation-parts.ts';
import { uploadOperations, uploadQuestion } from './upload-operations.ts';

/** Results and uploads have the media type of their format. */
const ANY_FORMAT = Object.fromEntries(
  ['application/json', 'text/csv', 'application/x-ndjson'].map((type) => [type, { schema: { type: 'string' } }]),
);
const JOB_CONTENT = jsonContent(schemaRef('Job'));
const JOB_PAGE = jsonContent({
  type: 'object',
  required: ['jobs'],
  properties: {
    jobs: { type: 'array', items: schemaRef('Job') },
    next: { type: 'string', description: '`after` of the next page; absent: there is none' },
  },
});

const jobOperation = (summary: string, responses: Json): Json => ({
  summary,
  tags: ['jobs'],
  parameters: [pathParameter('id')],
  responses: { ...responses, 401: REFUSALS[401], 403: REFUSALS[403], 404: problem('No such job of this key') },
});

const PIPELINE = { ...pathParameter('name'), description: 'name of the file of the pipeline, without its ending' };

const upload: Json = {
  operationId: 'uploadToPipeline',
  summary: 'Takes an upload for a pipeline with source: { type: upload }: a job, whose predictions go to its sink',
  tags: ['jobs'],
  parameters: [PIPELINE, headerParameter(IDEMPOTENCY_KEY, 'the same key with the same body gives the same job again')],
  requestBody: {
    required: true,
    description: 'applications in the format of the pipeline',
    content: { ...ANY_FORMAT, ...FILE_PART },
  },
  responses: {
    201: {
      description: 'The job, its upload on the disk',
      headers: { Location: { schema: { type: 'string' }, description: 'address of the job' } },
      content: JOB_CONTENT,
    },
    ...REFUSALS,
    404: problem('No such pipeline or model'),
  },
};

export function jobOperations(): Json {
  return {
    '/api/v1/pipelines/{name}': { post: upload, options: { ...uploadQuestion, parameters: [PIPELINE] } },
    ...uploadOperations(),
    '/api/v1/scoring/jobs': {
      get: {
        summary: 'The jobs of this key, the newest first',
        tags: ['jobs'],
        parameters: Object.entries(LIST_QUERY.properties).map(([name, { description, ...schema }]) => ({
          name,
          in: 'query',
          required: false,
          description,
          schema,
        })),
        responses: {
          200: { description: 'Some of them, and where the next ones are', content: JOB_PAGE },
          ...REFUSALS,
        },
      },
    },
    '/api/v1/scoring/jobs/{id}': {
      get: jobOperation('State, counts and progress of a job', {
        200: { description: 'The job', content: JOB_CONTENT },
      }),
      delete: jobOperation('Cancels a job; a finished one is removed with its result', {
        204: { description: 'Done' },
      }),
    },
    '/api/v1/scoring/jobs/{id}/result': {
      get: jobOperation('The result of a job, whole or a range of its bytes', {
        200: { description: 'The whole result', content: ANY_FORMAT },
        206: { description: 'The range asked for', content: ANY_FORMAT },
        409: problem('The job has no result yet, or failed'),
        416: { description: 'The range lies outside' },
      }),
    },
  };
}
