// Operations that answer with predictions.
import { FILE_PART, headerParameter, IDEMPOTENCY_KEY, type Json, REFUSALS, schemaRef } from './operation-parts.ts';
import { PREDICT_QUERY } from './schemas.ts';
import { UPLOAD_HEADERS, uploadQuestion } from './upload-operations.ts';

const APPLICATION = { type: 'object', description: 'one application: every column of the model, null for missing' };

const PARAMETERS = [
  ...Object.entries(PREDICT_QUERY.properties).map(([name, schema]) => ({
    name,
    in: 'query',
    required: name === 'modelId',
    schema,
  })),
  headerParameter('Prefer', 'respond-async makes a job'),
  headerParameter(IDEMPOTENCY_KEY, 'with respond-async: the same key with the same body gives the same job again'),
  ...UPLOAD_HEADERS,
  headerParameter('Content-Digest', 'sha-256=:base64: of the body as it is sent; checked (RFC 9530)'),
  headerParameter('Accept-Encoding', 'zstd or gzip: the answer is encoded, where the service is configured to'),
  headerParameter('Want-Content-Digest', 'sha-256=1 asks for the digest of the answer'),
];

const FORMATS = ['json', 'csv', 'ndjson', 'arrow'] as const;
const MEDIA: Record<(typeof FORMATS)[number], string> = {
  json: 'application/json',
  csv: 'text/csv',
  ndjson: 'application/x-ndjson',
  arrow: 'application/vnd.apache.arrow.stream',
};

export function scoringOperations(): Json {
  const paths: Json = {};
  for (const interpretation of [false, true]) {
    for (const format of FORMATS) {
      const path = `/api/v1/scoring/predict${interpretation ? '/interpretation' : ''}.${format}`;
      // An upload in parts becomes a job, and a job stores text.
      const inParts = format === 'arrow' ? {} : { options: uploadQuestion };
      paths[path] = { post: predictOperation(format, interpretation), ...inParts };
    }
  }
  return paths;
}

function predictOperation(format: (typeof FORMATS)[number], interpretation: boolean): Json {
  const text = { type: 'string', ...(format === 'arrow' ? { format: 'binary' } : {}) };
  const media = MEDIA[format];
  const body = format === 'json' ? { oneOf: [{ type: 'array', items: APPLICATION }, APPLICATION] } : text;
  const answer = format === 'json' ? schemaRef('Predictions') : text;
  return {
    operationId: `predict${interpretation ? 'Interpretation' : ''}${format[0]!.toUpperCase()}${format.slice(1)}`,
    summary: `Predictions ${interpretation ? 'with their interpretation ' : ''}for ${format.toUpperCase()} applications`,
    tags: ['scoring'],
    // Whoever asks for pairs of columns asks for an interpretation.
    parameters: PARAMETERS.filter(({ name }) => interpretation || name !== 'interactions'),
    requestBody: {
      required: true,
      content: {
        [media]: { schema: body },
        ...FILE_PART,
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
