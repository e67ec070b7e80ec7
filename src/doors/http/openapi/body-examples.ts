// Example bodies and parameters in the OpenAPI document. The requests are for the bundled model; the responses come
// from a real service.
import { VERSION } from '../../../core/version.ts';
import type { OpenApiDocument, Operation } from './document-types.ts';
import type { COMPONENTS } from './schemas.ts';

/** An application for the bundled model. `GET /api/v1/models/{ref}` lists the columns of a model. */
const APPLICATION = {
  ...{ amount: 17800, source_type: 'ONLINE', remittance_type: 'CARD', term: 36, income: 23625.68 },
  ...{ occupation_type: 'EMPLOYEE', pension_contributions: true, criminal_record: false, marital_status: 'WIDOWED' },
  ...{ add_info_fraud: false, add_info_inadequate: false, add_info_poor_appearance: false, credit_product_id: '0230' },
  ...{ verificator_id: '002', partner_id: 'P0001', add_income_pension: true, add_info_call_before_visit: false },
  ...{ had_arrears: false, had_credits_before: true, has_active_credit: true, monthly_payment: 901.99 },
  ...{ pt_income: 1725.5, banned: false },
} as const;

const DIGEST = '2836b988bb6cd85cb288ad6103db8439fb8bc7b632bc33090b3f3344eb7a1c85';
const ID = '8f14e45f-ceea-467f-9a36-dedd4bea2543';

const PREDICTED = { row: 1, prediction: true, probability: 0.9801286, points: 652, decision: 'approve' };
/** Base value and effects, as returned with `top_effects=2`. */
const BASE = 2.282061582393476;
const EFFECTS = [
  { column: 'monthly_payment', value: 901.99, effect: 0.9109594668970156 },
  { column: 'partner_id', value: 'P0001', effect: -0.2846488788252034 },
];
const REASONS = [
  { code: 'R15', column: 'credit_product_id', text: 'The credit product requested' },
  { code: 'R13', column: 'has_active_credit', text: 'Credits still being repaid' },
];
const EXPLAINED = {
  ...PREDICTED,
  interpretation: { space: 'log_odds', method: 'tree_interventional', base: BASE, effects: EFFECTS, reasons: REASONS },
};
const answer = (prediction: object) => ({
  ...{ modelId: 'credit-default', modelVersion: '1', predictions: [prediction] },
  summary: { rows: 1, scored: 1, rejected: 0 },
});

const MODEL = {
  ...{ id: 'credit-default', version: '1', state: 'champion', task: 'binary' },
  ...{ sha256: 'f05a7027a9d0afc18c6ca614bf167f8cb2f2e5d7b4c3f7cbe28bb9b646246e2b', package_sha256: DIGEST },
  ...{ classes: [0, 1], positive_class: 1 },
  columns: [
    { name: 'amount', kind: 'number', required: false, accepts: ['string', 'number'] },
    { name: 'remittance_type', kind: 'category', values: ['ACCOUNT', 'CARD', 'CASH', 'WALLET'], required: false, accepts: ['string'] }, // biome-ignore format: one line
  ],
  ...{ versions: ['1'], aliases: { champion: '1' }, states: { 1: 'champion' } },
  sample: { amount: 17800, remittance_type: 'CARD' },
};
const MODELS = {
  models: [{ id: 'credit-default', versions: ['1'], aliases: { champion: '1' }, states: { 1: 'champion' } }],
};

const shares = (bins: number[]) => ({ bins, missing: 0, unseen: 0 });
const DISTRIBUTION = {
  ...{ psi: 0.031, now: shares([0.24, 0.26, 0.5]), training: shares([0.3, 0.3, 0.4]) },
  quantiles: { p01: 1200, p50: 17905.37, p99: 48211.5 },
};
const DRIFT = {
  ...{ modelId: 'credit-default', modelVersion: '1', window: 'hour', baseline: true, rows: 12480, enough: true },
  score: { ...DISTRIBUTION, quantiles: { p01: 0.41, p50: 0.93, p99: 0.99 } },
  columns: [{ column: 'amount', ...DISTRIBUTION, outOfRange: 0 }],
  decisions: [
    { decision: 'approve', share: 0.81 },
    { decision: 'decline', share: 0.19 },
  ],
};

const MOVE = {
  ...{ at: '2026-11-26T09:12:40.310Z', who: 'anna.berg', alias: 'champion', from: null, to: '1' },
  ...{ why: 'approved by the committee', package_sha256: DIGEST, previous: null },
};
const ALIASES = { aliases: { champion: '1' }, history: [MOVE] };

const JOB = {
  ...{ id: ID, state: 'done', modelId: 'credit-default', modelVersion: '1', packageSha256: DIGEST, format: 'csv' },
  ...{ created: '2026-11-26T10:59:35.137Z', finished: '2026-11-26T10:59:41.902Z', progress: 1 },
  summary: { rows: 48210, scored: 48198, rejected: 12 },
  ...{ result: `/api/v1/scoring/jobs/${ID}/result`, resultBytes: 4190233 },
};
const NEW_JOB = {
  ...{ id: ID, state: 'queued', modelId: 'credit-default', modelVersion: '1', packageSha256: null, format: 'csv' },
  ...{ created: '2026-11-26T10:59:35.137Z', finished: null, progress: 0 },
  summary: { rows: 0, scored: 0, rejected: 0 },
};

