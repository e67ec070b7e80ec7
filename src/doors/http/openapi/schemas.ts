// JSON Schemas of request and response bodies: the `components` of the OpenAPI document.
import { DRIFT_WINDOWS } from '../../../drift/drift-monitor.ts';

const PROBLEM = {
  type: 'object',
  required: ['type', 'title', 'status', 'detail', 'code', 'requestId'],
  properties: {
    type: { type: 'string' },
    title: { type: 'string' },
    status: { type: 'integer' },
    detail: { type: 'string' },
    code: { type: 'string' },
    requestId: { type: 'string' },
    errors: {
      type: 'array',
      items: {
        type: 'object',
        required: ['code', 'message'],
        properties: {
          code: { type: 'string' },
          message: { type: 'string' },
          row: { type: 'integer' },
          column: { type: 'string' },
          suggestion: { type: 'string', description: 'for a missing column: a similar name in the input' },
        },
      },
    },
  },
} as const;

const EFFECTS = {
  type: 'array',
  description: 'largest first; base + effects = the prediction in this space',
  items: {
    type: 'object',
    required: ['column', 'value', 'effect'],
    properties: {
      column: { type: 'string' },
      value: { type: ['string', 'number', 'boolean', 'null'] },
      effect: { type: 'number' },
    },
  },
} as const;

const INTERACTIONS = {
  type: 'array',
  description:
    'only if requested: pairwise interactions, strongest first; the effects of both columns each include half of an interaction',
  items: {
    type: 'object',
    required: ['columns', 'effect'],
    properties: {
      columns: { type: 'array', items: { type: 'string' }, minItems: 2, maxItems: 2 },
      effect: { type: 'number' },
    },
  },
} as const;

const CLASS = { type: ['string', 'number', 'boolean'] } as const;

const INTERPRETATION = {
  type: 'object',
  description: 'interpretation operations only',
  properties: {
    space: { type: 'string', enum: ['log_odds', 'probability', 'value'] },
    method: {
      type: 'string',
      enum: ['tree_interventional', 'tree_path_dependent', 'linear', 'exact', 'sampling'],
    },
    class: CLASS,
    base: { type: 'number' },
    effects: EFFECTS,
    classes: {
      type: 'array',
      items: {
        type: 'object',
        properties: { class: CLASS, base: { type: 'number' }, effects: EFFECTS, interactions: INTERACTIONS },
      },
    },
    standard_error: { type: 'number', description: 'sampling only: largest standard error of an effect' },
    reasons: {
      type: 'array',
      items: {
        type: 'object',
        required: ['code', 'column', 'text'],
        properties: { code: { type: 'string' }, column: { type: 'string' }, text: { type: 'string' } },
      },
    },
    interactions: INTERACTIONS,
    error: {
      type: 'object',
      required: ['code', 'message'],
      properties: { code: { type: 'string' }, message: { type: 'string' } },
    },
  },
} as const;

/** A test checks that the keys are those of PREDICTION_FIELDS. */
export const PREDICTION = {
  type: 'object',
  required: ['row'],
  properties: {
    row: { type: 'integer', minimum: 1 },
    prediction: { type: ['boolean', 'string', 'number'] },
    probability: { type: 'number' },
    probabilities: { type: 'object', additionalProperties: { type: 'number' } },
    value: { type: 'number' },
    points: { type: 'integer' },
    decision: { type: 'string' },
    interpretation: INTERPRETATION,
    error: {
      type: 'object',
      required: ['code', 'message'],
      properties: { code: { type: 'string' }, column: { type: 'string' }, message: { type: 'string' } },
    },
  },
} as const;

const PREDICTIONS = {
  type: 'object',
  required: ['modelId', 'modelVersion', 'predictions', 'summary'],
  properties: {
    modelId: { type: 'string' },
    modelVersion: { type: 'string' },
    predictions: { type: 'array', items: PREDICTION },
    summary: {
      type: 'object',
      required: ['rows', 'scored', 'rejected'],
      properties: { rows: { type: 'integer' }, scored: { type: 'integer' }, rejected: { type: 'integer' } },
    },
  },
} as const;

