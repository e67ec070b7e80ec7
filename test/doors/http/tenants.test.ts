// Two keys with every scope, each for a model of its own: neither sees anything of the other, nor that it exists.
import { afterAll, beforeAll, expect, test } from 'vitest';
import { modelOf, startTenants, type TwoTenants } from '../../support/tenants.ts';

let s: TwoTenants;
beforeAll(async () => {
  s = await startTenants();
});
afterAll(() => s.close());

const predict = (model: string): string => `/api/v1/scoring/predict.json?modelId=${model}`;

test('metrics show the series of the models of a key, and nothing of other keys', async () => {
  for (const tenant of ['alpha', 'beta'] as const) {
    const scored = await s.ask(tenant, 'POST', predict(modelOf(tenant)), { body: '[{"x":1}]' });
    expect(scored.status, scored.text).toBe(400);
    await s.ask(null, 'GET', '/api/v1/models', { headers: { authorization: 'API-Key wrong' } });
  }
  for (const url of ['/metrics', '/metrics/columns']) {
    const { status, text } = await s.ask('alpha', 'GET', url);
    expect(status).toBe(200);
    expect(text).not.toMatch(/beta/);
    // No series of the process, of keys or of jobs, in whatever family.
    const series = text.split('\n').filter((line) => line !== '' && !line.startsWith('#'));
    const open = /^(?:sluice_ready |sluice_build_info\{)|[{,](?:model|reference)="model-alpha(?::1)?"/;
    expect(series.filter((line) => !open.test(line))).toEqual([]);
    expect(text).toContain(url === '/metrics' ? 'sluice_rows_total{model="model-alpha:1",outcome="rejected"} 1' : '');
  }
});
