// Operations of the Open Inference Protocol.
import { headerParameter, type Json, jsonContent, pathParameter, problem, REFUSALS } from './operation-parts.ts';

const TENSOR = {
  type: 'object',
  required: ['name', 'shape', 'datatype'],
  properties: {
    name: { type: 'string' },
    shape: { type: 'array', items: { type: 'integer' }, description: '[rows], or [rows, 1] of an input' },
    datatype: { type: 'string', description: 'BOOL, INT8 to UINT64, FP16, FP32, FP64 or BYTES' },
    data: { type: 'array', items: {}, description: 'null: a missing value. Absent where the tensor comes as bytes' },
    parameters: {
      type: 'object',
      properties: { binary_data_size: { type: 'integer', minimum: 0, description: 'Its bytes behind the JSON' } },
    },
  },
};

const INFER_REQUEST = {
  type: 'object',
  required: ['inputs'],
  properties: {
    id: { type: 'string' },
    inputs: { type: 'array', minItems: 1, items: TENSOR, description: 'A column each' },
    outputs: {
      type: 'array',
      items: {
        type: 'object',
        required: ['name'],
        properties: {
          name: { type: 'string' },
          parameters: { type: 'object', properties: { binary_data: { type: 'boolean' } } },
        },
      },
    },
    parameters: { type: 'object', properties: { binary_data_output: { type: 'boolean' } } },
  },
};

const INFER_ANSWER = {
  type: 'object',
  required: ['model_name', 'model_version', 'outputs'],
  properties: {
    model_name: { type: 'string' },
    model_version: { type: 'string' },
    id: { type: 'string' },
    parameters: { type: 'object' },
    outputs: { type: 'array', items: TENSOR },
  },
};

const ANY_OBJECT = { type: 'object' };
const UNREADY = { 503: { description: 'Starting or stopping', content: jsonContent(ANY_OBJECT) } };

const operation = (summary: string, schema: Json, more: Json): Json => ({
  summary,
  tags: ['open inference protocol'],
  responses: { 200: { description: summary, content: jsonContent(schema) }, ...((more.responses as Json) ?? {}) },
  ...Object.fromEntries(Object.entries(more).filter(([key]) => key !== 'responses')),
});

const ofService = (summary: string, responses: Json = {}): Json => ({
  get: operation(summary, ANY_OBJECT, { security: [], responses }),
});

const REFUSED = { 401: REFUSALS[401], 403: REFUSALS[403], 404: REFUSALS[404] };

const JSON_LENGTH = 'Inference-Header-Content-Length';
/** The same with tensors as bytes behind the JSON. */
const BINARY = {
  'application/octet-stream': {
    schema: {
      type: 'string',
      format: 'binary',
      description: `JSON of ${JSON_LENGTH} bytes, and tensors as bytes behind it`,
    },
  },
};

function ofModel(path: string, parameters: Json[]): Json {
  const responses = { 400: problem('The tensors are no table of the columns, or an application is invalid'), ...REFUSED, 503: REFUSALS[503] }; // biome-ignore format: one line
  return {
    [path]: { get: operation('Inputs and outputs of a model', ANY_OBJECT, { parameters, responses: REFUSED }) },
    [`${path}/ready`]: {
      get: operation('A model answers', ANY_OBJECT, { parameters, responses: { ...REFUSED, ...UNREADY } }),
    },
    [`${path}/infer`]: {
      post: operation('Predictions for a table of tensors', INFER_ANSWER, {
        parameters: [
          ...parameters,
          headerParameter(JSON_LENGTH, 'Bytes of the JSON at the beginning of a body with tensors as bytes behind it'),
        ],
        requestBody: { required: true, content: { ...jsonContent(INFER_REQUEST), ...BINARY } },
        responses: {
          200: {
            description: 'Predictions for a table of tensors',
            headers: { [JSON_LENGTH]: { schema: { type: 'integer' }, description: 'where tensors come as bytes' } },
            content: { ...jsonContent(INFER_ANSWER), ...BINARY },
          },
          ...responses,
        },
      }),
    },
  };
}

export function inferenceOperations(): Json {
  const name = pathParameter('name');
  return {
    '/v2': ofService('The service'),
    '/v2/health/live': ofService('The process runs'),
    '/v2/health/ready': ofService('New work is taken', UNREADY),
    ...ofModel('/v2/models/{name}', [name]),
    ...ofModel('/v2/models/{name}/versions/{version}', [name, pathParameter('version')]),
  };
}