const STATE = {
  type: 'string',
  enum: ['proposed', 'approved', 'champion', 'retired', 'removed'],
} as const;

const STATES = { type: 'object', additionalProperties: STATE, description: 'By version' } as const;

const MODEL = {
  type: 'object',
  required: ['id', 'version', 'state', 'task', 'columns', 'versions', 'aliases', 'sample'],
  properties: {
    id: { type: 'string' },
    version: { type: 'string' },
    state: STATE,
    task: { type: 'string' },
    sha256: { type: 'string', description: 'SHA-256 of the model file' },
    package_sha256: { type: 'string', description: 'SHA-256 over all files of the package' },
    description: { type: 'string' },
    classes: { type: 'array', items: { type: ['string', 'number', 'boolean'] } },
    positive_class: { type: ['string', 'number', 'boolean'] },
    columns: {
      type: 'array',
      items: {
        type: 'object',
        required: ['name', 'kind'],
        properties: {
          name: { type: 'string' },
          kind: { type: 'string' },
          values: { type: 'array', items: { type: 'string' } },
          required: { type: 'boolean' },
          accepts: {
            type: 'array',
            items: { type: 'string', enum: ['string', 'number', 'boolean'] },
            description: 'JSON types that represent every value without loss; other types are bad_type',
          },
        },
      },
    },
    versions: { type: 'array', items: { type: 'string' } },
    aliases: { type: 'object', additionalProperties: { type: 'string' } },
    states: STATES,
    sample: { type: 'object' },
  },
} as const;

const ALIAS_MOVE = {
  type: 'object',
  required: ['at', 'who', 'alias', 'from', 'to'],
  properties: {
    at: { type: 'string', format: 'date-time' },
    who: { type: 'string' },
    alias: { type: 'string' },
    from: { type: ['string', 'null'] },
    to: { type: ['string', 'null'] },
    why: { type: 'string', description: 'The reason, if one was given' },
    package_sha256: {
      type: ['string', 'null'],
      description: 'Package hash of the version that the alias now points to',
    },
    previous: { type: ['string', 'null'], description: 'Hash of the previous entry' },
  },
} as const;

const ALIASES = {
  type: 'object',
  required: ['aliases', 'history'],
  properties: {
    aliases: { type: 'object', additionalProperties: { type: 'string' } },
    history: { type: 'array', items: ALIAS_MOVE },
  },
} as const;

const MODELS = {
  type: 'object',
  required: ['models'],
  properties: {
    models: {
      type: 'array',
      items: {
        type: 'object',
        required: ['id', 'versions', 'aliases'],
        properties: {
          id: { type: 'string' },
          versions: { type: 'array', items: { type: 'string' } },
          aliases: { type: 'object', additionalProperties: { type: 'string' } },
          states: STATES,
        },
      },
    },
  },
} as const;

export const JOB = {
  type: 'object',
  required: [
    'id',
    'state',
    'modelId',
    'modelVersion',
    'packageSha256',
    'format',
    'created',
    'finished',
    'progress',
    'summary',
  ],
  properties: {
    id: { type: 'string' },
    state: { type: 'string', enum: ['queued', 'running', 'done', 'failed', 'cancelled'] },
    modelId: { type: 'string' },
    modelVersion: { type: 'string' },
    packageSha256: {
      type: ['string', 'null'],
      description: 'hash of the package that scored the job; null until it is done',
    },
    format: { type: 'string', enum: ['json', 'csv', 'ndjson'] },
    created: { type: 'string', format: 'date-time' },
    finished: { type: ['string', 'null'], format: 'date-time' },
    progress: { type: 'number', minimum: 0, maximum: 1 },
    summary: PREDICTIONS.properties.summary,
    pipeline: { type: 'string', description: 'name of the pipeline, for an upload to one' },
    target: { type: ['string', 'null'], description: 'sink of the predictions, for an upload to a pipeline' },
    result: { type: 'string' },
    resultBytes: { type: 'integer' },
    error: {
      type: 'object',
      required: ['code', 'message'],
      properties: { code: { type: 'string' }, message: { type: ['string', 'null'] } },
    },
  },
} as const;

