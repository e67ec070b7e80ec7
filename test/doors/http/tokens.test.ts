// Tokens of identity providers: what is taken, what is not, and keys that change or cannot be read.

import { createHmac, createPublicKey, generateKeyPairSync, sign as signBytes } from 'node:crypto';
import type http from 'node:http';
import { type JWK, SignJWT, UnsecuredJWT } from 'jose';
// @ts-expect-error it has no types, and is asked for nothing but its handler
import Provider from 'oidc-provider';
import { expect, onTestFinished, test, vi } from 'vitest';
import { loadConfig } from '../../../src/config/load-config.ts';
import { ServerConfigSchema } from '../../../src/config/server-config.ts';
import { claimAt, grantsOf, TOKEN_FAULTS, type TokenFault } from '../../../src/doors/http/access/token-issuers.ts';
import { serve } from '../../../src/doors/http/service.ts';
import { collectedLog } from '../../support/collected-log.ts';
import { PATIENCE_MS } from '../../support/patience.ts';
import { predictUrl, REGISTRY, type Service, startService } from '../../support/service.ts';
import { AUDIENCE, type ChangedClaims, newSigningKey, oidcSettings, type SigningKey, tlsServer, tokenProvider } from '../../support/token-provider.ts'; // biome-ignore format: one line

const ask = (s: Service, token: string, url = predictUrl('json'), method = 'POST') =>
  s.call(method, url, {
    token: null,
    headers: { authorization: `Bearer ${token}` },
    body: method === 'GET' ? '' : '[]',
  });

const base64 = (value: unknown): string => Buffer.from(JSON.stringify(value)).toString('base64url');

test('an ID token is not taken for an access token, whether the provider marks these or not', async () => {
  const key = await newSigningKey('k');
  const provider = await tokenProvider(key);
  const marked = await startService([oidcSettings(provider)]);
  const unmarked = await startService([oidcSettings(provider, { token_type: 'any' })]);
  const statusOf = async (s: Service, claims: ChangedClaims, header: object = {}) =>
    (await ask(s, await provider.sign(claims, key, { ...header }))).status;
  for (const typ of ['at+jwt', 'application/at+jwt', 'AT+JWT'])
    expect([typ, await statusOf(marked, {}, { typ })]).toEqual([typ, 200]);
  for (const typ of ['JWT', undefined, 'id+jwt'])
    expect([typ, await statusOf(marked, {}, { typ })]).toEqual([typ, 401]);
  const own = { typ: 'JWT' };
  for (const claims of [{}, { typ: 'Bearer', nonce: 'n' }, { token_use: 'access' }] as ChangedClaims[]) {
    expect([claims, await statusOf(unmarked, claims, own)]).toEqual([claims, 200]);
  }
  for (const claims of [
    { nonce: 'n' },
    { at_hash: 'h' },
    { c_hash: 'h' },
    { s_hash: 'h' },
    { typ: 'ID' },
    { token_use: 'id' },
  ] as ChangedClaims[]) {
    expect([claims, await statusOf(unmarked, claims, own)]).toEqual([claims, 401]);
  }
});

