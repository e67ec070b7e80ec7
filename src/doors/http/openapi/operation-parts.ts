// Pieces that the operations of the OpenAPI document have in common.

export type Json = Record<string, unknown>;

export const problem = (description: string, headers?: Json): Json => ({
  description,
  ...(headers ? { headers } : {}),
  content: { 'application/problem+json': { schema: schemaRef('Problem') } },
});

/** A schema of `components`. */
export const schemaRef = (name: string): Json => ({ $ref: `#/components/schemas/${name}` });

export const jsonContent = (schema: Json): Json => ({ 'application/json': { schema } });

const RETRY = { 'Retry-After': { schema: { type: 'integer' }, description: 'seconds after which trying again helps' } };

/** What the operations refuse alike, by status. */
export const REFUSALS = {
  400: problem('The request, its body or every application in it is wrong, or a limit was exceeded'),
  401: problem('No valid API key'),
  403: problem('The key does not permit this'),
  404: problem('No such model'),
  503: problem('Overloaded or stopping', RETRY),
};

/** A body of one file, beside the media type of its own. */
export const FILE_PART = {
  'multipart/form-data': {
    schema: { type: 'object', required: ['file'], properties: { file: { type: 'string', format: 'binary' } } },
  },
};

export const IDEMPOTENCY_KEY = 'Idempotency-Key';

export const headerParameter = (name: string, description: string): Json => ({
  name,
  in: 'header',
  required: false,
  schema: { type: 'string' },
  description,
});

export const pathParameter = (name: string): Json => ({ name, in: 'path', required: true, schema: { type: 'string' } });