export const DRIFT_WINDOW = {
  type: 'string',
  enum: [...DRIFT_WINDOWS],
  default: 'hour',
  description: 'rows that this process scored within the last hour, the last day, or since it started',
} as const;

const SHARE = { type: 'number', minimum: 0, maximum: 1 } as const;

const SHARES = {
  type: 'object',
  description: 'shares of rows; bins in the order of the baseline',
  required: ['bins', 'missing', 'unseen'],
  properties: { bins: { type: 'array', items: SHARE }, missing: SHARE, unseen: SHARE },
} as const;

const DISTRIBUTION = {
  psi: {
    type: ['number', 'null'],
    description: 'population stability index compared with the training data; null: too few rows',
  },
  now: { anyOf: [SHARES, { type: 'null' }] },
  training: SHARES,
  quantiles: {
    type: 'object',
    description: 'p01 to p99, within 3 %, of numbers and the score; last hour or since the start',
    additionalProperties: { type: 'number' },
  },
} as const;

const DRIFT = {
  type: 'object',
  required: ['modelId', 'modelVersion', 'window', 'baseline'],
  properties: {
    modelId: { type: 'string' },
    modelVersion: { type: 'string' },
    window: DRIFT_WINDOW,
    baseline: { type: 'boolean', description: 'false: the package has no baseline, and nothing is measured' },
    rows: { type: 'integer', description: 'scored rows that were counted' },
    enough: { type: 'boolean', description: 'false: fewer than 1,000 rows, so no PSI' },
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
            description: 'share of rows outside the range of the training data; null: not measured',
          },
        },
      },
    },
    decisions: {
      type: 'array',
      description: 'share of rows by decision of the package',
      items: {
        type: 'object',
        required: ['decision', 'share'],
        properties: { decision: { type: 'string' }, share: SHARE },
      },
    },
  },
} as const;

const COUNTS_BY_CODE = { type: 'object', additionalProperties: { type: 'integer' } } as const;

const RUN = {
  type: 'object',
  required: [
    'id',
    'name',
    'state',
    'began',
    'ended',
    'exitCode',
    'error',
    'model',
    'rows',
    'scored',
    'rejected',
    'outputs',
  ],
  properties: {
    id: { type: 'string' },
    name: { type: 'string', description: 'name of the pipeline; `score` for the command' },
    host: { type: 'string' },
    state: {
      type: 'string',
      enum: ['running', 'done', 'rejected_rows', 'failed', 'gate_stopped', 'killed'],
      description: 'killed: the run has not ended, and its process has not updated the record for three minutes',
    },
    began: { type: 'string', format: 'date-time' },
    heartbeatSeconds: { type: 'integer', description: 'interval in which a running process updates its record' },
    ended: { type: ['string', 'null'], format: 'date-time' },
    exitCode: { type: ['integer', 'null'] },
    error: {
      anyOf: [
        { type: 'object', properties: { code: { type: 'string' }, message: { type: 'string' } } },
        { type: 'null' },
      ],
    },
    model: {
      type: 'object',
      required: ['reference', 'id', 'version', 'packageSha256'],
      properties: {
        reference: { type: 'string', description: 'as configured' },
        id: { type: 'string' },
        version: { type: ['string', 'null'] },
        packageSha256: { type: ['string', 'null'] },
      },
    },
    input: { type: 'string' },
    output: { type: 'string' },
    rows: { type: 'integer' },
    scored: { type: 'integer' },
    rejected: { type: 'integer' },
    rejectedByCode: COUNTS_BY_CODE,
    gate: { type: ['object', 'null'], description: 'verdict of the gate, its limits, and its inputs' },
    drift: {
      type: ['object', 'null'],
      description: 'PSI of the score, and the columns that differ most from the training data',
    },
    report: { type: ['string', 'null'], description: 'path of the HTML report' },
    outputs: {
      type: 'array',
      items: {
        type: 'object',
        required: ['path', 'manifest'],
        properties: {
          path: { type: 'string' },
          manifest: {
            type: 'object',
            required: ['state', 'findings', 'checked'],
            properties: {
              state: {
                type: 'string',
                enum: ['verified', 'changed', 'replaced', 'missing', 'none', 'checking', 'not_checked'],
                description:
                  'replaced: a later run wrote to this path; missing: this server cannot read the file; none: without manifest',
              },
              findings: { type: 'array', items: { type: 'string' } },
              checked: { type: ['string', 'null'], format: 'date-time' },
            },
          },
        },
      },
    },
    rejectLists: { type: 'array', items: { type: 'string' } },
  },
} as const;

