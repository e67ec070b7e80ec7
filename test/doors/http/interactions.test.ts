// Pairs of columns over HTTP: every form of a request tells those of a run, and wrong ones are refused by a code.
import { readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { tableFromIPC } from '@uwdata/flechette';
import { expect, test } from 'vitest';
import { generatePortfolio } from '../../../src/demo/portfolio.ts';
import { FolderRegistry } from '../../../src/model/registry/folder.ts';
import { scratch } from '../../support/cli.ts';
import { kernelPairs, pairsOf, pairsOfCells } from '../../support/interactions.ts';
import { copyUnlocked } from '../../support/registries/packages.ts';
import { CREDIT_COLUMNS, CREDIT_DEFAULT, scoreText } from '../../support/score.ts';
import { asNative, asObjects, PREDICT, type Reply, type Service, startService } from '../../support/service.ts';
import { campaignTest } from '../../support/tiers.ts';
import { until } from '../../support/until.ts';

const csv = Buffer.concat([...generatePortfolio({ rows: 12, seed: 21, oddness: 'none' })]).toString();
const objects = asObjects(csv);
const SPEC = { effects: true, reasons: true, top: 3, below: null, interactions: 4 };
const url = (format: string, more = '&top_effects=3&interactions=4', modelId = 'credit-default') =>
  `${PREDICT}/interpretation.${format}?modelId=${modelId}&delimiter=comma${more}`;

async function resultOf(s: Service, made: Reply): Promise<Reply> {
  expect(made.status).toBe(201);
  const location = made.headers.location as string;
  await until(async () => (await s.call('GET', location)).json.state === 'done'); // biome-ignore format: one line
  return s.call('GET', `${location}/result`);
}

campaignTest('every form of a request tells the pairs of a run', async () => {
  const s = await startService();
  const native = asNative(objects);
  const lines = native.map((row) => `${JSON.stringify(row)}\n`).join('');
  const run = async (format: 'csv' | 'ndjson') => (await scoreText(csv, { output: { format, delimiter: ',' }, interpretation: SPEC })).output; // biome-ignore format: one line
  const ndjson = await run('ndjson');
  const want = ndjson.trimEnd().split('\n').map((line) => JSON.parse(line)); // biome-ignore format: one line
  expect(want.map(pairsOf)).toEqual((await kernelPairs(CREDIT_DEFAULT, objects)).map((pairs) => pairs!.slice(0, 4)));
  const post = (format: string, body: string, headers = {}) => s.call('POST', url(format), { body, headers });
  expect((await post('ndjson', lines)).text).toBe(ndjson);
  expect((await post('csv', csv)).text).toBe(await run('csv'));
  expect((await post('json', JSON.stringify(native))).json.predictions).toEqual(want);
  const frame = tableFromIPC(new Uint8Array((await s.call('POST', url('arrow'), { body: await framed() })).bytes));
  expect(frame.toArray().map(pairsOfCells)).toEqual(want.map(pairsOf));
  expect((await resultOf(s, await post('ndjson', lines, { prefer: 'respond-async' }))).text).toBe(ndjson);
  // One application at a time, effects alone between: those are open on the thread of the service by then.
  for (const [i, row] of native.slice(0, 6).entries()) {
    const [alone] = (await post('json', JSON.stringify(row))).json.predictions;
    expect(alone).toEqual({ ...want[i], row: 1 });
    const { interactions: _, ...effects } = want[i].interpretation;
    const plain = (await s.call('POST', url('json', '&top_effects=3'), { body: JSON.stringify(row) })).json;
    expect(plain.predictions).toEqual([{ ...want[i], row: 1, interpretation: effects }]);
  }
});

/** The applications as a table of Arrow. */
async function framed(): Promise<Uint8Array> {
  const { columnFromArray, tableFromColumns, tableToIPC, utf8 } = await import('@uwdata/flechette');
  const names = Object.keys(objects[0]!);
  const columns = names.map((name) => [name, columnFromArray(objects.map((row) => (row[name] === '' ? null : row[name])), utf8())] as const); // biome-ignore format: one line
  return tableToIPC(tableFromColumns(columns as never), { format: 'stream' })!;
}

test('an upload to a pipeline tells them in its file', async () => {
  const folder = scratch();
  writeFileSync(path.join(folder, 'nightly.yaml'), `model: credit-default\nsource: { type: upload }\nsink: { type: file, path: "${folder}/out/{name}.ndjson" }\nscore: { interpretation: effects, top_effects: 3, interactions: 4 }\n`); // biome-ignore format: one line
  const s = await startService([`pipelines=["${path.join(folder, 'nightly.yaml')}"]`], folder);
  const made = await s.call('POST', '/api/v1/pipelines/nightly', { body: csv });
  await resultOf(s, made);
  const { output } = await scoreText(csv, { output: { format: 'ndjson', delimiter: ',' }, interpretation: SPEC });
  expect(readFileSync(made.json.target, 'utf8')).toBe(output);
});

test('what is no number of pairs, what has no effects beside it, and a method that tells none', async () => {
  const registry = scratch();
  const packages: [id: string, from: string, method: string][] = [
    ['linear', CREDIT_COLUMNS, ', method: linear'],
    ['unsaid', CREDIT_COLUMNS, ''],
    ['sampled', CREDIT_DEFAULT, ', method: sampling'],
  ];
  for (const [id, from, method] of packages) {
    const folder = path.join(registry, id, '1');
    copyUnlocked(from, folder);
    const yaml = path.join(folder, 'model.yaml');
    const text = readFileSync(yaml, 'utf8').replace(/^id: .*$/m, `id: ${id}`);
    writeFileSync(yaml, text.replace(/^explain:.*\n/m, `explain: { background: background.csv${method} }\n`));
  }
  const roots = new FolderRegistry([registry, path.resolve('src/bundled')]);
  const pipeline = path.join(scratch(), 'p.yaml');
  writeFileSync(pipeline, `model: linear\nsource: { type: upload }\nsink: { type: file, path: "${registry}/{name}.csv" }\nscore: { interpretation: effects, interactions: 1 }\n`); // biome-ignore format: one line
  const s = await startService([`pipelines=["${pipeline}"]`], scratch(), { registry: roots });
  const body = JSON.stringify(asNative(objects)[0]);
  const job = { prefer: 'respond-async' };
  const wrong: [code: string, url: string, headers?: Record<string, string>][] = [
    ...['0', '501', '-1', '1.5', 'many', ''].map((n): [string, string] => ['bad_request', url('json', `&interactions=${n}`)]), // biome-ignore format: one line
    ['bad_request', `${PREDICT}.json?modelId=credit-default&interactions=2`],
    ...packages.map(([id]): [string, string] => ['interpretation_unavailable', url('json', '&interactions=1', id)]),
    ['interpretation_unavailable', url('json', '&interactions=1', 'linear'), job],
    ['interpretation_unavailable', '/api/v1/pipelines/p'],
  ];
  for (const [code, to, headers = {}] of wrong) {
    const answer = await s.call('POST', to, { body, headers });
    expect([to, answer.status, answer.json.code]).toEqual([to, 400, code]);
  }
  const few = JSON.stringify(Object.fromEntries(Object.entries(asNative(objects)[0]!)));
  const plain = await s.call('POST', url('json', '', 'linear'), { body: few });
  expect([plain.status, plain.json.predictions[0].interpretation.method]).toEqual([200, 'linear']);
});
