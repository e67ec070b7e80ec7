// The OpenAPI 3.1 document, made of the schemas that the routes check with.
import { VERSION } from '../../../core/version.ts';
import { ALIAS, ALIASES, JOB, MODEL, MODELS, PREDICT_QUERY, PREDICTION, PREDICTIONS, PROBLEM } from './schemas.ts';

type Json = Record<string, unknown>;

const problem = (description: string, headers?: Json): Json => ({
  description,
  ...(headers ? { headers } : {}),
  content: { 'application/problem+json': { schema: { $ref: '#/components/schemas/Problem' } } },
});
const RETRY = { 'Retry-After': { schema: { type: 'integer' }, description: 'seconds after which trying again helps' } };
const REFUSALS = {
  400: problem('The request, its body or every application in it is wrong, or a limit was exceeded'),
  401: problem('No valid API key'),
  403: problem('The key does not permit this'),
  404: problem('No such model'),
  503: problem('Overloaded or stopping', RETRY),
};
const APPLICATION = { type: 'object', description: 'one application: every column of the model, null for missing' };

const parameters = [
  ...Object.entries(PREDICT_QUERY.properties).map(([name, schema]) => ({
    name,
    in: 'query',
    required: name === 'modelId',
    schema,
  })),
  {
    name: 'Prefer',
    in: 'header',
    required: false,
    schema: { type: 'string' },
    description: 'respond-async makes a job',
  },
  {
    name: 'Idempotency-Key',
    in: 'header',
    required: false,
    schema: { type: 'string' },
    description: 'with respond-async: the same key gives the same job again',
  },
];

function predictOperation(format: 'json' | 'csv' | 'ndjson', interpretation: boolean): Json {
  const text = { type: 'string' };
  const media = { json: 'application/json', csv: 'text/csv', ndjson: 'application/x-ndjson' }[format];
  const body = format === 'json' ? { oneOf: [{ type: 'array', items: APPLICATION }, APPLICATION] } : text;
  const answer = format === 'json' ? { $ref: '#/components/schemas/Predictions' } : text;
  return {
    operationId: `predict${interpretation ? 'Interpretation' : ''}${format[0]!.toUpperCase()}${format.slice(1)}`,
    summary: `Predictions ${interpretation ? 'with their interpretation ' : ''}for ${format.toUpperCase()} applications`,
    tags: ['scoring'],
    parameters,
    requestBody: {
      required: true,
      content: {
        [media]: { schema: body },
        'multipart/form-data': {
          schema: { type: 'object', required: ['file'], properties: { file: { type: 'string', format: 'binary' } } },
        },
      },
    },
    responses: {
      200: {
        description: 'One prediction or error an application, in order',
        content: { [media]: { schema: answer } },
      },
      ...REFUSALS,
    },
  };
}

const plain = (summary: string, schema: Json, open = false, extra: Json = {}): Json => ({
  summary,
  tags: ['operations'],
  ...(open ? { security: [] } : {}),
  responses: { 200: { description: summary, content: { 'application/json': { schema } } }, ...extra },
});

const RESULT = Object.fromEntries(
  ['application/json', 'text/csv', 'application/x-ndjson'].map((type) => [type, { schema: { type: 'string' } }]),
);

const jobOperation = (summary: string, responses: Json): Json => ({
  summary,
  tags: ['jobs'],
  parameters: [{ name: 'id', in: 'path', required: true, schema: { type: 'string' } }],
  responses: { ...responses, 401: REFUSALS[401], 403: REFUSALS[403], 404: problem('No such job of this key') },
});

const REF = { name: 'ref', in: 'path', required: true, schema: { type: 'string' } };
const ALIAS_NAME = { name: 'alias', in: 'path', required: true, schema: { type: 'string' } };

