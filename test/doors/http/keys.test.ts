// Keys that change over to another token, and addresses that show wrong ones.
import http from 'node:http';
import path from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { loadConfig } from '../../../src/config/load-config.ts';
import { ServerConfigSchema } from '../../../src/config/server-config.ts';
import { createKey, rotateKey } from '../../../src/doors/commands/keys.ts';
import { KeyRing } from '../../../src/doors/http/access/api-keys.ts';
import { FailedLogins, neighbourhoodOf } from '../../../src/doors/http/access/failed-logins.ts';
import { changeKeys, hashToken, readKeys, rotated } from '../../../src/doors/http/access/keys-file.ts';
import { serve } from '../../../src/doors/http/service.ts';
import { scratch, sluiceHere } from '../../support/cli.ts';
import { collectedLog } from '../../support/collected-log.ts';
import fc from '../../support/seeded-fast-check.ts';
import { predictUrl, REGISTRY, startService } from '../../support/service.ts';

const HOUR_MS = 3_600_000;

test('a rotated key takes both tokens until the grace is over, and then the new one', async () => {
  const file = path.join(scratch(), 'keys.yaml');
  const first = await createKey('batch', { file, scopes: 'predict', models: 'credit-default', days: 30 });
  const { token: second } = await rotateKey('batch', { file, grace: '24h' });
  const ring = new KeyRing(await readKeys(file));
  const now = Date.now();
  expect(ring.look(first, now)).toMatchObject({ previous: true, identity: { name: 'batch' } });
  expect(ring.look(second, now)).toMatchObject({ previous: false, identity: { name: 'batch' } });
  expect(ring.look(first, now + 25 * HOUR_MS)).toEqual({ refused: 'expired', name: 'batch' });
  expect(ring.find(second, now + 25 * HOUR_MS)?.models).toEqual(['credit-default']);
  // The new one is valid for as long as the first was made for, and no longer.
  expect(ring.find(second, now + 29.9 * 24 * HOUR_MS)?.name).toBe('batch');
  expect(ring.find(second, now + 30.1 * 24 * HOUR_MS)).toBeNull();
});

test('`keys rotate` prints the token once, tells when the old one ends, and keeps neither', async () => {
  const file = path.join(scratch(), 'keys.yaml');
  const first = await createKey('batch', { file, scopes: 'predict' });
  const run = await sluiceHere(['keys', 'rotate', 'batch', '--file', file, '--grace', '30m']);
  expect([run.code, run.stdout]).toEqual([0, expect.stringMatching(/^sluice_[\w-]{43}\n$/)]);
  expect(run.stderr).toMatch(/only time the token is shown\. The previous token works until 20/);
  const stored = JSON.stringify(await readKeys(file));
  for (const token of [first, run.stdout.trim()]) expect(stored).not.toContain(token);
  expect((await sluiceHere(['keys', 'list', '--file', file])).stdout).toMatch(/no expiry, previous token until 20/);

  const leaked = await sluiceHere(['keys', 'rotate', 'batch', '--file', file, '--grace', '0']);
  expect(leaked.stderr).toContain('The previous token no longer works');
  const ring = new KeyRing(await readKeys(file));
  for (const token of [first, run.stdout.trim()]) expect(ring.find(token)).toBeNull();
  expect(ring.find(leaked.stdout.trim())?.name).toBe('batch');
  for (const wrong of [['nobody'], ['batch', '--grace', 'soon'], ['batch', '--days', '0']]) {
    expect((await sluiceHere(['keys', 'rotate', ...wrong, '--file', file])).code).toBe(2);
  }
});

test('rotations one after the other: a token never lives longer than it was promised, nor than its key', () => {
  fc.assert(
    fc.property(
      fc.array(fc.record({ after: fc.integer({ min: 1, max: 50 }), grace: fc.integer({ min: 0, max: 50 }) }), {
        maxLength: 6,
      }),
      (rotations) => {
        let now = 0;
        let key = rotated({ name: 'k', sha256: hashToken('0'), scopes: [] }, hashToken('0'), { now: 0, until: 0 });
        const until = new Map<string, number>();
        for (const [i, { after, grace }] of rotations.entries()) {
          now += after;
          for (const [token, end] of until) until.set(token, Math.min(end, now + grace));
          until.set(String(i), now + grace);
          key = rotated(key, hashToken(String(i + 1)), { now, until: now + grace });
        }
        const ring = new KeyRing([key]);
        for (const at of [now, now + 1, now + 25, now + 60]) {
          for (const [token, end] of until) expect(ring.find(token, at) !== null).toBe(at < end);
          expect(ring.find(String(rotations.length), at)).not.toBeNull();
        }
      },
    ),
    { numRuns: 200 },
  );
});

test('certificates in the file of keys outlive a change of its keys; names of other kinds are refused', async () => {
  const file = path.join(scratch(), 'keys.yaml');
  await changeKeys(file, () => []);
  const { writeFileSync, readFileSync } = await import('node:fs');
  writeFileSync(file, 'keys: []\ncertificates:\n  - { name: nightly, subject_cn: nightly, scopes: [predict] }\n');
  await createKey('batch', { file, scopes: 'predict' });
  expect(readFileSync(file, 'utf8')).toContain('subject_cn: nightly');
  for (const name of ['oidc:corporate:7', 'certificate:nightly']) {
    await expect(createKey(name, { file, scopes: 'predict' })).rejects.toMatchObject({ code: 'usage' });
  }
});

