// The document says what is written: every key of a prediction, of every kind of model, and of a job stands in its schema.
import { expect, test } from 'vitest';
import { type ColumnBatch, newBatch } from '../../../src/core/batch.ts';
import { generatePortfolio } from '../../../src/demo/portfolio.ts';
import { describeJob } from '../../../src/doors/http/jobs/job-routes.ts';
import type { Job } from '../../../src/doors/http/jobs/job-store.ts';
import { JOB, PREDICTION } from '../../../src/doors/http/openapi/schemas.ts';
import { createFormatter } from '../../../src/formats/choose-formatter.ts';
import { ByteWriter } from '../../../src/formats/write/byte-writer.ts';
import { PREDICTION_FIELDS } from '../../../src/formats/write/prediction-fields.ts';
import type { Manifest } from '../../../src/model/package/manifest.ts';
import { openApiDocument } from '../../support/openapi-document.ts';
import { schemaFaults as faults, type JsonSchema as Schema } from '../../support/schema-faults.ts';
import { scoreText } from '../../support/score.ts';

const base = { id: 'm', version: 1, onnx: { file: 'm.onnx', sha256: '0'.repeat(64) }, columns: [], inputs: [] };
const MODELS: Record<string, { manifest: Manifest; width: number; keys: string[] }> = {
  binary: {
    manifest: { ...base, task: 'binary', classes: [0, 1], positive_class: 1 },
    width: 1,
    keys: ['row', 'prediction', 'probability'],
  },
  'binary with points and decisions': {
    manifest: {
      ...base,
      task: 'binary',
      classes: [0, 1],
      positive_class: 1,
      scorecard: { base_points: 600, base_odds: 20, points_to_double_odds: 40 },
      decisions: [{ name: 'approve', min_probability: 0.5 }],
    },
    width: 1,
    keys: ['row', 'prediction', 'probability', 'points', 'decision'],
  },
  multiclass: {
    manifest: { ...base, task: 'multiclass', classes: ['a', 'b'] },
    width: 2,
    keys: ['row', 'prediction', 'probability', 'probabilities'],
  },
  regression: { manifest: { ...base, task: 'regression' }, width: 1, keys: ['row', 'value'] },
  score: { manifest: { ...base, task: 'score' }, width: 1, keys: ['row', 'value'] },
};
const QUEUED: Job = {
  id: 'i',
  owner: 'o',
  idempotencyKey: null,
  requestId: null,
  trace: null,
  format: 'csv',
  query: { modelId: 'm:1' },
  fingerprint: '',
  bodySha256: null,
  pipeline: null,
  target: null,
  packageSha256: null,
  state: 'queued',
  epoch: 0,
  crashes: 0,
  rows: 0,
  scored: 0,
  rejected: 0,
  bytesRead: 0,
  uploadBytes: 0,
  resultBytes: 0,
  created: 1,
  finished: null,
  errorCode: null,
  errorMessage: null,
};
type Prediction = Record<string, unknown>;

/** An answer and a rejected row. */
function writtenFor({ manifest, width }: (typeof MODELS)[string]): [Prediction, Prediction] {
  const batch: ColumnBatch = {
    ...newBatch([], 2),
    rows: 2,
    rejected: Uint8Array.of(0, 1),
    rejections: [{ index: 1, code: 'bad_number', column: 'income', message: 'not a number' }],
  };
  const values = Float32Array.from({ length: 2 * width }, (_, i) => (i % 2 === 0 ? 0.75 : 0.25));
  const out = new ByteWriter(1);
  const spec = { format: 'ndjson', passthrough: [], passthroughIsJson: false, interpretation: null } as const;
  createFormatter({ ...spec, delimiter: ',' }, manifest).write(out, batch, { values, width }, 1, null);
  const [answer, rejected] = out.view().toString().trimEnd().split('\n').map((l) => JSON.parse(l)); // biome-ignore format: one line
  return [answer, rejected];
}

async function interpreted(): Promise<Prediction[]> {
  const { output } = await scoreText(Buffer.concat([...generatePortfolio({ rows: 40, seed: 3, faults: 2 })]), {
    output: { format: 'json', delimiter: ',' },
    interpretation: { effects: true, top: 3, reasons: true, below: null },
  });
  return JSON.parse(output).predictions;
}

const faultsOf = (predictions: Prediction[]) => predictions.flatMap((p) => faults(PREDICTION as Schema, p));

test.each(Object.entries(MODELS))('%s: an answer and a rejected row', (_, model) => {
  const [answer, rejected] = writtenFor(model);
  expect(Object.keys(answer)).toEqual(model.keys);
  expect(Object.keys(rejected)).toEqual(['row', 'error']);
  expect(faultsOf([answer, rejected])).toEqual([]);
});