const OUTPUT = { path: '/data/scored.csv', manifest: { state: 'verified', findings: [], checked: '2026-11-26T02:05:00.000Z' } }; // biome-ignore format: one line
const RUN = {
  ...{ id: '20261126T020000Z-4f1c', name: 'nightly', host: 'scoring-1', state: 'rejected_rows' },
  ...{ began: '2026-11-26T02:00:00.000Z', ended: '2026-11-26T02:04:11.520Z', exitCode: 3, error: null },
  model: { reference: 'credit-default@champion', id: 'credit-default', version: '1', packageSha256: DIGEST },
  ...{ input: '/data/portfolio.csv', output: '/data/scored.csv', rows: 48210, scored: 48198, rejected: 12 },
  ...{ rejectedByCode: { bad_number: 12 }, gate: null, drift: null, report: '/data/report.html' },
  ...{ outputs: [OUTPUT], rejectLists: ['/data/scored.csv.rejects.csv'] },
};

const WAITING = { lag: 3120, oldestSeconds: 12.6 };
const STARTED = '2026-11-25T21:00:00.000Z';
const PIPELINE = {
  ...{ name: 'loan-applications', model: 'credit-default@champion', kind: 'topic', source: 'topic loans' },
  ...{ sink: 'topic predictions', state: 'running', ...WAITING, rows: 48210, scored: 48198, rejected: 12 },
  members: [{ address: 'http://scoring-1:9464', state: 'running', started: STARTED, ...WAITING }],
  ...{ rejectedByCode: { bad_number: 12 }, deadLetters: { bad_number: 12 } },
};

const CALLER = {
  ...{ name: 'portfolio-team', kind: 'key', scopes: ['predict', 'models:read'] },
  models: { predict: ['credit-default'], 'models:read': ['credit-default'] },
  limits: { body_bytes: 68719476736, rows: 1000000000, requests_per_second: 100 },
};

const PROBLEM = {
  ...{ type: 'urn:sluice:error:nothing_scored', title: 'No application of the input could be scored.', status: 400 },
  detail: 'no application could be scored: missing_column 1. Check the errors that the summary lists.',
  ...{ code: 'nothing_scored', requestId: ID },
  errors: [{ code: 'missing_column', message: 'the column is missing', row: 1, column: 'source_type' }],
};

const datatypeOf = (value: unknown) =>
  typeof value === 'string' ? 'BYTES' : typeof value === 'boolean' ? 'BOOL' : 'FP64';
const INFERENCE = {
  id: 'request-1',
  inputs: Object.entries(APPLICATION).map(([name, value]) => ({ name, shape: [1], datatype: datatypeOf(value), data: [value] })), // biome-ignore format: one line
};
const INFERRED = {
  ...{ model_name: 'credit-default', model_version: '1', id: 'request-1', parameters: { package_sha256: DIGEST } },
  outputs: [
    { name: 'prediction', shape: [1], datatype: 'BOOL', data: [true] },
    { name: 'probability', shape: [1], datatype: 'FP64', data: [0.9801286] },
    { name: 'points', shape: [1], datatype: 'INT64', data: [652] },
    { name: 'decision', shape: [1], datatype: 'BYTES', data: ['approve'] },
  ],
};
const V2_MODEL = {
  ...{ name: 'credit-default', versions: ['1'], platform: 'onnx' },
  inputs: [{ name: 'amount', datatype: 'FP64', shape: [-1] }],
  outputs: [{ name: 'probability', datatype: 'FP64', shape: [-1] }],
};

/** Responses by the name of their schema. */
const BY_SCHEMA: Partial<Record<keyof typeof COMPONENTS, unknown>> = {
  ...{ Predictions: answer(PREDICTED), Model: MODEL, Models: MODELS, Drift: DRIFT, Aliases: ALIASES, AliasMove: MOVE },
  ...{ Job: JOB, Run: RUN, Caller: CALLER, Problem: PROBLEM },
};

/** Responses whose schema has no name. */
const BY_PATH: Readonly<Record<string, unknown>> = {
  '/api/v1/scoring/jobs': { jobs: [JOB] },
  '/api/v1/runs': { recorded: true, runs: [RUN] },
  '/api/v1/pipelines': { pipelines: [PIPELINE], unreachable: [] },
  '/livez': { status: 'alive', version: VERSION },
  '/readyz': { status: 'ready' },
  '/openapi.json': { openapi: '3.1.0', info: { title: 'Sluice', version: VERSION } },
  '/v2': { name: 'sluice', version: VERSION, extensions: ['binary_tensor_data'] },
  '/v2/health/live': { live: true },
  '/v2/health/ready': { ready: true },
  '/v2/models/{name}': V2_MODEL,
  '/v2/models/{name}/ready': { name: 'credit-default', ready: true },
  '/v2/models/{name}/infer': INFERRED,
};