test('an address is refused wrong keys beyond the limit, and never a right one', async () => {
  const { log, lines } = collectedLog();
  const settings = ['limits.failed_logins_per_minute_per_address=5', 'log.requests_per_second=1'];
  const s = await startService(settings, undefined, { log });
  const wrong = () => s.call('POST', predictUrl('json'), { body: '[]', token: 'guessed' });
  for (let i = 0; i < 5; i++) expect((await wrong()).status).toBe(401);
  const limited = await wrong();
  expect(limited.status).toBe(400);
  expect(limited.json).toMatchObject({
    code: 'limit_exceeded',
    limit: 'failed_logins_per_minute_per_address',
    value: 5,
    unit: 'failures a minute',
  });
  expect(Number(limited.headers['retry-after'])).toBeGreaterThan(0);
  expect((await s.call('POST', predictUrl('json'), { body: '[]' })).status).toBe(200);
  // No key at all is no guess.
  expect((await s.call('POST', predictUrl('json'), { body: '[]', token: null })).status).toBe(401);
  for (let i = 0; i < 30; i++) await wrong();
  const told = lines.filter(({ event, fields }) => event === 'request' && fields.code === 'limit_exceeded');
  expect(told.length).toBeLessThan(15);
  expect((await s.call('GET', '/metrics')).text).toMatch(
    /sluice_logins_failed_total\{key="unknown",reason="unknown"\} 36/,
  );
});

test('buckets: so many a minute, bounded memory, and a client with a network of its own is one client', () => {
  const failures = new FailedLogins(2, 0);
  expect([failures.failed('10.0.0.1', 0), failures.failed('10.0.0.1', 0)].map((f) => f.retryAfter)).toEqual([null, null]); // biome-ignore format: one line
  expect(failures.failed('10.0.0.1', 0)).toEqual({ retryAfter: 30, first: true });
  expect(failures.failed('10.0.0.1', 1000)).toEqual({ retryAfter: 29, first: false });
  expect(failures.failed('10.0.0.2', 1000).retryAfter).toBeNull();
  expect(failures.failed('10.0.0.1', 30_000).retryAfter).toBeNull();

  for (let i = 0; i < 10_000; i++) failures.failed(`2001:db8:0:${i.toString(16)}::1`, 31_000);
  expect(failures.size).toBe(4096);
  // Whoever came on top of those shares one bucket, so that changing networks helps nobody.
  expect(failures.failed('2001:db8:1:1::1', 31_000).retryAfter).not.toBeNull();
  expect(failures.failed('2001:db8:2:1::1', 100_000).retryAfter).toBeNull();
  expect(failures.size).toBeLessThan(10);

  for (const [address, network] of [
    ['2001:db8::1', '2001:db8:0:0::/64'],
    ['2001:0DB8:0:0:ffff:1:2:3', '2001:db8:0:0::/64'],
    ['fe80::1%eth0', 'fe80:0:0:0::/64'],
    ['::1', '0:0:0:0::/64'],
    ['64:ff9b::192.0.2.33', '64:ff9b:0:0::/64'],
    ['192.0.2.33', '192.0.2.33'],
  ] as const)
    expect(neighbourhoodOf(address)).toBe(network);
});

test('behind a proxy the client is what the last unknown hop says, if the configuration believes it', async () => {
  const ask = async (settings: string[], forwarded: string[]) => {
    const folder = scratch();
    const config = await loadConfig(ServerConfigSchema, {
      settings: [
        'listen.port=0',
        'listen.host=127.0.0.1',
        'behind_tls_proxy=["127.0.0.1","10.0.0.0/8"]',
        'limits.failed_logins_per_minute_per_address=1',
        `keys_file=${folder}/k.yaml`,
        `jobs.folder=${folder}/jobs`,
        ...settings,
      ],
    });
    const running = await serve({ config, registry: REGISTRY });
    onTestFinished(() => running.stop());
    const statuses: number[] = [];
    for (const came of forwarded) {
      const headers = { 'x-forwarded-proto': 'https', 'x-forwarded-for': came, authorization: 'guessed' };
      statuses.push(
        await new Promise<number>((resolve) => {
          http.get(`${running.url}/api/v1/models`, { headers, agent: false }, (r) => resolve(r.resume().statusCode!));
        }),
      );
    }
    return statuses;
  };
  const came = ['192.0.2.1', '192.0.2.2', '192.0.2.9, 192.0.2.1, 10.1.1.1', 'nonsense', '192.0.2.1, nonsense'];
  expect(await ask(['client_address=x_forwarded_for'], came)).toEqual([401, 401, 400, 401, 400]);
  expect(await ask([], came)).toEqual([401, 400, 400, 400, 400]);
  const config = await loadConfig(ServerConfigSchema, { settings: ['client_address=x_forwarded_for'] });
  await expect(serve({ config, registry: REGISTRY, dev: true })).rejects.toMatchObject({ code: 'usage' });
});
