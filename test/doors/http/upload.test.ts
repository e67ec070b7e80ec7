// Pipelines as endpoints: an upload becomes a job, its predictions a file of its own, once for each idempotency key.
import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { gunzipSync, gzipSync } from 'node:zlib';
import { expect, test } from 'vitest';
import { readUploadPipelines } from '../../../src/doors/http/jobs/pipeline-routes.ts';
import { scratch } from '../../support/cli.ts';
import { scoreText } from '../../support/score.ts';
import { type Reply, type Service, startService } from '../../support/service.ts';
import { COUNTS, countsOf, thousand } from '../../support/thousand.ts';
import { until } from '../../support/until.ts';

const NIGHTLY = '/api/v1/pipelines/nightly';

/** A service with one pipeline whose predictions go to files. */
async function withPipeline(yaml: (folder: string) => string, folder = scratch()): Promise<Service> {
  writeFileSync(path.join(folder, 'nightly.yaml'), `model: credit-default\n${yaml(folder)}`);
  return startService([`pipelines=["${path.join(folder, 'nightly.yaml')}"]`], folder);
}

const toFiles = (folder: string, more = ''): string =>
  `source: { type: upload }
sink: { type: file, path: "${folder}/out/{name}.ndjson.gz" }
dead_letter: { type: file, path: "${folder}/out/{name}.rejected.csv" }
${more}`;

async function settled(s: Service, made: Reply): Promise<Reply> {
  const location = made.headers.location as string;
  return until(async () => {
    const reply = await s.call('GET', location);
    return ['queued', 'running'].includes(reply.json.state) ? null : reply;
  }); // biome-ignore format: one call
}

const outputs = (s: Service): string[] => readdirSync(path.join(s.folder, 'out')).sort();

test('predictions and rejected rows are files of the upload; the counts are those of every door', async () => {
  const { csv, below } = await thousand();
  const s = await withPipeline((f) => toFiles(f, `score: { interpretation: effects, interpret_below: ${below} }\n`));
  const made = await s.call('POST', NIGHTLY, { body: gzipSync(csv), headers: { 'content-encoding': 'gzip' } });
  expect([made.status, made.json]).toEqual([201, expect.objectContaining({ pipeline: 'nightly', state: expect.any(String) })]); // biome-ignore format: one line
  const { id, target } = made.json;
  expect(target).toBe(path.join(s.folder, 'out', `${id}.ndjson.gz`));
  const done = await settled(s, made);
  expect(done.json).toMatchObject({ state: 'done', summary: { rows: 1000, scored: 900, rejected: 100 } });
  expect(done.json.result).toBeUndefined();
  expect((await s.call('GET', `${made.headers.location}/result`)).json).toMatchObject({ code: 'not_found' });
  expect(countsOf((await s.call('GET', '/metrics')).text)).toEqual(COUNTS);
  expect(outputs(s)).toEqual([`${id}.ndjson.gz`, `${id}.rejected.csv`]);
  const lines = gunzipSync(readFileSync(target)).toString();
  const spec = { effects: true, reasons: true, top: null, below };
  const want = await scoreText(csv, { output: { format: 'ndjson', delimiter: ',' }, interpretation: spec });
  expect(lines).toBe(want.output);
  const list = readFileSync(path.join(s.folder, 'out', `${id}.rejected.csv`), 'utf8').split('\n');
  const rejected = want.rejects.split('\n');
  expect(list).toEqual(rejected.map((line, i) => (line === '' ? '' : `${i === 0 ? 'input' : id},${line}`)));
  // Nothing of the upload is kept.
  expect(readdirSync(path.join(s.folder, 'jobs')).filter((f) => f.includes(id))).toEqual([]);
});