test('attacks: every token that is not right in every part is 401 with its reason', async () => {
  const rsa = await newSigningKey('rsa', 'RS256');
  const provider = await tokenProvider(rsa);
  const foreign = await newSigningKey('rsa', 'RS256');
  const small = generateKeyPairSync('rsa', { modulusLength: 1024 });
  const smallJwk = { ...small.publicKey.export({ format: 'jwk' }), kid: 'small', alg: 'RS256' } as JWK;
  const ec = await newSigningKey('ec', 'ES384');
  provider.published.keys.push(ec.publicJwk, smallJwk, { kty: 'oct', kid: 'secret', k: Buffer.from('x'.repeat(32)).toString('base64url') }); // biome-ignore format: one line
  const s = await startService([oidcSettings(provider), 'limits.failed_logins_per_minute_per_address=1000']);
  const now = Math.floor(Date.now() / 1000);
  const good = await provider.sign();
  expect((await ask(s, good)).status).toBe(200);
  const [head, payload, signature] = good.split('.') as [string, string, string];

  const pem = createPublicKey({ key: rsa.publicJwk as never, format: 'jwk' }).export({ type: 'spki', format: 'pem' });
  const weak = `${base64({ alg: 'RS256', kid: 'small' })}.${payload}`;
  const hmac = (secret: string) => {
    const text = `${base64({ alg: 'HS256', kid: 'rsa' })}.${payload}`;
    return `${text}.${createHmac('sha256', secret).update(text).digest('base64url')}`;
  };
  const claims = { iss: provider.url, aud: AUDIENCE, sub: 'batch', exp: now + 300, scope: 'predict' };
  const embedded = { jwk: foreign.publicJwk, jku: 'https://attacker.example/keys', x5u: 'https://attacker.example/x' };
  const flipped = Buffer.from(signature, 'base64url');
  flipped[10]! ^= 1;
  const cases: [what: string, token: string | Promise<string>, reason: TokenFault][] = [
    ['alg none', new UnsecuredJWT(claims).encode().concat('x'), 'token_algorithm'],
    ['alg none, spelled otherwise', `${base64({ alg: 'nOnE', kid: 'rsa' })}.${payload}.${signature}`, 'token_algorithm'],
    ['the public key as a secret', hmac(String(pem)), 'token_algorithm'],
    ['its modulus as a secret', hmac(rsa.publicJwk.n!), 'token_algorithm'],
    ['a secret that the provider publishes', new SignJWT(claims).setProtectedHeader({ alg: 'HS256', kid: 'secret' }).sign(Buffer.from('x'.repeat(32))), 'token_algorithm'],
    ['another algorithm than is taken', provider.sign({}, ec), 'token_algorithm'],
    ['no algorithm', `${base64({ kid: 'rsa' })}.${payload}.${signature}`, 'token_malformed'],
    ['an algorithm that is none', `${base64({ alg: 'RS257' })}.${payload}.${signature}`, 'token_algorithm'],
    ['another key of the same name', provider.sign({}, foreign), 'token_signature'],
    ['a key of its own in the header', provider.sign({}, foreign, embedded), 'token_signature'],
    ['a key that nobody published', provider.sign({}, { ...foreign, kid: 'other' }), 'token_key'],
    ['a key of 1024 bits', `${weak}.${signBytes('sha256', Buffer.from(weak), small.privateKey).toString('base64url')}`, 'token_key'], // biome-ignore format: one line
    ['another payload', `${head}.${base64({ ...claims, scope: 'models:write' })}.${signature}`, 'token_signature'],
    ['a flipped bit', `${head}.${payload}.${flipped.toString('base64url')}`, 'token_signature'],
    ['is not a signature', `${head}.${payload}.AA`, 'token_signature'],
    ['a critical extension', provider.sign({}, rsa, { crit: ['exp2'], exp2: 1 }).catch(() => `${base64({ alg: 'RS256', kid: 'rsa', crit: ['exp2'], exp2: 1 })}.${payload}.${signature}`), 'token_malformed'],
    ['expired', provider.sign({ exp: now - 60 }), 'token_expired'],
    ['without an end', provider.sign({ exp: undefined }), 'token_claims'],
    ['an end that is no time', provider.sign({ exp: 'never' as never }), 'token_claims'],
    ['not valid yet', provider.sign({ nbf: now + 60 }), 'token_not_yet_valid'],
    ['for another audience', provider.sign({ aud: 'payments' }), 'token_audience'],
    ['for nobody', provider.sign({ aud: undefined }), 'token_audience'],
    ['of another issuer', provider.sign({ iss: 'https://login.attacker.example' }), 'token_issuer'],
    ['of an issuer that is nearly the same', provider.sign({ iss: `${provider.url}/` }), 'token_issuer'],
    ['of nobody', provider.sign({ iss: undefined }), 'token_issuer'],
    ['without a subject', provider.sign({ sub: undefined }), 'token_claims'],
    ['an empty subject', provider.sign({ sub: '' }), 'token_claims'],
    ['a subject that is no text', provider.sign({ sub: 7 as never }), 'token_claims'],
    ['a subject with a line break', provider.sign({ sub: 'a\nb' }), 'token_claims'],
    ['bound to a certificate that is not shown', provider.sign({ cnf: { 'x5t#S256': 'AAAA' } }), 'token_binding'],
    ['bound to a key of DPoP', provider.sign({ cnf: { jkt: 'AAAA' } }), 'token_binding'],
    ['bound to nothing that is known', provider.sign({ cnf: {} }), 'token_binding'],
    ['no JSON', `${head}.${Buffer.from('{"iss":').toString('base64url')}.${signature}`, 'token_malformed'],
    ['a head that is no JSON', `AAAA.${payload}.${signature}`, 'token_malformed'],
  ]; // biome-ignore format: a table
  const counts = new Map<string, number>();
  for (const [what, token, reason] of cases) {
    const answer = await ask(s, await token);
    expect([what, answer.status, answer.json.code]).toEqual([what, 401, 'invalid_token']);
    const why = TOKEN_FAULTS[reason];
    expect(answer.headers['www-authenticate']).toBe(`Bearer realm="sluice", error="invalid_token", error_description="${why}"`); // biome-ignore format: one line
    counts.set(reason, (counts.get(reason) ?? 0) + 1);
  }
  expect([...counts.keys()].sort()).toEqual(Object.keys(TOKEN_FAULTS).sort());
  const counted = (await s.call('GET', '/metrics')).text.matchAll(
    /sluice_logins_failed_total\{.*reason="(\w+)"\} (\d+)/g,
  );
  const told = new Map<string, number>();
  for (const [, reason, count] of counted) told.set(reason!, (told.get(reason!) ?? 0) + Number(count));
  expect(told).toEqual(counts);
  // What is no token is a wrong key, and an encrypted one has five parts.
  for (const other of [`${good}.x.y`, 'a.b', `${head}.${payload}`]) expect((await ask(s, other)).json.code).toBe('unauthorized'); // biome-ignore format: one line
  const none = await s.call('POST', predictUrl('json'), { token: null, body: '[]' });
  expect(none.headers['www-authenticate']).toBe('API-Key realm="sluice", Bearer realm="sluice"');
  expect((await ask(s, good)).status).toBe(200);
});

