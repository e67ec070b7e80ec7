// Login to the console through a real OpenID provider, with the code flow and PKCE, in Chromium.
import type http from 'node:http';
// @ts-expect-error it has no types, and is asked for nothing but its handler
import Provider from 'oidc-provider';
import { expect, onTestFinished, vi } from 'vitest';
import { launchChromium, openPage } from '../../support/browser.ts';
import { freePort } from '../../support/ports.ts';
import { startService } from '../../support/service.ts';
import { AUDIENCE, newSigningKey, oidcSettings, type SigningKey, tlsServer } from '../../support/token-provider.ts';
import { testNeeding } from '../../support/tools.ts';

/** A provider with a public client that may redirect to these addresses. */
function providerOf(url: string, key: SigningKey, redirects: string[]): { callback(): http.RequestListener } {
  const resource = { scope: 'predict models:read', audience: AUDIENCE, accessTokenFormat: 'jwt', jwt: { sign: { alg: 'ES256' } } }; // biome-ignore format: one line
  return new Provider(url, {
    jwks: { keys: [key.privateJwk] },
    clients: [
      {
        client_id: 'sluice-console',
        token_endpoint_auth_method: 'none',
        grant_types: ['authorization_code'],
        response_types: ['code'],
        redirect_uris: redirects,
        id_token_signed_response_alg: 'ES256',
      },
    ],
    clientBasedCORS: () => true,
    scopes: ['openid', 'predict', 'models:read'],
    features: {
      resourceIndicators: { enabled: true, getResourceServerInfo: () => resource, useGrantedResource: () => true },
    },
  });
}

testNeeding(
  ['Chromium'],
  'a person logs in through the provider, and the page keeps neither token nor verifier',
  async () => {
    vi.spyOn(console, 'warn').mockImplementation(() => {});
    vi.spyOn(console, 'info').mockImplementation(() => {});
    const key = await newSigningKey('k');
    const server = await tlsServer(() => {});
    const login = { client_id: 'sluice-console', scope: 'openid predict models:read', resource: 'urn:sluice' };
    const port = await freePort();
    const console_ = `https://localhost:${port}/console`;
    server.state.handler = providerOf(server.url, key, [console_]).callback();
    const service = await startService([oidcSettings(server, { console: login }), `listen.port=${port}`]);
    const { json, headers } = await service.call('GET', '/console/settings.json', { token: null });
    expect(json.logins).toEqual([{ name: 'corporate', issuer: server.url, ...login }]);
    expect(headers['content-security-policy']).toBe(undefined);
    const { headers: page_ } = await service.call('GET', '/console', { token: null });
    expect(page_['content-security-policy']).toContain(`connect-src 'self' ${server.url};`);

    const browser = await launchChromium();
    onTestFinished(() => browser.close());
    const { page, requests } = await openPage(browser);
    await page.goto(`${console_}#drift`);
    await page.click('text=Log in with corporate');
    await page.fill('input[name=login]', 'anna');
    await page.fill('input[name=password]', 'any');
    await page.click('button[type=submit]');
    await page.click('button:has-text("Continue")');
    await page.waitForSelector('h1:has-text("Drift")');
    expect(await page.textContent('.who')).toContain('oidc:corporate:anna');
    expect(page.url()).toBe(`${console_}#drift`);
    expect(await page.evaluate('JSON.stringify([{ ...localStorage }, { ...sessionStorage }])')).toBe('[{},{}]');
    const authorize = new URL(requests.find((url) => url.startsWith(`${server.url}/auth?`))!);
    expect(authorize.searchParams.get('code_challenge_method')).toBe('S256');

    // An answer that this page did not ask for is not taken.
    await page.goto(`${console_}?code=stolen&state=other`);
    await page.waitForSelector('[role=alert]');
    expect(await page.textContent('[role=alert]')).toContain('was not started by this page');
    await page.reload();
    expect(await page.isVisible('nav')).toBe(false);
  },
);
