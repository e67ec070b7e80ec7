// The OpenAPI 3.1 document, made of the schemas that the routes check with.
import { VERSION } from '../../../core/version.ts';
import { DRIFT } from './drift-schemas.ts';
import { inferenceOperations } from './inference-operations.ts';
import { jobOperations } from './job-operations.ts';
import { modelOperations } from './model-operations.ts';
import type { Json } from './operation-parts.ts';
import { ALIAS, ALIASES, JOB, MODEL, MODELS, PREDICTION, PREDICTIONS, PROBLEM } from './schemas.ts';
import { scoringOperations } from './scoring-operations.ts';
import { serviceOperations } from './service-operations.ts';

/** The document; `servers` is left to whoever serves it. */
export function openApi(): Json {
  return {
    openapi: '3.1.0',
    info: {
      title: 'Sluice',
      version: VERSION,
      description: 'Bulk credit scoring: applications in, a prediction for every one out, streamed both ways.',
      license: { name: 'Apache 2.0', identifier: 'Apache-2.0' },
    },
    security: [{ apiKey: [] }, { token: [] }, { certificate: [] }],
    paths: {
      ...scoringOperations(),
      ...modelOperations(),
      ...jobOperations(),
      ...inferenceOperations(),
      ...serviceOperations(),
    },
    components: {
      securitySchemes: {
        apiKey: {
          type: 'apiKey',
          in: 'header',
          name: 'Authorization',
          description: '`API-Key <token>`, `Bearer <token>` or the bare token',
        },
        certificate: { type: 'mutualTLS', description: 'of an authority that the service is configured for' },
        token: {
          type: 'http',
          scheme: 'bearer',
          bearerFormat: 'JWT',
          description: 'of an identity provider that the service is configured for',
        },
      },
      schemas: {
        Problem: PROBLEM,
        Prediction: PREDICTION,
        Predictions: PREDICTIONS,
        Model: MODEL,
        Models: MODELS,
        Drift: DRIFT,
        Aliases: ALIASES,
        AliasMove: ALIAS,
        Job: JOB,
      },
    },
  };
}
