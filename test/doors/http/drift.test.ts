// Drift over HTTP: what was scored in either format, inline or by workers, for those who may read models.

import { writeFileSync } from 'node:fs';
import path from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { loadConfig } from '../../../src/config/load-config.ts';
import { ServerConfigSchema } from '../../../src/config/server-config.ts';
import { generatePortfolio } from '../../../src/demo/portfolio.ts';
import { createKey } from '../../../src/doors/commands/keys.ts';
import { serve } from '../../../src/doors/http/service.ts';
import { devCertificate } from '../../../src/doors/http/wire/listener.ts';
import { scratch } from '../../support/cli.ts';
import { asObjects, call, predictUrl, REGISTRY, startService } from '../../support/service.ts';

const DRIFT = '/api/v1/models/credit-default/drift';
const PORTFOLIO = Buffer.concat([...generatePortfolio({ rows: 1200, seed: 8, drift: true })]).toString();

test('rows of every operation are counted, single ones too, and a window that is none is refused', async () => {
  const s = await startService();
  const nothing = (await s.call('GET', DRIFT)).json;
  expect(nothing).toMatchObject({ modelId: 'credit-default', modelVersion: '1', window: 'hour', baseline: true });
  expect(nothing).toMatchObject({ rows: 0, enough: false, score: { psi: null, now: null } });
  expect(nothing.columns).toHaveLength(23);

  const csv = await s.call('POST', predictUrl('csv', '&delimiter=comma'), { body: PORTFOLIO });
  expect(csv.status).toBe(200);
  const objects = asObjects(Buffer.concat([...generatePortfolio({ rows: 20, seed: 9 })]).toString());
  for (const application of objects) {
    const one = await s.call('POST', predictUrl('json'), { body: JSON.stringify([application]) });
    expect(one.status).toBe(200);
  }
  for (const window of ['hour', 'day', 'start']) {
    const { json, text } = await s.call('GET', `${DRIFT}?window=${window}`);
    expect(json).toMatchObject({ window, rows: 1200 + objects.length, enough: true });
    const moved = json.columns.filter((c: { psi: number }) => c.psi >= 0.25).map((c: { column: string }) => c.column);
    expect(moved).toEqual(['source_type', 'income', 'occupation_type']);
    expect(json.score.now.bins).toHaveLength(10);
    expect(text).not.toMatch(/TELEGRAM|AGENT/);
    expect('quantiles' in json.score).toBe(window !== 'day');
  }
  const bad = await s.call('GET', `${DRIFT}?window=week`);
  expect([bad.status, bad.json.code]).toEqual([400, 'bad_request']);
  expect((await s.call('GET', DRIFT.replace('credit-default', 'nobody'))).status).toBe(404);
});

test('a key needs the scope models:read, and the model', async () => {
  const folder = scratch();
  const file = path.join(folder, 'keys.json');
  const { cert, key } = await devCertificate();
  for (const [name, text] of Object.entries({ 'c.pem': cert, 'k.pem': key }))
    writeFileSync(path.join(folder, name), text);
  const tokens = {
    reader: await createKey('reader', { file, scopes: 'models:read' }),
    other: await createKey('other', { file, scopes: 'models:read', models: 'credit-columns' }),
    scorer: await createKey('scorer', { file, scopes: 'predict' }),
  };
  const settings = [
    'listen.port=0',
    'listen.host=127.0.0.1',
    'workers=1',
    `keys_file=${file}`,
    `tls.certificate=${path.join(folder, 'c.pem')}`,
    `tls.key=${path.join(folder, 'k.pem')}`,
    `jobs.folder=${folder}/jobs`,
  ];
  const running = await serve({ config: await loadConfig(ServerConfigSchema, { settings }), registry: REGISTRY });
  onTestFinished(() => running.stop());
  const port = Number(new URL(running.url).port);
  const statuses = Object.values(tokens).map(async (token) => (await call(port, token, 'GET', DRIFT)).status);
  expect(await Promise.all(statuses)).toEqual([200, 403, 403]);
  const none = await call(port, tokens.reader, 'GET', '/api/v1/models/credit-columns/drift');
  expect(none.json).toEqual({ modelId: 'credit-columns', modelVersion: '1', window: 'hour', baseline: false });
});