const AGE = {
  lag: { type: ['integer', 'null'], description: 'applications that wait; null: the source is not a topic' },
  oldestSeconds: { type: ['number', 'null'], description: 'age of the oldest application that waits' },
} as const;

const PIPELINE_STATE = {
  type: 'string',
  enum: ['unreachable', 'model_unavailable', 'paused', 'not_ready', 'running', 'accepts_uploads'],
} as const;

const PIPELINE = {
  type: 'object',
  required: ['name', 'model', 'kind', 'state', 'members', 'lag', 'oldestSeconds'],
  properties: {
    name: { type: 'string' },
    model: { type: 'string', description: 'reference of the model' },
    kind: { type: 'string', enum: ['topic', 'files', 'upload'] },
    source: { type: 'string' },
    sink: { type: 'string' },
    state: { ...PIPELINE_STATE, description: 'the worst state of its members' },
    members: {
      type: 'array',
      items: {
        type: 'object',
        required: ['address', 'state', 'started', 'lag', 'oldestSeconds'],
        properties: {
          address: { type: 'string' },
          state: { ...PIPELINE_STATE, description: 'unreachable: the other values are the last known ones' },
          started: { type: 'string', format: 'date-time' },
          ...AGE,
        },
      },
    },
    ...AGE,
    rows: {
      type: 'integer',
      description: 'rows read since the members started; the other counts refer to the same time',
    },
    scored: { type: 'integer' },
    rejected: { type: 'integer' },
    rejectedByCode: COUNTS_BY_CODE,
    deadLetters: { ...COUNTS_BY_CODE, description: 'records in the dead-letter topic by error code' },
  },
} as const;

const CALLER = {
  type: 'object',
  required: ['name', 'kind', 'scopes', 'models', 'limits'],
  properties: {
    name: { type: 'string' },
    kind: { type: 'string', enum: ['key', 'oidc', 'certificate'] },
    scopes: { type: 'array', items: { type: 'string' } },
    models: {
      type: 'object',
      description: 'ids of the permitted models by scope; null: all models',
      additionalProperties: { type: ['array', 'null'], items: { type: 'string' } },
    },
    limits: {
      type: 'object',
      additionalProperties: { type: 'integer' },
      description: 'limits of the requests of this key',
    },
    links: { type: 'object', properties: { grafana: { type: 'string' } } },
  },
} as const;

export const COMPONENTS = {
  Problem: PROBLEM,
  Prediction: PREDICTION,
  Predictions: PREDICTIONS,
  Model: MODEL,
  Models: MODELS,
  Drift: DRIFT,
  Aliases: ALIASES,
  AliasMove: ALIAS_MOVE,
  Job: JOB,
  Run: RUN,
  Pipeline: PIPELINE,
  Caller: CALLER,
};
