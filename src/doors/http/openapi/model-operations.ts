// Operations on models: what there is, new versions, aliases.
import { DRIFT_QUERY } from './drift-schemas.ts';
import { type Json, jsonContent, pathParameter, problem, REFUSALS, schemaRef } from './operation-parts.ts';

const REF = pathParameter('ref');
const READ_ONLY = problem('The registry cannot be written');
const { 400: bad, 401: unknown, 403: forbidden, 404: missing } = REFUSALS;

const modelOperation = (summary: string, schema: string, refusals: Json, parameters?: Json[]): Json => ({
  summary,
  tags: ['models'],
  responses: {
    200: { description: summary, content: jsonContent(schemaRef(schema)) },
    401: unknown,
    403: forbidden,
    ...refusals,
  },
  ...(parameters ? { parameters } : {}),
});

/** Of the registration of a version. */
export const REGISTER_QUERY = {
  type: 'object',
  additionalProperties: false,
  properties: {
    modelId: {
      type: 'string',
      description: 'Id of the model that the package must be of; required for a key that is for some models only',
    },
  },
} as const;

const register: Json = {
  summary: 'Registers a version: the files of a package, model.yaml and model.onnx among them (scope models:write)',
  tags: ['models'],
  parameters: [{ name: 'modelId', in: 'query', schema: REGISTER_QUERY.properties.modelId }],
  requestBody: {
    required: true,
    content: {
      'multipart/form-data': {
        schema: { type: 'object', additionalProperties: { type: 'string', format: 'binary' } },
      },
    },
  },
  responses: {
    201: { description: 'Registered, after its self-test passed', content: jsonContent(schemaRef('Model')) },
    400: bad,
    401: unknown,
    403: forbidden,
    409: problem('The version is there already; versions never change'),
    503: READ_ONLY,
  },
};

const REASON = { type: 'string', description: 'Kept in the history, with the name of the API key' } as const;

/** Of the removal of an alias. */
export const REMOVAL_QUERY = {
  type: 'object',
  additionalProperties: false,
  properties: { reason: REASON },
} as const;

const ALIAS_BODY = {
  required: true,
  content: jsonContent({
    type: 'object',
    required: ['version'],
    properties: {
      version: { type: ['string', 'integer'] },
      reason: REASON,
    },
  }),
};

export function modelOperations(): Json {
  const found = { 400: bad, 404: missing };
  const moved = { ...found, 503: READ_ONLY };
  const alias = [REF, pathParameter('alias')];
  return {
    '/api/v1/models': { get: modelOperation('The models this key may use', 'Models', {}), post: register },
    '/api/v1/models/{ref}/aliases': {
      get: modelOperation('Aliases of a model and who moved them when', 'Aliases', found, [REF]),
    },
    '/api/v1/models/{ref}/aliases/{alias}': {
      put: {
        ...modelOperation('Points an alias to a version (scope models:write)', 'AliasMove', moved, alias),
        requestBody: ALIAS_BODY,
      },
      delete: modelOperation('Removes an alias (scope models:write)', 'AliasMove', moved, [
        ...alias,
        { name: 'reason', in: 'query', schema: REASON },
      ]),
    },
    '/api/v1/models/{ref}/drift': {
      get: modelOperation('How scores and columns are distributed against the training', 'Drift', found, [
        REF,
        { name: 'window', in: 'query', schema: DRIFT_QUERY.properties.window },
      ]),
    },
    '/api/v1/models/{ref}': {
      get: modelOperation('One model: columns, versions, aliases, a sample application', 'Model', found, [REF]),
    },
  };
}
