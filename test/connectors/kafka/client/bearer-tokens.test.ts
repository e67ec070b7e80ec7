// Tokens without a broker: asked for once, kept, renewed, and what is said where there is none.
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { BearerTokens, bearerMessage, bearerRefusal } from '../../../../src/connectors/kafka/client/bearer-tokens.ts';
import { SluiceError } from '../../../../src/core/errors.ts';
import { controlClock } from '../../../support/controlled-clock.ts';
import { CLIENT_SECRET, Issuer } from '../../../support/kafka/issuer.ts';
import { checkTest } from '../../../support/tiers.ts';

const folder = mkdtempSync(path.join(tmpdir(), 'sluice-tokens-'));
const ca = path.join(folder, 'ca.pem');
let issuer: Issuer;
beforeAll(async () => {
  process.env.SLUICE_TEST_CLIENT_SECRET = CLIENT_SECRET;
  issuer = await Issuer.open(ca);
});
afterAll(async () => {
  await issuer?.[Symbol.asyncDispose]();
  rmSync(folder, { recursive: true, force: true });
});

const failureOf = async (work: Promise<unknown>): Promise<SluiceError> => {
  const error: unknown = await work.then(
    () => new Error('nothing failed'),
    (e: unknown) => e,
  );
  expect(error).toBeInstanceOf(SluiceError);
  expect(`${error} ${JSON.stringify((error as SluiceError).extra)}`).not.toContain('sec+ret');
  return error as SluiceError;
};

test('one request for all who ask at the same time, none while the token lasts, over TLS of an authority of its own', async () => {
  const tokens = new BearerTokens({ mechanism: 'oauthbearer', endpoint: issuer.endpoint(ca) });
  const before = issuer.given;
  const all = await Promise.all(Array.from({ length: 5 }, () => tokens.credential()));
  all.push(await tokens.credential());
  expect(new Set(all.map((c) => c.token)).size).toBe(1);
  expect(issuer.given).toBe(before + 1);
  expect(Object.fromEntries(issuer.asked.at(-1)!.form)).toEqual({ grant_type: 'client_credentials', scope: 'kafka' });
  const stranger = new BearerTokens({ mechanism: 'oauthbearer', endpoint: { ...issuer.endpoint(ca), tls: {} } });
  expect(await failureOf(stranger.credential())).toMatchObject({
    code: 'kafka_token_unavailable',
    message: expect.stringMatching(/\/token returns no token: DEPTH_ZERO_SELF_SIGNED_CERT/),
  });
});

test('a secret in the form, and an audience', async () => {
  const more = { authMethod: 'client_secret_post', audience: 'kafka' } as const;
  const tokens = new BearerTokens({ mechanism: 'oauthbearer', endpoint: { ...issuer.endpoint(), ...more } });
  await tokens.credential();
  const { form, authorization } = issuer.asked.at(-1)!;
  expect(authorization).toBeUndefined();
  expect(Object.fromEntries(form)).toMatchObject({ audience: 'kafka', client_secret: CLIENT_SECRET });
});

checkTest(
  'an endpoint that is away costs nothing while the token lasts, and is asked again and again afterwards',
  async () => {
    const clock = controlClock({ runs: true });
    issuer.lifetime = 3600;
    const tokens = new BearerTokens({ mechanism: 'oauthbearer', endpoint: issuer.endpoint() });
    const first = await tokens.credential();
    issuer.status = 503;
    try {
      const asked = issuer.asked.length;
      for (let minutes = 0; minutes < 59; minutes++) {
        expect(await tokens.credential()).toEqual(first);
        await clock.advance(60_000);
      }
      expect(issuer.asked.length).toBeGreaterThan(asked);
      await clock.advance(60_001);
      expect(await failureOf(tokens.credential())).toMatchObject({
        code: 'kafka_token_unavailable',
        message: expect.stringContaining('returns no token: status 503 temporarily_unavailable'),
      });
    } finally {
      issuer.status = 200;
      issuer.lifetime = 60;
    }
    await clock.advance(60_000);
    expect(await tokens.credential()).not.toEqual(first);
  },
);

test('a client that is refused is told at once, and a broker that refuses is patient only to those it knew', async () => {
  process.env.SLUICE_TEST_WRONG_SECRET = 'sec+ret-wrong';
  const endpoint = { ...issuer.endpoint(), clientSecret: { env: 'SLUICE_TEST_WRONG_SECRET' } };
  const asked = issuer.asked.length;
  expect(await failureOf(new BearerTokens({ mechanism: 'oauthbearer', endpoint }).credential())).toMatchObject({
    code: 'kafka_authentication',
    message: expect.stringContaining('rejects the client: status 401 invalid_client'),
  });
  expect(issuer.asked.length).toBe(asked + 1);
  const tokens = new BearerTokens({ mechanism: 'oauthbearer', endpoint: issuer.endpoint() });
  const first = await tokens.credential();
  expect(tokens.refused('invalid_token').code).toBe('kafka_authentication');
  expect(await tokens.credential()).not.toEqual(first);
  tokens.accepted();
  expect(tokens.refused('invalid_token').code).toBe('kafka_token_unavailable');
});

test('a token of a file is read again for every login, and nothing but a token is sent', async () => {
  const file = path.join(folder, 'token');
  const tokens = new BearerTokens({
    mechanism: 'oauthbearer',
    token: { file },
    extensions: { logicalCluster: 'lkc-1' },
  });
  for (const token of ['one.two.three', 'four==']) {
    writeFileSync(file, `${token}\n`);
    const credential = await tokens.credential();
    expect(String(bearerMessage(credential))).toBe(
      `n,,\u0001auth=Bearer ${token}\u0001logicalCluster=lkc-1\u0001\u0001`,
    );
  }
  for (const wrong of ['', 'two words', 'a\u0001b', '<html>']) {
    writeFileSync(file, wrong);
    expect((await failureOf(tokens.credential())).code).toBe('kafka_config');
  }
});

test('refusals of a broker', () => {
  expect(bearerRefusal(null)).toBeNull();
  expect(bearerRefusal(Buffer.alloc(0))).toBeNull();
  expect(bearerRefusal(Buffer.from('{"status":"invalid_token","scope":"x"}'))).toBe('invalid_token');
  for (const odd of ['[]', '{"status":1}', 'no', '{"status":"a b"}']) {
    expect(bearerRefusal(Buffer.from(odd))).toBe('without a reason');
  }
});