test('scopes, roles and models: grants are not mixed, and what is not configured means nothing', async () => {
  const key = await newSigningKey('k');
  const provider = await tokenProvider(key);
  const more = {
    models_claim: 'models',
    roles_claim: 'realm_access.roles',
    roles: { analysts: { scopes: ['models:read'], models: ['credit-columns'] }, risk: { scopes: ['predict'], models: ['credit-default'] } }, // biome-ignore format: one line
  };
  const s = await startService([oidcSettings(provider, more)]);
  const status = async (claims: ChangedClaims, url = predictUrl('json'), method = 'POST') =>
    (await ask(s, await provider.sign(claims), url, method)).status;
  // The claim of models is configured: without it there is none.
  expect(await status({})).toBe(403);
  expect(await status({ models: '*' })).toBe(200);
  expect(await status({ models: ['credit-default'] })).toBe(200);
  expect(await status({ models: 'credit-columns other' })).toBe(403);
  expect(await status({ scope: 'all admin', models: '*' })).toBe(403);
  expect(await status({ scope: undefined, realm_access: { roles: ['risk'] } })).toBe(200);
  expect(await status({ scope: undefined, realm_access: { roles: ['toString', '__proto__'] } })).toBe(403);
  // models:read is for another model than predict.
  const both = { scope: undefined, realm_access: { roles: ['risk', 'analysts'] } };
  expect(await status(both, '/api/v1/models/credit-default', 'GET')).toBe(403);
  expect(await status(both, '/api/v1/models/credit-columns', 'GET')).toBe(200);
  const narrow = await ask(s, await provider.sign({ models: '*' }), '/metrics', 'GET');
  expect([narrow.status, narrow.headers['www-authenticate']]).toEqual([403, 'Bearer realm="sluice", error="insufficient_scope", scope="metrics"']); // biome-ignore format: one line

  expect(claimAt({ 'https://bank.example/roles': ['a'] }, 'https://bank.example/roles')).toEqual(['a']);
  expect(claimAt({ a: { b: 1 } }, 'a.b.c')).toBeUndefined();
  expect(claimAt({}, 'constructor.name')).toBeUndefined();
  expect(grantsOf({ scope: 7 }, { scopes_claim: 'scope', roles: {} })).toEqual([]);
});

test('subjects have jobs of their own, and stand neither in the log nor in metrics', async () => {
  const provider = await tokenProvider(await newSigningKey('k'));
  const { log, text } = collectedLog();
  const s = await startService([oidcSettings(provider)], undefined, { log });
  const of = (sub: string) => provider.sign({ sub, scope: 'predict jobs' });
  const [jane, john] = [await of('jane.doe-77'), await of('john')];
  const made = await s.call('POST', predictUrl('json'), {
    token: null,
    body: '[]',
    headers: { authorization: `Bearer ${jane}`, prefer: 'respond-async' },
  });
  expect(made.status).toBe(201);
  const url = `/api/v1/scoring/jobs/${made.json.id}`;
  expect([(await ask(s, jane, url, 'GET')).status, (await ask(s, john, url, 'GET')).status]).toEqual([200, 404]);
  await expect.poll(async () => (await ask(s, jane, url, 'GET')).json.state).not.toMatch(/queued|running/);
  const requests = text().split('\n').filter((line) => line.includes('"event":"request"')).join('\n'); // biome-ignore format: one line
  expect(requests).toContain('oidc:corporate');
  expect(`${requests}${(await s.call('GET', '/metrics')).text}`).not.toContain('jane.doe');
});

