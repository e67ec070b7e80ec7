// Who am I: name, scopes, models and limits of the caller, for every valid key and for no other.
import { expect, onTestFinished, test } from 'vitest';
import { describeCaller } from '../../../src/doors/http/routes/caller-routes.ts';
import { startService } from '../../support/service.ts';
import { modelOf, startTenants } from '../../support/tenants.ts';

test('a key learns its own name, scopes, models and limits', async () => {
  const tenants = await startTenants(() => ['limits.rows=5000']);
  onTestFinished(() => tenants.close());
  const { status, text } = await tenants.ask('alpha', 'GET', '/api/v1/whoami');
  const caller = JSON.parse(text);
  expect(status).toBe(200);
  expect(caller).toMatchObject({
    name: 'alpha',
    kind: 'key',
    scopes: ['predict', 'interpret', 'jobs', 'models:read', 'models:write', 'metrics'],
    limits: { rows: 5000 },
  });
  expect(caller.models['models:read']).toEqual([modelOf('alpha')]);
  expect(text).not.toContain('beta');
  expect((await tenants.ask(null, 'GET', '/api/v1/whoami')).status).toBe(401);
  expect((await tenants.ask(null, 'GET', '/api/v1/whoami', { headers: { authorization: 'API-Key x' } })).status).toBe(
    401,
  );
});

test('a key with a single scope may ask, and null means all models', async () => {
  const service = await startService(['console.grafana=https://grafana.example/d/1']);
  const { json } = await service.call('GET', '/api/v1/whoami');
  expect(json.models.predict).toBe(null);
  expect(json.links).toEqual({ grafana: 'https://grafana.example/d/1' });
});

test('models of several grants are listed by scope', async () => {
  const config = { limits: {}, jobs: {}, console: false } as never;
  const grants = [
    { scopes: ['predict'] as const, models: ['b', 'a'] },
    { scopes: ['predict', 'models:read'] as const, models: ['c'] },
    { scopes: ['models:read'] as const },
  ];
  const { models, scopes } = describeCaller({ kind: 'oidc', name: 'oidc:x:y', label: 'oidc:x', grants }, config);
  expect(scopes).toEqual(['predict', 'models:read']);
  expect(models).toEqual({ predict: ['a', 'b', 'c'], 'models:read': null });
});
