// Parts of route schemas that several routes share. These parts only describe routes in the OpenAPI document; Fastify
// does not validate with them.
import type { COMPONENTS } from './schemas.ts';

type Json = Record<string, unknown>;

export const schemaRef = (name: keyof typeof COMPONENTS): Json => ({ $ref: `#/components/schemas/${name}` });

/** The content of a JSON body. */
export const jsonContent = (schema: Json): Json => ({ 'application/json': { schema } });

export const jsonResponse = (description: string, schema: Json = { type: 'object' }): Json => ({
  description,
  content: jsonContent(schema),
});

/** A response without a body. `headers`: schemas, by header name. */
export const emptyResponse = (description: string, headers?: Json): Json => ({
  type: 'null',
  description,
  ...(headers ? { headers } : {}),
});

export const problemResponse = (description: string, headers?: Json): Json => ({
  description,
  ...(headers ? { headers } : {}),
  content: { 'application/problem+json': { schema: schemaRef('Problem') } },
});

/** Error responses that most operations share, by status. */
export const REFUSALS = {
  400: problemResponse('The request, its body or every application in it is invalid, or a limit was exceeded'),
  401: problemResponse('No valid API key'),
  403: problemResponse('The key does not permit this operation'),
  404: problemResponse('No such model'),
  503: problemResponse('Overloaded or stopping', {
    'Retry-After': { type: 'integer', description: 'seconds to wait before a retry' },
  }),
};

export const UNREADY = { 503: jsonResponse('Starting or stopping') };

export const JOB_CREATED = {
  description: 'The job; its upload is stored',
  headers: { Location: { type: 'string', description: 'URL of the job' } },
  content: jsonContent(schemaRef('Job')),
};

/** A request body that is a form with one file. */
export const FILE_PART = {
  'multipart/form-data': {
    schema: { type: 'object', required: ['file'], properties: { file: { type: 'string', format: 'binary' } } },
  },
};

/** Headers of a request. `descriptions`: texts, by header name. */
export const requestHeaders = (descriptions: Record<string, string>, required: readonly string[] = []): Json => ({
  type: 'object',
  required,
  properties: Object.fromEntries(
    Object.entries(descriptions).map(([name, description]) => [name, { type: 'string', description }]),
  ),
});