test('keys: one reading for a flood of unknown names, the old are dropped, an outage is bridged for a while', async () => {
  // The ages of keys are those that the test says, however long requests take.
  vi.useFakeTimers({ toFake: ['performance'] });
  onTestFinished(() => void vi.useRealTimers());
  const [old, next] = [await newSigningKey('old'), await newSigningKey('new')];
  const provider = await tokenProvider(old);
  const { log, lines } = collectedLog();
  const timing = { keys_refresh_ms: 1000, keys_cooldown_ms: 100, keys_max_age_ms: 4000 };
  const s = await startService([oidcSettings(provider, timing), 'limits.failed_logins_per_minute_per_address=1000'], undefined, { log }); // biome-ignore format: one line
  const [first, second] = [await provider.sign(), await provider.sign({ sub: 'two' }, next)];
  // Nobody has asked before: however many come at once, the keys are read once.
  expect(new Set((await Promise.all(Array.from({ length: 20 }, () => ask(s, first)))).map((r) => r.status))).toEqual(new Set([200])); // biome-ignore format: one line
  expect(provider.reads).toEqual({ keys: 1, discovery: 1 });

  // Rotation: the new key is found because a token names it, the old one ends with the next reading.
  provider.published.keys = [next.publicJwk];
  vi.advanceTimersByTime(99);
  expect((await ask(s, second)).json.code).toBe('invalid_token');
  expect(provider.reads.keys).toBe(1);
  vi.advanceTimersByTime(1);
  expect((await ask(s, second)).status).toBe(200);
  expect(provider.reads.keys).toBe(2);
  // Also where its signature had been checked before.
  expect((await ask(s, first)).json.code).toBe('invalid_token');

  const flood = async (): Promise<void> => {
    const guesses = Array.from({ length: 100 }, async (_, i) => ask(s, await provider.sign({}, { ...old, kid: `guess-${i}` }))); // biome-ignore format: one line
    expect(new Set((await Promise.all(guesses)).map((r) => r.json.code))).toEqual(new Set(['invalid_token']));
  };
  await flood();
  expect(provider.reads.keys).toBe(2);
  vi.advanceTimersByTime(100);
  await flood();
  expect(provider.reads.keys).toBe(3);

  // The provider is away: known tokens and new ones of known keys go on; in the end they are 503, and keys of ours are taken.
  provider.published.status = 500;
  vi.advanceTimersByTime(3999);
  expect((await ask(s, await provider.sign({ sub: 'three' }, next))).status).toBe(200);
  await expect.poll(() => lines.filter(({ event }) => event === 'issuer_unreachable').length).toBe(1);
  vi.advanceTimersByTime(1);
  const late = await ask(s, second);
  expect([late.status, late.json.code, late.headers['retry-after']]).toEqual([503, 'identity_provider_unavailable', '2']); // biome-ignore format: one line
  expect((await s.call('POST', predictUrl('json'), { body: '[]' })).status).toBe(200);
  expect(lines.filter(({ event }) => event === 'issuer_unreachable')).toHaveLength(1);
  provider.published.status = 200;
  vi.advanceTimersByTime(100);
  expect((await ask(s, second)).status).toBe(200);
  expect(lines.some(({ event }) => event === 'issuer_reached')).toBe(true);
});

test.each([
  ['not JSON', 'nonsense'],
  ['a list', '[]'],
  ['no keys', '{"keys":[]}'],
  ['secrets only', '{"keys":[{"kty":"oct","k":"AAAA"}]}'],
  ['a private key only', '{"keys":[{"kty":"OKP","crv":"Ed25519","x":"AAAA","d":"AAAA"}]}'],
  ['too much', `{"keys":[${' '.repeat(2 ** 21)}]}`],
  ['too many', JSON.stringify({ keys: Array(101).fill({ kty: 'RSA' }) })],
])('keys that are none: %s', async (_what, body) => {
  const key = await newSigningKey('k');
  const provider = await tokenProvider(key);
  provider.published.body = body;
  const s = await startService([oidcSettings(provider, { jwks_url: `${provider.url}/keys` })]);
  expect((await ask(s, await provider.sign())).json.code).toBe('identity_provider_unavailable');
  expect(provider.reads).toEqual({ keys: 1, discovery: 0 });
});

