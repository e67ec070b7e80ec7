// The report card of a model over HTTP: the file of its package, for keys that may read the model.
import { writeFileSync } from 'node:fs';
import path from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { modelOf, startTenants } from '../../support/tenants.ts';

test('the report card is that of the package, and others get the answer of a model that does not exist', async () => {
  const tenants = await startTenants();
  onTestFinished(() => tenants.close());
  const url = (model: string) => `/api/v1/models/${model}/report-card`;
  const without = await tenants.ask('beta', 'GET', url(modelOf('beta')));
  expect([without.status, JSON.parse(without.text).detail]).toEqual([404, expect.stringContaining('no report card')]);
  const text = '# Report card\n\n<b>no HTML</b>\n';
  const folder = path.join(tenants.folder, 'models', modelOf('alpha'), '1');
  writeFileSync(path.join(folder, 'report.md'), text);
  const own = await tenants.ask('alpha', 'GET', url(`${modelOf('alpha')}:1`));
  expect([own.status, own.headers['content-type'], own.text]).toEqual([200, 'text/markdown; charset=utf-8', text]);
  const plain = ({ status, text: body }: { status: number; text: string }) => [
    status,
    body.replace(/"requestId":"[^"]*"/, ''),
  ];
  const theirs = await tenants.ask('beta', 'GET', url(modelOf('alpha')));
  expect(plain(theirs)).toEqual(plain(await tenants.ask('beta', 'GET', url('model-none'))));
  expect(theirs.status).toBe(403);
});
