// A category that the training has not seen is counted at every door, whatever the model gets instead of it.
import { writeFileSync } from 'node:fs';
import path from 'node:path';
import { expect } from 'vitest';
import { scratch, sluiceHere } from '../support/cli.ts';
import { faultyPortfolio } from '../support/column-faults.ts';
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