/** The document; `servers` is left to whoever serves it. */
export function openApi(): Json {
  const paths: Json = {};
  for (const interpretation of [false, true]) {
    for (const format of ['json', 'csv', 'ndjson'] as const) {
      const path = `/api/v1/scoring/predict${interpretation ? '/interpretation' : ''}.${format}`;
      paths[path] = { post: predictOperation(format, interpretation) };
    }
  }
  const { 400: bad, 401: unknown, 403: forbidden, 404: missing } = REFUSALS;
  return {
    openapi: '3.1.0',
    info: {
      title: 'Sluice',
      version: VERSION,
      description: 'Bulk credit scoring: applications in, a prediction for every one out, streamed both ways.',
      license: { name: 'Apache 2.0', identifier: 'Apache-2.0' },
    },
    security: [{ apiKey: [] }],
    paths: {
      ...paths,
      '/api/v1/models': {
        get: {
          ...plain('The models this key may use', { $ref: '#/components/schemas/Models' }, false, {
            401: unknown,
            403: forbidden,
          }),
          tags: ['models'],
        },
        post: {
          summary:
            'Registers a version: the files of a package, model.yaml and model.onnx among them (scope models:write)',
          tags: ['models'],
          requestBody: {
            required: true,
            content: {
              'multipart/form-data': {
                schema: { type: 'object', additionalProperties: { type: 'string', format: 'binary' } },
              },
            },
          },
          responses: {
            201: {
              description: 'Registered, after its self-test passed',
              content: { 'application/json': { schema: { $ref: '#/components/schemas/Model' } } },
            },
            400: bad,
            401: unknown,
            403: forbidden,
            409: problem('The version is there already; versions never change'),
            503: problem('The registry cannot be written'),
          },
        },
      },
      '/api/v1/models/{ref}/aliases': {
        get: {
          ...plain('Aliases of a model and who moved them when', { $ref: '#/components/schemas/Aliases' }, false, {
            400: bad,
            401: unknown,
            403: forbidden,
            404: missing,
          }),
          tags: ['models'],
          parameters: [REF],
        },
      },
      '/api/v1/models/{ref}/aliases/{alias}': {
        put: {
          ...plain(
            'Points an alias to a version (scope models:write)',
            { $ref: '#/components/schemas/AliasMove' },
            false,
            {
              400: bad,
              401: unknown,
              403: forbidden,
              404: missing,
              503: problem('The registry cannot be written'),
            },
          ),
          tags: ['models'],
          parameters: [REF, ALIAS_NAME],
          requestBody: {
            required: true,
            content: {
              'application/json': {
                schema: {
                  type: 'object',
                  required: ['version'],
                  properties: { version: { type: ['string', 'integer'] } },
                },
              },
            },
          },
        },
        delete: {
          ...plain('Removes an alias (scope models:write)', { $ref: '#/components/schemas/AliasMove' }, false, {
            400: bad,
            401: unknown,
            403: forbidden,
            404: missing,
            503: problem('The registry cannot be written'),
          }),
          tags: ['models'],
          parameters: [REF, ALIAS_NAME],
        },
      },
      '/api/v1/models/{ref}': {
        get: {
          ...plain(
            'One model: columns, versions, aliases, a sample application',
            { $ref: '#/components/schemas/Model' },
            false,
            {
              400: bad,
              401: unknown,
              403: forbidden,
              404: missing,
            },
          ),
          tags: ['models'],
          parameters: [REF],
        },
      },
      '/api/v1/scoring/jobs/{id}': {
        get: jobOperation('State, counts and progress of a job', {
          200: {
            description: 'The job',
            content: { 'application/json': { schema: { $ref: '#/components/schemas/Job' } } },
          },
        }),
        delete: jobOperation('Cancels a job; a finished one is removed with its result', {
          204: { description: 'Done' },
        }),
      },
      '/api/v1/scoring/jobs/{id}/result': {
        get: jobOperation('The result of a job, whole or a range of its bytes', {
          200: { description: 'The whole result', content: RESULT },
          206: { description: 'The range asked for', content: RESULT },
          409: problem('The job has no result yet, or failed'),
          416: { description: 'The range lies outside' },
        }),
      },
      '/livez': { get: plain('The process runs', { type: 'object' }, true) },
      '/readyz': {
        get: plain('New work is taken', { type: 'object' }, true, {
          503: { description: 'Starting or stopping', content: { 'application/json': { schema: { type: 'object' } } } },
        }),
      },
      '/metrics': {
        get: {
          summary: 'Prometheus metrics',
          tags: ['operations'],
          responses: {
            200: { description: 'Text exposition format', content: { 'text/plain': { schema: { type: 'string' } } } },
            401: unknown,
            403: forbidden,
          },
        },
      },
      '/openapi.json': { get: plain('This document', { type: 'object' }, true) },
      '/docs': {
        get: {
          summary: 'This document for people',
          tags: ['operations'],
          security: [],
          responses: { 200: { description: 'HTML', content: { 'text/html': { schema: { type: 'string' } } } } },
        },
      },
    },
    components: {
      securitySchemes: {
        apiKey: {
          type: 'apiKey',
          in: 'header',
          name: 'Authorization',
          description: '`API-Key <token>`, `Bearer <token>` or the bare token',
        },
      },
      schemas: {
        Problem: PROBLEM,
        Prediction: PREDICTION,
        Predictions: PREDICTIONS,
        Model: MODEL,
        Models: MODELS,
        Aliases: ALIASES,
        AliasMove: ALIAS,
        Job: JOB,
      },
    },
  };
}
