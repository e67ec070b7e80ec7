// How drift is asked for and answered, as JSON Schema.
import { DRIFT_WINDOWS } from '../../../drift/drift-monitor.ts';

export const DRIFT_QUERY = {
  type: 'object',
  additionalProperties: false,
  properties: {
    window: {
      type: 'string',
      enum: [...DRIFT_WINDOWS],
      default: 'hour',
      description: 'rows scored by this process within the last hour, the last day, or since it started',
    },
  },
} as const;

const SHARE = { type: 'number', minimum: 0, maximum: 1 } as const;

const SHARES = {
  type: 'object',
  description: 'shares of rows; bins by the number they have in the baseline',
  required: ['bins', 'missing', 'unseen'],
  properties: { bins: { type: 'array', items: SHARE }, missing: SHARE, unseen: SHARE },
} as const;

const DISTRIBUTION = {
  psi: { type: ['number', 'null'], description: 'population stability index against the training; null: too few rows' },
  now: { anyOf: [SHARES, { type: 'null' }] },
  training: SHARES,
  quantiles: {
    type: 'object',
    description: 'p01 to p99, within 3 %; of numbers and the score, of the last hour or since the start',
    additionalProperties: { type: 'number' },
  },
} as const;

export const DRIFT = {
  type: 'object',
  required: ['modelId', 'modelVersion', 'window', 'baseline'],
  properties: {
    modelId: { type: 'string' },
    modelVersion: { type: 'string' },
    window: DRIFT_QUERY.properties.window,
    baseline: { type: 'boolean', description: 'false: the package has none, and nothing is measured' },
    rows: { type: 'integer', description: 'rows scored that were counted' },
    enough: { type: 'boolean', description: 'false: fewer than 1,000 rows, and no PSI' },
    score: { anyOf: [{ type: 'object', properties: DISTRIBUTION }, { type: 'null' }] },
    columns: {
      type: 'array',
      items: {
        type: 'object',
        required: ['column'],
        properties: {
          column: { type: 'string' },
          ...DISTRIBUTION,
          outOfRange: {
            type: ['number', 'null'],
            description: 'share of rows outside the smallest and largest number of the training; null: not measured',
          },
        },
      },
    },
    decisions: {
      type: 'array',
      description: 'share of rows that got each decision of the package',
      items: {
        type: 'object',
        required: ['decision', 'share'],
        properties: { decision: { type: 'string' }, share: SHARE },
      },
    },
  },
} as const;
