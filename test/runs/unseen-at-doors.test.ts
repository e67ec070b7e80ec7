// A category that the training has not seen is counted at every door, whatever the model gets instead of it.
import { readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { expect } from 'vitest';
import { FolderRegistry } from '../../src/model/registry/folder.ts';
import { scratch, sluiceHere } from '../support/cli.ts';
import { faultyPortfolio } from '../support/column-faults.ts';
import { copyUnlocked } from '../support/registries/packages.ts';
import { CREDIT_DEFAULT } from '../support/score.ts';
import { asObjects, PREDICT, startService } from '../support/service.ts';
import { checkTest } from '../support/tiers.ts';

const ROWS = 100;
const CSV = faultyPortfolio(ROWS, 8, (row, i) => {
  if (i % 4 === 0) row.credit_product_id = '230';
  if (i % 5 === 0) row.occupation_type = 'EMPLOYEE ';
  if (i % 10 === 0) row.marital_status = 'married';
});
const UNSEEN = { credit_product_id: 0.25, occupation_type: 0.2, marital_status: 0.1, source_type: 0 };

checkTest('in the summary of score and of a pipeline', async () => {
  const folder = scratch();
  const at = (name: string) => path.join(folder, name);
  writeFileSync(at('in.csv'), CSV);
  writeFileSync(
    at('p.yaml'),
    'model: credit-default\nsource: { type: file, path: in.csv }\nsink: { type: file, path: p.csv }\n',
  );
  for (const args of [
    ['score', 'in.csv', '-m', 'credit-default', '-o', 'o.csv'],
    ['run', 'p.yaml'],
  ]) {
    const { stdout } = await sluiceHere([...args, '--json'], { cwd: folder });
    const columns: { column: string; unseen: number }[] = JSON.parse(stdout).drift['credit-default:1'].columns;
    const found = Object.fromEntries(columns.map(({ column, unseen }) => [column, unseen]));
    expect(found, args[0]).toMatchObject(UNSEEN);
  }
});

checkTest('in what the service says of drift, for CSV, JSON, NDJSON and jobs', async () => {
  const objects = asObjects(CSV);
  const bodies: [format: string, body: string, headers: Record<string, string>][] = [
    ['csv', CSV, {}],
    ['json', JSON.stringify(objects), {}],
    ['ndjson', objects.map((row) => JSON.stringify(row)).join('\n'), {}],
    ['csv', CSV, { prefer: 'respond-async' }],
  ];
  const service = await startService();
  for (const [i, [format, body, headers]] of bodies.entries()) {
    const url = `${PREDICT}.${format}?modelId=credit-default${format === 'csv' ? '&delimiter=comma' : ''}`;
    expect((await service.call('POST', url, { body, headers })).status).toBeLessThan(300);
    const drift = async () => (await service.call('GET', '/api/v1/models/credit-default/drift?window=start')).json;
    await expect.poll(async () => (await drift()).rows).toBe(ROWS * (i + 1));
    const columns: { column: string; now: { unseen: number } }[] = (await drift()).columns;
    const found = Object.fromEntries(columns.map(({ column, now }) => [column, now.unseen]));
    expect(found, `${format} ${i}`).toMatchObject(UNSEEN);
  }
});

checkTest('in the effects as the text of the application, even if the model gets a missing value', async () => {
  const registry = path.join(scratch(), 'models');
  const model = path.join(registry, 'credit-default', '1');
  copyUnlocked(CREDIT_DEFAULT, model);
  const yaml = readFileSync(path.join(model, 'model.yaml'), 'utf8');
  writeFileSync(
    path.join(model, 'model.yaml'),
    yaml.replaceAll(/unseen: value,?\s+unseen_value: -1/g, 'unseen: missing').replace(/^self_test:.*\n/m, ''),
  );
  const objects = asObjects(CSV);
  const lines = objects.map((row) => JSON.stringify(row)).join('\n');
  const folder = scratch();
  const at = (name: string) => path.join(folder, name);
  writeFileSync(at('in.csv'), CSV);
  writeFileSync(at('in.ndjson'), lines);
  const answers: [door: string, text: string][] = [];
  for (const file of ['in.csv', 'in.ndjson']) {
    const args = [
      'score', file, '-m', 'credit-default', '--registry', registry, '--interpretation', '-o', `${file}.out.ndjson`,
    ]; // biome-ignore format: one line
    await sluiceHere(args, { cwd: folder });
    answers.push([file, readFileSync(at(`${file}.out.ndjson`), 'utf8')]);
  }
  const service = await startService([], scratch(), { registry: new FolderRegistry([registry]) });
  const url = `${PREDICT}/interpretation.ndjson?modelId=credit-default`;
  answers.push(['http', (await service.call('POST', url, { body: lines })).text]);
  for (const [door, text] of answers) {
    const predictions = text
      .split('\n')
      .slice(0, ROWS)
      .map((line) => JSON.parse(line));
    for (const [i, { interpretation }] of predictions.entries()) {
      const { value } = interpretation.effects.find((e: { column: string }) => e.column === 'occupation_type');
      expect(value, `${door} ${i}`).toBe(objects[i]!.occupation_type || null);
    }
  }
});