test('the same idempotency key is the same upload, and is scored once', async () => {
  const { csv } = await thousand();
  const s = await withPipeline(toFiles);
  const headers = { 'idempotency-key': 'night-2026-11-21' };
  const replies = await Promise.all([1, 2, 3].map(() => s.call('POST', NIGHTLY, { body: csv, headers })));
  expect(new Set(replies.map((r) => r.json.id)).size).toBe(1);
  await settled(s, replies[0]!);
  expect((await s.call('POST', NIGHTLY, { body: csv, headers })).json).toMatchObject({ id: replies[0]!.json.id, state: 'done' }); // biome-ignore format: one line
  expect(outputs(s)).toHaveLength(2);
  expect(countsOf((await s.call('GET', '/metrics')).text)).toMatchObject({ rows: 1000 });
  const other = await s.call('POST', NIGHTLY, { body: csv, headers: { 'idempotency-key': 'night-2026-11-22' } });
  await settled(s, other);
  expect(outputs(s)).toHaveLength(4);
});

test('an upload that was acknowledged is scored by the next process when this one is gone', async () => {
  const { csv } = await thousand();
  const folder = scratch();
  const first = await withPipeline(toFiles, folder);
  const made = await first.call('POST', NIGHTLY, { body: csv });
  await first.running.stop();
  const second = await withPipeline(toFiles, folder);
  const reply = { ...made, headers: { location: `/api/v1/scoring/jobs/${made.json.id}` } };
  expect((await settled(second, reply)).json).toMatchObject({ state: 'done', summary: { rows: 1000 } });
  expect(outputs(second)).toEqual([`${made.json.id}.ndjson.gz`, `${made.json.id}.rejected.csv`]);
});

test.each([
  ['a header that does not fit', 'a,b\n1,2\n', 'header_mismatch'],
  ['no row that can be scored', 'BAD', 'nothing_scored'],
])('%s fails the job and leaves no file', async (_, body, code) => {
  const { csv } = await thousand();
  const [header, ...rows] = csv.trimEnd().split('\n');
  const s = await withPipeline(toFiles);
  const text = body === 'BAD' ? `${header}\n${rows[3]}\n${rows[13]}\n` : body;
  const made = await s.call('POST', NIGHTLY, { body: text });
  expect((await settled(s, made)).json).toMatchObject({ state: 'failed', error: { code } });
  expect(outputs(s)).toEqual([]);
});

test('what a pipeline that is served must be', async () => {
  const folder = scratch();
  const file = (name: string, text: string): string => {
    writeFileSync(path.join(folder, name), `model: credit-default\n${text}`);
    return path.join(folder, name);
  };
  const good = file('good.yaml', toFiles(folder));
  await expect(readUploadPipelines([good, good])).rejects.toThrow(/two pipelines have the name good/);
  const other = file('other.yaml', 'source: { type: stdio }\nsink: { type: stdio }\n');
  await expect(readUploadPipelines([other])).rejects.toThrow(/must have source: \{ type: upload \}/);
  const fixed = file('fixed.yaml', 'source: { type: upload }\nsink: { type: file, path: out.csv }\n');
  await expect(readUploadPipelines([fixed])).rejects.toThrow(/must contain \{name\}/);
});

test('a key needs the scope of jobs, and a pipeline that is not served is not there', async () => {
  const s = await withPipeline(toFiles);
  expect((await s.call('POST', NIGHTLY, { body: 'x', token: 'sluice_wrong' })).status).toBe(401);
  expect((await s.call('POST', '/api/v1/pipelines/other', { body: 'x' })).status).toBe(404);
  expect((await s.call('POST', NIGHTLY, { body: 'x', headers: { 'content-type': 'application/json' } })).json.code).toBe('invalid_content'); // biome-ignore format: one line
});

test('a table of jobs from before there were pipelines is taken over', async () => {
  const { csv } = await thousand();
  const folder = scratch();
  const before = await withPipeline(toFiles, folder);
  await before.running.stop();
  const db = new DatabaseSync(path.join(folder, 'jobs', 'jobs.sqlite'));
  db.exec('ALTER TABLE jobs DROP COLUMN pipeline; ALTER TABLE jobs DROP COLUMN target;');
  db.close();
  const s = await withPipeline(toFiles, folder);
  expect((await settled(s, await s.call('POST', NIGHTLY, { body: csv }))).json.state).toBe('done');
});