test('an interpretation by the bundled model', async () => {
  const predictions = await interpreted();
  expect(predictions.filter((p) => 'interpretation' in p)).toHaveLength(38);
  expect(faultsOf(predictions)).toEqual([]);
});

test('the schema, the one list of fields and the formatter have the same keys', async () => {
  const fields = PREDICTION_FIELDS.map((f) => f.key);
  expect(Object.keys(PREDICTION.properties)).toEqual(fields);
  const written = [...Object.values(MODELS).flatMap(writtenFor), ...(await interpreted())];
  expect([...new Set(written.flatMap(Object.keys))].sort()).toEqual([...fields].sort());
});

test.each<[string, Partial<Job>]>([
  ['queued', {}],
  ['done', { state: 'done', finished: 2, rows: 3, scored: 2, rejected: 1, resultBytes: 9 }],
  ['failed', { state: 'failed', finished: 2, errorCode: 'cancelled', errorMessage: null }],
  ['done of a pipeline', { state: 'done', finished: 2, pipeline: 'nightly', target: 'topic scores' }],
])('a job that is %s', (_, change) => {
  const job = describeJob({ ...QUEUED, ...change });
  expect(faults(JOB as Schema, JSON.parse(JSON.stringify(job)), { at: 'job' })).toEqual([]);
  expect('target' in job).toBe('pipeline' in change);
  expect('result' in job).toBe(change.state === 'done' && !('pipeline' in change));
});

test('a fault is found: the check can fail', () => {
  expect(faults(PREDICTION as Schema, { row: 'one', points: 1.5, news: 1, error: { code: 'x' } })).toEqual([
    'prediction.row is string',
    'prediction.points is number',
    'prediction.news is in no schema',
    'prediction.error lacks message',
  ]);
});

test('every reference of the document leads to a schema, and every operation says what it answers', async () => {
  const { components, paths, ...rest } = await openApiDocument();
  const text = JSON.stringify({ components, paths, ...rest });
  const refs = [...text.matchAll(/"#\/components\/schemas\/(\w+)"/g)].map((m) => m[1]!);
  expect(refs.length).toBeGreaterThan(20);
  expect(refs.filter((r) => !(r in components.schemas))).toEqual([]);
  for (const [path, methods] of Object.entries(paths)) {
    for (const operation of Object.values(methods)) {
      expect(Object.keys(operation.responses).length, path).toBeGreaterThan(0);
      // A route without a schema would get these.
      expect(operation.summary, path).toMatch(/\w/);
      expect(JSON.stringify(operation.responses), path).not.toContain('Default Response');
      const inPath = (operation.parameters ?? []).filter((p) => p.in === 'path').map((p) => `{${p.name}}`);
      expect(inPath, path).toEqual(path.match(/\{\w+\}/g) ?? []);
    }
  }
  expect(paths['/api/v1/pipelines/{name}']!.post!.responses).toHaveProperty('201');
  expect(Object.keys(JOB.properties)).toEqual(expect.arrayContaining(['pipeline', 'target']));
});

test('the document lists aliases of paths, and its operations have different ids', async () => {
  const { paths } = await openApiDocument(['interpretation_aliases=["/api/v1/scoring/explain"]']);
  const { operationId, ...alias } = paths['/api/v1/scoring/predict/interpretation.csv']!.post!;
  expect(operationId).toBe('predictInterpretationCsv');
  expect(paths['/api/v1/scoring/explain.csv']!.post).toEqual(alias);
  const ids = Object.values(paths).flatMap((methods) =>
    Object.values(methods).flatMap((operation) => operation.operationId ?? []),
  );
  expect(new Set(ids).size).toBe(ids.length);
  expect(ids).toHaveLength(11);
});

test('only interpretations have the parameter interactions, and only open operations need no key', async () => {
  const { paths } = await openApiDocument();
  const having = Object.keys(paths).filter((path) =>
    paths[path]!.post?.parameters?.some(({ name }) => name === 'interactions'),
  );
  expect(having).toEqual(['.json', '.csv', '.ndjson', '.arrow', '/table.ndjson'].map((f) => `/api/v1/scoring/predict/interpretation${f}`)); // biome-ignore format: one line
  const open = Object.keys(paths).filter((path) => paths[path]!.get?.security?.length === 0);
  expect(open.sort()).toEqual([
    '/docs',
    '/livez',
    '/openapi.json',
    '/readyz',
    '/v2',
    '/v2/health/live',
    '/v2/health/ready',
  ]);
});