const lines = (...rows: unknown[][]): string => rows.map((row) => `${row.join('\t')}\n`).join('');

const TEXT_REQUESTS: Readonly<Record<string, string>> = {
  'text/csv': lines(Object.keys(APPLICATION), Object.values(APPLICATION)),
  'application/x-ndjson': `${JSON.stringify(APPLICATION)}\n`,
};
const CSV_HEADER = ['row', 'prediction', 'probability', 'points', 'decision', 'error_code', 'error_column', 'error_message']; // biome-ignore format: one line
const CSV_ROW = [...Object.values(PREDICTED), '', '', ''];
const COLUMNS = Object.keys(APPLICATION);
const effectOf = (column: string): unknown => EFFECTS.find((one) => one.column === column)?.effect ?? '';

const TEXT_RESPONSES: Readonly<Record<string, string>> = {
  'text/csv': lines(CSV_HEADER, CSV_ROW),
  'application/x-ndjson': `${JSON.stringify(PREDICTED)}\n`,
  'text/plain': '# HELP sluice_ready Whether the service accepts new work\n# TYPE sluice_ready gauge\nsluice_ready 1\n',
  'text/markdown': '# Report card of credit-default:1\n\n- self-test: 200 rows agree with the training library\n',
  'text/html': '<html lang="en"></html>',
};
const EXPLAINED_TEXTS: Readonly<Record<string, string>> = {
  'text/csv': lines(
    [...CSV_HEADER, 'base', ...COLUMNS.map((name) => `effect.${name}`), 'reasons'],
    [...CSV_ROW, BASE, ...COLUMNS.map(effectOf), REASONS.map(({ code }) => code).join(';')],
  ),
  'application/x-ndjson': `${JSON.stringify(EXPLAINED)}\n`,
};

/** Values of required parameters only: the page /docs would send examples of optional parameters with every request. */
const PARAMETERS: Readonly<Record<string, string>> = {
  ...{ modelId: 'credit-default', ref: 'credit-default', alias: 'champion', id: ID, version: '1' },
  ...{ 'Tus-Resumable': '1.0.0', 'Upload-Offset': '0', 'X-HTTP-Method-Override': 'PATCH' },
};

interface MediaContent {
  schema?: { $ref?: string };
  example?: unknown;
}

/** Adds an example to each body that is not binary, and to each required parameter. */
export function addBodyExamples({ paths, components }: OpenApiDocument): void {
  Object.assign(components.schemas.Problem as object, { example: PROBLEM });
  for (const [path, methods] of Object.entries(paths)) {
    for (const operation of Object.values(methods)) {
      for (const parameter of operation.parameters ?? []) {
        const isPipeline = path.startsWith('/api/v1/pipelines/');
        const value = parameter.name === 'name' ? (isPipeline ? 'nightly' : 'credit-default') : PARAMETERS[parameter.name]; // biome-ignore format: one line
        if (parameter.required && value !== undefined) Object.assign(parameter, { example: value });
      }
      for (const [type, content] of Object.entries(operation.requestBody?.content ?? {})) {
        setExample(content, requestOf(type, path));
      }
      addResponses(path, operation);
    }
  }
}

function addResponses(path: string, { responses }: Operation): void {
  for (const [status, { content = {} }] of Object.entries(responses)) {
    if (!status.startsWith('2')) continue;
    for (const [type, one] of Object.entries(content)) {
      setExample(one, responseOf(path, status, type, one as MediaContent));
    }
  }
}

function setExample(content: unknown, example: unknown): void {
  if (example !== undefined) (content as MediaContent).example = example;
}

function requestOf(type: string, path: string): unknown {
  if (type !== 'application/json') return TEXT_REQUESTS[type];
  if (path.startsWith('/v2/')) return INFERENCE;
  return path.includes('/aliases/') ? { version: '1', reason: 'approved by the committee' } : [APPLICATION];
}

function responseOf(path: string, status: string, type: string, { schema }: MediaContent): unknown {
  // The paths with interpretation cannot be listed here, because their aliases are configured.
  const isExplained = !/^\/api\/v1\/scoring\/(?:predict\.|jobs\/)/.test(path);
  if (type !== 'application/json') return (isExplained ? EXPLAINED_TEXTS[type] : undefined) ?? TEXT_RESPONSES[type];
  const named = schema?.$ref?.split('/').at(-1) as keyof typeof COMPONENTS | undefined;
  if (named === 'Job' && status === '201') return NEW_JOB;
  if (named === 'Predictions' && isExplained) return answer(EXPLAINED);
  if (path.endsWith('/result')) return answer(PREDICTED);
  return named ? BY_SCHEMA[named] : BY_PATH[path.replace('/versions/{version}', '')];
}
