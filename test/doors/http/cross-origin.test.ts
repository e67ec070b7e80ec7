// Pages of other origins: who may ask, what they may read, and that nobody's cookies count.
import { expect, test } from 'vitest';
import { crossOrigin } from '../../../src/doors/http/wire/cross-origin.ts';
import { predictUrl, type Service, startService } from '../../support/service.ts';

const DESK = 'https://desk.bank.example';
const of = ({ headers }: { headers: Record<string, unknown> }): Record<string, unknown> =>
  Object.fromEntries(Object.entries(headers).filter(([name]) => name.startsWith('access-control-') || name === 'vary'));

const preflight = (s: Service, origin: string, url = predictUrl('json')) =>
  s.call('OPTIONS', url, { token: null, headers: { origin, 'access-control-request-method': 'POST' } });

test('a listed page may ask and read, whatever comes of it; another gets no word of it', async () => {
  const s = await startService([`cors.origins=["${DESK}"]`]);
  const asked = await preflight(s, DESK);
  expect([asked.status, asked.text]).toEqual([204, '']);
  expect(of(asked)).toMatchObject({
    vary: 'origin',
    'access-control-allow-origin': DESK,
    'access-control-allow-headers': expect.stringMatching(/^authorization, content-type/),
    'access-control-allow-methods': expect.stringContaining('POST'),
    'access-control-max-age': '600',
  });
  const readable = { vary: 'origin', 'access-control-allow-origin': DESK, 'access-control-expose-headers': expect.stringContaining('x-request-id') }; // biome-ignore format: one line
  const headers = { origin: DESK };
  for (const [status, options] of [
    [200, { body: '[]', headers }],
    [400, { body: '[{}]', headers }],
    [401, { body: '[]', headers, token: null }],
  ] as const) {
    const answer = await s.call('POST', predictUrl('json'), options);
    expect([answer.status, of(answer)]).toEqual([status, readable]);
  }
  // Streamed on the raw socket, refused while it still comes, and not there at all.
  expect(of(await s.call('POST', predictUrl('csv'), { body: 'x'.repeat(3_000_000), headers }))).toEqual(readable);
  expect(of(await s.call('GET', '/nowhere', { headers }))).toEqual(readable);
  for (const origin of [
    'https://desk.bank.example.attacker.example',
    'http://desk.bank.example',
    `${DESK}:444`,
    'null',
    'https://DESK.bank.example',
  ]) {
    const refused = await preflight(s, origin);
    expect([refused.status, of(refused)]).toEqual([401, { vary: 'origin' }]);
    expect(of(await s.call('POST', predictUrl('json'), { body: '[]', headers: { origin } }))).toEqual({
      vary: 'origin',
    });
  }
});

test('without a list there is no CORS; with * everybody may, and credentials nobody', async () => {
  const s = await startService();
  expect([(await preflight(s, DESK)).status, of(await preflight(s, DESK))]).toEqual([401, {}]);
  const open = await startService(['cors.origins=["*"]']);
  const asked = await preflight(open, 'null');
  expect(asked.headers['access-control-allow-origin']).toBe('*');
  expect(asked.headers).not.toHaveProperty('access-control-allow-credentials');
  for (const wrong of ['desk.bank.example', 'https://desk.bank.example/', 'https://*.bank.example/x', '']) {
    expect(() => crossOrigin([wrong], 0)).toThrow('is not an origin');
  }
});