test('an address without HTTPS, a server that nobody vouches for, a provider with another name', async () => {
  for (const [setting, value] of [['issuer', 'http://login.bank'], ['jwks_url', 'http://login.bank/keys'], ['jwks_url', 'file:///etc/passwd']] as const) {
    const oidc = { name: 'a', issuer: 'https://login.bank', audience: ['x'], [setting]: value };
    const config = await loadConfig(ServerConfigSchema, { settings: [`oidc=${JSON.stringify([oidc])}`] });
    await expect(serve({ config, registry: REGISTRY, dev: true })).rejects.toMatchObject({ code: 'usage' });
  } // biome-ignore format: a table
  const key = await newSigningKey('k');
  const provider = await tokenProvider(key);
  const other = await tlsServer(() => {});
  const untrusted = await startService([oidcSettings({ url: provider.url, ca: other.ca })]);
  expect((await ask(untrusted, await provider.sign())).status).toBe(503);
  expect(provider.reads.keys).toBe(0);
  const renamed = await startService([oidcSettings({ url: `${provider.url}/realm`, ca: provider.ca })]);
  expect((await ask(renamed, await provider.sign({ iss: `${provider.url}/realm` }))).status).toBe(503);
});

/** A real provider, certified for OpenID Connect, that signs tokens for this service with these keys. */
const realProvider = (url: string, keys: SigningKey[]): { callback(): http.RequestListener } =>
  new Provider(url, {
    jwks: { keys: keys.map((k) => k.privateJwk) },
    clients: [
      { client_id: 'nightly', client_secret: 'secret-of-nightly', grant_types: ['client_credentials'], redirect_uris: [], response_types: [], id_token_signed_response_alg: 'ES256' }, // biome-ignore format: one line
    ],
    scopes: ['predict', 'models:read'],
    features: {
      clientCredentials: { enabled: true },
      devInteractions: { enabled: false },
      resourceIndicators: {
        enabled: true,
        defaultResource: () => 'urn:sluice',
        getResourceServerInfo: () => ({ scope: 'predict models:read', audience: AUDIENCE, accessTokenFormat: 'jwt', jwt: { sign: { alg: 'ES256' } } }), // biome-ignore format: one line
      },
    },
  });

test('a real OpenID provider: its tokens are taken, and it rotates its keys', async () => {
  vi.spyOn(console, 'warn').mockImplementation(() => {});
  vi.spyOn(console, 'info').mockImplementation(() => {});
  const [old, next] = [await newSigningKey('2026-11'), await newSigningKey('2026-12')];
  const server = await tlsServer(() => {});
  const use = (...keys: SigningKey[]): void => {
    server.state.handler = realProvider(server.url, keys).callback();
  };
  use(old);
  const token = async (scope: string): Promise<string> => {
    const { requestJson } = await import('../../../src/core/http-json.ts');
    const { body } = await requestJson({
      method: 'POST',
      url: `${server.url}/token`,
      headers: { 'content-type': 'application/x-www-form-urlencoded', authorization: `Basic ${btoa('nightly:secret-of-nightly')}` }, // biome-ignore format: one line
      body: new URLSearchParams({ grant_type: 'client_credentials', scope }).toString(),
      tls: { ca: server.cert },
      timeoutMs: PATIENCE_MS,
    });
    return body!.access_token as string;
  };
  const settings = oidcSettings(server, { token_type: 'at+jwt', subject_claim: 'client_id', keys_refresh_ms: 1000, keys_cooldown_ms: 100 }); // biome-ignore format: one line
  const s = await startService([settings]);
  const first = await token('predict');
  expect((await ask(s, first)).status).toBe(200);
  expect((await ask(s, await token('models:read'))).status).toBe(403);
  expect((await ask(s, await token('models:read'), '/api/v1/models/credit-default', 'GET')).status).toBe(200);
  // First it publishes the next key, then it signs with it, then it withdraws the old one.
  use(next, old);
  const second = await token('predict');
  await expect.poll(async () => (await ask(s, second)).status).toBe(200);
  expect((await ask(s, first)).status).toBe(200);
  use(next);
  await expect.poll(async () => (await ask(s, first)).status).toBe(401);
  expect((await ask(s, second)).status).toBe(200);
});
